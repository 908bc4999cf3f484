//! A client's waiters for notices of mailboxes, and the mailboxes that it holds.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::error::MessageError;
use crate::client::Client;
use crate::step::{Answer, MailboxAct, MailboxAnswer, MailboxStep, Notice, Progress, Step, Token};
use crate::tenure::Tenure;
use crate::time::{Moment, SHORTEST, after};

/// The maximum number of holds that one step renews.
const RENEWED_AT_ONCE: usize = 256;

/// Waiters for notices, and held mailboxes, by their requests. Ordered, so that steps which are
/// sent for many are the same in each run of a test.
#[derive(Default)]
pub(crate) struct Inboxes {
    waiting: BTreeMap<Token, watch::Sender<Option<Progress>>>,
    held: BTreeMap<Token, Weak<MailboxHold>>,
    /// The shards and leases that have a task which renews holds.
    renewed: HashSet<(String, Duration)>,
}

impl Inboxes {
    /// Wakes the waiter of a notice.
    pub(crate) fn noticed(&self, notice: &Notice) {
        match notice {
            Notice::Granted(token) | Notice::Lost(token) => self.tell(token, None),
            Notice::LookAgain => self.waiting.values().for_each(|news| drop(news.send(None))),
        }
    }

    /// Delivers an outcome, or wakes the waiter without one.
    fn tell(&self, token: &Token, outcome: Option<Progress>) {
        if let Some(news) = self.waiting.get(token) {
            // An outcome that was delivered is final.
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
    /// Delivers an outcome to a waiter of this client, which needs no further step.
    pub(super) fn outcome_is(&self, asker: &Token, outcome: Progress) {
        self.inboxes().tell(asker, Some(outcome));
    }
}

/// Notices for a request, until it is dropped.
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

    /// Marks earlier notices as seen.
    pub(super) fn mark_read(&mut self) {
        self.news.mark_unchanged();
    }

    /// Returns the outcome, if it was delivered.
    pub(super) fn outcome(&self) -> Option<Progress> {
        self.news.borrow().clone()
    }

    /// Waits for a notice, or until this instant.
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
    /// Sends a step. Also returns whether copies of it may still be on their way.
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

/// A mailbox that this client drains, and whose lease is renewed until this is dropped.
pub(super) struct MailboxHold {
    client: Arc<Client>,
    pub(super) token: Token,
    shard: Shard,
    pub(super) actor: String,
    pub(super) lease: Duration,
    tenure: Arc<Tenure>,
}

impl MailboxHold {
    /// The hold that a step has granted which was sent at this time.
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
        if inboxes.renewed.insert((shard.key.clone(), lease)) {
            client.io.spawn(renew(Arc::downgrade(client), shard.clone(), lease));
        }
        drop(inboxes);
        tenure
    }

    /// Extends the lease after a step that was sent at this time.
    pub(super) fn lasts(&self, sent: Moment) {
        self.tenure.lasts(sent.and(self.lease));
    }

    /// True if the lease is over by this machine's clock, or the store has said so.
    pub(super) fn is_lost(&self) -> bool {
        self.tenure.is_lost()
    }
}

impl Drop for MailboxHold {
    fn drop(&mut self) {
        self.client.inboxes().held.remove(&self.token);
    }
}

/// Renews a client's holds of one lease in a shard each third of it, with one step for many; until
/// there are none. Kinds that were opened with different leases have different tasks.
async fn renew(client: Weak<Client>, shard: Shard, lease: Duration) {
    loop {
        sleep_until(after((lease / 3).max(SHORTEST / 2))).await;
        let Some(client) = client.upgrade() else { return };
        let held: Vec<(String, Token)>;
        {
            // Dropped after the lock is: dropping the last reference takes that lock.
            let mut tenures = Vec::new();
            let mut inboxes = client.inboxes();
            tenures.extend(inboxes.held.values().filter_map(Weak::upgrade));
            let ours = tenures.iter().filter(|it| it.shard.key == shard.key && it.lease == lease);
            held = ours.map(|it| (it.actor.clone(), it.token.clone())).collect();
            if held.is_empty() {
                // Under the lock, so that the next hold starts a new task.
                inboxes.renewed.remove(&(shard.key, lease));
                return;
            }
            drop(inboxes);
        }
        for drained in held.chunks(RENEWED_AT_ONCE) {
            let (sent, act) =
                (Moment::now(), MailboxAct::Renew { drained: drained.to_vec(), lease });
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
