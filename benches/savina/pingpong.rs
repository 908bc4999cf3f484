//! Ping Pong: two actors send one message back and forth. Savina: 40,000 pings.
//!
//! As in the original, a ping that has its pong sends itself a message first, and each message
//! brings its sender's handle.

use turnwise::{Actor, Context, Handler, Promise, promise};

use crate::{Benchmark, Outcome, System, answer, same};

pub(crate) struct PingPong {
    pings: u64,
}

struct Ping {
    left: u64,
    pongs: u64,
    pong: Actor<Pong>,
    done: Option<Promise<Total>>,
}

#[derive(Default)]
struct Pong {
    pings: u64,
}

#[derive(Debug, PartialEq)]
struct Total {
    pings: u64,
    pongs: u64,
}

struct Start(Promise<Total>);
struct Again;
struct SendPing(Actor<Ping>);
struct SendPong;
struct Stop {
    pongs: u64,
    done: Promise<Total>,
}

impl Ping {
    fn ping(&mut self, cx: &Context<'_, Self>) {
        self.left -= 1;
        let this = cx.actor().expect("the benchmark has a handle until the end");
        self.pong.tell(SendPing(this)).expect("pong is open");
    }
}

impl Handler<Start> for Ping {
    type Reply = ();
    fn handle(&mut self, Start(done): Start, cx: &mut Context<'_, Self>) {
        self.done = Some(done);
        self.ping(cx);
    }
}

impl Handler<Again> for Ping {
    type Reply = ();
    fn handle(&mut self, _: Again, cx: &mut Context<'_, Self>) {
        self.ping(cx);
    }
}

impl Handler<SendPong> for Ping {
    type Reply = ();
    fn handle(&mut self, _: SendPong, cx: &mut Context<'_, Self>) {
        self.pongs += 1;
        if self.left > 0 {
            cx.actor()
                .expect("the benchmark has a handle until the end")
                .tell(Again)
                .expect("it is open");
        } else if let Some(done) = self.done.take() {
            self.pong.tell(Stop { pongs: self.pongs, done }).expect("pong is open");
        }
    }
}

impl Handler<SendPing> for Pong {
    type Reply = ();
    fn handle(&mut self, SendPing(sender): SendPing, _: &mut Context<'_, Self>) {
        self.pings += 1;
        sender.tell(SendPong).expect("ping is open");
    }
}

impl Handler<Stop> for Pong {
    type Reply = ();
    fn handle(&mut self, Stop { pongs, done }: Stop, _: &mut Context<'_, Self>) {
        done.keep(Total { pings: self.pings, pongs });
    }
}

impl Benchmark for PingPong {
    const NAME: &'static str = "pingpong";

    fn sized(quick: bool) -> Self {
        PingPong { pings: if quick { 100 } else { 1_000_000 } }
    }

    fn size(&self) -> String {
        format!("{} pings", self.pings)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let (done, total) = promise();
        let ping = system.spawn(Ping {
            left: self.pings,
            pongs: 0,
            pong: system.spawn(Pong::default()),
            done: None,
        });
        ping.tell(Start(done)).expect("it is open");
        same("messages", answer(total)?, Total { pings: self.pings, pongs: self.pings })?;
        // Of each ping three, but no `Again` after the last; one to start, one to stop.
        Ok(3 * self.pings + 1)
    }
}
