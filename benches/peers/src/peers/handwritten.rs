//! A simple mailbox and pool: a locked queue with a flag. A sender that finds the flag cleared sets
//! it and queues the actor for a thread, which runs up to 64 messages. The pool of the crate's own
//! benchmarks (`HandwrittenPool` in `benches/workloads/rivals.rs`), with a lock around the state in
//! place of `unsafe`.

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::sync::{Arc, LazyLock};
use std::thread;

use crossbeam_channel::{Sender, unbounded};
use parking_lot::Mutex;

use super::Letter;
use crate::hosts;
use crate::peer::{Peer, State};

#[derive(Clone)]
pub(crate) struct Handwritten(Arc<Actor>);

struct Actor {
    inbox: Mutex<Inbox>,
    /// Locked by the thread that has taken the actor from the queue, and free at any other time.
    state: Mutex<State<Handwritten>>,
}

struct Inbox {
    busy: bool,
    waiting: VecDeque<Letter<Handwritten>>,
}

/// Messages that a thread runs before it looks at the next actor.
const BATCH: usize = 64;

static LINE: LazyLock<Sender<Arc<Actor>>> = LazyLock::new(|| {
    let (line, actors) = unbounded::<Arc<Actor>>();
    for _ in 0..hosts::WORKERS {
        let actors = actors.clone();
        thread::spawn(move || actors.iter().for_each(run));
    }
    line
});

const LISTENS: &str = "the threads never end";
const RUNS: &str = "what is in the queue is run";

fn run(actor: Arc<Actor>) {
    let (mut left, mut batch) = (BATCH, Vec::new());
    loop {
        let mut inbox = actor.inbox.lock();
        if left == 0 && !inbox.waiting.is_empty() {
            drop(inbox);
            return LINE.send(actor).expect(LISTENS);
        }
        let Some(first) = inbox.waiting.pop_front() else {
            inbox.busy = false;
            return;
        };
        let more = inbox.waiting.len().min(left - 1);
        batch.extend(inbox.waiting.drain(..more));
        drop(inbox);
        left -= more + 1;
        let mut state = actor.state.lock();
        handle(first, &mut state);
        batch.drain(..).for_each(|letter| handle(letter, &mut state));
    }
}

#[inline]
fn handle(letter: Letter<Handwritten>, state: &mut State<Handwritten>) {
    match letter {
        Letter::Tell(rounds) => state.count(rounds),
        Letter::Ask(rounds, reply) => reply.send(state.work(rounds)).expect("the asker waits"),
        Letter::Link(next, reply) => {
            state.link(next);
            reply.send(()).expect("the asker waits");
        }
        Letter::Pass(hops) => {
            if let Some(next) = state.pass(hops) {
                next.put(Letter::Pass(hops - 1));
            }
        }
    }
}

impl Handwritten {
    #[inline]
    fn put(&self, letter: Letter<Self>) {
        let mut inbox = self.0.inbox.lock();
        inbox.waiting.push_back(letter);
        if !mem::replace(&mut inbox.busy, true) {
            drop(inbox);
            LINE.send(self.0.clone()).expect(LISTENS);
        }
    }
}

impl Peer for Handwritten {
    const PACKAGE: &'static str = "hand-written";
    const WAY: &'static str = "locked queue, flag, pool";
    const BOUND: Option<usize> = None;
    const NOTE: Option<&'static str> = Some(
        "Forty lines, not a crate: no end, no panics, no bound, no shutdown. On two threads of its own, beside the runtime on which senders and askers live.",
    );

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        let inbox = Mutex::new(Inbox { busy: false, waiting: VecDeque::new() });
        Handwritten(Arc::new(Actor { inbox, state: Mutex::new(state) }))
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        self.put(Letter::Tell(rounds));
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        let (letter, reply) = Letter::asking(rounds);
        self.put(letter);
        reply.await.expect(RUNS)
    }
    async fn link(&self, next: Option<Self>) {
        let (letter, reply) = Letter::linking(next);
        self.put(letter);
        reply.await.expect(RUNS);
    }
    async fn pass(&self, hops: u64) {
        self.put(Letter::Pass(hops));
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}
