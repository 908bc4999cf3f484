//! A program from a seed alone: the profiles, their weights, and the draw.

use std::sync::Arc;

use fastrand::Rng;

use crate::plan::{
    Actor, Asked, Asks, Bell, Body, ChainPlace, Deed, Ends, FUTURES, Fate, For, Hooks, How, Inside,
    Later, Letter, Link, Manner, Most, OnPanic, PlaceKind, Program, Room, Runs, Settles, Step,
    Time, Waits, Way,
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
    /// Weights: senders, pool, queue, rayon, tokio, its own.
    runs: [u32; 6],
    /// Weights of the deeds, in the order of [`Draw::deed`].
    deeds: [u32; 33],
}

// The order:       send many ask wth asy pol drF fgF drH fgH upg clo cli stp idl end shS drS shP
// run adv blk els pau
//                 | ord stl way by emp wat clS loo stW
const EVEN: [u32; 33] = [
    30, 4, 12, 8, 8, 6, 4, 1, 6, 1, 3, 3, 1, 2, 2, 3, 2, 1, 2, 5, 1, 5, 4, 4, //
    6, 4, 3, 6, 2, 4, 2, 2, 1,
];
#[rustfmt::skip]
const PROFILES: &[(u32, Profile)] = &[
    (5, Profile { name: "mixed", actors: (1, 5), threads: (1, 3), steps: (2, 10), wide: 4, mischief: 12, panics: 6,
        bells: 20, bounded: 40, small_budget: 40, runs: [6, 4, 3, 1, 1, 2], deeds: EVEN }),
    (6, Profile { name: "room", actors: (1, 2), threads: (1, 3), steps: (2, 8), wide: 6, mischief: 15, panics: 4,
        bells: 80, bounded: 95, small_budget: 75, runs: [5, 2, 6, 0, 1, 1],
        deeds: [30, 1, 3, 1, 34, 8, 8, 2, 8, 0, 2, 1, 0, 1, 1, 1, 0, 0, 1, 6, 1, 2, 22, 3,
            1, 1, 3, 10, 1, 3, 0, 1, 0] }),
    (5, Profile { name: "crowd", actors: (9, 12), threads: (1, 2), steps: (2, 6), wide: 24, mischief: 3, panics: 2,
        bells: 3, bounded: 5, small_budget: 25, runs: [10, 4, 0, 0, 0, 0],
        deeds: [80, 1, 4, 2, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 20, 2, 1,
            2, 1, 1, 2, 0, 1, 0, 0, 0] }),
    (3, Profile { name: "ends", actors: (2, 6), threads: (1, 3), steps: (2, 8), wide: 4, mischief: 30, panics: 8,
        bells: 30, bounded: 30, small_budget: 40, runs: [5, 5, 3, 1, 1, 2],
        deeds: [25, 4, 10, 5, 5, 4, 3, 1, 12, 1, 6, 6, 3, 6, 2, 5, 6, 3, 8, 5, 1, 3, 4, 3,
            4, 2, 3, 6, 2, 5, 6, 2, 3] }),
    (2, Profile { name: "asking", actors: (1, 4), threads: (2, 3), steps: (3, 10), wide: 4, mischief: 12, panics: 8,
        bells: 30, bounded: 20, small_budget: 40, runs: [4, 4, 4, 1, 2, 2],
        deeds: [15, 1, 40, 12, 3, 12, 4, 1, 4, 0, 2, 1, 1, 2, 4, 3, 0, 0, 1, 6, 1, 3, 6, 6,
            8, 6, 1, 2, 1, 4, 0, 2, 1] }),
    (4, Profile { name: "later", actors: (1, 4), threads: (1, 3), steps: (2, 8), wide: 4, mischief: 12, panics: 6,
        bells: 30, bounded: 30, small_budget: 40, runs: [5, 4, 3, 1, 1, 2],
        deeds: [12, 1, 4, 2, 6, 12, 6, 1, 6, 1, 3, 2, 1, 2, 1, 2, 2, 1, 2, 5, 1, 3, 6, 5,
            30, 16, 12, 24, 8, 14, 6, 4, 2] }),
    (1, Profile { name: "deep", actors: (0, 0), threads: (1, 1), steps: (1, 2), wide: 0, mischief: 0, panics: 0,
        bells: 0, bounded: 0, small_budget: 0, runs: [0; 6], deeds: [0; 33] }),
];

/// The program of a seed, among the profiles whose names contain `only`.
pub fn program(seed: u64, only: &str) -> Option<Program> {
    let mut rng = Rng::with_seed(seed);
    let all: Vec<_> = PROFILES.iter().filter(|(_, profile)| profile.name.contains(only)).collect();
    let weights: Vec<u32> = all.iter().map(|(weight, _)| *weight).collect();
    let profile = &all.get(weighted(&mut rng, &weights))?.1;
    let actors = rng.usize(profile.actors.0..=profile.actors.1);
    let systems = if rng.u32(..100) < 30 { rng.usize(1..=2) } else { 0 };
    let mut draw = Draw { rng, profile, actors, systems, places: Vec::new(), next: 0, to: 0 };
    draw.places = (0..3).map(|_| draw.place()).collect();
    let programs_actors = (0..actors).map(|at| draw.actor(at)).collect();
    let threads = draw.rng.usize(profile.threads.0..=profile.threads.1);
    let threads = (0..threads).map(|_| draw.thread()).collect();
    Some(Program {
        seed,
        profile: profile.name,
        systems: (0..systems).map(|at| (at > 0 && draw.chance(50)).then_some(0)).collect(),
        actors: programs_actors,
        threads,
        virtual_system: draw.chance(30),
        pumped: draw.chance(60),
        ends: draw.one(&[
            Ends::Patiently,
            Ends::Patiently,
            Ends::HandlesFirst,
            Ends::HandlesFirst,
            Ends::PlacesFirst,
        ]),
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
    places: Vec<PlaceKind>,
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
            Manner::AtOnce,
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
                let asked = Asked { every: self.rng.u32(2..30), body: self.mischief(1) };
                let manners = (0..manners).map(|_| self.one(&odd)).collect();
                Runs::Odd(manners, self.mischief(1), asked)
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
            restart: self.mischief(1),
            end: self.chance(50).then(|| self.mischief(2)),
            panicked: self.chance(30).then(|| self.mischief(1)),
            undelivered: self.chance(40).then(|| self.mischief(1)),
            rescues: self.chance(40),
            batch: self.chance(15).then(|| (self.mischief(1), self.mischief(1))),
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
        let plain = self.chance(12);
        let actor = Actor {
            plain,
            runs,
            inline: self.chance(15),
            room,
            budget: self.chance(self.profile.small_budget).then(|| self.one(&most)),
            on_panic: self.one(&[
                OnPanic::Stop,
                OnPanic::Resume,
                OnPanic::Resume,
                OnPanic::Restart,
            ]),
            system: (self.systems > 0 && self.chance(60)).then(|| self.rng.usize(..self.systems)),
            clock,
            holds: (at + 1 < self.actors && self.chance(15))
                .then(|| self.rng.usize(at + 1..self.actors)),
            hooks,
        };
        match actor.plain {
            true => Actor {
                runs: Runs::Senders,
                inline: false,
                room: Room::Unbounded,
                budget: None,
                on_panic: OnPanic::Stop,
                clock: Time::Real,
                hooks: Hooks { state_dropped: actor.hooks.state_dropped, ..Hooks::default() },
                ..actor
            },
            false => actor,
        }
    }

    fn thread(&mut self) -> Body {
        let steps = self.rng.usize(self.profile.steps.0..=self.profile.steps.1);
        if self.actors == 0 {
            return Body((0..steps).map(|_| self.chain()).collect());
        }
        Body((0..steps).map(|_| self.step(3)).collect())
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
            Deed::Close { of },
            Deed::Stop { of },
            Deed::Settle { slot, how: Settles::Keep },
            Deed::Settle { slot, how: Settles::Drop },
            Deed::EmptyWay { slot, drops: true },
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
        })
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
            Later::Slot(slot),
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
                let all = [Settles::Keep, Settles::Keep, Settles::Drop, Settles::Look];
                let forgets = self.chance(3);
                Deed::Settle { slot, how: if forgets { Settles::Forget } else { self.one(&all) } }
            }
            26 => {
                let way = self.one(&[Way::Recipient, Way::Lossy(1), Way::Lossy(1), Way::Lossy(3)]);
                Deed::MakeWay { to, slot, way }
            }
            27 => Deed::SendBy { slot, letter: self.letter(depth) },
            28 => Deed::EmptyWay { slot, drops: self.chance(60) },
            29 => Deed::Watch {
                of: to,
                ended: self.chance(50),
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
            _ => Deed::Pause { micros: self.one(&[0, 0, 10, 100, 500]) },
        }
    }
}
