//! Actors over a store, and their dead letters, in the table of `turnwise-top`: `watched`, or
//! `watched redis://HOST/`. It sends mails for a minute; `turnwise-top` in another terminal shows
//! them.

use std::thread::sleep;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use turnwise::{Context, Handler, System};
use turnwise_redis::{Actors, MessageError, Remote};
use turnwise_top::{DeadLetter, Report, StoredActor};

/// A source for [`turnwise_top::Server::source`]: these actors, and the first hundred dead letters
/// of the kind. All of them are requested at once.
pub(crate) fn mailboxes<S>(
    actors: Actors<S>,
    ids: &'static [&'static str],
) -> impl FnMut() -> Result<Report, MessageError> + Send + 'static
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    move || {
        let mut report = Report::default();
        let letters = actors.dead_letters(0, 100);
        let infos = ids.iter().map(|id| Ok((id, actors.of(id)?.info())));
        for info in infos.collect::<Result<Vec<_>, MessageError>>()? {
            let (id, info) = (info.0, info.1.wait()??);
            let mut actor = StoredActor::new(*id);
            actor.running = info.drainer.is_some();
            (actor.queued, actor.delayed) = (info.waiting, info.delayed);
            actor.failed_attempts = info.attempts;
            report.actors.push(actor);
        }
        for dead in letters.wait()?? {
            let mut letter = DeadLetter::new(dead.actor, dead.id);
            (letter.message, letter.attempts, letter.error) =
                (dead.message, dead.attempts, dead.error);
            report.dead_letters.push(letter);
        }
        Ok(report)
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Mails(u64);

#[derive(Serialize, Deserialize)]
struct Mail(String);

impl Handler<Mail> for Mails {
    type Reply = Result<(), String>;
    fn handle(&mut self, Mail(to): Mail, _: &mut Context<'_, Self>) -> Self::Reply {
        sleep(Duration::from_millis(200));
        self.0 += 1;
        if to.contains('@') { Ok(()) } else { Err(format!("{to} is no address")) }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let remote = match std::env::args().nth(1) {
        Some(url) => Remote::connect(&url)?,
        None => Remote::in_memory(),
    };
    let mails = remote.actors::<Mails>("mail").try_message::<Mail>("send").open()?;
    let top = turnwise_top::serve(&System::new())?;
    top.source("mail", mailboxes(mails.clone(), &["ada", "bob"]))?;
    println!("turnwise-top {}", top.address());
    mails.of("ada")?.tell(Mail("ada".to_owned())).id("order 7").wait()?;
    for _ in 0..200 {
        mails.of("bob")?.tell(Mail("bob@example.org".to_owned())).wait()?;
        sleep(Duration::from_millis(300));
    }
    Ok(())
}
