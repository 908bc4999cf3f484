//! Draws a program from a seed alone: the profiles, their weights, and the draw.

mod deeds;
mod tables;

use std::sync::Arc;

use fastrand::Rng;

use self::tables::{AWAITED, AWAITING, At, DEEDS, KINDS, PROFILES, Profile, Row, TIMED, WAITING};
use crate::case::Genome;
use crate::plan::{
    Actor, After, Asks, Bell, Body, ChainPlace, Deed, Ends, FUTURES, Fate, For, Hooks, How, Inside,
    Later, Leg, Letter, Link, Most, OnPanic, PlaceKind, Program, Rings, Room, Runs, Settles, Step,
    Time,
};

/// Draws the program of a seed, among the profiles whose names contain `only`.
pub fn program(genome: &Genome, only: &str) -> Option<Program> {
    let mut rng = genome.part(0);
    let all: Vec<_> = (0..KINDS).filter(|at| PROFILES[*at].name.contains(only)).collect();
    let weights: Vec<u32> = all.iter().map(|at| PROFILES[*at].often).collect();
    let kind = *all.get(weighted(&mut rng, &weights))?;
    let profile = &PROFILES[kind];
    let actors = rng.usize(profile.actors.0..=profile.actors.1);
    let systems = if rng.u32(..100) < profile.systems { rng.usize(1..=2) } else { 0 };
    let spawners = rng.usize(1..=2);
    let awaits = (0..actors).map(|_| profile.awaits > 0 && rng.u32(..100) < 70).collect();
    let (places, next, to) = (Vec::new(), 0, 0);
    let mut draw = Draw { rng, kind, profile, actors, systems, spawners, places, awaits, next, to };
    draw.places = (0..3).map(|_| draw.place()).collect();
    let threads = draw.rng.usize(profile.threads.0..=profile.threads.1);
    let (virtual_system, pumped) = (draw.chance(profile.by_virtual_clock), draw.chance(60));
    let ends = draw.one(&[
        Ends::Patiently,
        Ends::Patiently,
        Ends::HandlesFirst,
        Ends::HandlesFirst,
        Ends::PlacesFirst,
    ]);
    draw.rng = genome.part(1);
    let mut programs_actors = Vec::<Actor>::new();
    for at in 0..actors {
        let own = draw.actor(at);
        let first = |actor: &&Actor| own.spawner.is_some() && actor.spawner == own.spawner;
        programs_actors.push(match programs_actors.iter().find(first) {
            // All but this belong to the spawner.
            Some(first) => {
                let (late, system, holds) = (own.late, own.system, own.holds);
                Actor { late, system, holds, ..first.clone() }
            }
            None => own,
        });
    }
    let mut thread = |at| {
        draw.rng = genome.part(2 + at as u64);
        draw.thread()
    };
    Some(Program {
        seed: genome.clone(),
        profile: profile.name,
        systems,
        spawners,
        actors: programs_actors,
        threads: (0..threads).map(&mut thread).collect(),
        awaits: draw.awaits,
        virtual_system,
        timed: profile.timed > 0,
        pumped,
        ends,
        places: draw.places,
    })
}

fn weighted(rng: &mut Rng, weights: &[u32]) -> usize {
    let all: u32 = weights.iter().sum();
    if all == 0 {
        return 0;
    }
    let mut at = rng.u32(..all);
    weights
        .iter()
        .position(|weight| at.checked_sub(*weight).map(|left| at = left).is_none())
        .unwrap_or(0)
}

struct Draw {
    rng: Rng,
    /// The number of the profile.
    kind: usize,
    profile: &'static Profile,
    actors: usize,
    systems: usize,
    spawners: usize,
    places: Vec<PlaceKind>,
    awaits: Vec<bool>,
    next: u32,
    /// The actor of the step before: most steps stay with it.
    to: usize,
}

impl Draw {
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())].clone()
    }

    fn place(&mut self) -> PlaceKind {
        let runs = self.profile.runs;
        match weighted(&mut self.rng, &runs[1..5]) {
            0 => {
                PlaceKind::Pool { workers: self.rng.usize(1..=3), spares: self.one(&[0, 1, 4, 64]) }
            }
            1 => PlaceKind::Queue { seed: self.chance(30).then_some(1) },
            2 => PlaceKind::Rayon,
            _ => PlaceKind::Tokio { blocking: self.chance(50) },
        }
    }

    fn actor(&mut self, at: usize) -> Actor {
        let runs = self.profile.runs;
        let odd = self.profile.manners;
        let runs = match self.rng.u32(..runs.iter().sum::<u32>()) {
            n if n < runs[0] => Runs::Senders,
            n if n < runs.iter().sum::<u32>() - runs[5] => {
                Runs::Place(self.rng.usize(..self.places.len()))
            }
            _ => {
                let manners = self.rng.usize(1..=3);
                let twice = if self.profile.waits > 0 { 25 } else { self.profile.mischief * 3 };
                // One that waits keeps its thread in the executor's call while another one runs the
                // drain, and is over before what the turns there wait for.
                let waits = self.profile.waits > 0 && self.chance(60);
                let of = if waits { self.rng.usize(..self.actors) } else { 0 };
                let after = After {
                    body: if waits { self.short_wait(of) } else { self.mischief_of(2, twice) },
                    every: self.rng.u32(2..30),
                    asked: self.mischief(1),
                };
                let manners = (0..manners).map(|_| self.one(odd)).collect();
                Runs::Odd(manners, self.mischief_of(1, twice), after)
            }
        };
        let capacity = self.one(&[1, 1, 2, 3, 3, 5]);
        let room = match self.chance(self.profile.bounded) {
            true if self.chance(85) => Room::Reject(capacity),
            true => Room::DropNewest(capacity),
            false => Room::Unbounded,
        };
        let clock = match self.rng.u32(..10) {
            0 | 1 => Time::Virtual,
            2 => Time::Odd {
                every: self.rng.u32(2..12),
                jump: self.one(&[0, 100, 10_000]),
                body: self.mischief(1),
            },
            _ => Time::Real,
        };
        let hooks = Hooks {
            state_dropped: self.mischief(2),
            captured: self.mischief(2),
            restart: self.mischief(1),
            end: self.chance(50).then(|| self.mischief(2)),
            waits: self.chance(30),
            panicked: self.chance(50).then(|| self.mischief(1)),
            undelivered: self.chance(40).then(|| self.mischief(1)),
            rescues: self.chance(40),
            batch: self.chance(15).then(|| self.mischief(1)),
        };
        let turns = self.rng.u32(1..=3);
        let most = [
            Most::Turns(turns),
            Most::Turns(turns),
            Most::Turns(turns),
            Most::Both(turns, 200),
            Most::Both(1000, 50),
            Most::Unlimited,
        ];
        let on_panic = match self.chance(self.profile.rests) {
            true => self.within(),
            false => self.one(&[OnPanic::Stop, OnPanic::Resume, OnPanic::Resume, OnPanic::Restart]),
        };
        let rests = matches!(on_panic, OnPanic::Within { .. });
        let plain = !rests && self.chance(12);
        let spawner = self.chance(self.profile.kin).then(|| self.rng.usize(..self.spawners));
        let actor = Actor {
            spawner,
            late: spawner.is_some() && self.chance(40),
            plain,
            runs,
            room,
            budget: self.chance(self.profile.small_budget).then(|| self.one(&most)),
            on_panic,
            counted: self.chance(30),
            system: (self.systems > 0 && self.chance(60)).then(|| self.rng.usize(..self.systems)),
            timers: (matches!(clock, Time::Virtual) && self.profile.timed > 0 && self.chance(70))
                .then(|| self.rng.usize(..2)),
            clock,
            holds: (at + 1 < self.actors && self.chance(15))
                .then(|| self.rng.usize(at + 1..self.actors)),
            hooks,
        };
        match actor.plain {
            true => Actor {
                runs: Runs::Senders,
                room: Room::Unbounded,
                budget: None,
                on_panic: OnPanic::Stop,
                counted: false,
                clock: Time::Real,
                timers: None,
                hooks: Hooks { state_dropped: actor.hooks.state_dropped, ..Hooks::default() },
                ..actor
            },
            false => actor,
        }
    }

    /// Draws restarts within limits, most of them after a rest.
    fn within(&mut self) -> OnPanic {
        let micros = self.rng.u32(1..1000);
        let first = self.one(&[0, 1, micros, micros, micros, 3000]);
        OnPanic::Within {
            most: self.one(&[0, 1, 1, 2, 3, 3, 1000]),
            within: self.one(&[0, 100, 5_000, 1_000_000, u32::MAX]),
            first,
            longest: self.one(&[first, first, first * 4, first / 2]),
        }
    }

    fn thread(&mut self) -> Body {
        let steps = self.rng.usize(self.profile.steps.0..=self.profile.steps.1);
        if self.actors == 0 {
            return Body((0..steps).map(|_| self.chain()).collect());
        }
        let step = |draw: &mut Self| {
            let stale = draw.chance(draw.profile.stale);
            if stale { draw.stale_turn() } else { draw.step(3) }
        };
        Body((0..steps).map(|_| step(self)).collect())
    }

    /// Draws a turn in which an entry becomes stale.
    fn stale_turn(&mut self) -> Step {
        let turn = Body(self.stale(2));
        let letter = Arc::new(Letter { turn, ..Letter::default() });
        let to = self.rng.usize(..self.actors);
        let how = self.one(&[How::Send, How::Send, How::Tell]);
        self.numbered(Deed::Send { to, how, letter })
    }

    /// A message of a turn leaves an entry with this thread, or with an executor. While the turn
    /// goes on, other threads run that actor, end it, and release it.
    fn stale(&mut self, depth: u32) -> Vec<Step> {
        let of = self.rng.usize(..self.actors);
        let to = of;
        let send = |draw: &mut Self| {
            let how = draw.one(&[How::Send, How::Send, How::Tell, How::Post, How::Recipient]);
            let letter = draw.letter(depth.min(1));
            draw.numbered(Deed::Send { to, how, letter })
        };
        let meddles = |draw: &mut Self| {
            let (letter, limit) = (draw.letter(depth.min(1)), draw.limit());
            let (how, then) = (Asks::Call, Fate::Wait(limit));
            let deed = draw.one(&[
                Deed::Send { to, how: How::Send, letter: letter.clone() },
                Deed::Send { to, how: How::Send, letter: letter.clone() },
                Deed::Ask { to, how, letter, polled: None, then },
                Deed::DropAll { of },
                Deed::DropAll { of },
                Deed::Stop { of },
                Deed::Close { of },
                Deed::WaitEnded { of, limit },
                Deed::Upgrade { of },
            ]);
            draw.numbered(deed)
        };
        let mut steps = vec![send(self)];
        for _ in 0..self.rng.usize(1..=2) {
            let deeds = self.rng.usize(1..=3);
            match self.rng.u32(..10) {
                0..6 => {
                    let body = Body((0..deeds).map(|_| meddles(self)).collect());
                    steps.push(self.numbered(Deed::Elsewhere { body, again: false }));
                }
                6 | 7 => steps.extend((0..deeds).map(|_| meddles(self))),
                _ => steps.push(self.numbered(Deed::Pause { micros: 200 })),
            }
            if self.chance(50) {
                steps.push(send(self));
            }
        }
        steps
    }

    fn chain(&mut self) -> Step {
        let actors = self.one(&[1_000, 5_000, 20_000, 100_000]);
        let by = self.one(&[Link::State, Link::EndHook, Link::WeakInPanicHook, Link::Message]);
        let place =
            self.one(&[ChainPlace::None, ChainPlace::Pool, ChainPlace::Gone, ChainPlace::Queue]);
        self.numbered(Deed::Chain { actors, by, place })
    }

    fn numbered(&mut self, deed: Deed) -> Step {
        self.next += 1;
        Step { id: self.next, deed }
    }

    /// Draws the body of a turn, or of other code that is expected to act.
    fn body(&mut self, depth: u32) -> Body {
        if depth == 0 {
            return Body::default();
        }
        let most = if self.chance(50) { 1 } else { self.profile.wide };
        let steps = self.rng.usize(0..=most);
        let mut body: Vec<_> = (0..steps).map(|_| self.step(depth)).collect();
        if depth > 1 && self.chance(self.profile.stale / 4) {
            body.extend(self.stale(depth));
        }
        if self.chance(self.profile.panics) {
            body.push(self.panic(depth - 1));
        }
        Body(body)
    }

    /// Draws the body of user code that is expected to do nothing.
    fn mischief(&mut self, depth: u32) -> Body {
        self.mischief_of(depth, self.profile.mischief)
    }

    fn mischief_of(&mut self, depth: u32, percent: u32) -> Body {
        if depth == 0 || !self.chance(percent) {
            return Body::default();
        }
        let mut body = Vec::new();
        if self.profile.takes_time > 0 && self.chance(self.profile.takes_time) {
            let micros = self.rng.u32(1..3000);
            return Body(vec![self.numbered(Deed::Advance { micros })]);
        }
        match self.rng.u32(..10) {
            0..4 => body.push(self.step(depth)),
            4..8 => body.push(self.letting_go()),
            _ => {}
        }
        if self.chance(40) {
            body.push(self.panic(depth - 1));
        }
        Body(body)
    }

    /// Draws the release of an object that others may use just now.
    fn letting_go(&mut self) -> Step {
        let (slot, of) = (self.rng.usize(..FUTURES), self.rng.usize(..self.actors));
        let all = [
            Deed::DropFuture { slot },
            Deed::DropFuture { slot },
            Deed::DropFuture { slot },
            Deed::DropFuture { slot },
            Deed::ForgetFuture { slot },
            Deed::DropHandle { of },
            Deed::DropAll { of },
            Deed::DropSpawner { spawner: self.rng.usize(..self.spawners) },
            Deed::Close { of },
            Deed::Stop { of },
            Deed::Settle { slot, how: Settles::Keep },
            Deed::Settle { slot, how: Settles::Drop },
            Deed::EmptyWay { slot, drops: true },
            Deed::Ring { slot, how: Rings::Drop },
            Deed::Ring { slot, how: Rings::Wake },
            Deed::Abort { slot, stays: false },
        ];
        let deed = self.one(&all);
        self.numbered(deed)
    }

    fn panic(&mut self, depth: u32) -> Step {
        let dropped = self.mischief(depth);
        self.numbered(Deed::Panic { dropped })
    }

    fn letter(&mut self, depth: u32) -> Arc<Letter> {
        Arc::new(Letter {
            turn: self.body(depth),
            dropped: self.mischief(depth.min(1)),
            answer: self.mischief(depth.min(1)),
            carries: self.chance(10).then(|| self.rng.usize(..self.actors)),
            large: self.chance(10),
            again: self.chance(15),
            inside: if self.chance(12) { vec![self.inside()] } else { Vec::new() },
            legs: Vec::new(),
        })
    }

    /// Draws a message whose turn may wait.
    fn slow_letter(&mut self, depth: u32) -> Arc<Letter> {
        let mut letter = self.letter(depth);
        let legs = self.rng.usize(0..=if depth == 0 { 1 } else { 3 });
        let legs = (0..legs).map(|_| self.leg(depth)).collect();
        Arc::make_mut(&mut letter).legs = legs;
        letter
    }

    fn leg(&mut self, depth: u32) -> Leg {
        let before = if self.chance(40) { self.body(depth) } else { Body::default() };
        let (slot, to) = (self.rng.usize(..FUTURES), self.rng.usize(..self.actors));
        let what = self.drawn(AWAITED, At { to, slot, depth, ..At::default() });
        Leg { before, what }
    }

    /// Draws a request, whose turn may wait if the actor's may.
    fn asks(&mut self, to: usize, slot: usize) -> Asks {
        match self.awaits[to] {
            false => self.one(&[Asks::Call, Asks::Ask, Asks::PostedCall, Asks::PostedAsk]),
            true => self.one(&[
                Asks::Run,
                Asks::Run,
                Asks::RunAbortable(slot),
                Asks::RunAbortable(slot),
                Asks::AskAsync,
                Asks::AskAsync,
                Asks::PostedRun,
                Asks::PostedAskAsync,
                Asks::Call,
            ]),
        }
    }

    fn letter_for(&mut self, how: Asks, depth: u32) -> Arc<Letter> {
        match how {
            Asks::Call | Asks::Ask | Asks::PostedCall | Asks::PostedAsk => self.letter(depth),
            _ => self.slow_letter(depth),
        }
    }

    fn inside(&mut self) -> Inside {
        let all = [
            Inside::Look,
            Inside::Look,
            Inside::Stop,
            Inside::StopWeak,
            Inside::Close,
            Inside::KeepHandle,
            Inside::KeepHandle,
            Inside::KeepWeak,
            Inside::KeepWeak,
            Inside::ForgetHandle,
        ];
        self.one(&all)
    }

    fn later(&mut self) -> Later {
        let (by, slot) = (self.rng.usize(..self.actors), self.rng.usize(..FUTURES));
        let all = [
            Later::AtOnce,
            Later::Broken,
            Later::Thread,
            Later::Thread,
            Later::By(by),
            Later::By(by),
            Later::Slot(slot),
            Later::Slot(slot),
            Later::Slot(slot),
            Later::Claimed(slot),
            Later::Claimed(slot),
            Later::Forgotten,
        ];
        self.one(&all)
    }

    fn bell(&mut self, depth: u32) -> Arc<Bell> {
        let (bells, depth) = (self.profile.bells, depth.max(1));
        Arc::new(Bell {
            cloned: self.mischief_of(depth, bells / 4),
            woken: self.mischief_of(depth, bells),
            dropped: self.mischief_of(depth, bells),
        })
    }

    /// The body of user code that waits for an actor, for less time than turns do.
    fn short_wait(&mut self, to: usize) -> Body {
        let at = At { to, ..At::default() };
        let deed = self.ask_for_a_moment(at);
        Body(vec![self.numbered(deed)])
    }

    fn limit(&mut self) -> For {
        let micros = self.rng.u32(1..2000);
        self.one(&[For::Zero, For::Micros(micros), For::Micros(micros), For::Ever])
    }

    fn fate(&mut self) -> Fate {
        let (slot, limit) = (self.rng.usize(..FUTURES), self.limit());
        let all = [
            Fate::Wait(limit),
            Fate::Wait(limit),
            Fate::WaitOrCancel(limit),
            Fate::Cancel,
            Fate::Drop,
            Fate::Forget,
            Fate::Keep(slot),
            Fate::Keep(slot),
            Fate::Keep(slot),
            Fate::Keep(slot),
        ];
        self.one(&all)
    }

    fn step(&mut self, depth: u32) -> Step {
        let deed = self.deed(depth - 1);
        self.numbered(deed)
    }

    fn deed(&mut self, depth: u32) -> Deed {
        // Spread out in a crowd, close together otherwise.
        if self.actors > 8 || self.chance(50) {
            self.to = self.rng.usize(..self.actors);
        }
        let to = self.to;
        let slot = self.rng.usize(..FUTURES);
        let mut at = At { to, slot, depth, ..At::default() };
        if self.profile.timed > 0 && self.chance(self.profile.timed) {
            (at.service, at.kept) = (self.rng.usize(..2), self.chance(75).then_some(slot));
            let most = self.one(&[1, 100, 2000]);
            at.micros = self.rng.u32(..most);
            return self.drawn(TIMED, at);
        }
        for (table, percent) in [(AWAITING, self.profile.awaits), (WAITING, self.profile.waits)] {
            if percent > 0 && self.chance(percent) {
                return self.drawn(table, at);
            }
        }
        at.place = self.rng.usize(..self.places.len());
        let weights = DEEDS.iter().map(|(_, weights)| weights[self.kind]).collect::<Vec<_>>();
        let (draw, _) = DEEDS[weighted(&mut self.rng, &weights)];
        draw(self, at)
    }

    /// Draws from a table of one column.
    fn drawn<T>(&mut self, table: &[Row<T>], at: At) -> T {
        let weights = table.iter().map(|(_, weight)| *weight).collect::<Vec<_>>();
        let (draw, _) = table[weighted(&mut self.rng, &weights)];
        draw(self, at)
    }
}
