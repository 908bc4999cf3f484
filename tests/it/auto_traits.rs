//! Auto traits for threads and unwinding, asserted here because models and tests with friendly
//! types would not notice a change.

use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use turnwise::executor::{DrainQueue, PoolBuilder, PoolError, PoolHandle, QueueHandle, Shutdown};
use turnwise::snapshot::Stats;
use turnwise::time::{Timer, Timers};
use turnwise::wait::{Asking, Ending, Posted, Sending, Waiting};
use turnwise::{
    Actor, ActorBuilder, AskError, BuildError, Drain, EndCause, Overflow, PanicPolicy, Promise,
    Reason, Recipient, Reply, SendError, ShutdownReport, Spawner, StopCause, System, ThreadPool,
    TurnPanic, Undelivered, VirtualClock, WaitError, WeakActor,
};

/// True if a type implements the traits, decided without a compile error.
macro_rules! is {
    ($type:ty: $($bound:tt)+) => {{
        #[allow(dead_code)]
        trait No {
            const ANSWER: bool = false;
        }
        impl<T: ?Sized> No for T {}
        struct Ask<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code)]
        impl<T: ?Sized + $($bound)+> Ask<T> {
            const ANSWER: bool = true;
        }
        <Ask<$type>>::ANSWER
    }};
}

/// Send, but not Sync.
type Lonely = Cell<u32>;
/// Neither Send nor Sync.
type Local = Rc<u32>;

#[test]
fn handles_cross_threads_if_the_state_can_be_sent() {
    assert!(is!(Actor<Lonely>: Send) && is!(Actor<Lonely>: Sync));
    assert!(is!(WeakActor<Lonely>: Send) && is!(WeakActor<Lonely>: Sync));
    assert!(!is!(Actor<Local>: Send) && !is!(Actor<Local>: Sync));
}

#[test]
fn spawners_cross_threads_whatever_their_actors_hold() {
    assert!(is!(Spawner<Lonely>: Send) && is!(Spawner<Lonely>: Sync));
    assert!(!is!(Spawner<Local>: Send) && !is!(Spawner<Local>: Sync));
    assert!(is!(ActorBuilder<Lonely>: Send) && is!(PanicPolicy<Lonely>: Send));
}

#[test]
fn views_are_shared_like_the_handle_they_are_of() {
    assert!(is!(Posted<'static, Lonely>: Send) && is!(Posted<'static, Lonely>: Sync));
    assert!(is!(Waiting<'static, Lonely>: Send) && is!(Waiting<'static, Lonely>: Sync));
    assert!(!is!(Posted<'static, Local>: Send) && !is!(Waiting<'static, Local>: Send));
    assert!(is!(Recipient<Lonely>: Send) && is!(Recipient<Lonely>: Sync));
}

#[test]
fn replies_cross_threads_if_the_answer_can_be_sent() {
    assert!(is!(Reply<Lonely>: Send) && !is!(Reply<Local>: Send));
    assert!(is!(Reply<u32, Lonely>: Send) && !is!(Reply<u32, Local>: Send));
    assert!(is!(WaitError<Lonely>: Send) && !is!(WaitError<Local>: Send));
    assert!(is!(WaitError<u32, Lonely>: Send) && !is!(WaitError<u32, Local>: Send));
    assert!(is!(Promise<Lonely>: Send) && !is!(Promise<Local>: Send));
    assert!(is!(Promise<Lonely>: Sync) && !is!(Promise<Local>: Sync));
    assert!(is!(Reply<Lonely>: Unpin) && is!(Reply<Local>: Unpin));
}

#[test]
fn what_waits_crosses_threads_if_its_message_can() {
    assert!(is!(Sending<Lonely>: Send) && !is!(Sending<Local>: Send));
    assert!(is!(Asking<Lonely, Lonely>: Send));
    assert!(!is!(Asking<Local>: Send) && !is!(Asking<u32, Local>: Send));
    assert!(is!(Ending<Lonely>: Send) && is!(Ending<Lonely>: Sync));
    assert!(is!(Sending<Local>: Unpin) && is!(Asking<Local, Local>: Unpin));
    assert!(is!(Ending<Lonely>: Unpin));
}

#[test]
fn a_shared_reply_gives_no_access_to_what_is_in_it() {
    // A shared reply does not reach its answer, so it may be shared whatever that is.
    assert!(is!(Reply<Lonely>: Sync) && is!(Reply<u32, Lonely>: Sync));
    assert!(is!(SendError<Lonely>: Sync));
    assert!(is!(WaitError<Lonely>: Sync));
    // A reply to an answer that cannot be sent is not shared either: the crate claims no more than
    // it needs.
    assert!(!is!(Reply<Local>: Sync) && !is!(SendError<Local>: Send));
}

#[test]
fn drains_cross_threads() {
    assert!(is!(Drain: Send) && is!(Drain: Sync));
}

#[test]
fn executors_cross_threads_and_unwinding() {
    fn anywhere<T: Send + Sync + UnwindSafe + RefUnwindSafe + std::fmt::Debug>() {}
    anywhere::<ThreadPool>();
    anywhere::<PoolHandle>();
    anywhere::<PoolBuilder>();
    anywhere::<DrainQueue>();
    anywhere::<QueueHandle>();
    anywhere::<Shutdown>();
    anywhere::<Timer>();
    anywhere::<Timers>();
}

#[test]
fn systems_and_clocks_are_shared() {
    assert!(is!(System: Send) && is!(System: Sync));
    assert!(is!(VirtualClock: Send) && is!(VirtualClock: Sync));
}

#[test]
fn builders_are_sent_with_what_they_hold() {
    // A configuration is shared by threads, whatever the state is.
    assert!(is!(ActorBuilder<Lonely>: Send) && is!(ActorBuilder<Lonely>: Sync));
}

#[test]
fn handles_and_replies_may_cross_unwinding() {
    // The policy handles a panic of a turn, so no handle ever shows a half-changed state by itself.
    assert!(is!(Actor<Lonely>: UnwindSafe) && is!(Actor<Lonely>: RefUnwindSafe));
    assert!(is!(WeakActor<Lonely>: UnwindSafe) && is!(WeakActor<Lonely>: RefUnwindSafe));
    assert!(is!(Drain: UnwindSafe) && is!(Drain: RefUnwindSafe));
}

#[test]
fn errors_are_what_boxed_errors_want() {
    fn error<E: std::error::Error + Send + Sync + 'static>() {}
    error::<AskError>();
    error::<BuildError>();
    error::<PoolError>();
    error::<StopCause>();
    error::<Reason>();
    error::<SendError<u32>>();
    error::<WaitError<u32>>();
    // Whatever the message and the answer, also if they cannot be shared.
    error::<SendError<Lonely>>();
    error::<SendError<Vec<Box<dyn FnOnce(&mut u32) + Send>>>>();
    error::<WaitError<Lonely>>();
    error::<WaitError<u32, Lonely>>();
    error::<WaitError<Box<dyn FnOnce() + Send>, Lonely>>();
    fn plain<T: Send + Sync + Clone + Eq + UnwindSafe + RefUnwindSafe>() {}
    plain::<Reason>();
    plain::<AskError>();
    plain::<StopCause>();
    plain::<TurnPanic>();
    plain::<Stats>();
    plain::<BuildError>();
    plain::<ShutdownReport>();
    plain::<Overflow>();
    plain::<EndCause>();
    assert!(is!(PanicPolicy<Lonely>: Send) && is!(PanicPolicy<Lonely>: Sync));
    assert!(is!(Undelivered<Lonely>: Send));
}
