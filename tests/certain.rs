//! What is certain about a question and a wait, at the edges.

use turnwise::*;
#[test]
fn a_question_given_up_inside_its_own_actor_never_runs() {
    let n = Actor::new(0);
    let m = n.clone();
    let r = n.with(move |_| m.ask(|n| *n += 1).wait_or_cancel(std::time::Duration::from_millis(1)).map_err(|e| format!("{e:?}"))).unwrap();
    assert_eq!(r, Err("Ask(Deadlock)".to_string()));
    assert_eq!(n.with(|n| *n), Ok(0));
}
#[test]
fn with_makes_room_in_a_full_mailbox_that_nobody_drains() {
    let q = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let q2 = q.clone();
    let log =
        Actor::builder(Vec::new()).capacity(1, Overflow::Reject).executor(move |d: Drain| q2.lock().unwrap().push(d)).spawn().unwrap();
    log.send(|l: &mut Vec<char>| l.push('A')).unwrap();
    assert_eq!(log.with(|l| l.clone()), Ok(vec!['A']));
    let log = Actor::builder(Vec::new()).capacity(1, Overflow::Reject).spawn().unwrap();
    log.enqueue(|l: &mut Vec<char>| l.push('A')).unwrap();
    assert_eq!(log.with(|l| l.clone()), Ok(vec!['A']));
    let outer = Actor::new(());
    let inner = log.clone();
    assert_eq!(
        outer.with(move |()| {
            inner.send(|l| l.push('B')).unwrap();
            inner.with(|l| l.len())
        }),
        Ok(Ok(2))
    );
}
