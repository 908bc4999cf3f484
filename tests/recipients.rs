//! Recipients: actors of any kind that take messages of one type.

mod common;

use std::collections::HashSet;
use std::time::Duration;

use common::{block_on, must_end, poll_once};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, AskError, Context, Handler, Overflow, Reason, Recipient, StopCause, WaitError,
    WeakRecipient,
};

struct Sum(u64);
struct Names(Vec<String>);

impl Handler<u64> for Sum {
    type Reply = u64;
    fn handle(&mut self, n: u64, _: &mut Context<'_, Self>) -> u64 {
        self.0 += n;
        self.0
    }
}

impl Handler<u64> for Names {
    type Reply = String;
    fn handle(&mut self, n: u64, _: &mut Context<'_, Self>) -> String {
        self.0.push(n.to_string());
        self.0.join(" ")
    }
}

#[test]
fn any_actor_answers_as_a_recipient() {
    let (sum, names) = (Actor::new(Sum(0)), Actor::new(Names(Vec::new())));
    // Of different replies: that it was handled.
    let both: [Recipient<u64>; 2] = [sum.recipient(), names.recipient()];
    for recipient in &both {
        recipient.tell(1).unwrap();
        assert_eq!(recipient.ask(2).wait(), Ok(()));
        recipient.waiting().tell(3).wait().unwrap();
        assert_eq!(block_on(recipient.waiting().ask(4)), Ok(()));
    }
    // Of one reply: the handler's.
    let asked: Recipient<u64, String> = names.reply_recipient();
    assert_eq!(asked.ask(5).wait().as_deref(), Ok("1 2 3 4 5"));
    assert_eq!(asked.waiting().ask(6).wait().as_deref(), Ok("1 2 3 4 5 6"));
    assert_eq!(sum.reply_recipient().ask(0_u64).wait(), Ok(10));
}

#[test]
fn a_recipient_refuses_and_waits_as_its_actor_does() {
    must_end(|| {
        let queue = DrainQueue::new();
        let builder = Actor::builder().executor(queue.handle());
        let sum = builder.capacity(1, Overflow::Reject).spawn(Sum(0)).unwrap();
        let recipient: Recipient<u64, u64> = sum.reply_recipient();
        recipient.tell(100).unwrap();
        assert_eq!(recipient.tell(1).unwrap_err().into_parts(), (1, Reason::Full));
        let refused = recipient.ask(2);
        assert_eq!(refused.cancel().unwrap(), 2, "the message comes back");
        let Err(WaitError::Cancelled(back)) = recipient.waiting().ask(3).within(Duration::ZERO)
        else {
            panic!("there is no room")
        };
        assert_eq!(back.into_message(), 3);
        let late = recipient.waiting().tell(4).within_async(Duration::ZERO);
        assert_eq!(block_on(late).unwrap_err().into_parts(), (4, Reason::Full));
        // Two wait, and are let in one after the other.
        let mut telling = recipient.waiting().tell(5);
        let mut asking = recipient.waiting().ask(6);
        assert!(poll_once(&mut telling).is_pending() && poll_once(&mut asking).is_pending());
        queue.run_until_idle();
        assert!(block_on(telling).is_ok());
        assert_eq!(block_on(asking), Ok(111));
        sum.stop();
        let stopped = Reason::Stopped(StopCause::Requested);
        assert_eq!(recipient.tell(7).unwrap_err().into_parts(), (7, stopped.clone()));
        assert_eq!(recipient.ask(8).wait(), Err(AskError::from(stopped)));
        assert!(recipient.is_closed());
        assert_eq!(recipient.stop_cause(), Some(StopCause::Requested));
    });
}

#[test]
fn a_weak_recipient_keeps_nobody_going() {
    let sum = Actor::builder().name("sum").spawn(Sum(0)).unwrap();
    let weak: WeakRecipient<u64, u64> = sum.reply_recipient().downgrade();
    let quiet: WeakRecipient<u64> = sum.recipient().downgrade();
    assert_eq!(weak.clone().upgrade().unwrap().ask(2).wait(), Ok(2));
    let strong = quiet.upgrade().unwrap();
    drop(sum);
    strong.tell(1).unwrap();
    assert_eq!(weak.upgrade().unwrap().ask(0).wait(), Ok(3), "a recipient keeps it");
    drop(strong);
    assert!(weak.upgrade().is_none() && quiet.upgrade().is_none());
    assert_eq!(weak.name(), Some("sum"));
}

#[test]
fn recipients_of_one_actor_are_equal() {
    let (one, other) = (Actor::new(Sum(0)), Actor::new(Sum(0)));
    let mut set = HashSet::new();
    assert!(set.insert(one.recipient::<u64>()));
    assert!(!set.insert(one.clone().recipient()));
    assert!(set.insert(other.recipient()));
    assert!(set.contains(&one.recipient()) && one.recipient::<u64>() != other.recipient());
    let mut weak: HashSet<_> = set.iter().map(Recipient::downgrade).collect();
    assert!(!weak.insert(one.recipient().downgrade()));
    // One that has ended keeps its place: no new actor is taken for it.
    set.remove(&one.recipient());
    drop(one);
    let new: Vec<_> = (0..100).map(|n| Actor::new(Sum(n))).collect();
    assert!(new.iter().all(|new| !weak.contains(&new.recipient().downgrade())));
    assert_eq!(weak.iter().filter(|weak| weak.upgrade().is_some()).count(), 1);
}
