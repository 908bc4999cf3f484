//! What a client keeps of its requests to actors: who waits for notices, and which mailboxes it
//! holds.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::error::MessageError;
use crate::client::Client;
use crate::step::{Answer, MailboxAct, MailboxAnswer, MailboxStep, Notice, Progress, Step, Token};
use crate::tenure::Tenure;
use crate::time::{LONGEST, Moment, SHORTEST, after};

/// How many holds one step renews.
const RENEWED_AT_ONCE: usize = 256;

/// Who waits for notices, and which mailboxes are held, by their requests.
#[derive(Default)]
pub(crate) struct Inboxes {
    waiting: HashMap<Token, watch::Sender<Option<Progress>>>,
    held: HashMap<Token, Weak<MailboxHold>>,
    /// The shards of which a task renews what is held.
    renewed: HashSet<String>,
}

impl Inboxes {
    /// Who waits for this looks again.
    pub(crate) fn noticed(&self, notice: &Notice) {
        match notice {
            Notice::Granted(token) | Notice::Lost(token) => self.tell(token, None),
            Notice::LookAgain => self.waiting.values().for_each(|news| drop(news.send(None))),
        }
    }

    /// The outcome has come, or there may be news.
    fn tell(&self, token: &Token, outcome: Option<Progress>) {
        if let Some(news) = self.waiting.get(token) {
            // Who has its outcome needs no other news.
            news.send_if_modified(|news| {
                let waits = news.is_none();
                if waits {
                    *news = outcome;
                }
                waits
            });
        }
    }
}

impl Client {
    /// A message's outcome is known: that of one whose asker this client's is needs no other look.
    pub(super) fn outcome_is(&self, asker: &Token, outcome: Progress) {
        self.inboxes().tell(asker, Some(outcome));
    }
}

/// Notices for a request. Dropping it ends them.
pub(super) struct Inbox {
    client: Arc<Client>,
    token: Token,
    news: watch::Receiver<Option<Progress>>,
}

impl Inbox {
    pub(super) fn open(client: &Arc<Client>, token: Token) -> Self {
        let (sender, news) = watch::channel(None);
        client.inboxes().waiting.insert(token.clone(), sender);
        Inbox { client: client.clone(), token, news }
    }

    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    /// News that came before are old.
    pub(super) fn mark_read(&mut self) {
        self.news.mark_unchanged();
    }

    /// The outcome, if it has come.
    pub(super) fn outcome(&self) -> Option<Progress> {
        self.news.borrow().clone()
    }

    /// Waits for news, until then.
    pub(super) async fn changed(&mut self, until: Instant) {
        let _ = tokio::time::timeout_at(until, self.news.changed()).await;
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.client.inboxes().waiting.remove(&self.token);
    }
}

/// A part of a kind's actors, which one step can reach.
#[derive(Clone)]
pub(crate) struct Shard {
    pub(super) key: String,
    pub(super) shards: u32,
}

impl Shard {
    /// Has a step done, until then. Also said: may requests of it be on their way yet?
    pub(super) async fn step(
        &self,
        client: &Client,
        act: MailboxAct,
        until: Instant,
    ) -> (Result<MailboxAnswer, MessageError>, bool) {
        let step = Step::Mailbox(MailboxStep { shards: self.shards, act });
        let (answer, late) = client.call(&client.op(self.key.clone(), 1, step), until).await;
        let answer = match answer {
            Ok(Answer::Mailbox(MailboxAnswer::Differs { shards })) => {
                Err(MessageError::OtherShards { shards })
            }
            Ok(Answer::Mailbox(answer)) => Ok(answer),
            Ok(_) => Err(MessageError::Closed),
            Err(error) => Err(error.into()),
        };
        (answer, late)
    }
}

/// A mailbox that this client drains. It is renewed as long as this lives.
pub(super) struct MailboxHold {
    client: Arc<Client>,
    pub(super) token: Token,
    shard: Shard,
    pub(super) actor: String,
    pub(super) lease: Duration,
    tenure: Arc<Tenure>,
}

impl MailboxHold {
    /// The hold that a step has given which was sent then.
    pub(super) fn begin(
        client: &Arc<Client>,
        shard: &Shard,
        actor: &str,
        token: Token,
        lease: Duration,
        sent: Moment,
    ) -> Arc<Self> {
        let tenure = Arc::new(MailboxHold {
            client: client.clone(),
            token: token.clone(),
            shard: shard.clone(),
            actor: actor.to_owned(),
            lease,
            tenure: Tenure::new(sent.and(lease), true),
        });
        let mut inboxes = client.inboxes();
        inboxes.held.insert(token, Arc::downgrade(&tenure));
        if inboxes.renewed.insert(shard.key.clone()) {
            client.io.spawn(renew(Arc::downgrade(client), shard.clone()));
        }
        drop(inboxes);
        tenure
    }

    /// A step that was sent then has had the lease begin anew.
    pub(super) fn lasts(&self, sent: Moment) {
        self.tenure.lasts(sent.and(self.lease));
    }

    /// True if the lease is over, by this machine's clock, or if the store has said so.
    pub(super) fn is_lost(&self) -> bool {
        self.tenure.is_lost()
    }
}

impl Drop for MailboxHold {
    fn drop(&mut self) {
        self.client.inboxes().held.remove(&self.token);
    }
}

/// Renews what a client holds in a shard, until that is nothing: each third of the shortest lease,
/// by one step for all of one length.
async fn renew(client: Weak<Client>, shard: Shard) {
    loop {
        let Some(strong) = client.upgrade() else { return };
        let mut held: HashMap<Duration, Vec<Weak<MailboxHold>>> = HashMap::new();
        {
            // Dropped after the lock is: the last of one takes it.
            let mut tenures = Vec::new();
            let mut inboxes = strong.inboxes();
            tenures.extend(inboxes.held.values().filter_map(Weak::upgrade));
            for tenure in tenures.iter().filter(|it| it.shard.key == shard.key) {
                held.entry(tenure.lease).or_default().push(Arc::downgrade(tenure));
            }
            if held.is_empty() {
                // Under the lock: the next one begins anew.
                inboxes.renewed.remove(&shard.key);
                return;
            }
            drop(inboxes);
        }
        let shortest = held.keys().min().copied().unwrap_or(LONGEST);
        drop(strong);
        sleep_until(after((shortest / 3).max(SHORTEST / 2))).await;
        let Some(client) = client.upgrade() else { return };
        for (lease, tenures) in held {
            for some in tenures.chunks(RENEWED_AT_ONCE) {
                let drained: Vec<_> = some
                    .iter()
                    .filter_map(Weak::upgrade)
                    .map(|tenure| (tenure.actor.clone(), tenure.token.clone()))
                    .collect();
                let (sent, act) =
                    (Moment::now(), MailboxAct::Renew { drained: drained.clone(), lease });
                let Ok(MailboxAnswer::Renewed(renewed)) =
                    shard.step(&client, act, after(lease / 3)).await.0
                else {
                    continue;
                };
                for ((_, token), held) in drained.iter().zip(renewed) {
                    let tenure = client.inboxes().held.get(token).and_then(Weak::upgrade);
                    match tenure {
                        Some(tenure) if held => tenure.lasts(sent),
                        Some(tenure) => tenure.tenure.lose(),
                        None => {}
                    }
                }
            }
        }
    }
}
