//! MAILBOX-8 and MAILBOX-10: SCHEDULED, the one entry of a mailbox; the hints beside it; the duties
//! that the last reference leaves to it; and the fast path of an entry with one message.

use std::cell::Cell;
use std::task::Poll;

use super::super::cell::message::Closure;
use super::super::cell::refs::{Queued, Strong};
use super::super::cell::settings::Overflow;
use super::super::mailbox::node::NodePtr;
use super::super::mailbox::word::{Unscheduled, Word};
use super::super::thread::context::with_local;
use super::super::turn::deferred::drain;
use super::super::turn::envelope::tell::Tell;
use super::super::turn::run_list::settle;
use super::room::{poll, wait_for};
use super::*;
use crate::sync::reached;

thread_plain! {
    /// True while this thread runs its list.
    static RUNS_ITS_LIST: Cell<bool> = Cell::new(false);
}

fn runs_its_list() -> bool {
    RUNS_ITS_LIST.with(Cell::get)
}

/// Runs `f` as in a turn, with no actor around it, and then the mailboxes that it has left on this
/// thread's list.
pub(super) fn in_turn(f: impl FnOnce()) {
    with_local(|local| {
        local.drive(|_| {
            SENDING.with(|sending| sending.set(true));
            f();
            SENDING.with(|sending| sending.set(false));
        });
        RUNS_ITS_LIST.with(|runs| runs.set(true));
        settle(local);
        RUNS_ITS_LIST.with(|runs| runs.set(false));
    });
}

impl Shared {
    /// A message that records that a list has run it.
    pub(super) fn told(&self, from: usize, no: u32, place: &'static str) {
        let mail = Mail::<OWN>::new(&self.books, from, no);
        let message = move |log: &mut Log| {
            if runs_its_list() {
                reached(place);
            }
            log.handle(mail);
        };
        if self.actor.send(message).is_err() {
            add(&self.books.returned);
        }
    }
}

/// Records where an actor ends and where its memory is freed: its drop is that of a hook.
struct Witness {
    /// Counts ends outside of a list.
    ended_elsewhere: Arc<AtomicU32>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        match (self.ended_elsewhere.load(Relaxed), runs_its_list()) {
            (1, true) => reached("left to the entry"),
            (1, false) => reached("freed elsewhere"),
            _ => reached("ended and freed by the list"),
        }
    }
}

/// An actor with its books that is watched by a [`Witness`].
fn witnessed() -> (Actor<Log>, Arc<Books>) {
    let books = Books::new();
    let ended_elsewhere = Arc::new(AtomicU32::new(0));
    let theirs = ended_elsewhere.clone();
    let unrun = books.clone();
    let witness = Witness { ended_elsewhere };
    let builder = Actor::builder()
        .on_end(move |state, _| {
            if !runs_its_list() {
                add(&theirs);
            }
            drop(state);
        })
        .on_undelivered(move |message| {
            let _ = &witness;
            add(&unrun.unrun);
            drop(message);
        });
    (builder.spawn(Log::new(&books)).expect("a plain actor"), books)
}

/// LEFT, both ways: an entry is out in a turn that goes on, while another thread takes the mailbox
/// over, runs it, and drops the last handle and the last reference. The memory is freed once, by
/// the second of the two.
pub(super) fn r8_entry_against_the_last_drop() {
    let (actor, books) = witnessed();
    let (theirs, their_books) = (actor.clone(), books.clone());
    let thread = spawn(move || {
        send_all::<OWN>(&theirs, &their_books, 1, 1);
        drop(theirs);
    });
    in_turn(|| {
        send_all::<OWN>(&actor, &books, 0, 1);
        drop(actor);
    });
    thread.join();
    books.balance();
}

/// LEFT: an entry is out while a weak handle is the last reference, which knows nothing of the end.
pub(super) fn r8_entry_against_the_last_weak() {
    let (actor, books) = witnessed();
    let weak = actor.downgrade();
    let theirs = actor.clone();
    let thread = spawn(move || {
        drop(theirs);
        drop(weak);
    });
    in_turn(|| {
        send_all::<OWN>(&actor, &books, 0, 1);
        drop(actor);
    });
    thread.join();
    books.balance();
}

/// LEFT with two turns: the second one's message finds the entry out, or creates it; its hint holds
/// a reference, and so the memory.
pub(super) fn r8_two_turns_at_the_end() {
    let (actor, books) = witnessed();
    let (theirs, their_books) = (actor.clone(), books.clone());
    let thread = spawn(move || {
        in_turn(|| {
            send_all::<OWN>(&theirs, &their_books, 1, 1);
            drop(theirs);
        });
    });
    in_turn(|| {
        send_all::<OWN>(&actor, &books, 0, 1);
        drop(actor);
    });
    thread.join();
    books.balance();
}

/// LEFT with the entry alone, given up for a reference (`into_ref`), as by a drain that is run on
/// top of the crate's own work: there is one, or nothing is left to run.
pub(super) fn r8_entry_given_up() {
    let books = Books::new();
    let actor = Strong::new(Log::new(&books));
    let mail = Mail::<OWN>::new(&books, 0, 1);
    let node = NodePtr::new(Tell::<Log, _>::new(Closure::new(mail.message())));
    let Ok(entry) = actor.leave_first(&node) else { unreachable!("it is idle") };
    let theirs = actor.clone();
    let mail = Mail::<OWN>::new(&books, 1, 1);
    let thread = spawn(move || {
        assert!(theirs.send(Closure::new(mail.message())).is_ok());
        drop(theirs);
    });
    drop(actor);
    match Queued::Entry(entry).into_ref() {
        Some(cell) => {
            if let Some(owner) = cell.take_over() {
                reached("taken over by the reference");
                with_local(|local| drain(local, owner));
            }
        }
        None => reached("nothing left"),
    }
    thread.join();
    books.balance();
}

/// An idle mailbox whose entry is out, stale: it is claimed beside its entry, against the list that
/// uses the entry.
pub(super) fn r8_claimed_beside_its_entry() {
    let books = Books::new();
    let actor = Strong::new(Log::new(&books));
    let (theirs, their_books) = (actor.clone(), books.clone());
    let thread = spawn(move || {
        for no in 1..=2 {
            let mail = Mail::<OWN>::new(&their_books, 1, no);
            let beside = theirs.with(|log| {
                log.handle(mail);
                theirs.header().word.load().is_scheduled()
            });
            if beside.expect("it is not stopped") && no == 2 {
                reached("claimed beside its entry");
            }
        }
    });
    in_turn(|| {
        let mail = Mail::<OWN>::new(&books, 0, 1);
        assert!(actor.send(Closure::new(mail.message())).is_ok());
        drop(actor);
    });
    thread.join();
    books.balance();
}

/// HANDOVER by that claim: from a thread that has run the mailbox to another one, while the turn
/// that has left the entry goes on.
pub(super) fn r8_claimed_beside_by_another() {
    let books = Books::new();
    let actor = Strong::new(Log::new(&books));
    let senders = [1, 2].map(|from| {
        let (theirs, mail) = (actor.clone(), Mail::<OWN>::new(&books, from, 1));
        spawn(move || {
            let message = move |log: &mut Log| log.handle(mail);
            assert!(theirs.send(Closure::new(message)).is_ok());
        })
    });
    in_turn(|| {
        let mail = Mail::<OWN>::new(&books, 0, 1);
        assert!(actor.send(Closure::new(mail.message())).is_ok());
        drop(actor);
    });
    senders.into_iter().for_each(Joiner::join);
    books.balance();
}

/// An entry against a stop: waiting messages are run or given back, once, and the end comes once.
pub(super) fn r8_entry_against_a_stop() {
    let (shared, ends) = Shared::with_end();
    let thread = shared.spawn(|shared| _ = shared.actor.stop());
    in_turn(|| shared.send::<OWN>(0, 2));
    thread.join();
    shared.finish_ended(&ends);
}

/// The fast path of an entry against a stop: a message whose sender saw that the actor is stopped
/// is not run.
pub(super) fn r8_short_way_against_a_stop() {
    let (shared, ends) = Shared::with_end();
    let thread = shared.spawn(|shared| _ = shared.actor.stop());
    let mut stopped = false;
    in_turn(|| {
        shared.send::<OWN>(0, 1);
        stopped = shared.actor.stop_cause().is_some();
    });
    thread.join();
    if stopped {
        reached("seen in a turn");
        assert_eq!(shared.books.handled.load(Relaxed), 0, "run after it was stopped");
    }
    shared.finish_ended(&ends);
}

/// The fast path of an entry against a close from another turn, which leaves the mailbox pending,
/// and closed.
pub(super) fn r8_short_way_against_a_close() {
    let (shared, ends) = Shared::with_end();
    let thread = shared.spawn(|shared| in_turn(|| _ = shared.actor.close()));
    in_turn(|| shared.send_one::<OWN>(0, 1));
    thread.join();
    shared.finish_ended(&ends);
}

/// An entry against a sender that takes the mailbox over, and then leaves it pending again, with
/// the same entry.
pub(super) fn r8_entry_refilled() {
    refilled(2);
}

fn refilled(sent: u32) {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        shared.send_one::<OWN>(1, 1);
        in_turn(|| shared.told(1, 2, "run by a list"));
    });
    in_turn(|| shared.send::<OWN>(0, sent));
    thread.join();
    shared.finish();
}

/// Two turns of two threads and one mailbox: the second one finds the entry out and creates a hint;
/// nothing is lost, and the order of each is kept, whichever of the two is stale.
pub(super) fn r8_two_turns() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| in_turn(|| shared.send::<OWN>(1, 2)));
    in_turn(|| shared.send::<OWN>(0, 1));
    thread.join();
    shared.finish();
}

/// The progress of a model.
#[derive(Default)]
struct Stage(Mutex<u32>, Condvar);

// SAFETY: loom's threads are coroutines of one thread.
unsafe impl Sync for Stage {}
// SAFETY: as above.
unsafe impl Send for Stage {}

impl Stage {
    fn is(&self, stage: u32) {
        *self.0.lock() = stage;
        self.1.notify_all();
    }

    fn wait(&self, stage: u32) {
        let mut now = self.0.lock();
        while *now < stage {
            self.1.wait(&mut now);
        }
    }
}

/// A hint is created whenever the entry is out: the thread that has the entry is in a turn that
/// ends only when the other's message has been run. It has stood in that other's list before.
pub(super) fn r8_hint_in_time() {
    let shared = Shared::new();
    let stage = Arc::new(Stage::default());
    let theirs = stage.clone();
    let thread = shared.spawn(move |shared| {
        in_turn(|| shared.send_one::<OWN>(1, 1));
        theirs.is(1);
        theirs.wait(2);
        in_turn(|| {
            let mail = Mail::<OWN>::new(&shared.books, 1, 2);
            let inner = theirs.clone();
            let message = move |log: &mut Log| {
                log.handle(mail);
                inner.is(3);
            };
            assert!(shared.actor.send(message).is_ok());
        });
    });
    stage.wait(1);
    in_turn(|| {
        shared.send_one::<OWN>(0, 1);
        stage.is(2);
        stage.wait(3);
    });
    thread.join();
    shared.finish();
}

/// An owner yields while another thread's list has the mailbox's entry: it leaves a hint, never a
/// second entry.
pub(super) fn r8_gives_way_beside_its_entry() {
    let (shared, other) = (Shared::new(), Shared::new());
    let on = other.clone();
    let thread = shared.spawn(move |shared| {
        let (first, own) = (Mail::<OWN>::new(&shared.books, 1, 1), shared.clone());
        let turn = move |log: &mut Log| {
            log.handle(first);
            on.send_one::<OWN>(1, 1);
            own.send_one::<OWN>(1, 2);
        };
        assert!(shared.actor.send(turn).is_ok());
    });
    in_turn(|| shared.send_one::<OWN>(0, 1));
    thread.join();
    other.finish();
    shared.finish();
}

/// The fast path: a single message, against pushes that come before the mailbox is taken over (then
/// it takes the general path), and during the turn (then it goes on).
pub(super) fn r8_short_way() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        shared.told(1, 1, "gone on with");
        shared.told(1, 2, "gone on with twice");
    });
    in_turn(|| shared.send_one::<OWN>(0, 1));
    thread.join();
    shared.finish();
}

/// The fast path of two messages, against a push that comes before, between or after their turns.
pub(super) fn r8_short_way_of_two() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| shared.told(1, 1, "gone on with"));
    in_turn(|| shared.send::<OWN>(0, 2));
    thread.join();
    shared.finish();
}

/// The fast path of two messages, of which the first one stops the actor: the second one is given
/// back.
pub(super) fn r8_short_way_stops_itself() {
    let (shared, ends) = Shared::with_end();
    let thread = shared.spawn(|shared| shared.send_one::<OWN>(1, 1));
    let ran = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    in_turn(|| {
        let (actor, mail) = (shared.actor.clone(), Mail::<OWN>::new(&shared.books, 0, 1));
        let stops = move |log: &mut Log| {
            log.handle(mail);
            actor.stop();
        };
        assert!(shared.actor.send(stops).is_ok());
        let (ran, mail) = (ran.clone(), Mail::<OWN>::new(&shared.books, 0, 2));
        let late = move |log: &mut Log| {
            ran.store(true, Relaxed);
            log.handle(mail);
        };
        if shared.actor.send(late).is_err() {
            add(&shared.books.returned);
        }
    });
    thread.join();
    assert!(!ran.load(Relaxed), "run after it was stopped");
    shared.finish_ended(&ends);
}

/// HANDOVER and MESSAGE by the fast path: the single message in the mailbox was left there by
/// another thread, after a turn of its own.
pub(super) fn r8_short_way_of_another() {
    refilled(1);
}

/// POSTED: another thread takes over the mailbox while a drain is out, and a later post is left to
/// that drain, which has cleared POSTED by then or sees the mailbox pending.
pub(super) fn r8_posted_again() {
    let shared = Shared::by_hand();
    assert!(shared.leave::<OWN>(0, 1));
    let thread = shared.spawn(|shared| {
        if shared.run_one() && shared.books.handled.load(Relaxed) == 3 {
            reached("run by a drain");
        }
    });
    shared.send_one::<OWN>(0, 2);
    assert!(shared.leave::<OWN>(0, 3));
    thread.join();
    shared.finish();
}

thread_plain! {
    static CLOSES: Cell<bool> = Cell::new(false);
}

/// POSTED: a posted message does not run in the call that closes the actor, also while its drain
/// takes the mailbox over.
pub(super) fn r8_posted_and_closed() {
    let shared = Shared::by_hand();
    let mail = Mail::<OWN>::new(&shared.books, 0, 1);
    let message = move |log: &mut Log| {
        CLOSES.with(|closes| assert!(!closes.get(), "run by the one that closes"));
        log.handle(mail);
    };
    assert!(shared.actor.posted().send(message).is_ok());
    let thread = shared.spawn(|shared| {
        if shared.run_one() && shared.books.handled.load(Relaxed) == 1 {
            reached("run by a drain");
        }
    });
    CLOSES.with(|closes| closes.set(true));
    shared.actor.close();
    CLOSES.with(|closes| closes.set(false));
    thread.join();
    shared.finish();
}

/// A message that is posted beside a turn stands in the list of that turn's thread, behind another
/// actor. It does not run in the call that closes the actor then either.
pub(super) fn r8_posted_beside_a_turn() {
    let (shared, other) = (Shared::by_hand(), Actor::new(()));
    let thread = shared.spawn(move |shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        let turn = move |log: &mut Log| {
            assert!(other.send(|()| ()).is_ok());
            log.handle(mail);
        };
        if shared.actor.send(turn).is_err() {
            add(&shared.books.returned);
        }
    });
    let mail = Mail::<OWN>::new(&shared.books, 0, 1);
    let message = move |log: &mut Log| {
        CLOSES.with(|closes| assert!(!closes.get(), "run by the one that closes"));
        log.handle(mail);
    };
    assert!(shared.actor.posted().send(message).is_ok());
    CLOSES.with(|closes| closes.set(true));
    shared.actor.close();
    CLOSES.with(|closes| closes.set(false));
    if shared.run_one() {
        reached("left to a drain");
    }
    thread.join();
    while shared.run_one() {}
    shared.finish();
}

/// An executor that runs its first drain in the call, and puts the others into a queue.
struct FirstInTheCall {
    queue: Arc<Queue>,
    has_run: Cell<bool>,
}

// SAFETY: loom's threads are coroutines of one thread.
unsafe impl Sync for FirstInTheCall {}
// SAFETY: the counts of the queue are no other thread's, for there is none.
unsafe impl Send for FirstInTheCall {}

impl Executor for FirstInTheCall {
    fn execute(&self, drain: Drain) {
        if self.has_run.replace(true) { self.queue.push(drain) } else { drain.run() }
    }
}

/// A drain that is run in the call gives its entry up for a hint, and a sender creates a new entry;
/// at the end of its budget the owner that came by the hint counts on that entry, or creates
/// another.
pub(super) fn r8_spent_beside_its_entry() {
    let queue = Arc::new(Queue::default());
    let executor = FirstInTheCall { queue: queue.clone(), has_run: Cell::new(false) };
    let shared = Shared::built(|builder| builder.budget(1).executor(executor));
    let shared = Shared { queue: Some(queue), ..shared };
    let thread = shared.spawn(|shared| {
        shared.send_one::<OWN>(1, 1);
        if shared.run_one() {
            reached("run by the other one");
        }
    });
    let (mail, own) = (Mail::<OWN>::new(&shared.books, 0, 1), shared.clone());
    let first = move |log: &mut Log| {
        log.handle(mail);
        own.send_one::<OWN>(0, 2);
    };
    assert!(shared.actor.send(first).is_ok());
    thread.join();
    shared.finish();
}

/// The step of an entry is one: an owner that leaves the mailbox pending while the entry is out
/// counts on it. With the word alone.
pub(super) fn r8_one_step() {
    let (word, state) = (Arc::new(Word::new()), Written::new());
    // One message, left with an entry, and taken over by the thread that sends a second one.
    assert!(word.leave_first(1 << 5).is_ok());
    let _won = word.take_over().expect("it is pending");
    assert!(word.load().is_scheduled());
    let owned = Arc::new(AtomicU32::new(0));
    let (theirs, their_state, their_owned) = (word.clone(), state.clone(), owned.clone());
    let thread = spawn(move || match theirs.unschedule() {
        Unscheduled::Owns(..) => {
            reached("owned by the entry");
            their_state.write();
            add(&their_owned);
        }
        Unscheduled::Stale => {}
        Unscheduled::Dead => unreachable!("there are references"),
    });
    state.write();
    let _ = word.set_pending(0, false);
    // The thread that schedules it finds the entry out, or has to run it.
    let mine = word.schedule().is_some();
    thread.join();
    let theirs = owned.load(Relaxed) == 1;
    assert!(mine != theirs, "pending, and no thread comes: {:?}", word.load());
    assert_eq!(state.read(), 1 + u32::from(theirs));
}

/// The last handle is dropped while a drain is out, and while it runs: it ends the actor and frees
/// it.
pub(super) fn r8_carried_at_the_end() {
    let (actor, books, queue) = carried_alone();
    let theirs = queue.clone();
    let thread = spawn(move || _ = theirs.run_one());
    send_all::<OWN>(&actor, &books, 0, 1);
    drop(actor);
    thread.join();
    queue.run_all();
    books.balance();
}

/// The last handle is dropped while a drain is out, which is dropped unrun: that ends the actor and
/// frees it.
pub(super) fn r8_dropped_at_the_end() {
    let (actor, books, queue) = carried_alone();
    let theirs = queue.clone();
    let thread = spawn(move || {
        if let Some(drain) = theirs.take() {
            reached("dropped");
            drop(drain);
        }
    });
    send_all::<OWN>(&actor, &books, 0, 1);
    drop(actor);
    thread.join();
    queue.run_all();
    books.balance();
}

/// A drain is dropped unrun against a sender: accepted messages are given back or run by another
/// drain, and a refused sender gets the cause.
pub(super) fn r8_dropped_against_a_sender() {
    let shared = Shared::carried(256);
    let thread = shared.spawn(|shared| {
        if let Some(drain) = shared.queue().take() {
            reached("dropped");
            drop(drain);
        }
    });
    shared.send_one::<OWN>(0, 1);
    shared.send_one::<OWN>(0, 2);
    thread.join();
    shared.finish();
}

/// An executor that runs its drains in the call, where they are deferred: two threads send, and
/// both handles are dropped. The entry is given up for a hint there, so that the other one's
/// message creates the next.
pub(super) fn r8_run_in_the_call() {
    let books = Books::new();
    let builder = Actor::builder().executor(|drain: Drain| drain.run());
    let actor = builder.spawn(Log::new(&books)).expect("good settings");
    let (theirs, their_books) = (actor.clone(), books.clone());
    let thread = spawn(move || {
        send_all::<OWN>(&theirs, &their_books, 1, 1);
        drop(theirs);
    });
    send_all::<OWN>(&actor, &books, 0, 1);
    drop(actor);
    thread.join();
    books.balance();
}

fn carried_alone() -> (Actor<Log>, Arc<Books>, Arc<Queue>) {
    let Shared { actor, books, queue } = Shared::carried(256);
    let actor = Arc::into_inner(actor).expect("main has the only one");
    (actor, books, queue.expect("it has an executor"))
}

/// A mailbox with a capacity whose one permit is held by the message of an entry, and a waiter,
/// which the entry's owner admits.
pub(super) fn r8_entry_and_a_waiter() {
    let shared = Shared::built(|builder| builder.capacity(1, Overflow::Reject));
    let thread = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        let mut waits = None;
        // A sender that is in no turn would run the pending mailbox.
        in_turn(|| {
            let mut sending = shared.actor.waiting().send(mail.message());
            match poll(&mut sending) {
                Poll::Ready(sent) => assert!(sent.is_ok()),
                Poll::Pending => waits = Some(sending),
            }
        });
        if let Some(sending) = waits {
            reached("waited");
            assert!(wait_for(sending).is_ok(), "room is made");
        }
    });
    in_turn(|| shared.send_one::<OWN>(0, 1));
    thread.join();
    shared.finish();
}

/// MEETING: a waiter for idle watches a mailbox whose entry is out, or runs it; an entry alone
/// keeps no mailbox from being idle.
pub(super) fn r14_wait_idle_scheduled() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        assert_eq!(shared.actor.idle().wait(), Ok(()));
        if shared.books.handled.load(Relaxed) == 1 {
            reached("waited for");
        }
    });
    in_turn(|| shared.send_one::<OWN>(0, 1));
    thread.join();
    shared.finish();
}

/// MEETING for a task that waits for idle, which runs nothing: it watches the mailbox while the
/// entry is out, and is woken by the release of the entry's thread.
pub(super) fn r14_wait_idle_watched() {
    let shared = Shared::new();
    // Loom looks back at one access per location, and the thread reads the word before it writes
    // it: this one, which orders nothing, makes loom try the other order too.
    let met = Arc::new(crate::sync::atomic::AtomicU32::new(0));
    let theirs = met.clone();
    let thread = shared.spawn(move |shared| {
        let mut idle = shared.actor.idle();
        if poll(&mut idle).is_pending() {
            reached("asleep");
            theirs.fetch_add(1, Relaxed);
            assert_eq!(wait_for(idle), Ok(()));
            assert_eq!(shared.books.handled.load(Relaxed), 1);
        }
    });
    in_turn(|| {
        shared.send_one::<OWN>(0, 1);
        met.load(Relaxed);
    });
    thread.join();
    shared.finish();
}
