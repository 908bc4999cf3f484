//! Programs on the shipped files: two to four threads, a few operations each.

mod alarm;
mod controls;
mod counts;
mod idle;
mod word;

use std::rc::Rc;

use crate::explorer::{Body, run};

/// One program, and its promise.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// Places that at least one execution has to pass.
    pub(crate) places: &'static [&'static str],
    pub(crate) run: fn(),
}

macro_rules! models {
    ($($module:ident :: $name:ident $([$($place:literal),*])?,)*) => {
        &[$(Model { name: stringify!($name), places: &[$($($place),*)?], run: $module::$name }),*]
    };
}

/// Models that must pass.
pub(crate) const MODELS: &[Model] = models![
    counts::counts_last_handle,
    counts::counts_last_reference ["freed by an upgrade"],
    counts::counts_sole ["sole", "shared"],
    counts::counts_uses,
    counts::counts_uses_kept ["kept"],
    alarm::alarm_rings ["slept", "stayed awake"],
    alarm::alarm_rings_twice ["slept"],
    alarm::alarm_ends ["slept", "stayed awake"],
    idle::idle_one_wake_up ["slept", "looked"],
    idle::idle_next_is_woken ["slept", "looked"],
    idle::idle_two_announcers,
    idle::idle_two_workers ["slept", "looked"],
    idle::idle_closed_with_work,
    idle::idle_away,
    idle::idle_ended_against_work ["swept by its sender", "swept by the ender"],
    idle::idle_rings_the_alarm ["slept"],
    word::word_two_senders,
    word::word_three_senders,
    word::word_four_senders,
    word::word_senders_2_1_1,
    word::word_senders_2_2,
    word::word_hands_over ["left pending"],
    word::word_left_pending ["left pending"],
    word::word_left_to_a_helper ["helped"],
    word::word_entry ["owned by the entry", "stale", "pushed while busy", "left pending"],
    word::word_entry_of_few ["few", "pushed while busy"],
    word::word_claimed_beside ["claimed", "stale"],
    word::word_scheduled_later ["scheduled", "owned by the entry"],
    word::word_left_to_the_entry ["owned by the entry", "stale", "freed by the entry"],
    word::word_ended_by_the_entry ["owned by the entry"],
    word::word_sole ["sole", "freed by the entry"],
    word::word_sole_after_the_entry ["sole", "freed by the entry"],
    word::word_watched ["waited", "idle"],
    word::word_waits_for_the_end ["waited"],
    word::word_calls_for_help ["waited"],
    word::word_closed_against_a_send ["refused"],
];

/// Programs that must fail.
pub(crate) const CONTROLS: &[Model] = models![
    controls::race_on_plain_memory,
    controls::message_without_release,
    controls::two_store_before_they_look,
    controls::thread_waits_for_ever,
    controls::memory_is_used_after_its_end,
];

/// A thread of a program, with what it shares.
fn with<T: 'static>(shared: &Rc<T>, body: impl FnOnce(&T) + 'static) -> Body {
    let shared = shared.clone();
    Box::new(move || body(&shared))
}
