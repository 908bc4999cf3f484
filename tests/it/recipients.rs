//! Recipients: actors of any kind that take messages of one type.

use std::collections::HashSet;

use crate::common::{block_on, must_end};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, AskError, Context, Handler, Overflow, Reason, Recipient, StopCause};

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
    let both: [Recipient<u64>; 2] = [Recipient::new(&sum), Recipient::new(&names)];
    for recipient in &both {
        recipient.tell(1).unwrap();
        assert_eq!(recipient.ask(2).wait(), Ok(()));
        assert_eq!(block_on(recipient.ask(3)), Ok(()));
    }
    assert_eq!(names.with(|names| names.0.join(" ")).as_deref(), Ok("1 2 3"));
    assert_eq!(sum.with(|sum| sum.0), Ok(6));
}

#[test]
fn a_recipient_refuses_as_its_actor_does() {
    must_end(|| {
        let queue = DrainQueue::new();
        let builder = Actor::builder().executor(queue.handle());
        let sum = builder.capacity(1, Overflow::Reject).spawn(Sum(0)).unwrap();
        let recipient: Recipient<u64> = Recipient::new(&sum);
        recipient.tell(100).unwrap();
        assert_eq!(recipient.tell(1).unwrap_err().into_parts(), (1, Reason::Full));
        let refused = recipient.ask(2);
        assert_eq!(refused.cancel().unwrap(), 2, "the message comes back");
        sum.stop();
        let stopped = Reason::Stopped(StopCause::Requested);
        assert_eq!(recipient.tell(7).unwrap_err().into_parts(), (7, stopped.clone()));
        assert_eq!(recipient.ask(8).wait(), Err(AskError::from(stopped)));
        assert!(recipient.is_closed());
        assert_eq!(recipient.stop_cause(), Some(StopCause::Requested));
    });
}

#[test]
fn a_recipient_keeps_its_actor_going() {
    let sum = Actor::builder().name("sum").spawn(Sum(0)).unwrap();
    let (weak, recipient) = (sum.downgrade(), Recipient::new(&sum));
    drop(sum);
    recipient.tell(1).unwrap();
    assert_eq!(recipient.name(), Some("sum"));
    assert!(weak.upgrade().is_some());
    drop(recipient);
    assert!(weak.upgrade().is_none());
}

#[test]
fn recipients_of_one_actor_are_equal() {
    let (one, other) = (Actor::new(Sum(0)), Actor::new(Sum(0)));
    let mut set = HashSet::new();
    assert!(set.insert(Recipient::<u64>::new(&one)));
    assert!(!set.insert(Recipient::new(&one.clone())));
    assert!(set.insert(Recipient::new(&other)));
    assert!(
        set.contains(&Recipient::new(&one))
            && Recipient::<u64>::new(&one) != Recipient::new(&other)
    );
    assert!(set.remove(&Recipient::new(&one)) && set.len() == 1);
}
