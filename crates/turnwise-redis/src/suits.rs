//! Checks of servers, before anything is kept there.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::aio::ConnectionLike;
use redis::{ErrorKind, RedisError, RedisResult, Value};

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
    let (mut life, mut in_cluster, asked) = (None, false, Instant::now());
    let unless_refused = |answer: RedisResult<Value>| match answer {
        Err(error) if error.kind() == ErrorKind::Io => Err(Failure::Redis(error)),
        answer => Ok(answer.ok()),
    };
    let info = redis::cmd("INFO").arg("server").query_async::<Value>(connection).await;
    if let Some(info) = unless_refused(info)?.as_ref().and_then(text) {
        let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
        life = field("run_id:").map(|run| {
            let up = field("uptime_in_seconds:").and_then(|up| up.trim().parse().ok());
            let began = up.and_then(|up| asked.checked_sub(Duration::from_secs(up)));
            Life { run: run.trim().to_owned(), began }
        });
        match field("redis_mode:").map(str::trim) {
            Some("sentinel") => return Err(Failure::Sentinel),
            mode => in_cluster = mode == Some("cluster"),
        }
        let version = field("redis_version:");
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        if major.is_some_and(|major| major < 7) {
            let version = version.unwrap_or_default();
            return Err(Failure::Wrong(format!("Redis 7 or newer; it is {version}")));
        }
    }
    let role = redis::cmd("ROLE").query_async::<Value>(connection).await;
    // A replica in a cluster names its primary.
    if let Some(Value::Array(role)) = unless_refused(role)?
        && !in_cluster
        && role.first().and_then(text).is_some_and(|role| role == "slave")
    {
        return Err(Failure::Replica);
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
