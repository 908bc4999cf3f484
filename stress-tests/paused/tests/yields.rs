//! The stress scenarios on atomics that yield, spin and sleep at random, in small sizes: chunks of
//! seven slots, counts up to 63.

mod api {
    pub use paused::*;
}
mod stress;

use std::env;
use std::sync::{Mutex, PoisonError};

use paused::pause::{chaos, live};
use stress::{ALL, Size};

static ALONE: Mutex<()> = Mutex::new(());

/// Runs scenario `at` with several seeds; `TURNWISE_SEED` asks for one.
fn run(at: usize) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (name, scenario) = ALL[at];
    let asked = env::var("TURNWISE_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds =
        asked.map_or(1..=(if cfg!(debug_assertions) { 4 } else { 8 }), |seed: u64| seed..=seed);
    for seed in seeds {
        println!("{name}: seed {seed}");
        chaos(seed);
        let threads = 2 + seed as usize % 4;
        let (name, rounds) = (name.to_string(), if cfg!(debug_assertions) { 500 } else { 1000 });
        // On a thread of its own, so that even this thread's chunk is given back.
        std::thread::spawn(move || scenario(Size { threads, rounds }))
            .join()
            .unwrap_or_else(|_| panic!("{name}: failed with seed {seed}"));
        // What is left lies empty in the depot, and counts as given back.
        assert_eq!(live(), 0, "memory was leaked");
    }
}

macro_rules! scenarios {
    ($($at:literal $name:ident)*) => {
        $(#[test] fn $name() { run($at) })*
        #[test]
        fn every_scenario_is_a_test() {
            assert_eq!([$($at),*].len(), ALL.len());
        }
    };
}
scenarios! {
    0 sends_of_all_sizes_arrive_once_and_in_order
    1 with_and_call_see_the_state_in_turns
    2 questions_are_answered_cancelled_or_timed_out
    3 close_runs_what_was_accepted
    4 stop_gives_back_what_it_does_not_run
    5 the_last_handle_lets_everything_run
    6 nested_sends_are_run
    7 waiting_for_idle_and_for_the_end_comes_to_an_end
    8 a_bounded_mailbox_never_holds_more
    9 panics_cost_one_message
    10 posted_messages_leave_nothing
    11 short_lives_give_everything_back
    12 an_executor_runs_what_senders_leave
    13 an_executor_that_drops_its_drains_answers_everyone
    14 threads_and_tasks_wait_for_room
    15 a_system_ends_its_actors_while_others_send
    16 limits_on_a_clock_that_a_thread_moves
    17 turns_wait_are_woken_and_cut
}
