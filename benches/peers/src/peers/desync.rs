//! Desync: a state with a queue of jobs, which its own threads run. `desync` queues a job; `sync`
//! waits for one on its thread, `future_sync` in a task.

use std::future::Future;
use std::sync::{Arc, Once};

use desync::Desync;
use desync::scheduler::scheduler;

use crate::hosts;
use crate::peer::{Peer, State};

pub(crate) struct DesyncThreads(Arc<Desync<State<Self>>>);
pub(crate) struct DesyncTasks(Arc<Desync<State<Self>>>);

const NOTE: &str = "Has threads of its own beside those of senders and askers: two here, at least eight otherwise.";

/// As many threads as the other hosts have.
fn made<S: Send + 'static>(state: S) -> Arc<Desync<S>> {
    static THREADS: Once = Once::new();
    THREADS.call_once(|| scheduler().set_max_threads(hosts::WORKERS));
    Arc::new(Desync::new(state))
}

/// Both peers, which differ in their way to wait.
macro_rules! peer {
    ($peer:ident, $way:literal, $note:expr, $launch:path, |$this:ident, $job:ident| $wait:expr) => {
        impl Clone for $peer {
            fn clone(&self) -> Self {
                $peer(self.0.clone())
            }
        }

        impl $peer {
            async fn wait<R: Send + 'static>(
                &self,
                $job: impl FnOnce(&mut State<Self>) -> R + Send + 'static,
            ) -> R {
                let $this = &self.0;
                $wait
            }
        }

        impl Peer for $peer {
            const PACKAGE: &'static str = "desync";
            const WAY: &'static str = $way;
            const BOUND: Option<usize> = None;
            const NOTE: Option<&'static str> = Some($note);

            async fn spawn(_place: usize, state: State<Self>) -> Self {
                $peer(made(state))
            }
            #[inline]
            async fn tell(&self, rounds: u32) {
                self.0.desync(move |state| state.count(rounds));
            }
            #[inline]
            async fn ask(&self, rounds: u32) -> u64 {
                self.wait(move |state| state.work(rounds)).await
            }
            async fn link(&self, next: Option<Self>) {
                self.wait(|state| state.link(next)).await;
            }
            async fn pass(&self, hops: u64) {
                self.hop(hops);
            }
            fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
                $launch(task);
            }
        }

        impl $peer {
            fn hop(&self, hops: u64) {
                self.0.desync(move |state| {
                    if let Some(next) = state.pass(hops) {
                        next.hop(hops - 1);
                    }
                });
            }
        }
    };
}

peer!(DesyncThreads, "`desync`, `sync`; threads", NOTE, hosts::thread, |this, job| this.sync(job));
peer!(DesyncTasks, "`desync`, `future_sync`; tasks", NOTE, hosts::task, |this, job| {
    let done = this.future_sync(|state| Box::pin(async move { job(state) }));
    done.await.expect("the state outlives its handles")
});
