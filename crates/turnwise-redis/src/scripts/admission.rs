//! The steps of an admission as scripts.

use std::time::Duration;

use redis::{Cmd, Value};

use super::{NEEDS_MEMORY, NEEDS_NONE, span};
use crate::record::REMEMBERED;
use crate::step::{
    AdmissionAct, AdmissionAnswer, AdmissionRow, AdmissionSeen, AdmissionStep, Claim, Standing,
};

pub(super) const COMMON: &str = include_str!("admission_common.lua");

/// A reserved place is confirmed also when memory is short: the number of places is limited.
pub(super) const SOURCES: [(&str, &str); 7] = [
    (NEEDS_MEMORY, include_str!("admission_take.lua")),
    (NEEDS_NONE, include_str!("admission_keep.lua")),
    (NEEDS_NONE, include_str!("admission_confirm.lua")),
    (NEEDS_NONE, include_str!("admission_cancel.lua")),
    (NEEDS_NONE, include_str!("admission_close.lua")),
    (NEEDS_NONE, include_str!("admission_look.lua")),
    (NEEDS_NONE, include_str!("admission_rows.lua")),
];

/// Returns the index of a step's source.
pub(super) fn index(step: &AdmissionStep) -> usize {
    match step.act {
        AdmissionAct::Admit { .. } | AdmissionAct::Reserve { .. } => 0,
        AdmissionAct::Keep { .. } => 1,
        AdmissionAct::Confirm { .. } => 2,
        AdmissionAct::Cancel { .. } => 3,
        AdmissionAct::Close => 4,
        AdmissionAct::Look => 5,
        AdmissionAct::Rows { .. } => 6,
    }
}

/// Appends the step's keys, with the further ones, and its arguments. They follow the script's
/// hash.
pub(super) fn arguments(
    cmd: &mut Cmd,
    channels: &str,
    key: &str,
    further: &[String],
    step: &AdmissionStep,
) {
    let claim = match &step.act {
        AdmissionAct::Admit { claim, .. }
        | AdmissionAct::Reserve { claim, .. }
        | AdmissionAct::Confirm { claim, .. }
        | AdmissionAct::Cancel { claim, .. } => Some(claim),
        _ => None,
    };
    cmd.arg(7 + usize::from(claim.is_some()) + further.len()).arg(key);
    for part in ["e", "q", "u", "b", "w", "d"] {
        cmd.arg(format!("{key}:{part}"));
    }
    if let Some(Claim { token, .. }) = claim {
        cmd.arg(format!("{key}:x:{}", token.as_str()));
    }
    cmd.arg(further);
    cmd.arg(channels).arg(step.limit);
    if let Some(Claim { token, applicant }) = claim {
        cmd.arg(token.as_str()).arg(applicant);
    }
    match &step.act {
        AdmissionAct::Admit { row, alive, .. } => cmd.arg(alive.map_or(0, span)).arg("w").arg(row),
        AdmissionAct::Reserve { lease, alive, .. } => {
            cmd.arg(alive.map_or(0, span)).arg("r").arg(span(*lease))
        }
        AdmissionAct::Keep { claims, lease, alive } => {
            cmd.arg(span(*lease)).arg(span(*alive));
            claims.iter().fold(cmd, |cmd, (claim, fence)| {
                cmd.arg(claim.token.as_str()).arg(&claim.applicant).arg(*fence)
            })
        }
        AdmissionAct::Confirm { fence, row, .. } => cmd.arg(*fence).arg(row),
        AdmissionAct::Cancel { late, .. } => {
            let late = if *late { REMEMBERED } else { Duration::ZERO };
            cmd.arg(span(late) / 1000)
        }
        AdmissionAct::Rows { from, most } => cmd.arg(*from).arg(*most),
        AdmissionAct::Close | AdmissionAct::Look => cmd,
    };
}

/// Parses a script's reply.
pub(super) fn read(step: &AdmissionStep, values: &[Value]) -> Option<AdmissionAnswer> {
    let number = |index: usize| match values.get(index)? {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let count = |index| number(index).and_then(|number| u64::try_from(number).ok());
    let time = |index| count(index).map(Duration::from_micros);
    let code = number(0)?;
    if code == -2 {
        return Some(AdmissionAnswer::Differs { limit: count(1)? });
    }
    if code == 3 {
        return Some(AdmissionAnswer::Admitted { place: count(1)?, fence: count(2)? });
    }
    Some(match &step.act {
        AdmissionAct::Admit { .. } | AdmissionAct::Reserve { .. } => match code {
            0 => AdmissionAnswer::Closed { limit: count(1)? },
            1 => AdmissionAnswer::Queued { ahead: count(1)?, busy: time(2)? },
            2 => AdmissionAnswer::Reserved { place: count(1)?, fence: count(2)? },
            4 => AdmissionAnswer::Duplicate { place: count(1)? },
            5 => AdmissionAnswer::Pending { place: Some(count(1)?) },
            6 => AdmissionAnswer::Pending { place: None },
            7 => AdmissionAnswer::Busy { busy: time(1)? },
            _ => AdmissionAnswer::Gone,
        },
        AdmissionAct::Keep { claims, .. } => {
            let standing = |index| match number(index)? {
                0 => Some(Standing::Nowhere),
                1 => Some(Standing::Queued),
                _ => Some(Standing::Holds),
            };
            let standings = (2..claims.len() + 2).map(standing).collect::<Option<_>>()?;
            AdmissionAnswer::Standings { standings, busy: time(1)? }
        }
        AdmissionAct::Confirm { .. } => AdmissionAnswer::Lost,
        AdmissionAct::Cancel { .. } => AdmissionAnswer::Cancelled,
        AdmissionAct::Close => AdmissionAnswer::Closed { limit: count(1)? },
        AdmissionAct::Look => AdmissionAnswer::Seen(AdmissionSeen {
            limit: count(1)?,
            closed: number(2)? == 1,
            admitted: count(3)?,
            reserved: count(4)?,
            waiting: count(5)?,
            fence: count(6)?,
        }),
        AdmissionAct::Rows { .. } => {
            let bytes = |index: usize| match values.get(index)? {
                Value::BulkString(bytes) => Some(bytes.clone()),
                _ => None,
            };
            let row = |index| {
                let applicant = String::from_utf8(bytes(index + 2)?).ok()?;
                let (place, fence) = (count(index)?, count(index + 1)?);
                Some(AdmissionRow { applicant, place, fence, row: bytes(index + 3)? })
            };
            AdmissionAnswer::Rows((1..values.len()).step_by(4).map(row).collect::<Option<_>>()?)
        }
    })
}
