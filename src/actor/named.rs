//! Whose turn a thread is inside of, for whoever has to say so: panic hooks, loggers.

#![forbid(unsafe_code)]

use std::sync::Once;

use crate::cell::header::Header;
use crate::drain::context::with_local;

/// The actor whose turn, or hook, this thread is inside of: its name, or the type of its state if
/// it has none. The innermost one, if a turn waits and runs another meanwhile. Wait-free, but for
/// the allocation of the text.
///
/// For loggers and panic hooks, which are told of a thread and no more. Inside an undelivered hook
/// that a sender runs, it is the sender's.
///
/// # Examples
/// ```
/// use turnwise::{Actor, current_actor};
///
/// let till = Actor::builder(0).name("till").spawn()?;
/// assert_eq!(till.with(|_| current_actor())?.as_deref(), Some("till"));
/// assert_eq!(Actor::new(0_u8).with(|_| current_actor())?.as_deref(), Some("u8"));
/// assert_eq!(current_actor(), None);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub fn current_actor() -> Option<String> {
    with_local(|local| local.innermost().map(Header::name).map(str::to_owned))
}

/// Has every panic of a turn say whose turn it was, on standard error, after what is said of it
/// anyway: a line ``note: in a turn of `till` ``.
///
/// It puts itself around the [panic hook](std::panic::set_hook) that is there. Called again, it
/// does nothing. Libraries leave it to the program. A panic hook of the program's own asks
/// [`current_actor`] instead.
///
/// # Examples
/// ```
/// turnwise::name_panics(); // at the beginning of `main`
/// let till = turnwise::Actor::builder(0).name("till").spawn()?;
/// till.send(|_| panic!("jammed"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn name_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            if let Some(actor) = current_actor() {
                eprintln!("note: in a turn of `{actor}`");
            }
        }));
    });
}
