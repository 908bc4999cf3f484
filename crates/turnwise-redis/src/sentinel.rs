//! Sentinels, which know the primary of a group of servers.
//!
//! They are asked before each connection, so a client follows a failover: its connection breaks, or
//! the old primary refuses a write as a replica. The server that they name is checked as any other:
//! a replica takes no steps.
//!
//! The `Sentinel` of the `redis` crate (1.8) is not used. It opens a connection to the primary only
//! to ask for its role, which may change before the next one is opened; here it is asked over the
//! connection that is used. And it has one user for a Sentinel, where here that of the servers is
//! tried if none is refused.

use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, RedisConnectionInfo, RedisError, RedisResult};

use crate::error::ConnectError;

/// The port of a Sentinel that states none.
const PORT: u16 = 26_379;

/// The Sentinels of a group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// Their addresses, `HOST:PORT`.
    pub(crate) all: Vec<Arc<str>>,
    /// The group's name.
    name: String,
}

impl Sentinels {
    /// Parses `SCHEME+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]..]/NAME[/DB]`, where
    /// `-` may stand for `+`. Also returns the address of the first one as if it were a server.
    /// `None`: the address is none of Sentinels.
    pub(crate) fn parse(url: &str) -> Result<Option<(Self, String)>, ConnectError> {
        let Some((scheme, rest)) = url.split_once("://") else { return Ok(None) };
        let base = scheme.strip_suffix("sentinel").and_then(|base| base.strip_suffix(['+', '-']));
        let Some(base) = base else { return Ok(None) };
        let wrong = || {
            let form = "redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]..]/NAME[/DB]";
            ConnectError::Url(format!("one of Sentinels has the form {form}"))
        };
        let (authority, path) = rest.split_once('/').ok_or_else(wrong)?;
        let (name, database) = path.split_once('/').unwrap_or((path, ""));
        let at = authority.rfind('@').map_or(0, |at| at + 1);
        let (user, hosts) = authority.split_at(at);
        let whole = |host: &str| match host.rsplit_once(':') {
            // The last part of an IPv6 address is no port.
            Some((_, port)) if !port.ends_with(']') => host.to_owned(),
            _ => format!("{host}:{PORT}"),
        };
        let all: Vec<Arc<str>> = hosts.split(',').map(|host| whole(host).into()).collect();
        if name.is_empty() || all.iter().any(|host| host.starts_with(':')) {
            return Err(wrong());
        }
        let first = format!("{base}://{user}{}/{database}", all[0]);
        Ok(Some((Sentinels { all, name: name.to_owned() }, first)))
    }

    /// Asks a Sentinel, of which this is a client, for the primary's address. `None`: it knows no
    /// such group.
    pub(crate) async fn primary(
        &self,
        client: Client,
        limit: Duration,
    ) -> RedisResult<Option<(String, u16)>> {
        let asked = tokio::time::timeout(limit, async {
            let user = client.get_connection_info().redis_settings().clone();
            // Most Sentinels have no users of their own; others have those of the servers.
            match self.ask(&client, RedisConnectionInfo::default()).await {
                Err(error) if error.code() == Some("NOAUTH") => {
                    self.ask(&client, user.set_db(0)).await
                }
                answer => answer,
            }
        });
        let late = |_| {
            let why = format!("a Sentinel does not answer in {limit:?}");
            RedisError::from(std::io::Error::new(std::io::ErrorKind::TimedOut, why))
        };
        asked.await.map_err(late)?
    }

    async fn ask(
        &self,
        client: &Client,
        user: RedisConnectionInfo,
    ) -> RedisResult<Option<(String, u16)>> {
        let info = client.get_connection_info().clone().set_redis_settings(user);
        let config = AsyncConnectionConfig::new();
        let config = config.set_connection_timeout(None).set_response_timeout(None);
        let client = Client::open(info)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name).query_async(&mut connection).await
    }

    /// The error if no Sentinel knows the group.
    pub(crate) fn unknown(&self) -> String {
        format!("no Sentinel knows a primary named `{}`", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_sentinels_name_the_group() {
        let parse = |url| Sentinels::parse(url).unwrap().unwrap();
        let (sentinels, first) = parse("redis+sentinel://:secret@a,b:1,[::1],[::2]:3/main/2");
        let all: Vec<_> = sentinels.all.iter().map(|it| &**it).collect();
        assert_eq!(all, ["a:26379", "b:1", "[::1]:26379", "[::2]:3"]);
        assert_eq!((&*sentinels.name, &*first), ("main", "redis://:secret@a:26379/2"));
        assert_eq!(parse("rediss-sentinel://a/main").1, "rediss://a:26379/");
        for none in ["redis://a/main", "unix:///sentinel", "a"] {
            assert_eq!(Sentinels::parse(none), Ok(None), "{none}");
        }
        for wrong in ["redis+sentinel://a", "redis+sentinel://:secret@a/", "redis-sentinel:///a"] {
            let error = Sentinels::parse(wrong).unwrap_err();
            assert!(matches!(&error, ConnectError::Url(why) if !why.contains("secret")), "{wrong}");
        }
    }
}
