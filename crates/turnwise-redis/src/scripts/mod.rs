//! The steps as scripts, which a server runs atomically.

mod admission;
mod mailbox;

use redis::{Cmd, Value};

use std::time::Duration;

use crate::error::StoreError;
use crate::record::REMEMBERED;
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
    (NEEDS_NONE, "", include_str!("renew.lua")),
    (NEEDS_NONE, include_str!("leave_alone.lua"), include_str!("leave.lua")),
    (NEEDS_NONE, "", include_str!("force.lua")),
    (NEEDS_NONE, "", include_str!("look.lua")),
    (NEEDS_MEMORY, "", include_str!("attend.lua")),
    (NEEDS_NONE, "", include_str!("confirm.lua")),
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
    pub(crate) fn new() -> Self {
        let script = |parts: &[&str]| {
            let text = parts.concat();
            let name = sha1_smol::Sha1::from(&text).digest().to_string();
            (name, text)
        };
        let records = SOURCES.iter().map(|(flags, most, all)| script(&[flags, most, COMMON, all]));
        let admissions = admission::SOURCES.iter();
        let admissions = admissions.map(|(flags, body)| script(&[flags, admission::COMMON, body]));
        let mailboxes = mailbox::SOURCES.iter();
        let mailboxes = mailboxes.map(|(flags, body)| script(&[flags, mailbox::COMMON, body]));
        let renewals = script(&[NEEDS_NONE, include_str!("renew_all.lua")]);
        let all = records.chain(admissions).chain(mailboxes).chain([renewals]).collect();
        Scripts { kept: REMEMBERED, all }
    }

    /// Returns the command of a step: with the hash of its script, or with its text. For a cluster
    /// it states a key of the object that never exists: see rule CLUSTER-2 of `cluster.rs`.
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
        let mut cmd = redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
        cmd.arg(if whole { text } else { name });
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
            cmd.arg(micros(*lease)).arg(micros(self.kept) / 1000);
            for Renewal { place, token, .. } in renewals {
                cmd.arg(*place).arg(token.as_str());
            }
            return cmd;
        }
        let queue = format!("{}:q", op.key);
        match &op.step {
            Step::Acquire { token, .. }
            | Step::Leave { token, .. }
            | Step::End { token, .. }
            | Step::Attend { token, .. } => {
                let gone = format!("{}:x:{}", op.key, token.as_str());
                cmd.arg(3 + more).arg(&op.key).arg(queue).arg(gone)
            }
            _ => cmd.arg(2 + more).arg(&op.key).arg(queue),
        };
        cmd.arg(never);
        cmd.arg(channels).arg(op.places).arg(micros(self.kept) / 1000).arg(op.above);
        match &op.step {
            Step::Acquire { token, lease, alive } => {
                cmd.arg(token.as_str()).arg(micros(*lease));
                cmd.arg(alive.map_or(0, micros))
            }
            Step::Refresh { tokens, alive } => {
                cmd.arg(micros(*alive));
                tokens.iter().fold(&mut cmd, |cmd, token| cmd.arg(token.as_str()))
            }
            Step::Renew { token, lease } => cmd.arg(token.as_str()).arg(micros(*lease)),
            Step::Confirm { token, fence, lease } => {
                cmd.arg(token.as_str()).arg(*fence).arg(micros(*lease))
            }
            Step::Leave { token, late } => {
                let late = if *late { REMEMBERED } else { Duration::ZERO };
                cmd.arg(token.as_str()).arg(micros(late) / 1000)
            }
            Step::Force { place } | Step::Repair { place } => cmd.arg(*place),
            Step::Begin { token } => cmd.arg(token.as_str()),
            Step::End { token, quarantine, late } => {
                let late = if *late { REMEMBERED } else { Duration::ZERO };
                let long = if *quarantine { LONGEST } else { Duration::ZERO };
                cmd.arg(token.as_str()).arg(micros(late) / 1000).arg(micros(long))
            }
            Step::Look | Step::Admission(_) | Step::Mailbox(_) | Step::RenewAll { .. } => &mut cmd,
            Step::Attend { token, every, offset, lease, overlap } => {
                cmd.arg(token.as_str()).arg(micros(*every)).arg(micros(*offset));
                cmd.arg(micros(*lease)).arg(u8::from(*overlap))
            }
        };
        cmd
    }
}

fn micros(duration: Duration) -> u64 {
    duration.min(LONGEST).as_micros() as u64
}

/// Parses a script's reply.
pub(crate) fn answer(step: &Step, reply: Value) -> Result<Answer, StoreError> {
    let read = match &reply {
        Value::Array(values) => read(step, values),
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
        Step::Leave { .. } | Step::End { .. } if number(0)? == 1 => Answer::Released,
        Step::Leave { .. } | Step::End { .. } => Answer::NotHeld,
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
            0 => Answer::Taken { next: time(1)? },
            _ => Answer::Gone,
        },
    })
}
