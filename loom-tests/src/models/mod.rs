//! The models, one or more per rule of the mailbox, and what they share.
//!
//! Two or three threads, one to three operations each; the main thread is one of them. The state is
//! in a loom cell (so a second owner, or one that does not see the writes of the last one, is a
//! race), every message carries a loom track (so a lost or doubled one is a leak or a double drop),
//! the order of each sender is asserted, and the books must balance: sent = handled + returned.

mod admission;
mod attempts;
mod batch;
mod borrowed;
mod bounded;
mod carried;
mod circles;
mod clock;
mod controls;
mod ending;
mod freeing;
mod hand_over;
mod keyed;
mod locks;
mod nodes;
mod one_owner;
mod panics;
mod parked;
mod permits;
mod pool;
mod replies;
mod rests;
mod room;
mod scheduled;
mod shutdown;
mod slots;
mod spawners;
mod timers;
mod turns;
mod waiting;
mod workers;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use loom::alloc::Track;

use super::actor::{Actor, ActorBuilder};
use super::budget::Budget;
use super::cell::executor::{Drain, Executor};
use super::enrolled::Enrolled;
use super::fallback::{Later, later};
use crate::sync::cell::UnsafeCell;
use crate::sync::thread::{Joiner, spawn};
use crate::sync::{Condvar, Mutex, thread_plain};

/// One model.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// The maximum number of preemptions; all without one.
    pub(crate) bound: Option<usize>,
    /// Places that at least one execution must reach.
    pub(crate) places: &'static [&'static str],
    pub(crate) run: fn(),
}

/// Every interleaving.
const ALL: Option<usize> = None;
/// All with at most one preemption.
const ONE: Option<usize> = Some(1);
/// All with at most two preemptions.
const TWO: Option<usize> = Some(2);
/// All with at most three preemptions.
const THREE: Option<usize> = Some(3);
/// All with at most six preemptions: for models that would take minutes without a bound.
const SIX: Option<usize> = Some(6);

macro_rules! models {
    ($($bound:ident $module:ident :: $name:ident $([$($place:literal),*])?,)*) => {
        &[$(Model { name: stringify!($name), bound: $bound, places: &[$($($place),*)?], run: $module::$name }),*]
    };
}

/// Models that must pass.
pub(crate) const MODELS: &[Model] = models![
    ALL one_owner::r1_one_owner_1_1,
    ALL one_owner::r1_one_owner_2_2,
    ALL one_owner::r1_one_owner_3_2,
    ALL one_owner::r1_one_owner_1_1_1,
    // Each of them takes more than a minute of processor time.
    THREE one_owner::r1_one_owner_2_1_1,
    ALL one_owner::r1_saturated ["saturated"],
    ALL attempts::r1_attempts ["busy"],
    ALL attempts::r1_attempt_against_sends ["busy"],
    ALL attempts::r1_attempt_with_hooks ["busy"],
    ALL nodes::r2_one_slot,
    ALL nodes::r2_two_slots,
    SIX nodes::r2_chunks_recycled,
    ALL nodes::r2_refused,
    ALL nodes::r3_stale_address ["a stale guess holds"],
    ALL borrowed::r4_borrowed,
    THREE borrowed::r4_borrowed_among_sends,
    ALL borrowed::r4_borrowed_given_back ["given back or refused"],
    ALL borrowed::r4_borrowed_stopped,
    SIX borrowed::r4_lent ["run", "taken back"],
    ALL replies::r5_cancel_or_start,
    ALL replies::r5_claimed_or_cancelled ["claimed", "cancelled"],
    ALL replies::r5_kept_or_cancelled ["kept", "cancelled"],
    ALL replies::r5_kept_awaited,
    ALL replies::r5_kept_unheard,
    ALL replies::r5_asker_leaves,
    ALL replies::r5_unclaimed,
    ALL replies::r5_answer_seen,
    ALL replies::r5_answer_awaited,
    ALL replies::r5_woken,
    ALL replies::r5_polled,
    ALL replies::r5_waiter_replaced,
    ALL replies::r5_late_waiter ["in time", "too late"],
    ALL replies::r5_taken_back,
    THREE replies::r5_questions,
    ALL bounded::r6_exact_alone,
    SIX bounded::r6_exact_against_a_sender,
    ALL bounded::r6_last_place,
    ALL ending::r7_lost_is_counted ["it ran", "it was lost"],
    ALL ending::r7_close_against_sends,
    ALL ending::r7_close_twice ["the other one closed", "main closed"],
    ALL ending::r7_stop_against_sends,
    ALL ending::r7_cause_of_a_panic ["stopped", "refused"],
    ALL ending::r7_stop_gives_back,
    ALL ending::r7_stop_seen_between_turns ["seen in a turn"],
    ALL ending::r7_close_takes_over ["taken over"],
    ALL ending::r7_close_parked,
    ALL ending::r7_stop_parked,
    ALL attempts::r7_attempt_against_a_stop ["ran", "busy", "stopped"],
    ALL ending::r10_last_handle,
    ALL ending::r10_last_handle_parked,
    ALL ending::r10_end_comes_last,
    ALL ending::r10_weak ["upgraded", "too late"],
    ALL ending::r10_storage,
    ALL ending::r10_chain_of_states,
    ALL parked::r8_left_and_taken_over,
    ALL parked::r8_two_senders_take_over,
    ALL parked::r8_two_drain ["the other one drained", "main drained"],
    ALL parked::r8_saved_list,
    ALL parked::r8_gives_way_before_a_take,
    ALL carried::r3_linked_anew ["run by the other one"],
    THREE carried::r8_carried,
    THREE carried::r8_budget ["handed off"],
    THREE carried::r8_handed_on ["handed on", "taken over by a sender"],
    THREE carried::r8_handed_on_at_the_end ["handed on"],
    THREE carried::r8_refused ["refused"],
    THREE carried::r8_closed_while_carried,
    THREE carried::r8_carrier_dropped ["stopped"],
    THREE carried::r8_carrier_is_stale,
    THREE scheduled::r8_entry_against_the_last_drop ["left to the entry", "freed elsewhere"],
    ALL scheduled::r8_entry_against_the_last_weak,
    THREE scheduled::r8_two_turns_at_the_end,
    ALL scheduled::r8_entry_given_up ["taken over by the reference", "nothing left"],
    THREE scheduled::r8_claimed_beside_its_entry ["claimed beside its entry"],
    TWO scheduled::r8_claimed_beside_by_another,
    THREE attempts::r8_attempt_beside_a_stale_entry ["beside its entry", "after its entry"],
    THREE scheduled::r8_entry_against_a_stop,
    ALL scheduled::r8_short_way_against_a_stop ["seen in a turn"],
    ALL scheduled::r8_short_way_against_a_close,
    THREE scheduled::r8_entry_refilled ["run by a list"],
    ALL scheduled::r8_two_turns,
    ALL scheduled::r8_hint_in_time,
    ALL scheduled::r8_gives_way_beside_its_entry,
    ALL scheduled::r8_short_way ["gone on with", "gone on with twice"],
    ALL scheduled::r8_short_way_of_two ["gone on with"],
    THREE scheduled::r8_short_way_stops_itself,
    ALL scheduled::r8_short_way_of_another ["run by a list"],
    ALL scheduled::r8_posted_again ["run by a drain"],
    ALL scheduled::r8_posted_and_closed ["run by a drain"],
    THREE scheduled::r8_posted_beside_a_turn ["left to a drain"],
    THREE scheduled::r8_spent_beside_its_entry ["run by the other one"],
    ALL scheduled::r8_one_step ["owned by the entry"],
    ALL scheduled::r8_carried_at_the_end,
    THREE scheduled::r8_dropped_at_the_end ["dropped"],
    THREE scheduled::r8_dropped_against_a_sender ["dropped"],
    THREE scheduled::r8_run_in_the_call,
    THREE scheduled::r8_entry_and_a_waiter ["waited"],
    ALL parked::r9_entry_is_stale,
    ALL parked::r9_gives_way,
    ALL parked::r9_crossing,
    ALL parked::r9_hands_its_list_off_before_it_blocks,
    // Each of them takes more than a minute of processor time.
    THREE parked::r9_hands_its_list_off_before_with_blocks,
    ALL attempts::r9_attempts_crossing ["nested", "busy"],
    ALL panics::r11_inline,
    ALL panics::r11_in_a_batch,
    ALL panics::r11_stops,
    ALL panics::r11_listed,
    ALL panics::r11_short_way ["gone on with"],
    THREE panics::r11_short_way_stops,
    THREE panics::r11_short_way_of_two,
    ALL panics::r11_borrowed,
    SIX panics::r11_question,
    ALL panics::r11_in_drops,
    ALL panics::r11_restarts,
    THREE waiting::r13_no_waiting,
    ALL waiting::r14_wait_idle,
    THREE waiting::r14_wait_idle_against_sends,
    ALL waiting::r14_wait_idle_bounded,
    ALL waiting::r14_wait_idle_parked,
    ALL scheduled::r14_wait_idle_scheduled ["waited for"],
    ALL scheduled::r14_wait_idle_watched ["asleep"],
    THREE waiting::r14_wait_ended,
    // The same.
    THREE waiting::r14_wait_ended_plain,
    ALL waiting::r14_wait_ended_helps,
    TWO rests::l1_stop_as_it_lies_down ["idle by then"],
    TWO rests::l1_stop_as_its_time_comes ["the timer fired"],
    TWO rests::l2_messages_wait ["the message waits"],
    TWO waiting::r14_timed_out ["ended", "time over"],
    THREE waiting::r14_hostile_wakers ["woken", "dropped"],
    THREE room::room_let_in,
    THREE room::room_given_up ["waited", "withdrawn"],
    THREE room::room_closed ["turned away"],
    TWO room::room_closed_from_outside ["turned away"],
    THREE room::room_stopped ["turned away"],
    TWO room::room_first_come ["waited", "accepted", "refused"],
    TWO room::room_first_come_while_idle ["waited", "refused"],
    THREE room::room_at_the_next_turn ["waited for"],
    THREE room::room_pending_first_come ["accepted", "refused"],
    THREE room::room_given_up_as_it_is_let_in ["withdrawn", "let in"],
    TWO room::room_time_over ["let in", "time over"],
    TWO room::room_asked,
    TWO room::room_closed_on_the_way ["turned away"],
    THREE room::room_hostile_wakers ["woken"],
    TWO room::room_forgotten ["turned away"],
    THREE room::limit_or_answer ["answered", "cancelled"],
    ALL pool::pool_one_wake_up ["slept", "looked"],
    ALL pool::pool_closed_with_work,
    TWO pool::pool_two_announcers ["woken"],
    TWO pool::pool_next_is_woken ["both woken"],
    TWO pool::pool_woken_for_nothing,
    THREE pool::pool_away,
    ALL pool::pool_ended_against_work ["swept by its sender", "swept by the ender"],
    ALL pool::pool_slot,
    ALL pool::pool_slot_left,
    ONE workers::worker_slot_replaced,
    TWO workers::worker_wakes_the_next,
    ONE workers::worker_leaves_its_place,
    TWO workers::standby_is_not_the_helper,
    ALL batch::batch_ends,
    THREE carried::posted_by_two,
    THREE carried::drain_dropped_in_a_turn ["run meanwhile", "stopped"],
    TWO hand_over::hand_over_waiter_leaves ["left with a rest"],
    TWO hand_over::hand_over_time_ends ["answered", "cancelled"],
    TWO hand_over::hand_over_executor_alone ["pending"],
    THREE hand_over::hand_over_idle_sleeps,
    SIX hand_over::hand_over_deferred_taken,
    ALL freeing::free_chain,
    ALL spawners::c1_made_and_freed,
    THREE spawners::c1_forked_by_two ["both wait"],
    ALL spawners::c1_forked_and_freed,
    ALL spawners::b5_alone_or_not ["upgraded"],
    ALL spawners::b5_drain_is_out ["run"],
    ALL spawners::b5_chain,
    THREE shutdown::shutdown_against_a_send ["handled", "refused"],
    ALL shutdown::shutdown_against_an_end ["found", "gone before"],
    THREE shutdown::shutdown_hands_over,
    ONE shutdown::shutdown_two_that_cut ["ended elsewhere", "ended here"],
    THREE shutdown::shutdown_against_a_spawn ["refused", "ended with it"],
    ONE shutdown::shutdown_by_two,
    THREE shutdown::queue_closed_as_it_sleeps ["run"],
    THREE shutdown::queue_wakes_its_runner,
    TWO shutdown::queue_time_over ["late"],
    ALL shutdown::alarm_ends,
    THREE shutdown::shutdown_tells_why ["refused"],
    ALL shutdown::alarm_rings ["saw it", "slept"],
    ALL turns::turn_woken ["waits", "was woken", "went on"],
    TWO turns::turn_woken_twice,
    TWO turns::turn_sent_to ["run by main"],
    TWO turns::turn_stopped ["cut", "not begun"],
    TWO turns::turn_aborted ["cut", "done"],
    TWO turns::turn_aborted_as_it_lies_down,
    ALL turns::turn_lost ["lay down", "lost at once"],
    TWO turns::turn_woken_by_one_of_two,
    TWO turns::turn_memory,
    TWO turns::turn_outlives_its_handles,
    TWO turns::turn_closed,
    TWO turns::turn_cancelled ["begun", "cancelled"],
    TWO turns::turn_in_a_full_mailbox,
    TWO turns::turn_panics,
    TWO turns::turn_in_a_batch,
    TWO turns::turn_woken_in_a_turn,
    TWO turns::turn_waits_twice,
    TWO turns::turn_before_a_saved_list,
    TWO turns::turn_carried ["run by main"],
    TWO turns::turn_of_a_dropped_drain,
    TWO turns::turn_at_the_end_of_its_queue,
    TWO turns::second_turn_at_the_end_of_its_queue ["suspended", "cut"],
    TWO turns::turn_stopped_or_woken ["cut", "done"],
    TWO turns::turn_aborted_and_stopped,
    TWO turns::turn_dropped_before_its_answer ["answered meanwhile"],
    TWO turns::turn_without_its_reply,
    TWO turns::turn_asked_for,
    TWO turns::turn_begun_by_a_list,
    TWO turns::turn_leaves_room,
    THREE turns::turn_woken_takes_no_place,
    TWO turns::turn_beside_a_waiter ["accepted", "refused"],
    TWO turns::turn_that_waits_for_room ["ran another"],
    THREE turns::turn_keeps_no_waiter,
    TWO turns::turn_and_a_caller,
    TWO turns::turn_hands_its_list_off ["went on", "waited"],
    TWO circles::circle_of_two_threads ["told"],
    TWO circles::circle_of_two_questions ["the other was refused", "was refused"],
    TWO circles::circle_with_a_loan_that_has_begun,
    ONE circles::circle_of_what_is_over,
    TWO circles::circle_of_an_executor_that_waits,
    ALL timers::t1_fire_or_cancel ["cancelled", "fired"],
    THREE timers::t1_fire_or_reset_or_cancel ["cancelled", "fired", "moved"],
    ALL timers::t3_sooner_while_it_lies_down,
    ALL timers::t4_last_clone,
    THREE keyed::keyed_runners_and_a_canceller ["cancelled", "ran"],
    ALL keyed::keyed_state_against_a_use ["kept", "made anew"],
    ALL keyed::keyed_published_against_a_use ["busy", "ran"],
    THREE keyed::keyed_shutdown_against_a_run ["closed", "ran"],
    TWO keyed::keyed_kept_against_a_run ["kept", "made anew"],
    ALL keyed::keyed_same_hash,
    TWO keyed::keyed_cut_against_its_end ["cut", "done"],
    ONE keyed::keyed_cut_by_lease_or_abort ["abort", "lease"],
    TWO keyed::keyed_cut_alone,
    THREE locks::locks_second_against_a_release ["at once", "handed on"],
    TWO locks::locks_granted_against_given_up,
    TWO locks::locks_end_of_a_hold ["expired", "forced", "released"],
    TWO locks::locks_joined_against_a_release,
    TWO locks::locks_gone_against_a_lock,
    TWO locks::locks_renewed_against_the_end ["lost", "renewed"],
    TWO permits::permits_taken_against_put_back ["at once", "handed on"],
    TWO permits::permits_loan_against_asked ["at once", "waits"],
    ONE permits::permits_loan_against_given_up,
    TWO permits::permits_lent_again,
    TWO permits::permits_asked_behind_a_turn ["on its way", "there"],
    TWO permits::permits_given_up_on_the_way,
    TWO permits::permits_fences_of_loans ["after"],
    TWO permits::permits_reduced_against_a_loan,
    TWO permits::permits_lease_of_a_loan ["lost", "released"],
    TWO permits::permits_closed_against_a_loan ["closed", "in"],
    TWO slots::slots_handed_over_against_given_up,
    TWO slots::slots_expiry_against_release ["finished", "lost"],
    TWO slots::slots_expiry_against_asking ["noticed", "told"],
    TWO slots::slots_resize_against_release ["beyond", "retired"],
    TWO slots::slots_renewed_against_the_end ["lost", "renewed"],
    TWO slots::slots_two_sizes ["one", "three"],
    TWO slots::slots_cut_against_its_end ["cut", "done", "lost"],
    TWO slots::slots_cut_against_a_poll ["cut"],
    TWO slots::slots_cut_against_a_drop ["dropped", "expired"],
    THREE admission::admission_late_against_its_turn ["in", "late"],
    TWO admission::admission_dropped_against_its_turn ["in", "withdrawn"],
    TWO admission::admission_told_against_the_commit ["in by itself"],
    TWO admission::admission_stopped_against_a_turn ["gone", "in"],
    TWO admission::admission_stopped_against_a_queue ["gone", "in"],
];

/// Models that must fail: the canary first, then the designs that this one replaces.
pub(crate) const CONTROLS: &[Model] = models![
    ALL controls::canary_racy_cell,
    ALL controls::canary_relaxed_flag,
    ALL controls::textbook_order_spins,
    ALL controls::count_after_push_lets_two_owners_in,
    ALL controls::exchange_flag_strands,
    ALL controls::batch_not_subtracted,
];

/// Words of ballast that make a message fit one slot, two, or none.
const ONE_SLOT: usize = 0;
const TWO_SLOTS: usize = 10;
const OWN: usize = 32;

/// The fates of the messages. Loom does not see it.
#[derive(Debug, Default)]
struct Books {
    sent: AtomicU32,
    handled: AtomicU32,
    /// Refused, with the message returned.
    returned: AtomicU32,
    /// Accepted, then given back or dropped unrun.
    unrun: AtomicU32,
    /// Messages dropped before they were handled, by any thread.
    dropped: AtomicU32,
    /// States dropped.
    states: AtomicU32,
}

impl Books {
    fn new() -> Arc<Books> {
        Arc::default()
    }

    /// Checks, after the drop of the last handle, that every message has one fate, and so has the
    /// state.
    fn balance(&self) {
        let [sent, handled, returned, unrun, dropped, states] =
            [&self.sent, &self.handled, &self.returned, &self.unrun, &self.dropped, &self.states]
                .map(|count| count.load(Relaxed));
        assert_eq!(sent, handled + returned + unrun, "messages lost: {self:?}");
        assert_eq!(dropped, returned + unrun, "messages dropped in silence: {self:?}");
        assert_eq!(states, 1, "the state was not dropped once: {self:?}");
    }
}

fn add(count: &AtomicU32) {
    count.fetch_add(1, Relaxed);
}

thread_plain! {
    /// True if this thread is inside a turn that is sending: no other turn may begin.
    static SENDING: std::cell::Cell<bool> = std::cell::Cell::new(false);
}

/// Messages of different kinds, for one batch.
type Message = Box<dyn FnOnce(&mut Log) + Send>;

/// A message: its sender and its number.
struct Mail<const PAD: usize> {
    from: usize,
    no: u32,
    handled: bool,
    books: Arc<Books>,
    _track: Track<()>,
    _pad: [u64; PAD],
}

impl<const PAD: usize> Mail<PAD> {
    fn new(books: &Arc<Books>, from: usize, no: u32) -> Self {
        add(&books.sent);
        Mail {
            from,
            no,
            handled: false,
            books: books.clone(),
            _track: Track::new(()),
            _pad: [0; PAD],
        }
    }

    /// Converts it into a closure for [`Actor::send`].
    fn message(self) -> impl FnOnce(&mut Log) + Send {
        move |log: &mut Log| log.handle(self)
    }
}

impl<const PAD: usize> Drop for Mail<PAD> {
    fn drop(&mut self) {
        if !self.handled {
            add(&self.books.dropped);
        }
    }
}

/// A number that one side writes and the other reads, with nothing but the product between them:
/// loom checks that this is enough.
struct Written(UnsafeCell<u32>);

// SAFETY: loom fails the model at the first access that races.
unsafe impl Sync for Written {}
// SAFETY: as above.
unsafe impl Send for Written {}

impl Written {
    fn new() -> Arc<Written> {
        Arc::new(Written(UnsafeCell::new(0)))
    }

    fn write(&self) {
        // SAFETY: loom checks the access.
        self.0.with_mut(|at| unsafe { *at += 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: loom checks the access.
        self.0.with(|at| unsafe { *at })
    }
}

/// The state of most actors: the messages that it has handled.
struct Log {
    books: Arc<Books>,
    last: [u32; 4],
    _track: Track<()>,
}

impl Log {
    fn new(books: &Arc<Books>) -> Self {
        Log { books: books.clone(), last: [0; 4], _track: Track::new(()) }
    }

    fn handle<const PAD: usize>(&mut self, mut mail: Mail<PAD>) {
        assert!(
            self.last[mail.from] < mail.no,
            "message {} of sender {} came after {}",
            mail.no,
            mail.from,
            self.last[mail.from]
        );
        self.last[mail.from] = mail.no;
        assert!(!SENDING.with(std::cell::Cell::get), "a turn began inside a turn");
        mail.handled = true;
        add(&self.books.handled);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        add(&self.books.states);
    }
}

/// Sends the messages `1..=n` of `from`; a refused one is counted as returned.
fn send_all<const PAD: usize>(actor: &Actor<Log>, books: &Arc<Books>, from: usize, n: u32) {
    for no in 1..=n {
        if actor.send(Mail::<PAD>::new(books, from, no).message()).is_err() {
            add(&books.returned);
        }
    }
}

/// A queue in which drains wait for a thread; its lock is loom's, so it orders no less than a real
/// queue does.
#[derive(Default)]
struct Queue {
    drains: Mutex<VecDeque<Drain>>,
    bell: Condvar,
    enrolled: Enrolled<Drain>,
}

/// The executor of a queue.
struct QueueHandle(Arc<Queue>);

impl Executor for QueueHandle {
    fn execute(&self, drain: Drain) {
        self.0.push(drain);
    }

    fn enrolled(&self) -> Option<&Enrolled<Drain>> {
        Some(&self.0.enrolled)
    }
}

impl Later for Queue {
    fn put(&self, drain: Drain) {
        self.push(drain);
    }
}

// SAFETY: loom's threads are coroutines of one thread, and a drain is Send.
unsafe impl Sync for Queue {}
// SAFETY: as above.
unsafe impl Send for Queue {}

impl Queue {
    /// Adds a drain, as an executor does: a mailbox has one drain out at most.
    fn push(&self, drain: Drain) {
        let mut drains = self.drains.lock();
        assert!(drains.iter().all(|other| other.number() != drain.number()), "two drains are out");
        drains.push_back(drain);
        self.bell.notify_one();
    }

    /// The queue in which the drains of actors without an executor wait from now on.
    fn of_the_fallback() -> Arc<Self> {
        std::thread_local! {
            static QUEUE: RefCell<Weak<Queue>> = const { RefCell::new(Weak::new()) };
        }
        QUEUE.with_borrow_mut(|queue| {
            queue.upgrade().unwrap_or_else(|| {
                let new = Arc::new(Queue::default());
                *queue = Arc::downgrade(&new);
                later(&new);
                new
            })
        })
    }

    fn take(&self) -> Option<Drain> {
        self.drains.lock().pop_front()
    }

    /// Runs a drain, if one waits.
    fn run_one(&self) -> bool {
        let drain = self.take();
        drain.map(Drain::run).is_some()
    }

    /// Waits for a drain, and runs it.
    fn run_next(&self) {
        let drain = {
            let mut drains = self.drains.lock();
            loop {
                match drains.pop_front() {
                    Some(drain) => break drain,
                    None => self.bell.wait(&mut drains),
                }
            }
        };
        drain.run();
    }

    fn run_all(&self) {
        while self.run_one() {}
    }
}

/// An actor shared by the threads of a model. The count around it is not the product's: loom does
/// not see it, and main drops the last one.
#[derive(Clone)]
struct Shared {
    actor: Arc<Actor<Log>>,
    books: Arc<Books>,
    /// The queue in which its drains wait, if no thread runs them at once.
    queue: Option<Arc<Queue>>,
}

impl Shared {
    /// A plain actor.
    fn new() -> Self {
        let books = Books::new();
        Shared { actor: Arc::new(Actor::new(Log::new(&books))), books, queue: None }
    }

    /// An actor with settings of its own; returned messages are counted.
    fn built(f: impl FnOnce(ActorBuilder<Log>) -> ActorBuilder<Log>) -> Self {
        let books = Books::new();
        let unrun = books.clone();
        let builder = f(Actor::builder()).on_undelivered(move |message| {
            add(&unrun.unrun);
            drop(message);
        });
        Shared {
            actor: Arc::new(builder.spawn(Log::new(&books)).expect("good settings")),
            books,
            queue: None,
        }
    }

    /// An actor whose drains wait in a queue, with other settings of its own.
    fn queued(f: impl FnOnce(ActorBuilder<Log>) -> ActorBuilder<Log>) -> Self {
        let queue = Arc::new(Queue::default());
        let theirs = queue.clone();
        let shared = Shared::built(|builder| f(builder).executor(QueueHandle(theirs)));
        Shared { queue: Some(queue), ..shared }
    }

    /// An actor without an executor, in a model in which drains of such actors wait in a queue.
    fn falling_back(f: impl FnOnce(ActorBuilder<Log>) -> ActorBuilder<Log>) -> Self {
        let queue = Queue::of_the_fallback();
        Shared { queue: Some(queue), ..Shared::built(f) }
    }

    /// An actor that may be left pending, with a drain in a queue; senders, waiting threads and the
    /// thread that [runs](Self::run_one) the queue continue with it, without a budget.
    fn by_hand() -> Self {
        Shared::falling_back(|builder| builder.budget(Budget::UNLIMITED))
    }

    /// An actor that is only run by the thread that runs its queue.
    fn carried(budget: u32) -> Self {
        Shared::queued(|builder| builder.budget(budget))
    }

    fn queue(&self) -> &Queue {
        self.queue.as_deref().expect("it has an executor")
    }

    /// Runs a drain, if one waits.
    fn run_one(&self) -> bool {
        self.queue().run_one()
    }

    fn send<const PAD: usize>(&self, from: usize, n: u32) {
        send_all::<PAD>(&self.actor, &self.books, from, n);
    }

    /// Sends message `no` of `from`.
    fn send_one<const PAD: usize>(&self, from: usize, no: u32) {
        if self.actor.send(Mail::<PAD>::new(&self.books, from, no).message()).is_err() {
            add(&self.books.returned);
        }
    }

    /// Leaves a message pending, for another thread to run.
    fn leave<const PAD: usize>(&self, from: usize, no: u32) -> bool {
        let left = self.actor.posted().send(Mail::<PAD>::new(&self.books, from, no).message());
        if left.is_err() {
            add(&self.books.returned);
        }
        left.is_ok()
    }

    /// Runs `f` with it on a thread of its own.
    fn spawn(&self, f: impl FnOnce(&Shared) + 'static) -> Joiner {
        let shared = self.clone();
        spawn(move || f(&shared))
    }

    /// Checks, after all threads have joined, that nothing is left but the content of the queue,
    /// and the books balance.
    fn finish(self) {
        if let Some(queue) = &self.queue {
            queue.run_all();
        }
        assert!(self.actor.is_idle(), "stranded: {:?}", self.actor);
        let Shared { actor, books, queue } = self;
        drop(Arc::into_inner(actor).expect("main is the last"));
        queue.inspect(|queue| queue.run_all());
        books.balance();
    }
}
