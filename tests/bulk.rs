//! Messages handled together: all that wait in one call, in order, none lost.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;

use turnwise::{
    Actor, ActorBuilder, Bulk, BulkHandler, Context, Drain, Handler, Overflow, Panic, Promise, Reason, StopCause, Undelivered, promise,
};

/// What each call got: numbers of one call in one list. Words are of another kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Calls {
    numbers: Vec<Vec<u32>>,
    words: Vec<Vec<&'static str>>,
    order: String,
}

impl BulkHandler<u32> for Calls {
    fn handle_all(&mut self, numbers: Bulk<'_, u32>, _: &mut Context<'_, Self>) {
        let all = numbers.as_slice().to_vec();
        assert_eq!(numbers.len(), all.len());
        assert_eq!(numbers.collect::<Vec<_>>(), all);
        self.order += &format!("{all:?}");
        self.numbers.push(all);
    }
}

impl BulkHandler<&'static str> for Calls {
    fn handle_all(&mut self, words: Bulk<'_, &'static str>, cx: &mut Context<'_, Self>) {
        let all = words.collect::<Vec<_>>();
        self.order += &format!("{all:?}");
        match all[0] {
            "panic" => panic!("words"),
            "stop" => cx.stop(),
            _ => self.words.push(all),
        }
    }
}

/// Takes as many as it says, then returns or panics.
struct Picky(usize, bool);
impl BulkHandler<u32> for Picky {
    fn handle_all(&mut self, numbers: Bulk<'_, u32>, _: &mut Context<'_, Self>) {
        let taken = numbers.take(self.0).count();
        assert!(!self.1, "after {taken}");
    }
}

type Queue = Arc<Mutex<VecDeque<Drain>>>;

/// On an executor that runs by hand, so that messages wait.
fn by_hand<S: Send + 'static>(builder: ActorBuilder<S>) -> (Actor<S>, impl Fn() -> usize) {
    let queue = Queue::default();
    let inner = queue.clone();
    let actor = builder.executor(move |drain| inner.lock().unwrap().push_back(drain)).spawn().unwrap();
    (actor, move || {
        let mut drains = 0;
        loop {
            let Some(drain) = queue.lock().unwrap().pop_front() else { return drains };
            drain.run();
            drains += 1;
        }
    })
}

#[test]
fn three_that_wait_are_one_call_and_then_there_is_none() {
    let (actor, run) = by_hand(Actor::builder(Calls::default()).bulk());
    (1..=3).for_each(|n| actor.tell_bulk(n).unwrap());
    assert_eq!(run(), 1);
    assert_eq!(run(), 0);
    assert_eq!(actor.with(|calls| calls.numbers.clone()).unwrap(), [[1, 2, 3]]);
    assert!(!actor.drain());
    actor.tell_bulk(4).unwrap();
    run();
    assert_eq!(actor.with(|calls| calls.numbers.clone()).unwrap(), [vec![1, 2, 3], vec![4]]);
}

#[test]
fn an_idle_actor_handles_one_at_once() {
    let actor = Actor::builder(Calls::default()).bulk().spawn().unwrap();
    actor.tell_bulk(1).unwrap();
    actor.tell_bulk(2).unwrap();
    assert_eq!(actor.with(|calls| calls.numbers.clone()).unwrap(), [[1], [2]]);
}

#[test]
fn without_being_built_for_it_each_is_a_call() {
    let plain = Actor::new(Calls::default());
    plain
        .try_own(|own| {
            (1..=3).for_each(|n| plain.tell_bulk(n).unwrap());
            own.run_waiting();
        })
        .unwrap();
    plain.tell_bulk(4).unwrap();
    assert_eq!(plain.with(|calls| calls.numbers.clone()).unwrap(), [[1], [2], [3], [4]]);
}

impl Handler<char> for Calls {
    type Reply = ();
    fn handle(&mut self, c: char, _: &mut Context<'_, Self>) {
        self.order.push(c);
    }
}

#[test]
fn they_keep_their_place_among_the_others() {
    for capacity in [None, Some(Overflow::Reject), Some(Overflow::DropOldest)] {
        let mut builder = Actor::builder(Calls::default()).bulk();
        if let Some(overflow) = capacity {
            builder = builder.capacity(100, overflow);
        }
        let (actor, run) = by_hand(builder);
        actor.tell_bulk(1).unwrap();
        actor.tell_bulk(2).unwrap();
        actor.tell('a').unwrap();
        actor.tell_bulk(3).unwrap();
        actor.tell_bulk("x").unwrap();
        actor.tell_bulk("y").unwrap();
        let asked = actor.ask(|calls| calls.order.clone());
        actor.tell_bulk(4).unwrap();
        actor.send(|calls| calls.order.push('b')).unwrap();
        actor.tell_bulk(5).unwrap();
        actor.tell_bulk(6).unwrap();
        run();
        assert_eq!(asked.wait().unwrap(), r#"[1, 2]a[3]["x", "y"]"#, "{capacity:?}");
        assert_eq!(actor.with(|calls| calls.order.clone()).unwrap(), r#"[1, 2]a[3]["x", "y"][4]b[5, 6]"#, "{capacity:?}");
    }
}

#[test]
fn a_waiting_caller_sees_what_was_sent_before() {
    let (actor, _run) = by_hand(Actor::builder(Calls::default()).bulk());
    (1..=3).for_each(|n| actor.tell_bulk(n).unwrap());
    assert_eq!(actor.with(|calls| calls.numbers.clone()).unwrap(), [[1, 2, 3]]);
}

/// An actor whose undelivered numbers are kept.
fn keeping<S: Send + 'static>(builder: ActorBuilder<S>) -> (ActorBuilder<S>, Arc<Mutex<Vec<u32>>>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let inner = kept.clone();
    let builder = builder.undelivered(move |message| match message {
        Undelivered::Message(message) => inner.lock().unwrap().push(*message.downcast().unwrap()),
        _ => unreachable!(),
    });
    (builder, kept)
}

#[test]
fn what_a_handler_leaves_is_given_back_whether_it_panics_or_not() {
    for (panics, resume) in [(false, true), (true, true), (true, false)] {
        let policy = if resume { Panic::Resume } else { Panic::Stop };
        let (builder, kept) = keeping(Actor::builder(Picky(2, panics)).bulk().on_panic(policy));
        let (actor, run) = by_hand(builder);
        (1..=5).for_each(|n| actor.tell_bulk(n).unwrap());
        run();
        assert_eq!(*kept.lock().unwrap(), [3, 4, 5]);
        let cause = StopCause::Panicked("after 2".into());
        assert_eq!(actor.stop_cause(), (!resume).then_some(cause.clone()));
        assert!(actor.is_idle());
        match actor.tell_bulk(6) {
            Ok(()) => assert!(resume),
            Err(refused) => assert_eq!(refused.into_parts(), (6, Reason::Stopped(cause))),
        }
    }
    // A plain actor, one by one.
    let (builder, kept) = keeping(Actor::builder(Picky(0, true)).on_panic(Panic::Resume));
    let actor = builder.spawn().unwrap();
    actor.tell_bulk(7).unwrap();
    assert_eq!(*kept.lock().unwrap(), [7]);
}

#[test]
fn a_stopped_actor_gives_back_what_was_gathered_and_what_waits_in_order() {
    let (builder, kept) = keeping(Actor::builder(Calls::default()).bulk());
    let (actor, run) = by_hand(builder);
    actor.tell_bulk(1).unwrap();
    actor.tell_bulk("stop").unwrap();
    (2..=4).for_each(|n| actor.tell_bulk(n).unwrap());
    run();
    assert_eq!(*kept.lock().unwrap(), [2, 3, 4]);
    // Stopped by the turn before: the hook of the pass comes between gathering and handling.
    let (builder, kept) = keeping(Actor::builder(Calls::default()).bulk());
    let builder = builder.after_pass(|calls, turns| calls.order += &format!("after {turns}"));
    let actor = builder.spawn().unwrap();
    actor
        .try_own(|own| {
            (1..=3).for_each(|n| actor.tell_bulk(n).unwrap());
            actor.stop();
            own.run_waiting();
            assert_eq!(own.numbers, Vec::<Vec<u32>>::new());
        })
        .unwrap();
    assert_eq!(*kept.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn they_are_handled_before_the_pass_is_over_and_counted_as_turns() {
    let (actor, run) = by_hand(
        Actor::builder(Calls::default())
            .before_pass(|calls| calls.order.push('<'))
            .after_pass(|calls, turns| calls.order += &format!("{turns}>"))
            .budget(2),
    );
    (1..=3).for_each(|n| actor.tell_bulk(n).unwrap());
    run();
    assert_eq!(actor.with(|calls| calls.order.clone()).unwrap(), "<[1, 2]2><[3]1><");
}

#[test]
fn they_are_handled_before_the_end_and_before_anybody_sees_it_idle() {
    let (tx, ended) = std::sync::mpsc::channel();
    let actor = Actor::builder(Calls::default()).bulk().on_end(move |calls, _| tx.send(calls.unwrap().numbers).unwrap()).spawn().unwrap();
    actor
        .try_own(|_| {
            (1..=3).for_each(|n| actor.tell_bulk(n).unwrap());
            actor.close();
        })
        .unwrap();
    assert_eq!(ended.try_recv().unwrap(), [[1, 2, 3]]);
}

#[test]
fn an_answer_travels_as_a_promise_of_each() {
    struct Row(u32, Promise<u32>);
    struct Table;
    impl BulkHandler<Row> for Table {
        fn handle_all(&mut self, rows: Bulk<'_, Row>, _: &mut Context<'_, Self>) {
            // The last one gets no answer.
            rows.take(2).for_each(|Row(n, answer)| answer.keep(n * 10));
        }
    }
    let (actor, run) = by_hand(Actor::builder(Table).bulk());
    let replies = [1, 2, 3].map(|n| {
        let (answer, reply) = promise();
        actor.tell_bulk(Row(n, answer)).unwrap();
        reply
    });
    run();
    let answers = replies.map(|reply| reply.wait().ok());
    assert_eq!(answers, [Some(10), Some(20), None]);
}

#[test]
fn under_many_senders_each_is_handled_once_in_its_senders_order() {
    #[derive(Default)]
    struct Seen {
        last: [u32; 4],
        count: usize,
        alone: bool,
    }
    impl BulkHandler<(usize, u32)> for Seen {
        fn handle_all(&mut self, all: Bulk<'_, (usize, u32)>, _: &mut Context<'_, Self>) {
            assert!(all.len() > 0);
            for (thread, n) in all {
                assert_eq!(n, self.last[thread] + 1, "in order");
                self.last[thread] = n;
                self.count += 1;
            }
            self.alone = false;
        }
    }
    let per_thread: u32 = if cfg!(miri) { 50 } else { 20_000 };
    let told = AtomicUsize::new(0);
    let actor = Actor::builder(Seen::default()).bulk().spawn().unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let (actor, told) = (&actor, &told);
            scope.spawn(move || {
                for n in 1..=per_thread {
                    actor.tell_bulk((thread, n)).unwrap();
                    told.fetch_add(1, SeqCst);
                }
            });
        }
    });
    actor.wait_idle().unwrap();
    assert_eq!(actor.with(|seen| seen.count).unwrap(), told.load(SeqCst));
}
