//! The tables of draws, with their weights: the kinds of programs, and the steps.

use super::Draw;
use crate::plan::{Await, Deed, Manner};

/// The weights of a kind of programs.
pub(super) struct Profile {
    pub(super) name: &'static str,
    /// The weight of this kind of programs.
    pub(super) often: u32,
    pub(super) actors: (usize, usize),
    pub(super) threads: (usize, usize),
    pub(super) steps: (usize, usize),
    /// The longest body.
    pub(super) wide: usize,
    /// Percent of user code outside turns that acts; that panics.
    pub(super) mischief: u32,
    pub(super) panics: u32,
    /// Percent of wakers that act.
    pub(super) bells: u32,
    /// Percent of actors that are bounded; whose budget is small.
    pub(super) bounded: u32,
    pub(super) small_budget: u32,
    /// Percent of actors that are created from a spawner; of bodies in which an entry becomes
    /// stale.
    pub(super) kin: u32,
    pub(super) stale: u32,
    /// Percent of steps with timers or attempts.
    pub(super) timed: u32,
    /// Percent of steps with turns that may wait.
    pub(super) awaits: u32,
    /// Percent of actors that are restarted within limits.
    pub(super) rests: u32,
    /// Percent of steps that wait, or keep others waiting.
    pub(super) waits: u32,
    /// Percent of programs with systems; of systems with the virtual clock.
    pub(super) systems: u32,
    pub(super) by_virtual_clock: u32,
    /// Percent of user code outside turns that moves the virtual clock.
    pub(super) takes_time: u32,
    /// Weights: senders, pool, queue, rayon, tokio, an executor of the program.
    pub(super) runs: [u32; 6],
    /// The ways in which an executor of the program handles a drain.
    pub(super) manners: &'static [Manner],
}

/// The base from which the other profiles differ.
pub(super) const MIXED: Profile = Profile {
    name: "mixed",
    often: 5,
    actors: (1, 5),
    threads: (1, 3),
    steps: (2, 10),
    wide: 4,
    mischief: 12,
    panics: 6,
    bells: 20,
    bounded: 40,
    small_budget: 40,
    kin: 25,
    stale: 5,
    timed: 6,
    awaits: 12,
    rests: 12,
    waits: 0,
    systems: 30,
    by_virtual_clock: 30,
    takes_time: 0,
    runs: [6, 4, 3, 1, 1, 2],
    manners: &[
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
    ],
};

/// The number of kinds: the columns of [`DEEDS`].
pub(super) const KINDS: usize = 17;

#[rustfmt::skip]
pub(super) const PROFILES: [Profile; KINDS] = [
    MIXED,
    Profile { name: "room", often: 6, actors: (1, 2), steps: (2, 8), wide: 6, mischief: 15,
        panics: 4, bells: 80, bounded: 95, small_budget: 75, kin: 10, stale: 2, timed: 2,
        awaits: 8, runs: [5, 2, 6, 0, 1, 1], ..MIXED },
    Profile { name: "crowd", often: 5, actors: (9, 12), threads: (1, 2), steps: (2, 6), wide: 24,
        mischief: 3, panics: 2, bells: 3, bounded: 5, small_budget: 25, kin: 20, stale: 0,
        timed: 2, awaits: 3, runs: [10, 4, 0, 0, 0, 0], ..MIXED },
    Profile { name: "ends", often: 3, actors: (2, 6), steps: (2, 8), mischief: 30, panics: 8,
        bells: 30, bounded: 30, stale: 8, timed: 8, awaits: 14, runs: [5, 5, 3, 1, 1, 2],
        ..MIXED },
    Profile { name: "asking", often: 2, actors: (1, 4), threads: (2, 3), steps: (3, 10),
        panics: 8, bells: 30, bounded: 20, kin: 10, stale: 2, timed: 4, awaits: 10,
        runs: [4, 4, 4, 1, 2, 2], ..MIXED },
    Profile { name: "later", often: 4, actors: (1, 4), steps: (2, 8), bells: 30, bounded: 30,
        kin: 10, stale: 2, timed: 4, awaits: 8, runs: [5, 4, 3, 1, 1, 2], ..MIXED },
    Profile { name: "kin", often: 4, actors: (3, 8), steps: (2, 8), mischief: 20, panics: 20,
        bounded: 20, small_budget: 30, kin: 85, awaits: 8, runs: [6, 5, 3, 1, 1, 2], ..MIXED },
    Profile { name: "entry", often: 4, actors: (2, 4), steps: (2, 6), mischief: 8, bells: 10,
        bounded: 15, small_budget: 30, kin: 30, stale: 50, timed: 4, awaits: 5,
        runs: [8, 4, 5, 0, 0, 3], ..MIXED },
    Profile { name: "time", often: 4, actors: (1, 4), steps: (3, 10), bounded: 25, timed: 55,
        awaits: 6, ..MIXED },
    Profile { name: "rests", often: 6, actors: (1, 3), steps: (3, 10), panics: 35, stale: 4,
        timed: 10, awaits: 10, rests: 85, ..MIXED },
    Profile { name: "awaits", often: 9, actors: (1, 4), steps: (3, 10), mischief: 14, panics: 8,
        bells: 25, bounded: 35, small_budget: 50, kin: 20, stale: 3, timed: 5, awaits: 50,
        rests: 15, runs: [6, 5, 3, 2, 2, 3], ..MIXED },
    Profile { name: "executors", often: 5, actors: (2, 4), steps: (3, 10), panics: 4, bells: 30,
        bounded: 15, small_budget: 75, kin: 10, stale: 3, timed: 2, rests: 5,
        runs: [4, 1, 2, 0, 0, 14], ..MIXED },
    Profile { name: "gone", often: 4, actors: (1, 4), steps: (3, 9), mischief: 8, panics: 4,
        bells: 15, bounded: 20, kin: 15, stale: 3, timed: 3, awaits: 50, rests: 5,
        runs: [2, 10, 6, 0, 1, 1], ..MIXED },
    Profile { name: "places", often: 4, actors: (1, 2), steps: (3, 10), mischief: 6, panics: 10,
        bells: 15, bounded: 100, small_budget: 50, kin: 10, stale: 2, timed: 2, awaits: 45,
        rests: 35, runs: [5, 3, 4, 0, 1, 1], ..MIXED },
    Profile { name: "circles", often: 5, actors: (3, 4), threads: (1, 2), steps: (4, 10), wide: 3,
        mischief: 30, panics: 1, bells: 50, bounded: 5, small_budget: 100, kin: 0, stale: 0,
        timed: 0, awaits: 0, rests: 0, waits: 55, systems: 0, runs: [5, 2, 1, 0, 0, 9],
        manners: WAITING_MANNERS, ..MIXED },
    Profile { name: "limits", often: 3, actors: (2, 8), threads: (1, 2), steps: (3, 8), wide: 3,
        mischief: 30, panics: 2, bounded: 20, kin: 10, stale: 0, timed: 10, awaits: 6, rests: 4,
        systems: 100, by_virtual_clock: 85, takes_time: 45, runs: [9, 3, 2, 0, 0, 1], ..MIXED },
    Profile { name: "deep", often: 1, actors: (0, 0), threads: (1, 1), steps: (1, 2), wide: 0,
        mischief: 0, panics: 0, bells: 0, bounded: 0, small_budget: 0, kin: 0, stale: 0, timed: 0,
        awaits: 0, rests: 0, runs: [0; 6], ..MIXED },
];

/// Executors that wait after they have given the drain away, and drains inside turns.
pub(super) const WAITING_MANNERS: &[Manner] = &[
    Manner::AtOnce,
    Manner::InTurn,
    Manner::InTurn,
    Manner::InTurn,
    Manner::ByActor,
    Manner::ByActor,
    Manner::OtherThread,
    Manner::OtherThread,
    Manner::OtherThread,
    Manner::Later,
];

/// The input of the draw of a step.
#[derive(Clone, Copy, Default)]
pub(super) struct At {
    pub(super) to: usize,
    pub(super) slot: usize,
    pub(super) place: usize,
    pub(super) depth: u32,
    /// The service, for a step with timers.
    pub(super) service: usize,
    pub(super) micros: u32,
    pub(super) kept: Option<usize>,
}

/// A row of a table: a draw, and its weight.
pub(super) type Row<T, W = u32> = (fn(&mut Draw, At) -> T, W);

/// The steps, and their weights in each profile.
#[rustfmt::skip]
pub(super) const DEEDS: &[Row<Deed, [u32; KINDS]>] = &[
    // mixed, room, crowd, ends, asking, later, kin, entry, time, rests, awaits, executors, gone,
    // places, circles, limits, deep
    (Draw::send,             [30, 30, 80, 25, 15, 12, 30, 30, 30, 40, 30, 40, 40, 60, 40, 24,  0]),
    (Draw::send_many,        [ 4,  1,  1,  4,  1,  1,  3,  3,  4,  4,  4,  3,  4,  3,  6,  2,  0]),
    (Draw::ask,              [12,  3,  4, 10, 40,  4,  8,  6, 12, 14, 12, 30, 12,  6, 20, 24,  0]),
    (Draw::with,             [ 8,  1,  2,  5, 12,  2,  8,  8,  8, 14,  8, 16,  6,  3,  8,  4,  0]),
    (Draw::send_async,       [ 8, 34,  1,  5,  3,  6,  2,  1,  8,  8,  8,  3,  4, 24,  2,  8,  0]),
    (Draw::poll,             [ 6,  8,  1,  4, 12, 12,  3,  2,  6,  5,  6,  6,  4,  8,  8,  4,  0]),
    (Draw::drop_future,      [ 4,  8,  0,  3,  4,  6,  3,  2,  4,  3,  4,  3,  2,  6,  2,  2,  0]),
    (Draw::forget_future,    [ 1,  2,  0,  1,  1,  1,  1,  0,  1,  1,  1,  1,  1,  1,  0,  0,  0]),
    (Draw::drop_handle,      [ 6,  8,  1, 12,  4,  6,  8,  4,  6,  5,  6,  4,  3,  3,  1,  8,  0]),
    (Draw::forget_handle,    [ 1,  0,  0,  1,  0,  1,  2,  0,  1,  1,  1,  0,  0,  0,  0,  0,  0]),
    (Draw::upgrade,          [ 3,  2,  1,  6,  2,  3,  3,  4,  3,  3,  3,  2,  2,  2,  2,  2,  0]),
    (Draw::close,            [ 3,  1,  0,  6,  1,  2,  4,  2,  3,  4,  3,  2,  2,  1,  1,  2,  0]),
    (Draw::stop,             [ 2,  1,  0,  6,  2,  2,  3,  3,  2,  5,  2,  2,  1,  1,  0,  1,  0]),
    (Draw::wait_idle,        [ 2,  1,  1,  2,  4,  1,  2,  2,  2,  2,  2,  4,  1,  1,  3,  1,  0]),
    (Draw::wait_ended,       [ 3,  1,  1,  5,  3,  2,  3,  2,  3,  3,  3,  3,  2,  1,  1, 10,  0]),
    (Draw::shut_down_system, [ 2,  0,  0,  6,  0,  2,  3,  1,  2,  3,  2,  1,  2,  0,  0, 30,  0]),
    (Draw::drop_system,      [ 1,  0,  0,  3,  0,  1,  2,  1,  1,  2,  1,  0,  1,  0,  0,  1,  0]),
    (Draw::shut_down_place,  [ 2,  1,  0,  8,  1,  2,  3,  2,  2,  3,  2,  1, 20,  1,  0,  0,  0]),
    (Draw::run_queue,        [ 5,  6,  0,  5,  6,  5,  5,  8,  5,  5,  5,  8,  6,  8,  6,  4,  0]),
    (Draw::advance,          [ 1,  1,  0,  1,  1,  1,  1,  0,  1,  3,  1,  0,  1,  2,  0, 12,  0]),
    (Draw::blocking,         [ 5,  2, 20,  3,  3,  3,  3,  4,  5,  4,  5,  2,  2,  1,  3,  0,  0]),
    (Draw::elsewhere,        [ 4, 22,  2,  4,  6,  6,  6,  6,  4,  4,  4,  8,  6, 10, 10,  6,  0]),
    (Draw::pause,            [ 4,  3,  1,  3,  6,  5,  3,  6,  4,  6,  4,  4,  3,  4, 10,  1,  0]),
    (Draw::order,            [ 6,  1,  2,  4,  8, 30,  3,  2,  6,  3,  6,  3,  3,  1,  2,  3,  0]),
    (Draw::settle,           [ 4,  1,  1,  2,  6, 16,  2,  1,  4,  3,  4,  2,  2,  1,  1,  0,  0]),
    (Draw::make_way,         [ 3,  3,  1,  3,  1, 12,  2,  1,  3,  3,  3,  1,  1,  1,  0,  0,  0]),
    (Draw::send_by,          [ 6, 10,  2,  6,  2, 24,  4,  3,  6,  6,  6,  3,  2,  2,  0,  0,  0]),
    (Draw::empty_way,        [ 2,  1,  0,  2,  1,  8,  1,  1,  2,  2,  2,  1,  1,  1,  0,  0,  0]),
    (Draw::watch,            [ 4,  3,  1,  5,  4, 14,  2,  1,  4,  5,  4,  6,  3,  2, 12,  2,  0]),
    (Draw::close_system,     [ 2,  0,  0,  6,  0,  6,  2,  0,  2,  3,  2,  1,  1,  0,  0,  4,  0]),
    (Draw::look,             [ 2,  1,  0,  2,  2,  4,  2,  1,  2,  2,  2,  1,  1,  1,  0,  1,  0]),
    (Draw::stop_weak,        [ 1,  0,  0,  3,  1,  2,  1,  1,  1,  2,  1,  1,  1,  0,  0,  0,  0]),
    (Draw::spawn,            [ 4,  1,  2,  4,  2,  2, 24,  3,  4,  4,  4,  2,  2,  1,  0,  4,  0]),
    (Draw::drop_spawner,     [ 1,  0,  0,  3,  0,  0,  8,  1,  1,  1,  1,  0,  1,  0,  0,  0,  0]),
    (Draw::forget_spawner,   [ 1,  0,  0,  1,  0,  0,  2,  0,  1,  1,  1,  0,  0,  0,  0,  0,  0]),
    (Draw::drop_all,         [ 2,  1,  1,  6,  1,  1, 10,  8,  2,  3,  2,  1,  1,  0,  0,  0,  0]),
];

/// Steps with timers, and attempts.
pub(super) const TIMED: &[Row<Deed>] = &[
    (Draw::try_with, 22),
    (Draw::send_after, 20),
    (Draw::tell_every, 8),
    (Draw::arm, 16),
    (Draw::touch, 16),
    (Draw::run_due, 5),
    (Draw::advance_twice, 6),
    (Draw::sleep, 7),
];

/// Steps with turns that may wait.
pub(super) const AWAITING: &[Row<Deed>] = &[
    (Draw::ask_async, 52),
    (Draw::wait_for_turn, 10),
    (Draw::ring, 18),
    (Draw::give, 8),
    (Draw::abort, 12),
];

/// Steps that wait, or keep others waiting.
pub(super) const WAITING: &[Row<Deed>] = &[
    (Draw::ask_and_wait, 45),
    (Draw::wait_for_promise, 15),
    (Draw::takes_time, 15),
    (Draw::send, 15),
    (Draw::watch_and_keep, 10),
];

/// Objects that a turn awaits.
pub(super) const AWAITED: &[Row<Await>] = &[
    (Draw::await_own_wake, 10),
    (Draw::await_thread, 12),
    (Draw::await_wake, 22),
    (Draw::await_gift, 10),
    (Draw::await_answer, 16),
    (Draw::await_room, 8),
    (Draw::await_watch, 6),
    (Draw::await_future, 5),
    (Draw::await_sleep, 5),
    (Draw::await_nobody, 6),
];
