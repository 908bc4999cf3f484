//! The value of a key, and the effects of commands on it. All tables share this code.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use turnwise::time::{Timer, Timers};

use crate::frame::BULK;
use crate::{number, reply};

/// A clock in milliseconds since 1970, as redis counts. The system's clock may jump; this one reads
/// it once, and goes on by the clock of the timers.
#[derive(Clone, Debug)]
pub struct Clock {
    timers: Timers,
    begun: i64,
}

impl Clock {
    pub fn new(timers: Timers) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun = millis(unix) - millis(timers.now());
        Clock { timers, begun }
    }

    pub fn now(&self) -> i64 {
        self.begun + millis(self.timers.now())
    }

    /// Calls `f` at that time, or soon if it has passed.
    pub fn alarm(&self, at: i64, f: impl FnOnce() + Send + 'static) -> Alarm {
        let due = u64::try_from(at.saturating_sub(self.begun)).unwrap_or(0);
        Alarm(self.timers.at(Duration::from_millis(due), f))
    }

    /// Returns the number of alarms.
    pub fn alarms(&self) -> usize {
        self.timers.len()
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A timer that is cancelled when it is dropped.
#[derive(Debug)]
pub struct Alarm(Timer);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A value.
#[derive(Debug)]
pub struct Value {
    pub bytes: Vec<u8>,
    /// The time at which it expires, by [`Clock::now`].
    pub expires: Option<i64>,
}

/// The cell of a key. A cell without a value does not stay long.
#[derive(Debug, Default)]
pub struct Cell {
    pub value: Option<Value>,
    /// Set if the value expires.
    pub alarm: Option<Alarm>,
}

/// The conditions of a `SET` or an `EXPIRE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Only {
    /// `SET`: only without a value. `EXPIRE`: only without an expiry.
    pub absent: bool,
    /// `SET`: only with a value. `EXPIRE`: only with an expiry.
    pub present: bool,
    /// `EXPIRE`: only to a later time.
    pub later: bool,
    /// `EXPIRE`: only to an earlier time.
    pub earlier: bool,
}

/// A command on one key.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    Get,
    Set { bytes: &'a [u8], only: Only, expires: Option<i64>, keep_expiry: bool, get: bool },
    SetNx(&'a [u8]),
    Add(i64),
    Append(&'a [u8]),
    StrLen,
    Expire { at: i64, only: Only },
    Ttl,
    PTtl,
    Persist,
    Exists,
    Del,
}

/// Returns the value, unless it has expired: then removes it.
pub fn alive<'a>(value: &'a mut Option<Value>, clock: &Clock) -> Option<&'a mut Value> {
    if value.as_ref().and_then(|value| value.expires).is_some_and(|at| at <= clock.now()) {
        *value = None;
    }
    value.as_mut()
}

/// Appends the answer to `GET`.
pub fn get(value: Option<&mut Value>, out: &mut Vec<u8>) {
    match value {
        Some(value) => reply::bulk(&value.bytes, out),
        None => reply::nil(out),
    }
}

/// Runs a command, and appends its reply.
pub fn apply(value: &mut Option<Value>, op: Op<'_>, clock: &Clock, out: &mut Vec<u8>) {
    let found = alive(value, clock);
    match op {
        Op::Get => get(found, out),
        Op::Set { bytes, only, expires, keep_expiry, get: tells } => {
            let refused = if found.is_some() { only.absent } else { only.present };
            let expires = match &found {
                Some(value) if keep_expiry => value.expires,
                _ => expires,
            };
            match (tells, refused) {
                (true, _) => get(found, out),
                (false, true) => reply::nil(out),
                (false, false) => reply::ok(out),
            }
            if !refused {
                store(value, bytes, expires);
            }
        }
        Op::SetNx(bytes) => {
            reply::integer(i64::from(found.is_none()), out);
            if found.is_none() {
                store(value, bytes, None);
            }
        }
        Op::Add(number) => add(value, number, out),
        Op::Append(bytes) => match found {
            Some(value) if value.bytes.len() + bytes.len() > BULK as usize => {
                reply::error(b"string exceeds maximum allowed size (proto-max-bulk-len)", out);
            }
            Some(value) => {
                value.bytes.extend_from_slice(bytes);
                reply::integer(value.bytes.len() as i64, out);
            }
            None => {
                reply::integer(bytes.len() as i64, out);
                store(value, bytes, None);
            }
        },
        Op::StrLen => reply::integer(found.map_or(0, |value| value.bytes.len() as i64), out),
        Op::Expire { at, only } => {
            let told = expire(value, at, only, clock);
            reply::integer(i64::from(told), out);
        }
        Op::Ttl => reply::integer(left(found, clock, |millis| (millis + 500) / 1000), out),
        Op::PTtl => reply::integer(left(found, clock, |millis| millis), out),
        Op::Persist => {
            let expires = found.and_then(|value| value.expires.take());
            reply::integer(i64::from(expires.is_some()), out);
        }
        Op::Exists => reply::integer(i64::from(found.is_some()), out),
        Op::Del => {
            reply::integer(i64::from(found.is_some()), out);
            *value = None;
        }
    }
}

/// Replaces a value. The memory of the old bytes is reused if they fit.
pub fn store(value: &mut Option<Value>, bytes: &[u8], expires: Option<i64>) {
    match value {
        Some(value) if bytes.len() <= value.bytes.capacity() && !is_wasted(value, bytes) => {
            value.bytes.clear();
            value.bytes.extend_from_slice(bytes);
            value.expires = expires;
        }
        value => *value = Some(Value { bytes: bytes.to_vec(), expires }),
    }
}

/// Returns true if most of the memory would stay empty.
fn is_wasted(value: &Value, bytes: &[u8]) -> bool {
    value.bytes.capacity() > 64 && value.bytes.capacity() / 2 > bytes.len()
}

fn add(value: &mut Option<Value>, number: i64, out: &mut Vec<u8>) {
    let old = value.as_ref().map_or(Some(0), |value| number::parse(&value.bytes));
    let Some(old) = old else { return reply::error(reply::NOT_AN_INTEGER, out) };
    let Some(sum) = old.checked_add(number) else {
        return reply::error(b"increment or decrement would overflow", out);
    };
    let value = value.get_or_insert(Value { bytes: Vec::new(), expires: None });
    value.bytes.clear();
    number::write(sum, &mut value.bytes);
    reply::integer(sum, out);
}

/// Sets the expiry, and returns true, if the conditions hold.
fn expire(value: &mut Option<Value>, at: i64, only: Only, clock: &Clock) -> bool {
    let Some(found) = value else { return false };
    let refused = match found.expires {
        Some(old) => only.absent || (only.later && at <= old) || (only.earlier && at >= old),
        // A value that never expires counts as later than all others.
        None => only.present || only.later,
    };
    if refused {
        return false;
    }
    if at <= clock.now() {
        *value = None;
    } else {
        found.expires = Some(at);
    }
    true
}

fn left(value: Option<&mut Value>, clock: &Clock, unit: impl FnOnce(i64) -> i64) -> i64 {
    match value.map(|value| value.expires) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => unit((at - clock.now()).max(0)),
    }
}
