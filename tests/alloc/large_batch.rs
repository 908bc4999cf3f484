//! One batch of many messages takes no more memory than one of few.

use crate::common::{asked, on_small_stack, queued, size, tireless};
use crate::counting::{alone, cost, count_this_thread};
use turnwise::Actor;

struct Relay {
    me: Option<Actor<Relay>>,
    left: usize,
    run: usize,
}

fn pass_on(relay: &mut Relay) {
    relay.run += 1;
    relay.left -= 1;
    match relay.left {
        0 => relay.me = None,
        _ => relay.me.as_ref().unwrap().send(pass_on).unwrap(),
    }
}

fn relay(left: usize) -> Actor<Relay> {
    let relay = tireless(Relay { me: None, left, run: 0 });
    relay.with(|state| state.me = Some(relay.clone())).unwrap();
    relay
}

#[test]
fn ten_million_messages_in_a_row_take_constant_memory() {
    let _alone = alone();
    let many = size(500_000, 10_000_000);
    let short = relay(1_000);
    let few = cost(|| short.send(pass_on).unwrap());
    let long = relay(many);
    let all = cost(|| long.send(pass_on).unwrap());
    assert_eq!(long.with(|relay| relay.run).unwrap(), many);
    assert!(all.peak <= few.peak + 4096, "{many} messages: {all:?}, a thousand: {few:?}");
    println!("{many} messages in a row: {all:?}; a thousand: {few:?}");
}

#[test]
fn two_actors_in_turns_take_constant_memory() {
    let _alone = alone();
    struct Player {
        other: Option<Actor<Player>>,
        left: usize,
    }
    fn play(player: &mut Player) {
        player.left -= 1;
        match player.left {
            0 => player.other = None,
            _ => player.other.as_ref().unwrap().send(play).unwrap(),
        }
    }
    let game = |left| {
        let (ping, pong) =
            (tireless(Player { other: None, left }), tireless(Player { other: None, left }));
        ping.with(|player| player.other = Some(pong.clone())).unwrap();
        pong.with(|player| player.other = Some(ping.clone())).unwrap();
        let cost = cost(|| ping.send(play).unwrap());
        // The player that stopped first keeps the other one alive.
        pong.with(|player| player.other = None).unwrap();
        ping.with(|player| player.other = None).unwrap();
        cost
    };
    let few = game(1_000);
    let all = game(size(200_000, 2_000_000));
    assert!(all.peak <= few.peak + 4096, "many: {all:?}, few: {few:?}");
}

#[test]
fn a_long_queue_runs_on_a_small_stack_and_no_memory() {
    let _alone = alone();
    let many = size(200_000, 2_000_000);
    on_small_stack(move || {
        count_this_thread();
        let (queue, sum) = queued(0_u64);
        for _ in 0..many {
            sum.send(|sum| *sum += 1).unwrap();
        }
        let drained = cost(|| assert_eq!(queue.run_until_idle(), 1));
        assert_eq!(asked(&queue, &sum, |sum| *sum), many as u64);
        // Empty chunks are passed on in lists of at most 1,024 addresses (and their doubling),
        // whatever the queue's length.
        assert!(drained.peak <= 16_384 && drained.calls <= 24, "{drained:?}");
    });
}
