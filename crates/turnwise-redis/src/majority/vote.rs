//! The two rounds of a vote; the rules MAJORITY-1 to MAJORITY-4 are [above](super).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::client::Client;
use crate::error::{StoreError, Votes};
use crate::step::{Answer, Op, Step, Token};
use crate::time::{Moment, after};

/// State shared by clones.
pub(super) struct Shared {
    pub(super) nodes: Vec<Voter>,
    pub(super) quarantine: Duration,
    pub(super) answer: Duration,
}

pub(super) struct Voter {
    pub(super) client: Arc<Client>,
    /// The known life of its server, and until when the node stays away.
    pub(super) known: Mutex<Option<(String, Instant)>>,
}

impl Shared {
    pub(super) fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    pub(super) fn counts(&self) -> Arc<[AtomicU32]> {
        self.nodes.iter().map(|_| AtomicU32::new(0)).collect()
    }

    /// Returns an earlier node that is the same server.
    pub(super) fn twin(&self, node: usize) -> Option<usize> {
        let run = |node: &Voter| node.lock().as_ref().map(|(run, _)| run.clone());
        let this = run(&self.nodes[node])?;
        self.nodes[..node].iter().position(|other| run(other).as_ref() == Some(&this))
    }

    /// Converts an answer into a vote.
    pub(super) fn vote(&self, node: usize, answer: Result<Answer, StoreError>) -> Vote {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Vote::Failed(error),
        };
        let away = self.nodes[node].is_away(self.quarantine);
        if let Some(twin) = self.twin(node) {
            let needs = format!("a server of its own: it shares that of node {twin}");
            return Vote::Failed(StoreError::WrongStore { needs });
        }
        if away {
            return Vote::Away;
        }
        match answer {
            Answer::Granted { fence, .. } => Vote::Yes { fence },
            Answer::Held | Answer::Released | Answer::Seen { .. } => Vote::Yes { fence: 0 },
            Answer::Busy { busy } => Vote::No { busy },
            _ => Vote::No { busy: Duration::ZERO },
        }
    }
}

impl Voter {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Option<(String, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if its server has started lately, and may have forgotten what it granted before.
    pub(super) fn is_away(&self, quarantine: Duration) -> bool {
        let Some(life) = self.client.store.life() else { return false };
        let (mut known, now) = (self.lock(), Instant::now());
        let until = match &*known {
            Some((run, until)) if *run == life.run => *until,
            // The server was restarted under the eyes of this client.
            Some(_) => now + quarantine,
            None => life.began.map_or(now, |began| Instant::from_std(began) + quarantine),
        };
        *known = Some((life.run, until));
        until > now
    }
}

/// The vote of a node in a round.
pub(super) enum Vote {
    Yes { fence: u64 },
    No { busy: Duration },
    Away,
    Failed(StoreError),
}

/// Sends steps about a lock to nodes.
pub(super) struct Asking {
    pub(super) shared: Arc<Shared>,
    pub(super) key: String,
    /// The number of requests that may be on their way to each node.
    pub(super) under_way: Arc<[AtomicU32]>,
}

/// Votes as they arrive.
pub(super) struct Coming {
    votes: mpsc::UnboundedReceiver<(usize, Vote)>,
    nodes: usize,
}

/// The time to wait for the remaining votes.
#[derive(PartialEq)]
pub(super) enum Rest {
    /// Once there are enough, the others have as much time again.
    Waits,
    /// Once there are enough, the others do not matter.
    Goes,
    /// All votes are awaited, whether there are enough or not.
    Counts,
}

pub(super) struct Gathered {
    pub(super) all: Vec<Option<Vote>>,
    pub(super) counted: Votes,
    /// Votes that arrive later.
    later: mpsc::UnboundedReceiver<(usize, Vote)>,
}

impl Gathered {
    /// Returns the nodes that vote against it, one after the other, until the deadline.
    pub(super) async fn next_against(&mut self, until: Instant) -> Option<usize> {
        let refuses = |vote: &Option<Vote>| matches!(vote, Some(Vote::No { .. }));
        loop {
            if let Some(node) = self.all.iter().position(refuses) {
                self.all[node] = None;
                return Some(node);
            }
            let (node, vote) = timeout_at(until, self.later.recv()).await.ok()??;
            self.all[node] = Some(vote);
        }
    }
}

impl Asking {
    pub(super) fn one(
        &self,
        node: usize,
        step: Step,
        until: Instant,
        to: mpsc::UnboundedSender<(usize, Vote)>,
    ) {
        let (shared, under_way) = (self.shared.clone(), self.under_way.clone());
        let op = Op { key: self.key.clone(), places: 1, above: 0, step };
        under_way[node].fetch_add(1, Relaxed);
        shared.nodes[0].client.clone().spawn(async move {
            let (answer, late) = shared.nodes[node].client.call(&op, until).await;
            if !late {
                under_way[node].fetch_sub(1, Relaxed);
            }
            // The receiver may be gone.
            let _ = to.send((node, shared.vote(node, answer)));
        });
    }

    pub(super) fn all(&self, step: &Step, until: Instant) -> Coming {
        let (to, votes) = mpsc::unbounded_channel();
        let nodes = self.shared.nodes.len();
        (0..nodes).for_each(|node| self.one(node, step.clone(), until, to.clone()));
        Coming { votes, nodes }
    }
}

impl Coming {
    /// Collects votes until there are enough, or can no longer be, or the time is over.
    pub(super) async fn gather(mut self, enough: usize, rest: Rest, until: Instant) -> Gathered {
        let (began, mut until) = (Instant::now(), until);
        let mut all: Vec<_> = (0..self.nodes).map(|_| None).collect();
        let (mut yes, mut left) = (0, self.nodes);
        while left > 0 && (rest == Rest::Counts || yes + left >= enough) {
            let Ok(Some((node, vote))) = timeout_at(until, self.votes.recv()).await else { break };
            left -= 1;
            yes += usize::from(matches!(vote, Vote::Yes { .. }));
            all[node] = Some(vote);
            match rest {
                Rest::Goes if yes == enough => break,
                Rest::Waits if yes == enough => {
                    let again = began.elapsed().max(Duration::from_millis(1));
                    until = until.min(Instant::now() + again);
                }
                _ => {}
            }
        }
        let mut counted = Votes { nodes: self.nodes, silent: left, ..Votes::default() };
        for (node, vote) in all.iter().enumerate() {
            match vote {
                Some(Vote::Yes { .. }) => counted.granted += 1,
                Some(Vote::No { .. }) => counted.held += 1,
                Some(Vote::Away) => counted.away += 1,
                Some(Vote::Failed(error)) => counted.failed.push((node, error.clone())),
                None => {}
            }
        }
        Gathered { all, counted, later: self.votes }
    }
}

/// An attempt, or a hold. The last reference reports the end to all nodes.
pub(super) struct VoteRequest {
    pub(super) ask: Asking,
    pub(super) token: Token,
    told: AtomicBool,
}

impl VoteRequest {
    pub(super) fn leave(&self) -> Coming {
        self.told.store(true, Relaxed);
        let until = self.ask.shared.nodes[0].client.patience();
        let (to, votes) = mpsc::unbounded_channel();
        let nodes = self.ask.shared.nodes.len();
        for node in 0..nodes {
            let late = self.ask.under_way[node].load(Relaxed) > 0;
            let step = Step::Leave { token: self.token.clone(), late };
            self.ask.one(node, step, until, to.clone());
        }
        Coming { votes, nodes }
    }
}

impl Drop for VoteRequest {
    fn drop(&mut self) {
        if !self.told.load(Relaxed) {
            drop(self.leave());
        }
    }
}

/// Runs both rounds once.
pub(super) async fn attempt(
    shared: &Arc<Shared>,
    key: &str,
    lease: Duration,
    until: Instant,
) -> Result<(VoteRequest, u64, Moment), Gathered> {
    let ask = Asking { shared: shared.clone(), key: key.to_owned(), under_way: shared.counts() };
    let token = shared.nodes[0].client.token();
    let request = VoteRequest { ask, token: token.clone(), told: AtomicBool::new(false) };
    let limit = || after(shared.answer.min(lease)).min(until);

    let end = limit();
    let step = Step::Acquire { token: token.clone(), lease, alive: None };
    let first = request.ask.all(&step, end).gather(shared.majority(), Rest::Waits, end).await;
    if first.counted.granted < shared.majority() {
        return Err(first);
    }
    let granted = |vote: &Vote| match vote {
        Vote::Yes { fence } => Some(*fence),
        _ => None,
    };
    let fence = first.all.iter().flatten().filter_map(granted).max().unwrap_or(0).saturating_add(1);

    let (sent, end) = (Moment::now(), limit());
    let step = Step::Confirm { token, fence, lease };
    // Also to nodes that have not answered yet: they may grant it by then.
    let second = request.ask.all(&step, end).gather(shared.majority(), Rest::Goes, end).await;
    match second.counted.granted >= shared.majority() && Moment::now() < valid(sent, lease) {
        true => Ok((request, fence, sent)),
        false => Err(second),
    }
}

/// Returns the end of a hold whose confirmation was sent at this time: clocks may differ by a
/// hundredth, plus a millisecond.
pub(super) fn valid(sent: Moment, lease: Duration) -> Moment {
    let drift = lease / 100 + Duration::from_millis(1);
    sent.and(lease.saturating_sub(drift))
}
