//! A program from a seed alone: the profiles, their weights, and the draw.

use std::sync::Arc;

use fastrand::Rng;

use crate::case::Genome;
use crate::plan::{
    Actor, After, Asks, Await, Bell, Body, ChainPlace, Deed, Ends, FUTURES, Fate, For, Hooks, How,
    Inside, Later, Leg, Letter, Link, Manner, Most, OnPanic, PlaceKind, Program, Rings, Room, Runs,
    Settles, Step, Time, Touch, Waits, Watches, Way,
};

/// The weights of a kind of programs.
struct Profile {
    name: &'static str,
    actors: (usize, usize),
    threads: (usize, usize),
    steps: (usize, usize),
    /// The longest body.
    wide: usize,
    /// In a hundred: user code that is no turn does something; it panics.
    mischief: u32,
    panics: u32,
    /// The same of wakers.
    bells: u32,
    /// In a hundred: actors that are bounded; whose budget is small.
    bounded: u32,
    small_budget: u32,
    /// The same: actors that are made from a spawner; bodies in which an entry becomes stale.
    kin: u32,
    stale: u32,
    /// The same: steps that have to do with timers, or are attempts.
    timed: u32,
    /// The same: steps that have to do with turns that may wait.
    awaits: u32,
    /// The same: actors that are restarted within limits.
    rests: u32,
    /// Weights: senders, pool, queue, rayon, tokio, its own.
    runs: [u32; 6],
    /// Weights of the deeds, in the order of [`Draw::deed`].
    deeds: [u32; 37],
}

// The order:       send many ask wth asy pol drF fgF drH fgH upg clo cli stp idl end shS drS shP
// run adv blk els pau
//                 | ord stl way by emp wat clS loo stW | spw drT fgT drA
const EVEN: [u32; 37] = [
    30, 4, 12, 8, 8, 6, 4, 1, 6, 1, 3, 3, 1, 2, 2, 3, 2, 1, 2, 5, 1, 5, 4, 4, //
    6, 4, 3, 6, 2, 4, 2, 2, 1, 4, 1, 1, 2,
];
#[rustfmt::skip]
const PROFILES: &[(u32, Profile)] = &[
    (5, Profile { name: "mixed", actors: (1, 5), threads: (1, 3), steps: (2, 10), wide: 4, mischief: 12, panics: 6,
        bells: 20, bounded: 40, small_budget: 40, kin: 25, stale: 5, timed: 6, awaits: 12, rests: 12, runs: [6, 4, 3, 1, 1, 2], deeds: EVEN }),
    (6, Profile { name: "room", actors: (1, 2), threads: (1, 3), steps: (2, 8), wide: 6, mischief: 15, panics: 4,
        bells: 80, bounded: 95, small_budget: 75, kin: 10, stale: 2, timed: 2, awaits: 8, rests: 12, runs: [5, 2, 6, 0, 1, 1],
        deeds: [30, 1, 3, 1, 34, 8, 8, 2, 8, 0, 2, 1, 0, 1, 1, 1, 0, 0, 1, 6, 1, 2, 22, 3,
            1, 1, 3, 10, 1, 3, 0, 1, 0, 1, 0, 0, 1] }),
    (5, Profile { name: "crowd", actors: (9, 12), threads: (1, 2), steps: (2, 6), wide: 24, mischief: 3, panics: 2,
        bells: 3, bounded: 5, small_budget: 25, kin: 20, stale: 0, timed: 2, awaits: 3, rests: 12, runs: [10, 4, 0, 0, 0, 0],
        deeds: [80, 1, 4, 2, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 20, 2, 1,
            2, 1, 1, 2, 0, 1, 0, 0, 0, 2, 0, 0, 1] }),
    (3, Profile { name: "ends", actors: (2, 6), threads: (1, 3), steps: (2, 8), wide: 4, mischief: 30, panics: 8,
        bells: 30, bounded: 30, small_budget: 40, kin: 25, stale: 8, timed: 8, awaits: 14, rests: 12, runs: [5, 5, 3, 1, 1, 2],
        deeds: [25, 4, 10, 5, 5, 4, 3, 1, 12, 1, 6, 6, 3, 6, 2, 5, 6, 3, 8, 5, 1, 3, 4, 3,
            4, 2, 3, 6, 2, 5, 6, 2, 3, 4, 3, 1, 6] }),
    (2, Profile { name: "asking", actors: (1, 4), threads: (2, 3), steps: (3, 10), wide: 4, mischief: 12, panics: 8,
        bells: 30, bounded: 20, small_budget: 40, kin: 10, stale: 2, timed: 4, awaits: 10, rests: 12, runs: [4, 4, 4, 1, 2, 2],
        deeds: [15, 1, 40, 12, 3, 12, 4, 1, 4, 0, 2, 1, 1, 2, 4, 3, 0, 0, 1, 6, 1, 3, 6, 6,
            8, 6, 1, 2, 1, 4, 0, 2, 1, 2, 0, 0, 1] }),
    (4, Profile { name: "later", actors: (1, 4), threads: (1, 3), steps: (2, 8), wide: 4, mischief: 12, panics: 6,
        bells: 30, bounded: 30, small_budget: 40, kin: 10, stale: 2, timed: 4, awaits: 8, rests: 12, runs: [5, 4, 3, 1, 1, 2],
        deeds: [12, 1, 4, 2, 6, 12, 6, 1, 6, 1, 3, 2, 1, 2, 1, 2, 2, 1, 2, 5, 1, 3, 6, 5,
            30, 16, 12, 24, 8, 14, 6, 4, 2, 2, 0, 0, 1] }),
    (4, Profile { name: "kin", actors: (3, 8), threads: (1, 3), steps: (2, 8), wide: 4, mischief: 20, panics: 20,
        bells: 20, bounded: 20, small_budget: 30, kin: 85, stale: 5, timed: 6, awaits: 8, rests: 12, runs: [6, 5, 3, 1, 1, 2],
        deeds: [30, 3, 8, 8, 2, 3, 3, 1, 8, 2, 3, 4, 2, 3, 2, 3, 3, 2, 3, 5, 1, 3, 6, 3,
            3, 2, 2, 4, 1, 2, 2, 2, 1, 24, 8, 2, 10] }),
    (4, Profile { name: "entry", actors: (2, 4), threads: (1, 3), steps: (2, 6), wide: 4, mischief: 8, panics: 6,
        bells: 10, bounded: 15, small_budget: 30, kin: 30, stale: 50, timed: 4, awaits: 5, rests: 12, runs: [8, 4, 5, 0, 0, 3],
        deeds: [30, 3, 6, 8, 1, 2, 2, 0, 4, 0, 4, 2, 2, 3, 2, 2, 1, 1, 2, 8, 0, 4, 6, 6,
            2, 1, 1, 3, 1, 1, 0, 1, 1, 3, 1, 0, 8] }),
    (4, Profile { name: "time", actors: (1, 4), threads: (1, 3), steps: (3, 10), wide: 4, mischief: 12, panics: 6,
        bells: 20, bounded: 25, small_budget: 40, kin: 25, stale: 5, timed: 55, awaits: 6, rests: 12, runs: [6, 4, 3, 1, 1, 2],
        deeds: EVEN }),
    (6, Profile { name: "rests", actors: (1, 3), threads: (1, 3), steps: (3, 10), wide: 4, mischief: 12, panics: 35,
        bells: 20, bounded: 40, small_budget: 40, kin: 25, stale: 4, timed: 10, awaits: 10, rests: 85, runs: [6, 4, 3, 1, 1, 2],
        deeds: [40, 4, 14, 14, 8, 5, 3, 1, 5, 1, 3, 4, 3, 5, 2, 3, 3, 2, 3, 5, 3, 4, 4, 6,
            3, 3, 3, 6, 2, 5, 3, 2, 2, 4, 1, 1, 3] }),
    (9, Profile { name: "awaits", actors: (1, 4), threads: (1, 3), steps: (3, 10), wide: 4, mischief: 14, panics: 8,
        bells: 25, bounded: 35, small_budget: 50, kin: 20, stale: 3, timed: 5, awaits: 50, rests: 15, runs: [6, 5, 3, 2, 2, 3],
        deeds: EVEN }),
    (5, Profile { name: "executors", actors: (2, 4), threads: (1, 3), steps: (3, 10), wide: 4, mischief: 12, panics: 4,
        bells: 30, bounded: 15, small_budget: 75, kin: 10, stale: 3, timed: 2, awaits: 12, rests: 5, runs: [4, 1, 2, 0, 0, 14],
        deeds: [40, 3, 30, 16, 3, 6, 3, 1, 4, 0, 2, 2, 1, 2, 4, 3, 1, 0, 1, 8, 0, 2, 8, 4,
            3, 2, 1, 3, 1, 6, 1, 1, 1, 2, 0, 0, 1] }),
    (4, Profile { name: "gone", actors: (1, 4), threads: (1, 3), steps: (3, 9), wide: 4, mischief: 8, panics: 4,
        bells: 15, bounded: 20, small_budget: 40, kin: 15, stale: 3, timed: 3, awaits: 50, rests: 5, runs: [2, 10, 6, 0, 1, 1],
        deeds: [40, 4, 12, 6, 4, 4, 2, 1, 3, 0, 2, 2, 1, 1, 1, 2, 2, 1, 20, 6, 1, 2, 6, 3,
            3, 2, 1, 2, 1, 3, 1, 1, 1, 2, 1, 0, 1] }),
    (4, Profile { name: "places", actors: (1, 2), threads: (1, 3), steps: (3, 10), wide: 4, mischief: 6, panics: 10,
        bells: 15, bounded: 100, small_budget: 50, kin: 10, stale: 2, timed: 2, awaits: 45, rests: 35, runs: [5, 3, 4, 0, 1, 1],
        deeds: [60, 3, 6, 3, 24, 8, 6, 1, 3, 0, 2, 1, 0, 1, 1, 1, 0, 0, 1, 8, 2, 1, 10, 4,
            1, 1, 1, 2, 1, 2, 0, 1, 0, 1, 0, 0, 0] }),
    (1, Profile { name: "deep", actors: (0, 0), threads: (1, 1), steps: (1, 2), wide: 0, mischief: 0, panics: 0,
        bells: 0, bounded: 0, small_budget: 0, kin: 0, stale: 0, timed: 0, awaits: 0, rests: 0, runs: [0; 6], deeds: [0; 37] }),
];

/// The program of a seed, among the profiles whose names contain `only`.
pub fn program(genome: &Genome, only: &str) -> Option<Program> {
    let mut rng = genome.part(0);
    let all: Vec<_> = PROFILES.iter().filter(|(_, profile)| profile.name.contains(only)).collect();
    let weights: Vec<u32> = all.iter().map(|(weight, _)| *weight).collect();
    let profile = &all.get(weighted(&mut rng, &weights))?.1;
    let actors = rng.usize(profile.actors.0..=profile.actors.1);
    let systems = if rng.u32(..100) < 30 { rng.usize(1..=2) } else { 0 };
    let spawners = rng.usize(1..=2);
    let awaits = (0..actors).map(|_| profile.awaits > 0 && rng.u32(..100) < 70).collect();
    let (places, next, to) = (Vec::new(), 0, 0);
    let mut draw = Draw { rng, profile, actors, systems, spawners, places, awaits, next, to };
    draw.places = (0..3).map(|_| draw.place()).collect();
    let threads = draw.rng.usize(profile.threads.0..=profile.threads.1);
    let (virtual_system, pumped) = (draw.chance(30), draw.chance(60));
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
            // All but this is the spawner's.
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
        let odd = [
            Manner::AtOnce,
            Manner::InTurn,
            Manner::InTurn,
            Manner::ByActor,
            Manner::ByActor,
            Manner::Later,
            Manner::Later,
            Manner::OtherThread,
            Manner::OtherThread,
            Manner::Forget,
            Manner::Drop,
            Manner::Refuse,
            Manner::Panic,
        ];
        let runs = match self.rng.u32(..runs.iter().sum::<u32>()) {
            n if n < runs[0] => Runs::Senders,
            n if n < runs.iter().sum::<u32>() - runs[5] => {
                Runs::Place(self.rng.usize(..self.places.len()))
            }
            _ => {
                let manners = self.rng.usize(1..=3);
                let twice = self.profile.mischief * 3;
                let after = After {
                    body: self.mischief_of(2, twice),
                    every: self.rng.u32(2..30),
                    asked: self.mischief(1),
                };
                let manners = (0..manners).map(|_| self.one(&odd)).collect();
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

    /// Restarts within limits, most of them after a rest.
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

    /// A turn in which an entry becomes stale.
    fn stale_turn(&mut self) -> Step {
        let turn = Body(self.stale(2));
        let letter = Arc::new(Letter { turn, ..Letter::default() });
        let to = self.rng.usize(..self.actors);
        let how = self.one(&[How::Send, How::Send, How::Tell]);
        self.numbered(Deed::Send { to, how, letter })
    }

    /// What a turn sends leaves an entry with this thread, or with an executor. While the turn goes
    /// on, others run that actor, end it, and let it go.
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
                Deed::CloseIfIdle { of },
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
                    steps.push(self.numbered(Deed::Elsewhere { body }));
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

    /// The body of a turn, or of what else is expected to do something.
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

    /// What user code does that is expected to do nothing.
    fn mischief(&mut self, depth: u32) -> Body {
        self.mischief_of(depth, self.profile.mischief)
    }

    fn mischief_of(&mut self, depth: u32, percent: u32) -> Body {
        if depth == 0 || !self.chance(percent) {
            return Body::default();
        }
        let mut body = Vec::new();
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

    /// Something is let go that others may rely on just now.
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
            Deed::DropTemplate { spawner: self.rng.usize(..self.spawners) },
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

    /// A message whose turn may wait.
    fn slow_letter(&mut self, depth: u32) -> Arc<Letter> {
        let mut letter = self.letter(depth);
        let legs = self.rng.usize(0..=if depth == 0 { 1 } else { 3 });
        let legs = (0..legs).map(|_| self.leg(depth)).collect();
        Arc::make_mut(&mut letter).legs = legs;
        letter
    }

    fn leg(&mut self, depth: u32) -> Leg {
        let less = depth.saturating_sub(1);
        let before = if self.chance(40) { self.body(depth) } else { Body::default() };
        let (slot, of) = (self.rng.usize(..FUTURES), self.rng.usize(..self.actors));
        let what = match self.rng.u32(..100) {
            54..78 if depth == 0 => Await::Keep(slot),
            0..10 => Await::Yield(self.one(&[1, 1, 2, 20])),
            10..22 => Await::Thread,
            22..44 => Await::Keep(slot),
            44..54 => Await::Gift(slot),
            54..70 => {
                let how = self.asks(of, slot);
                Await::Ask { of, how, letter: self.letter_for(how, less) }
            }
            70..78 => {
                let all = [Waits::Tell, Waits::Call, Waits::Ask, Waits::Run, Waits::AskAsync];
                let what = self.one(&all[..if self.awaits[of] { 5 } else { 3 }]);
                let waits = matches!(what, Waits::Run | Waits::AskAsync);
                let letter = if waits { self.slow_letter(less) } else { self.letter(less) };
                Await::Room { of, what, letter }
            }
            78..84 => {
                let what = self.one(&[Watches::Idle, Watches::Closed, Watches::Ended]);
                Await::Watch { of, what, leaves: self.chance(50).then_some(slot) }
            }
            84..89 => Await::Future(slot),
            89..94 => Await::Sleep(self.rng.u32(1..1000)),
            _ => Await::Nobody,
        };
        Leg { before, what }
    }

    /// A question, whose turn may wait if the actor's may.
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

    /// A step that has to do with turns that may wait.
    fn awaiting(&mut self, to: usize, slot: usize, depth: u32) -> Deed {
        match self.rng.u32(..100) {
            0..52 => {
                let polled = self.chance(40).then(|| self.bell(depth));
                let how = self.asks(to, slot);
                let letter = self.letter_for(how, depth);
                Deed::Ask { to, how, letter, polled, then: self.fate() }
            }
            52..62 if self.awaits[to] => Deed::SendAsync {
                to,
                what: self.one(&[Waits::Run, Waits::AskAsync]),
                letter: self.slow_letter(depth),
                bell: self.bell(depth),
                then: self.fate(),
            },
            52..80 => {
                let all = [
                    Rings::Wake,
                    Rings::Wake,
                    Rings::ByRef,
                    Rings::ByRef,
                    Rings::Elsewhere,
                    Rings::Drop,
                    Rings::Clone,
                    Rings::ForgetClone,
                ];
                Deed::Ring { slot, how: self.one(&all) }
            }
            80..88 => Deed::Give { slot, keeps: self.chance(70) },
            _ => Deed::Abort { slot, stays: self.chance(30) },
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
        // Spread out in a crowd, close together else.
        if self.actors > 8 || self.chance(50) {
            self.to = self.rng.usize(..self.actors);
        }
        let to = self.to;
        let slot = self.rng.usize(..FUTURES);
        if self.profile.timed > 0 && self.chance(self.profile.timed) {
            return self.timed(to, slot, depth);
        }
        if self.profile.awaits > 0 && self.chance(self.profile.awaits) {
            return self.awaiting(to, slot, depth);
        }
        let place = self.rng.usize(..self.places.len());
        let deeds = self.profile.deeds;
        match weighted(&mut self.rng, &deeds) {
            0 => {
                let limit = self.limit();
                let all = [
                    How::Send,
                    How::Send,
                    How::Send,
                    How::Tell,
                    How::Post,
                    How::PostTyped,
                    How::Within(limit),
                    How::TellWithin(limit),
                    How::Recipient,
                ];
                Deed::Send { to, how: self.one(&all), letter: self.letter(depth) }
            }
            1 => {
                let letters = self.rng.usize(0..4);
                let letters = (0..letters).map(|_| self.letter(depth)).collect();
                Deed::SendMany { to, letters, iterator: self.mischief(depth) }
            }
            2 => {
                let polled = self.chance(50).then(|| self.bell(depth));
                let all = [
                    Asks::Call,
                    Asks::Call,
                    Asks::Ask,
                    Asks::Ask,
                    Asks::PostedCall,
                    Asks::PostedAsk,
                ];
                Deed::Ask {
                    to,
                    how: self.one(&all),
                    letter: self.letter(depth),
                    polled,
                    then: self.fate(),
                }
            }
            3 => Deed::With { to, body: self.body(depth) },
            4 => Deed::SendAsync {
                to,
                what: self.one(&[Waits::Tell, Waits::Tell, Waits::Tell, Waits::Call, Waits::Ask]),
                letter: self.letter(depth),
                bell: self.bell(depth),
                then: self.fate(),
            },
            5 => Deed::Poll { slot, bell: self.bell(depth) },
            6 if self.chance(40) => Deed::CancelFuture { slot },
            6 => Deed::DropFuture { slot },
            7 => Deed::ForgetFuture { slot },
            8 => Deed::DropHandle { of: to },
            9 => Deed::ForgetHandle { of: to },
            10 => Deed::Upgrade { of: to },
            11 => Deed::Close { of: to },
            12 => Deed::CloseIfIdle { of: to },
            13 => Deed::Stop { of: to },
            14 => Deed::WaitIdle { of: to },
            15 => Deed::WaitEnded { of: to, limit: self.limit() },
            16 if self.systems > 0 => {
                Deed::ShutDownSystem { system: self.rng.usize(..self.systems), limit: self.limit() }
            }
            17 if self.systems > 0 => Deed::DropSystem { system: self.rng.usize(..self.systems) },
            18 => Deed::ShutDownPlace { place, limit: self.limit() },
            19 => {
                let limit = self.limit();
                let limit = self.chance(25).then_some(limit);
                Deed::RunQueue { place, most: self.rng.u32(1..4), limit }
            }
            20 => Deed::Advance { micros: self.rng.u32(..5000) },
            21 => Deed::Blocking { body: self.body(depth) },
            22 => Deed::Elsewhere { body: self.body(depth) },
            24 => Deed::Order {
                to,
                letter: self.letter(depth),
                later: self.later(),
                bell: self.bell(depth),
                then: self.fate(),
            },
            25 => {
                let all = [
                    Settles::Keep,
                    Settles::Keep,
                    Settles::Drop,
                    Settles::Look,
                    Settles::Claim,
                    Settles::Claim,
                ];
                let forgets = self.chance(3);
                Deed::Settle { slot, how: if forgets { Settles::Forget } else { self.one(&all) } }
            }
            26 => {
                let way = self.one(&[Way::Recipient, Way::Asks, Way::Asks, Way::Weak]);
                Deed::MakeWay { to, slot, way }
            }
            27 => Deed::SendBy { slot, letter: self.letter(depth) },
            28 => Deed::EmptyWay { slot, drops: self.chance(60) },
            29 => Deed::Watch {
                of: to,
                what: self.one(&[Watches::Idle, Watches::Closed, Watches::Ended]),
                bell: self.bell(depth),
                then: self.fate(),
            },
            30 if self.systems > 0 => Deed::CloseSystem {
                system: self.rng.usize(..self.systems),
                bell: self.bell(depth),
                then: self.fate(),
            },
            31 => Deed::Look { of: to, system: self.rng.usize(..2) },
            32 => Deed::StopWeak { of: to },
            33 => Deed::Spawn { of: to },
            34 => Deed::DropTemplate { spawner: self.rng.usize(..self.spawners) },
            35 => Deed::ForgetTemplate { spawner: self.rng.usize(..self.spawners) },
            36 => Deed::DropAll { of: to },
            _ => Deed::Pause { micros: self.one(&[0, 0, 10, 100, 500]) },
        }
    }

    /// A step that has to do with timers, or an attempt.
    fn timed(&mut self, to: usize, slot: usize, depth: u32) -> Deed {
        let (service, kept) = (self.rng.usize(..2), self.chance(75).then_some(slot));
        let most = self.one(&[1, 100, 2000]);
        let micros = self.rng.u32(..most);
        match self.rng.u32(..100) {
            0..22 => Deed::TryWith { to, letter: self.letter(depth) },
            22..42 => {
                let (typed, letter) = (self.chance(50), self.letter(depth));
                Deed::SendAfter { to, micros, typed, letter, slot: kept }
            }
            42..50 => {
                Deed::TellEvery { to, micros: micros * 5, letter: self.letter(depth), slot: kept }
            }
            50..66 => {
                let (again, body) = (self.chance(25), self.body(depth));
                Deed::Arm { service, micros, again, body, slot: kept }
            }
            66..82 => {
                let all =
                    [Touch::Cancel, Touch::Cancel, Touch::Reset(micros), Touch::Look, Touch::Drop];
                Deed::Touch { slot, how: self.one(&all) }
            }
            82..87 => Deed::RunDue,
            87..93 => Deed::Advance { micros: micros * 2 },
            _ => {
                // It keeps its service, and all that is armed there.
                let then = Some(self.fate()).filter(|fate| *fate != Fate::Forget);
                let (bell, then) = (self.bell(depth), then.unwrap_or(Fate::Drop));
                Deed::Sleep { service, micros, bell, then }
            }
        }
    }
}
