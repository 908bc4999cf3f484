//! Checks of servers, before anything is kept there.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::aio::ConnectionLike;
use redis::{ErrorKind, RedisError, RedisResult, Value, from_redis_value};

use crate::store::Life;

/// The failure of a connection.
pub(crate) enum Failure {
    Redis(RedisError),
    Wrong(String),
    Replica,
    Sentinel,
    NoPrimary(String),
    Cluster,
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Failure::Redis(error)
    }
}

/// Checks whether the server can hold locks, and returns its life, and whether it is a node of a
/// cluster. Settings that the user may not read are taken to be right.
pub(crate) async fn suits(
    connection: &mut (impl ConnectionLike + Send),
) -> Result<(Option<Life>, bool), Failure> {
    let unless_refused = |answer: RedisResult<Value>| match answer {
        Err(error) if error.kind() == ErrorKind::Io => Err(Failure::Redis(error)),
        answer => Ok(answer.ok()),
    };
    // The connection was opened by this command, so every user may send it.
    let hello = redis::cmd("HELLO").query_async::<Value>(connection).await;
    let hello: HashMap<String, Value> =
        unless_refused(hello)?.and_then(|hello| from_redis_value(hello).ok()).unwrap_or_default();
    let is = |field, value| hello.get(field).and_then(text).is_some_and(|text| text == value);
    if is("mode", "sentinel") {
        return Err(Failure::Sentinel);
    }
    let in_cluster = is("mode", "cluster");
    // A replica in a cluster names its primary.
    if !in_cluster && (is("role", "replica") || is("role", "slave")) {
        return Err(Failure::Replica);
    }
    let mut life = None;
    let info = redis::cmd("INFO").arg("server").query_async::<Value>(connection).await;
    if let Some(info) = unless_refused(info)?.as_ref().and_then(text) {
        let now = Instant::now();
        let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
        life = field("run_id:").map(|run| {
            let up = field("uptime_in_seconds:").and_then(|up| up.trim().parse::<u64>().ok());
            // The server counts the seconds that have begun on its clock since its start, so it may
            // be a second younger.
            let up = up.map(|up| Duration::from_secs(up.saturating_sub(1)));
            Life { run: run.trim().to_owned(), began: up.and_then(|up| now.checked_sub(up)) }
        });
        let version = field("redis_version:");
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        if major.is_some_and(|major| major < 7) {
            let version = version.unwrap_or_default();
            return Err(Failure::Wrong(format!("Redis 7 or newer; it is {version}")));
        }
    }
    let info = redis::cmd("INFO").arg("memory").query_async::<Value>(connection).await;
    let limits = unless_refused(info)?.as_ref().and_then(text).and_then(|info| {
        let field = |name| {
            let value = info.lines().find_map(|line| line.strip_prefix(name))?;
            Some(value.trim().to_owned())
        };
        Some((field("maxmemory:")?, field("maxmemory_policy:")?))
    });
    let limits = match limits {
        Some(limits) => Some(limits),
        // Managed servers refuse this command, and some users may not send the other one.
        None => {
            let mut asked = redis::cmd("CONFIG");
            asked.arg("GET").arg("maxmemory").arg("maxmemory-policy");
            let config = asked.query_async::<HashMap<String, String>>(connection).await;
            config.ok().and_then(|mut config| {
                Some((config.remove("maxmemory")?, config.remove("maxmemory-policy")?))
            })
        }
    };
    if let Some((limit, policy)) = limits
        && limit != "0"
        && policy != "noeviction"
    {
        let needs = format!("maxmemory-policy noeviction; with {policy} it drops locks");
        return Err(Failure::Wrong(needs));
    }
    Ok((life, in_cluster))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use redis::{Cmd, Pipeline, RedisFuture};

    use super::*;

    /// A server that reports this uptime, and refuses everything else.
    struct Up(u64);

    impl ConnectionLike for Up {
        fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
            let is_info = cmd.get_packed_command().ends_with(b"server\r\n");
            let info = format!("run_id:1\r\nuptime_in_seconds:{}\r\n", self.0);
            let refused = (ErrorKind::Client, "refused");
            let answer = if is_info { Ok(Value::SimpleString(info)) } else { Err(refused.into()) };
            Box::pin(ready(answer))
        }

        fn req_packed_commands<'a>(
            &'a mut self,
            _: &'a Pipeline,
            _: usize,
            _: usize,
        ) -> RedisFuture<'a, Vec<Value>> {
            unreachable!("commands are sent one by one")
        }

        fn get_db(&self) -> i64 {
            0
        }
    }

    /// A server that was started at the end of a second reports a second soon.
    #[test]
    fn servers_count_as_started_when_they_may_have_been() {
        for (up, oldest) in [(0, 0), (1, 0), (30, 29)] {
            let before = Instant::now();
            let mut server = Up(up);
            let suits = pin!(suits(&mut server)).poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Ok((Some(life), false))) = suits else { panic!("it suits") };
            assert!(life.began >= before.checked_sub(Duration::from_secs(oldest)), "{up}");
        }
    }
}
