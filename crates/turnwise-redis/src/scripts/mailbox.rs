//! The steps of mailboxes as scripts.

use std::time::Duration;

use redis::{Cmd, Value};

use super::{NEEDS_MEMORY, NEEDS_NONE, span};
use crate::record::REMEMBERED;
use crate::step::{
    Advance, DeadMessage, DrainClaim, FailedAttempt, Hand, MailboxAct, MailboxAnswer, MailboxSeen,
    MailboxStep, Progress, StoredMessage, Then, Token,
};

pub(super) const COMMON: &str = include_str!("mailbox_common.lua");

/// Mailboxes are drained also when memory is short, because that frees memory.
pub(super) const SOURCES: [(&str, &str); 11] = [
    (NEEDS_MEMORY, include_str!("mailbox_push.lua")),
    (NEEDS_NONE, include_str!("mailbox_claim.lua")),
    (NEEDS_NONE, include_str!("mailbox_advance.lua")),
    (NEEDS_NONE, include_str!("mailbox_abandon.lua")),
    (NEEDS_NONE, include_str!("mailbox_renew.lua")),
    (NEEDS_NONE, include_str!("mailbox_outcome.lua")),
    (NEEDS_NONE, include_str!("mailbox_withdraw.lua")),
    (NEEDS_NONE, include_str!("mailbox_due.lua")),
    (NEEDS_NONE, include_str!("mailbox_dead.lua")),
    (NEEDS_NONE, include_str!("mailbox_requeue.lua")),
    (NEEDS_NONE, include_str!("mailbox_look.lua")),
];

/// Returns the index of a step's source.
pub(super) fn index(step: &MailboxStep) -> usize {
    match step.act {
        MailboxAct::Push { .. } => 0,
        MailboxAct::Claim { .. } => 1,
        MailboxAct::Advance(_) => 2,
        MailboxAct::Abandon { .. } => 3,
        MailboxAct::Renew { .. } => 4,
        MailboxAct::Outcome { .. } => 5,
        MailboxAct::Withdraw { .. } | MailboxAct::Revoke { .. } => 6,
        MailboxAct::Due { .. } => 7,
        MailboxAct::DeadLetters { .. } => 8,
        MailboxAct::Requeue { .. } | MailboxAct::Discard { .. } => 9,
        MailboxAct::Look { .. } => 10,
    }
}

fn millis(duration: Duration) -> u64 {
    span(duration) / 1000
}

/// Appends the step's arguments, which follow the keys.
pub(super) fn arguments(cmd: &mut Cmd, channels: &str, step: &MailboxStep) {
    cmd.arg(channels).arg(step.shards);
    match &step.act {
        MailboxAct::Push { actor, message, delay, claim } => {
            let StoredMessage { id, name, body, asker } = message;
            let asker = asker.as_ref().map_or("", Token::as_str);
            cmd.arg(actor).arg(id).arg(name).arg(body).arg(asker);
            match claim {
                Some(claim) => claimed(cmd, claim),
                None => cmd.arg("").arg(0).arg(0).arg(0).arg(0),
            };
            cmd.arg(span(*delay))
        }
        MailboxAct::Claim { actor, claim } => claimed(cmd.arg(actor), claim),
        MailboxAct::Advance(Advance { actor, fence, number, done, state, failed, keep, then }) => {
            cmd.arg(actor).arg(*fence).arg(*number).arg(millis(*keep));
            cmd.arg(u8::from(state.is_some())).arg(state.as_deref().unwrap_or_default());
            match failed {
                None => cmd.arg("").arg("").arg(0),
                Some(FailedAttempt { error, again: None }) => cmd.arg("x").arg(error).arg(0),
                Some(FailedAttempt { error, again: Some(again) }) => {
                    cmd.arg("f").arg(error).arg(span(*again))
                }
            };
            match then {
                Then::Next { most, lease } => cmd.arg("n").arg(*most).arg(span(*lease)),
                Then::LetGo { after } => cmd.arg("l").arg(span(*after)).arg(0),
                Then::PutOff { pause } => cmd.arg("p").arg(span(*pause)).arg(0),
            };
            done.iter().fold(cmd, |cmd, reply| cmd.arg(reply))
        }
        MailboxAct::Abandon { actor, token } => {
            cmd.arg(actor).arg(token.as_str()).arg(millis(REMEMBERED))
        }
        MailboxAct::Renew { drained, lease } => {
            cmd.arg(span(*lease));
            drained.iter().fold(cmd, |cmd, (actor, token)| cmd.arg(actor).arg(token.as_str()))
        }
        MailboxAct::Outcome { actor, message } => cmd.arg(actor).arg(message),
        MailboxAct::Withdraw { actor, message, late, keep } => {
            cmd.arg(actor).arg(message).arg(u8::from(*late)).arg(millis(*keep)).arg("")
        }
        MailboxAct::Revoke { actor, message, asker, late, keep } => {
            cmd.arg(actor).arg(message).arg(u8::from(*late)).arg(millis(*keep));
            cmd.arg(asker.as_str())
        }
        MailboxAct::Due { worker, alive, most, grip } => {
            cmd.arg(worker.as_str()).arg(span(*alive)).arg(*most).arg(span(*grip))
        }
        MailboxAct::DeadLetters { from, most } => cmd.arg(*from).arg(*most),
        MailboxAct::Requeue { actor, message } => cmd.arg(actor).arg(message).arg(1),
        MailboxAct::Discard { actor, message } => cmd.arg(actor).arg(message).arg(0),
        MailboxAct::Look { actor } => cmd.arg(actor),
    };
}

fn claimed<'a>(cmd: &'a mut Cmd, claim: &DrainClaim) -> &'a mut Cmd {
    let DrainClaim { token, lease, most, attempts, keep } = claim;
    cmd.arg(token.as_str()).arg(span(*lease)).arg(*most).arg(*attempts).arg(millis(*keep))
}

/// Parses a script's reply.
pub(super) fn read(step: &MailboxStep, values: &[Value]) -> Option<MailboxAnswer> {
    let number = |index: usize| match values.get(index)? {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let count = |index| number(index).and_then(|number| u64::try_from(number).ok());
    let small = |index| count(index).and_then(|count| u32::try_from(count).ok());
    let time = |index| count(index).map(Duration::from_micros);
    let bytes = |index: usize| match values.get(index)? {
        Value::BulkString(bytes) => Some(bytes.clone()),
        _ => None,
    };
    let text = |index| bytes(index).and_then(|bytes| String::from_utf8(bytes).ok());
    let token = |index| {
        let text = text(index)?;
        Some(if text.is_empty() { None } else { Some(Token::from_text(text)) })
    };
    let hand = || {
        let message = |index| {
            let (id, name) = (text(index)?, text(index + 1)?);
            Some(StoredMessage { id, name, body: bytes(index + 2)?, asker: token(index + 3)? })
        };
        let state = if number(4)? == 1 { Some(bytes(5)?) } else { None };
        let messages = (6..values.len()).step_by(4).map(message).collect::<Option<_>>()?;
        let (fence, attempts, left) = (count(1)?, small(2)?, count(3)?);
        Some(MailboxAnswer::Handed(Hand { fence, attempts, state, messages, left }))
    };
    // `at` is the index of the kind.
    let progress = |at: usize| {
        Some(match number(at)? {
            0 => Progress::Unknown,
            1 => Progress::Waiting { ahead: count(at + 2)?, busy: time(at + 3)? },
            2 => Progress::Running { attempt: small(at + 2)?, busy: time(at + 3)? },
            3 => Progress::Done(bytes(at + 1)?),
            4 => Progress::Dead { error: text(at + 1)? },
            6 => Progress::Delayed { left: time(at + 2)? },
            _ => Progress::Withdrawn,
        })
    };
    if number(0) == Some(-2) {
        return Some(MailboxAnswer::Differs { shards: small(1)? });
    }
    Some(match &step.act {
        MailboxAct::Push { .. } => match number(0)? {
            0 => MailboxAnswer::Pushed { ahead: count(1)?, busy: time(2)? },
            2 => hand()?,
            _ => MailboxAnswer::Known(progress(1)?),
        },
        MailboxAct::Claim { .. } => match number(0)? {
            2 => hand()?,
            1 => MailboxAnswer::Busy { left: time(1)? },
            0 => MailboxAnswer::Empty,
            _ => MailboxAnswer::Gone,
        },
        MailboxAct::Advance(_) => match number(0)? {
            2 => hand()?,
            1 => MailboxAnswer::LetGo { left: count(1)?, wait: time(2)? },
            _ => MailboxAnswer::Lost,
        },
        MailboxAct::Abandon { .. } | MailboxAct::Requeue { .. } | MailboxAct::Discard { .. } => {
            MailboxAnswer::Was(number(0)? == 1)
        }
        MailboxAct::Renew { drained, .. } => {
            let held = (0..drained.len()).map(|index| Some(number(index)? == 1));
            MailboxAnswer::Renewed(held.collect::<Option<_>>()?)
        }
        MailboxAct::Outcome { .. } | MailboxAct::Withdraw { .. } | MailboxAct::Revoke { .. } => {
            MailboxAnswer::Progress(progress(0)?)
        }
        MailboxAct::Due { .. } => {
            let next = if number(0)? < 0 { None } else { Some(time(0)?) };
            let actors = (1..values.len()).map(text).collect::<Option<_>>()?;
            MailboxAnswer::Due { actors, next }
        }
        MailboxAct::DeadLetters { .. } => {
            let dead = |index| {
                let (id, name) = (text(index + 1)?, text(index + 2)?);
                let message = StoredMessage { id, name, body: bytes(index + 3)?, asker: None };
                let (attempts, error) = (small(index + 4)?, text(index + 5)?);
                Some(DeadMessage { actor: text(index)?, message, attempts, error })
            };
            let dead = (1..values.len()).step_by(6).map(dead).collect::<Option<_>>()?;
            MailboxAnswer::Dead { all: count(0)?, dead }
        }
        MailboxAct::Look { .. } => {
            let drainer = token(3)?.map(|token| Some((token, time(4)?)));
            let drainer = match drainer {
                Some(drainer) => Some(drainer?),
                None => None,
            };
            let state = if number(5)? == 1 { Some(bytes(6)?) } else { None };
            let (waiting, attempts, fence, delayed) = (count(0)?, small(1)?, count(2)?, count(7)?);
            MailboxAnswer::Seen(MailboxSeen { waiting, drainer, attempts, fence, state, delayed })
        }
    })
}
