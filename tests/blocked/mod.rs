//! An actor kept busy by a turn that ends when the test says so.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use turnwise::Actor;

pub(crate) struct Blocked {
    go: mpsc::Sender<()>,
    runner: JoinHandle<()>,
}

impl Blocked {
    /// Returns when the turn is running.
    pub(crate) fn start<S: Send + 'static>(actor: &Actor<S>) -> Self {
        let (go, wait) = mpsc::channel::<()>();
        let (begun, running) = mpsc::channel();
        let actor = actor.clone();
        let runner = thread::spawn(move || {
            actor
                .with(move |_| {
                    begun.send(()).unwrap();
                    let _ = wait.recv();
                })
                .unwrap();
        });
        running.recv().unwrap();
        Blocked { go, runner }
    }

    /// Ends the turn, and waits for its thread.
    pub(crate) fn end(self) {
        drop(self.go);
        self.runner.join().unwrap();
    }
}

#[allow(dead_code, reason = "not every test ends a turn and its thread apart")]
impl Blocked {
    /// Ends the turn.
    pub(crate) fn go_on(&self) {
        let _ = self.go.send(());
    }

    /// Waits for its thread, after [`go_on`](Self::go_on).
    pub(crate) fn join(self) {
        self.runner.join().unwrap();
    }
}
