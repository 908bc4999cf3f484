//! What may cross threads and unwinding: asserted, because models and tests with friendly types would not notice.

use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use turnwise::executor::{DrainQueue, PoolBuilder, PoolError, PoolHandle, QueueHandle, Shutdown};
use turnwise::{
    Actor, ActorBuilder, AskError, BuildError, Drain, Overflow, Panic, Reason, Reply, SendError, StopCause, ThreadPool, WaitError,
    WeakActor,
};

/// Is a type this? Asked in a way that also answers no.
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
/// Neither.
type Local = Rc<u32>;

#[test]
fn handles_cross_threads_if_the_state_can_be_sent() {
    assert!(is!(Actor<Lonely>: Send) && is!(Actor<Lonely>: Sync));
    assert!(is!(WeakActor<Lonely>: Send) && is!(WeakActor<Lonely>: Sync));
    assert!(!is!(Actor<Local>: Send) && !is!(Actor<Local>: Sync));
}

#[test]
fn replies_cross_threads_if_the_answer_can_be_sent() {
    assert!(is!(Reply<Lonely>: Send) && !is!(Reply<Local>: Send));
    assert!(is!(WaitError<Lonely>: Send) && !is!(WaitError<Local>: Send));
    assert!(is!(Reply<Lonely>: Unpin) && is!(Reply<Local>: Unpin));
}

#[test]
fn a_shared_reply_gives_no_access_to_an_answer_that_must_not_be_shared() {
    // Nothing of a shared reply reaches the answer, so both would be sound; what holds now is written down.
    assert!(is!(Reply<u32>: Sync));
    assert!(!is!(Reply<Local>: Sync));
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
}

#[test]
fn builders_are_sent_with_what_they_hold() {
    assert!(is!(ActorBuilder<Lonely>: Send) && !is!(ActorBuilder<Local>: Send));
}

#[test]
fn handles_and_replies_may_cross_unwinding() {
    // A turn that panics is dealt with by the policy: no handle ever shows a half-changed state by itself.
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
    error::<SendError<u32>>();
    error::<WaitError<u32>>();
    fn plain<T: Send + Sync + Clone + Eq + UnwindSafe + RefUnwindSafe>() {}
    plain::<Reason>();
    plain::<AskError>();
    plain::<StopCause>();
    plain::<BuildError>();
    plain::<Overflow>();
    assert!(is!(Panic<Local>: Send) && !is!(Panic<Local>: Sync));
}
