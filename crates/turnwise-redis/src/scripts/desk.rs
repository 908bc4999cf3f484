//! The steps of an admission as scripts.

use std::time::Duration;

use redis::{Cmd, Value};

use super::{NEEDS_MEMORY, NEEDS_NONE, micros};
use crate::record::REMEMBERED;
use crate::step::{Claim, DeskAct, DeskAnswer, DeskRow, DeskSeen, DeskStep, Standing};

pub(super) const COMMON: &str = include_str!("desk_common.lua");

/// A place that is reserved is confirmed also when memory is short: places are counted.
pub(super) const SOURCES: [(&str, &str); 7] = [
    (NEEDS_MEMORY, include_str!("desk_take.lua")),
    (NEEDS_NONE, include_str!("desk_keep.lua")),
    (NEEDS_NONE, include_str!("desk_confirm.lua")),
    (NEEDS_NONE, include_str!("desk_cancel.lua")),
    (NEEDS_NONE, include_str!("desk_close.lua")),
    (NEEDS_NONE, include_str!("desk_look.lua")),
    (NEEDS_NONE, include_str!("desk_rows.lua")),
];

/// Which of the sources does a step.
pub(super) fn index(step: &DeskStep) -> usize {
    match step.act {
        DeskAct::Admit { .. } | DeskAct::Reserve { .. } => 0,
        DeskAct::Keep { .. } => 1,
        DeskAct::Confirm { .. } => 2,
        DeskAct::Cancel { .. } => 3,
        DeskAct::Close => 4,
        DeskAct::Look => 5,
        DeskAct::Rows { .. } => 6,
    }
}

/// The step's keys and arguments, behind the script's name.
pub(super) fn arguments(cmd: &mut Cmd, channels: &str, key: &str, step: &DeskStep) {
    let claim = match &step.act {
        DeskAct::Admit { claim, .. }
        | DeskAct::Reserve { claim, .. }
        | DeskAct::Confirm { claim, .. }
        | DeskAct::Cancel { claim, .. } => Some(claim),
        _ => None,
    };
    cmd.arg(7 + usize::from(claim.is_some())).arg(key);
    for part in ["e", "q", "u", "b", "w", "d"] {
        cmd.arg(format!("{key}:{part}"));
    }
    if let Some(Claim { token, .. }) = claim {
        cmd.arg(format!("{key}:x:{}", token.as_str()));
    }
    cmd.arg(channels).arg(step.limit);
    if let Some(Claim { token, applicant }) = claim {
        cmd.arg(token.as_str()).arg(applicant);
    }
    match &step.act {
        DeskAct::Admit { row, alive, .. } => cmd.arg(alive.map_or(0, micros)).arg("w").arg(row),
        DeskAct::Reserve { lease, alive, .. } => {
            cmd.arg(alive.map_or(0, micros)).arg("r").arg(micros(*lease))
        }
        DeskAct::Keep { claims, lease, alive } => {
            cmd.arg(micros(*lease)).arg(micros(*alive));
            claims.iter().fold(cmd, |cmd, (claim, fence)| {
                cmd.arg(claim.token.as_str()).arg(&claim.applicant).arg(*fence)
            })
        }
        DeskAct::Confirm { fence, row, .. } => cmd.arg(*fence).arg(row),
        DeskAct::Cancel { late, .. } => {
            let late = if *late { REMEMBERED } else { Duration::ZERO };
            cmd.arg(micros(late) / 1000)
        }
        DeskAct::Rows { from, most } => cmd.arg(*from).arg(*most),
        DeskAct::Close | DeskAct::Look => cmd,
    };
}

/// What a script's reply says.
pub(super) fn read(step: &DeskStep, values: &[Value]) -> Option<DeskAnswer> {
    let number = |index: usize| match values.get(index)? {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let count = |index| number(index).and_then(|number| u64::try_from(number).ok());
    let time = |index| count(index).map(Duration::from_micros);
    let code = number(0)?;
    if code == -2 {
        return Some(DeskAnswer::Differs { limit: count(1)? });
    }
    if code == 3 {
        return Some(DeskAnswer::Admitted { place: count(1)?, fence: count(2)? });
    }
    Some(match &step.act {
        DeskAct::Admit { .. } | DeskAct::Reserve { .. } => match code {
            0 => DeskAnswer::Closed { limit: count(1)? },
            1 => DeskAnswer::Queued { ahead: count(1)?, busy: time(2)? },
            2 => DeskAnswer::Reserved { place: count(1)?, fence: count(2)? },
            4 => DeskAnswer::Duplicate { place: count(1)? },
            5 => DeskAnswer::Pending { place: Some(count(1)?) },
            6 => DeskAnswer::Pending { place: None },
            7 => DeskAnswer::Busy { busy: time(1)? },
            _ => DeskAnswer::Gone,
        },
        DeskAct::Keep { claims, .. } => {
            let standing = |index| match number(index)? {
                0 => Some(Standing::Nowhere),
                1 => Some(Standing::Queued),
                _ => Some(Standing::Holds),
            };
            let standings = (2..claims.len() + 2).map(standing).collect::<Option<_>>()?;
            DeskAnswer::Standings { standings, busy: time(1)? }
        }
        DeskAct::Confirm { .. } => DeskAnswer::Lost,
        DeskAct::Cancel { .. } => DeskAnswer::Cancelled,
        DeskAct::Close => DeskAnswer::Closed { limit: count(1)? },
        DeskAct::Look => DeskAnswer::Seen(DeskSeen {
            limit: count(1)?,
            closed: number(2)? == 1,
            admitted: count(3)?,
            reserved: count(4)?,
            waiting: count(5)?,
            fence: count(6)?,
        }),
        DeskAct::Rows { .. } => {
            let bytes = |index: usize| match values.get(index)? {
                Value::BulkString(bytes) => Some(bytes.clone()),
                _ => None,
            };
            let row = |index| {
                let applicant = String::from_utf8(bytes(index + 2)?).ok()?;
                let (place, fence) = (count(index)?, count(index + 1)?);
                Some(DeskRow { applicant, place, fence, row: bytes(index + 3)? })
            };
            DeskAnswer::Rows((1..values.len()).step_by(4).map(row).collect::<Option<_>>()?)
        }
    })
}
