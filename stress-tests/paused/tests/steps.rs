//! The number of steps of a call: the promise "two read-modify-writes and no load before the first
//! one".

use std::sync::mpsc;
use std::thread;

use paused::Actor;
use paused::pause::{Gate, Step, trace};

fn ops(steps: &[Step]) -> Vec<&'static str> {
    steps.iter().map(|step| step.op).collect()
}

fn writes(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.op != "load").count()
}

#[test]
fn idle_send_with_and_call_are_two_compare_and_swaps() {
    let n = Actor::new(0u64);
    let (sent, send) = trace(|| n.send(|n| *n += 1));
    sent.unwrap();
    let (result, with) = trace(|| n.with(|n| *n));
    assert_eq!(result.unwrap(), 1);
    let (answer, call) = trace(|| n.call(|n| *n).wait());
    assert_eq!(answer.unwrap(), 1);
    for steps in [send, with, call] {
        assert_eq!(ops(&steps), ["compare_exchange", "compare_exchange"], "{steps:?}");
        assert!(steps.iter().all(|step| step.file() == "word.rs"), "{steps:?}");
    }
}

#[test]
fn busy_send_is_two_compare_and_swaps_and_walks_on() {
    let n = Actor::new(0u64);
    let (entered, is_in) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let holder = n.clone();
    let holder = thread::spawn(move || {
        let turn = move |_: &mut u64| {
            entered.send(()).unwrap();
            may_go.recv().unwrap();
        };
        holder.send(turn).unwrap();
    });
    is_in.recv().unwrap();
    n.send(|n| *n += 1).unwrap(); // this thread has a chunk now
    let (sent, steps) = trace(|| n.send(|n| *n += 1));
    sent.unwrap();
    assert_eq!(steps[0].op, "compare_exchange", "no load before the first attempt: {steps:?}");
    assert_eq!(writes(&steps), 2, "{steps:?}");
    go.send(()).unwrap();
    holder.join().unwrap();
    assert_eq!(n.with(|n| *n).unwrap(), 2);
}

#[test]
fn sends_from_inside_a_turn_are_listed_and_run_after_it() {
    let (first, second) = (Actor::new(Vec::new()), Actor::new(()));
    let inner = first.clone();
    let other = second.clone();
    let (sent, steps) = trace(|| {
        first.send(move |log: &mut Vec<u32>| {
            let back = inner.clone();
            other.send(move |()| back.send(|log| log.push(3)).unwrap()).unwrap();
            inner.send(|log| log.push(2)).unwrap();
            log.push(1);
        })
    });
    sent.unwrap();
    assert_eq!(first.with(|log| log.clone()).unwrap(), [1, 2, 3]);
    assert!(!steps.iter().any(|step| matches!(step.op, "park" | "lock")), "{steps:?}");
}

#[test]
fn a_gate_stops_a_thread_before_each_step_in_turn() {
    let mut stops = Vec::new();
    for k in 0.. {
        let (gate, n) = (Gate::new(), Actor::new(0u64));
        let thread = thread::spawn({
            let (gate, n) = (gate.clone(), n.clone());
            move || gate.run(k, || n.send(|n| *n += 1).unwrap())
        });
        let Some(step) = gate.stopped() else {
            thread.join().unwrap();
            break;
        };
        assert!(!gate.is_finished());
        // Before the claim no thread owns the mailbox; after the claim its sender does, and the
        // turn has been run.
        assert_eq!(n.len(), k, "paused before {step:?}");
        gate.release();
        thread.join().unwrap();
        assert_eq!(n.with(|n| *n).unwrap(), 1);
        stops.push(step.op);
    }
    assert_eq!(stops, ["compare_exchange", "compare_exchange"]);
}
