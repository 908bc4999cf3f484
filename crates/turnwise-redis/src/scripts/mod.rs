//! The steps as scripts, which a server runs atomically.

mod admission;
mod mailbox;

use redis::{Cmd, Value};

use std::time::Duration;

use crate::error::StoreError;
use crate::record::{REMEMBERED, micros};
use crate::step::{Answer, Op, Renewal, Standing, Step, Token};
use crate::time::LONGEST;

const COMMON: &str = include_str!("common.lua");

/// A script that begins with `#!lua` is refused as a whole when memory is short, and is not stopped
/// midway. Steps that need no memory run nevertheless, so that holders can release.
const NEEDS_MEMORY: &str = "#!lua\n";
const NEEDS_NONE: &str = "#!lua flags=allow-oom\n";

/// The steps of records, in the order of [`Scripts::command`]: flags, the fast path, and the
/// general path. The common code between the two alone takes a server longer than a free lock does.
const SOURCES: [(&str, &str, &str); 11] = [
    (NEEDS_MEMORY, include_str!("acquire_free.lua"), include_str!("acquire.lua")),
    (NEEDS_NONE, "", include_str!("refresh.lua")),
    (NEEDS_NONE, include_str!("keep_alone.lua"), include_str!("renew.lua")),
    (NEEDS_NONE, include_str!("leave_alone.lua"), include_str!("leave.lua")),
    (NEEDS_NONE, "", include_str!("force.lua")),
    (NEEDS_NONE, "", include_str!("look.lua")),
    (NEEDS_MEMORY, "", include_str!("attend.lua")),
    (NEEDS_NONE, include_str!("keep_alone.lua"), include_str!("confirm.lua")),
    (NEEDS_NONE, "", include_str!("begin.lua")),
    (NEEDS_NONE, "", include_str!("end.lua")),
    (NEEDS_NONE, "", include_str!("repair.lua")),
];

/// All scripts, by the hashes that a server knows them by.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// The time that a record outlives its last use.
    pub(crate) kept: Duration,
    all: Vec<(String, String)>,
}

impl Scripts {
    /// Scripts of a store whose channels of notices begin with this prefix. What is the same in
    /// each step of a record is part of their text: each argument costs a server a thirtieth of a
    /// lock that is free.
    pub(crate) fn new(channels: &str, kept: Duration) -> Self {
        let (channels, time) = (literal(channels), span(kept) / 1000);
        let constants = format!("local channels, kept, leaves = {channels}, {time}\n");
        let script = |parts: &[&str]| {
            let text = parts.concat();
            let name = sha1_smol::Sha1::from(&text).digest().to_string();
            (name, text)
        };
        let records = SOURCES.iter();
        let records =
            records.map(|(flags, most, all)| script(&[flags, &constants, most, COMMON, all]));
        let admissions = admission::SOURCES.iter();
        let admissions = admissions.map(|(flags, body)| script(&[flags, admission::COMMON, body]));
        let mailboxes = mailbox::SOURCES.iter();
        let mailboxes = mailboxes.map(|(flags, body)| script(&[flags, mailbox::COMMON, body]));
        let renewals = script(&[NEEDS_NONE, include_str!("renew_all.lua")]);
        let all = records.chain(admissions).chain(mailboxes).chain([renewals]).collect();
        Scripts { kept, all }
    }

    /// Returns the command of a step: with the hash of its script, or with its text. For a cluster
    /// it states a key of the object that never exists: see rule CLUSTER-2 of `cluster.rs`. Scripts
    /// of admissions declare all keys. The others derive theirs from the first one, because each
    /// further key costs as much as an argument, and some ids are in the store only.
    pub(crate) fn command(&self, channels: &str, op: &Op, whole: bool, in_cluster: bool) -> Cmd {
        let index = match &op.step {
            Step::Acquire { .. } => 0,
            Step::Refresh { .. } => 1,
            Step::Renew { .. } => 2,
            Step::Leave { .. } => 3,
            Step::Force { .. } => 4,
            Step::Look => 5,
            Step::Attend { .. } => 6,
            Step::Confirm { .. } => 7,
            Step::Begin { .. } => 8,
            Step::End { .. } => 9,
            Step::Repair { .. } => 10,
            Step::Admission(step) => SOURCES.len() + admission::index(step),
            Step::Mailbox(step) => SOURCES.len() + admission::SOURCES.len() + mailbox::index(step),
            Step::RenewAll { .. } => self.all.len() - 1,
        };
        let (name, text) = &self.all[index];
        // Enough for a lock, whose command grows no further.
        let mut cmd = Cmd::with_capacity(8, 256);
        cmd.arg(if whole { "EVAL" } else { "EVALSHA" }).arg(if whole { text } else { name });
        let never = in_cluster.then(|| format!("{}:never", op.key));
        let (never, more) = (never.as_slice(), usize::from(in_cluster));
        if let Step::Admission(step) = &op.step {
            admission::arguments(&mut cmd, channels, &op.key, never, step);
            return cmd;
        }
        if let Step::Mailbox(step) = &op.step {
            cmd.arg(1 + more).arg(format!("{}:n", op.key)).arg(never);
            mailbox::arguments(&mut cmd, channels, step);
            return cmd;
        }
        if let Step::RenewAll { renewals, lease } = &op.step {
            cmd.arg(renewals.len() + more);
            for Renewal { key, .. } in renewals {
                cmd.arg(key);
            }
            cmd.arg(never);
            cmd.arg(span(*lease)).arg(span(self.kept) / 1000);
            for Renewal { place, token, .. } in renewals {
                cmd.arg(*place).arg(token.as_str());
            }
            return cmd;
        }
        cmd.arg(1 + more).arg(&op.key).arg(never);
        match op.above {
            0 => cmd.arg(op.places),
            above => cmd.arg(format!("{}:{above}", op.places)),
        };
        // Copies of requests may arrive for this time. Absent: none will.
        let late = |late: &bool| late.then(|| span(REMEMBERED) / 1000);
        match &op.step {
            Step::Acquire { token, lease, alive } => {
                cmd.arg(token.as_str()).arg(span(*lease)).arg(alive.map(span))
            }
            Step::Refresh { tokens, alive } => {
                cmd.arg(span(*alive));
                tokens.iter().fold(&mut cmd, |cmd, token| cmd.arg(token.as_str()))
            }
            Step::Renew { token, lease } => cmd.arg(token.as_str()).arg(span(*lease)),
            Step::Confirm { token, fence, lease } => {
                cmd.arg(token.as_str()).arg(span(*lease)).arg(*fence)
            }
            Step::Leave { token, late: copies } => cmd.arg(token.as_str()).arg(late(copies)),
            Step::Force { place } | Step::Repair { place } => cmd.arg(*place),
            Step::Begin { token } => cmd.arg(token.as_str()),
            Step::End { token, quarantine, late: copies } => {
                let long = if *quarantine { LONGEST } else { Duration::ZERO };
                cmd.arg(token.as_str()).arg(span(long)).arg(late(copies))
            }
            Step::Look | Step::Admission(_) | Step::Mailbox(_) | Step::RenewAll { .. } => &mut cmd,
            Step::Attend { token, every, offset, lease, overlap } => {
                cmd.arg(token.as_str()).arg(span(*every)).arg(span(*offset));
                cmd.arg(span(*lease)).arg(u8::from(*overlap))
            }
        };
        cmd
    }
}

/// Returns a duration as an argument: a server adds it to its time, and is exact to 2^53.
fn span(duration: Duration) -> u64 {
    micros(duration.min(LONGEST))
}

/// Returns a text as a literal of Lua.
fn literal(text: &str) -> String {
    let byte = |byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' => char::from(byte).to_string(),
        byte => format!("\\{byte:03}"),
    };
    format!("'{}'", text.bytes().map(byte).collect::<String>())
}

/// Parses a script's reply.
pub(crate) fn answer(step: &Step, reply: Value) -> Result<Answer, StoreError> {
    let read = match (&reply, step) {
        (Value::Int(fence), Step::Acquire { .. }) => {
            u64::try_from(*fence).ok().map(|fence| Answer::Granted { fence, place: 1 })
        }
        (Value::Int(1), Step::Leave { .. } | Step::End { .. }) => Some(Answer::Released),
        (Value::Int(_), Step::Leave { .. } | Step::End { .. }) => Some(Answer::NotHeld),
        (Value::Array(values), _) => read(step, values),
        _ => None,
    };
    let odd = || StoreError::WrongStore { needs: format!("an answer other than {reply:?}") };
    read.ok_or_else(odd)
}

fn read(step: &Step, values: &[Value]) -> Option<Answer> {
    let number = |index: usize| match values.get(index)? {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let count = |index| number(index).and_then(|number| u64::try_from(number).ok());
    let time = |index| count(index).map(Duration::from_micros);
    let has_places = !matches!(step, Step::Admission(_) | Step::Mailbox(_) | Step::RenewAll { .. });
    if has_places && number(0) == Some(-3) {
        return Some(Answer::Differs { places: u32::try_from(count(1)?).ok()? });
    }
    Some(match step {
        Step::Admission(step) => Answer::Admission(admission::read(step, values)?),
        Step::Mailbox(step) => Answer::Mailbox(mailbox::read(step, values)?),
        Step::Acquire { .. } => match number(0)? {
            2 => {
                let place = u32::try_from(count(2)?).ok()?;
                Answer::Granted { fence: count(1)?, place }
            }
            1 => Answer::Queued { ahead: count(1)?, busy: time(2)? },
            0 => Answer::Busy { busy: time(1)? },
            _ => Answer::Gone,
        },
        Step::Refresh { tokens, .. } => {
            let standing = |index| match number(index)? {
                0 => Some(Standing::Nowhere),
                1 => Some(Standing::Queued),
                _ => Some(Standing::Holds),
            };
            let standings = (1..=tokens.len()).map(standing).collect::<Option<_>>()?;
            Answer::Standings { standings, busy: time(0)? }
        }
        Step::Renew { .. } | Step::Confirm { .. } => {
            [Answer::Lost, Answer::Held][usize::from(number(0)? == 1)].clone()
        }
        Step::RenewAll { renewals, .. } => {
            let held = (0..renewals.len()).map(|index| Some(number(index)? == 1));
            Answer::Renewed(held.collect::<Option<_>>()?)
        }
        Step::Leave { .. } | Step::End { .. } => return None,
        Step::Begin { .. } if number(0)? == 1 => Answer::Begun { dirty: number(1)? == 1 },
        Step::Begin { .. } => Answer::Lost,
        Step::Force { .. } | Step::Repair { .. } => Answer::Forced(number(0)? == 1),
        Step::Look => {
            let holder = |index: usize| {
                let place = u32::try_from(count(index)?).ok()?;
                let Value::BulkString(text) = values.get(index + 2)? else { return None };
                let token = Token::from_text(String::from_utf8(text.clone()).ok()?);
                Some((place, token, time(index + 1)?))
            };
            let holders = (2..values.len()).step_by(3).map(holder).collect::<Option<Vec<_>>>();
            let mut holders = holders?;
            holders.sort_by_key(|holder| holder.0);
            Answer::Seen { holders, fence: count(0)?, waiting: count(1)? }
        }
        Step::Attend { .. } => match number(0)? {
            2 => Answer::Mine { tick: count(1)?, fence: count(2)? },
            1 => Answer::StillRunning { tick: count(1)?, next: time(2)? },
            0 => Answer::Taken { tick: count(1)?, next: time(2)? },
            _ => Answer::Gone,
        },
    })
}
