//! A thread that owns the state, behind the fastest channel for many senders and one receiver. It
//! is here, and not among the other rivals, because no other program needs that channel.

use std::sync::Arc;
use std::thread;

use crate::workloads::rivals::{Envelope, Owned, ask};
use crate::workloads::{Letter, Way};

/// The thread behind kanal's channel.
pub(crate) struct Kanal;

impl Way for Kanal {
    const NAME: &'static str = "kanal";
    const ASKING: &'static str = "kanal-ask";
    const HELPED: bool = true;
    type Of<L: Letter> = Arc<Owned<kanal::Sender<Envelope<L>>>>;

    fn make<L: Letter>(mut state: L::State) -> Self::Of<L> {
        let (letters, inbox) = kanal::unbounded::<Envelope<L>>();
        let owner = thread::spawn(move || {
            while let Ok(envelope) = inbox.recv() {
                envelope.run(&mut state);
            }
        });
        Owned::by(letters, owner)
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        to.put(|letters| letters.send(Envelope::plain(letter)).is_ok());
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        ask(letter, |envelope| to.put(|letters| letters.send(envelope).is_ok()))
    }
}
