//! Calls in the destructors of a thread's locals, when those of the crate may be gone.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::common::{must_end, on_small_stack};
use turnwise::time::Timers;
use turnwise::{Actor, Limit, Promise, Reply, System, VirtualClock, promise};

struct AtEnd(Option<Box<dyn FnOnce()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|f| f());
    }
}

thread_local! {
    static FIRST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    static LAST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Runs `once` on a thread of its own, and again twice at the end of that thread: before and after
/// what `once` has left in the thread's locals is dropped.
fn until_the_end(once: fn()) {
    let at_end = move || RefCell::new(Some(AtEnd(Some(Box::new(once)))));
    must_end(move || {
        on_small_stack(move || {
            FIRST.with(|place| place.swap(&at_end()));
            once();
            LAST.with(|place| place.swap(&at_end()));
        });
    });
}

/// The end hook of the first member waits for what that of the second one brings.
#[test]
fn a_thread_that_ends_hands_over_the_ends_that_others_bring() {
    until_the_end(|| {
        let system = System::new();
        let (promise, reply) = promise();
        let (promise, reply) = (Mutex::new(Some(promise)), Mutex::new(Some(reply)));
        let waits = move |(), _| reply.lock().unwrap().take().unwrap().wait().unwrap();
        let keeps = move |(), _| promise.lock().unwrap().take().unwrap().keep(());
        let _first = system.spawn(Actor::builder().on_end(waits), ()).unwrap();
        let _second = system.spawn(Actor::builder().on_end(keeps), ()).unwrap();
        assert_eq!(system.shutdown(Limit::Unlimited).unwrap().ended, 2);
    });
}

#[test]
fn a_chain_of_services_ends_in_constant_stack_with_its_thread() {
    until_the_end(|| {
        let service = || Timers::by_hand(VirtualClock::new());
        let chain = (0..10_000).fold(service(), |last, _| {
            let next = service();
            next.after(Duration::from_secs(1), || drop(last)).forget();
            next
        });
        drop(chain);
    });
}

/// Keeps a promise when it is woken.
struct Keeps(Mutex<Option<Promise<()>>>);

impl Wake for Keeps {
    fn wake(self: Arc<Self>) {
        let promise = self.0.lock().unwrap().take();
        promise.into_iter().for_each(|promise| promise.keep(()));
    }
}

#[test]
fn a_chain_of_wakers_takes_constant_stack_as_its_thread_ends() {
    until_the_end(|| {
        let (last, end) = promise();
        let mut replies: Vec<Reply<()>> = vec![end];
        let first = (0..10_000).fold(last, |next, _| {
            let (promise, mut reply) = promise();
            let waker = Waker::from(Arc::new(Keeps(Mutex::new(Some(next)))));
            let polled = Pin::new(&mut reply).poll(&mut Context::from_waker(&waker));
            assert_eq!(polled, Poll::Pending);
            replies.push(reply);
            promise
        });
        first.keep(());
        assert!(replies.iter().all(Reply::is_ready));
    });
}
