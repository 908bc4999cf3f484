//! The actor: a board of scores.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwise::{Context, Handler};
use turnwise_redis::{Actors, ActorsError, Drains, Remote};

/// The points of each player, and the requests that have made them.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Board {
    pub(crate) points: BTreeMap<String, u64>,
    pub(crate) applied: Vec<String>,
}

/// A score of a player.
#[derive(Serialize, Deserialize)]
pub(crate) struct Score {
    pub(crate) request: String,
    pub(crate) player: String,
    pub(crate) points: u64,
    /// The time that its handler takes.
    pub(crate) millis: u64,
}

/// The answer to a player.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) points: u64,
    /// The rank, from 1 on.
    pub(crate) rank: usize,
}

impl Handler<Score> for Board {
    type Reply = Standing;

    fn handle(&mut self, score: Score, _: &mut Context<'_, Self>) -> Standing {
        let Score { request, player, points, millis } = score;
        thread::sleep(Duration::from_millis(millis));
        let all = self.points.entry(player).or_default();
        *all += points;
        let points = *all;
        self.applied.push(request);
        let rank = 1 + self.points.values().filter(|others| **others > points).count();
        Standing { points, rank }
    }
}

/// Opens the boards. Hosts drain them by hand, as long as they have time.
pub(crate) fn boards(remote: &Remote, lease: Duration) -> Result<Actors<Board>, ActorsError> {
    let boards = remote.actors::<Board>("leaderboard").message::<Score>("score");
    // Many hosts die here.
    boards.drains(Drains::Never).lease(lease).attempts(100).open()
}
