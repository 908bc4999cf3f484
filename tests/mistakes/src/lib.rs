//! Programs that must not compile: common first mistakes.
//!
//! Each case fails to compile with every compiler, because it is an example of this page, too.
//! `tests/it/messages.rs` compares the compiler's message, for one compiler.

#![forbid(unsafe_code)]

macro_rules! cases {
    ($($name:ident)*) => {
        /// The cases, by name.
        pub const CASES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[doc = concat!("```compile_fail\n", include_str!(concat!("../cases/", stringify!($name), ".rs")), "\n```")]
            mod $name {}
        )*
    };
}

cases! {
    async_handler_asked_as_another
    async_handler_of_the_other_trait
    async_question_nobody_handles
    async_turn_borrows_a_local
    async_turn_keeps_what_stays_here
    async_turn_of_a_plain_closure
    async_turn_of_an_untyped_closure
    async_turn_state_leaves
    borrowed_local
    handler_of_another_reply
    hook_of_the_wrong_shape
    locks_closure_that_stays_here
    locks_guard_used_after_release
    locks_hook_that_stays_here
    locks_key_that_stays_here
    locks_pool_for_its_handle
    message_nobody_handles
    message_that_stays_here
    pool_for_its_handle
    question_nobody_handles
    recipient_of_nothing
    reply_that_is_not_sent
    state_that_leaves_its_turn
    state_that_stays_here
}
