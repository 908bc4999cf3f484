//! Hosts with little time, which hand over what is left.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::sleep;
use turnwise_redis::{Drains, RemoteActor, Successor, Until};

use crate::mailboxes::{Log, kind};
use crate::net::{Net, Rule, Sim};
use crate::users::{Host, LONG, builder};

/// A host that is asked to go on with an actor.
#[derive(Clone)]
struct Next {
    sim: Arc<Sim>,
    /// The connection of the host that asks.
    from: Net,
    kind: &'static str,
    asked: Arc<AtomicU32>,
    accepts: Arc<AtomicBool>,
}

impl Successor for Next {
    async fn accept(&self, actor: &str) -> Result<(), String> {
        let sim = &self.sim;
        let asked = self.asked.fetch_add(1, Relaxed);
        let again = self.accepts.load(Relaxed);
        sim.check(Rule::HandedOn, asked < 3 && !again, || format!("asked {asked} times before"));
        sleep(sim.millis(5)).await;
        if sim.is_unlucky(6) {
            return Err("it refuses".to_owned());
        }
        sim.note(|| format!("{} hands {} {actor} over", self.from.client(), self.kind));
        if sim.is_unlucky(6) {
            sim.note(|| "the next host dies before it begins".to_owned());
        } else {
            tokio::spawn(goes_on(sim.clone(), self.kind, actor.to_owned()));
        }
        if sim.is_unlucky(12) {
            // Its message is on the way.
            self.from.dies();
        }
        if sim.is_unlucky(8) {
            // The answer is lost.
            std::future::pending::<()>().await;
        }
        self.accepts.store(true, Relaxed);
        sim.books().handed_on(self.kind, actor);
        Ok(())
    }
}

/// Starts a host, which goes on with an actor.
fn goes_on(
    sim: Arc<Sim>,
    name: &'static str,
    actor: String,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        sleep(sim.millis(20)).await;
        let net = Net::new(&sim, &format!("h{}", sim.hosts.fetch_add(1, Relaxed)));
        let remote = builder(&net).over(net.clone()).unwrap();
        let actor = kind(&remote, &net, name, Drains::Never).of(&actor).unwrap();
        let host = Host { sim, net: net.clone(), remote };
        let drains = net.clone().runs(async move { host.drains(name, &actor).await });
        tokio::select! {
            biased;
            () = net.death() => {}
            () = drains => {}
        }
    })
}

impl Host {
    /// Drains an actor for a short time, and may hand over what is left.
    pub async fn drains(&self, kind: &'static str, actor: &RemoteActor<Log>) {
        let sim = &self.sim;
        let until = Until::within(Duration::from_millis(1) + sim.millis(15)).unwrap();
        let next = Next {
            sim: sim.clone(),
            from: self.net.clone(),
            kind,
            asked: Arc::default(),
            accepts: Arc::default(),
        };
        let accepts = next.accepts.clone();
        let until = if sim.once_in(4) { until } else { until.or_hand_to(next) };
        if let Ok(Ok(drained)) = sim.within("drain", LONG, actor.drain(until)).await {
            let right = drained.handed_over == accepts.load(Relaxed);
            sim.check(Rule::HandedOn, right || self.net.is_dead(), || format!("{drained:?}"));
        }
    }
}
