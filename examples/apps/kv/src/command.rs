//! Parses commands from arguments, with redis's own texts for errors. All errors that need no look
//! at a key are found here.

use crate::frame::Args;
use crate::number;
use crate::reply::{NOT_AN_INTEGER, SYNTAX, quoted};
use crate::value::{Clock, Only, Op};

/// A command on several keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    Get,
    Set,
    Del,
    Exists,
}

/// A command.
#[derive(Debug)]
pub enum Request<'a> {
    One(&'a [u8], Op<'a>),
    /// The keys are all arguments but the first.
    Many(Many),
    DbSize,
    FlushAll,
    /// A command whose reply depends on nothing.
    Fixed(&'static [u8]),
    Bulk(&'a [u8]),
    Info,
    /// Sends one more reply, then closes the connection.
    Quit,
    /// Closes the connection without a reply: the client speaks another protocol.
    HangUp,
}

/// The text of an error.
type Wrong = Vec<u8>;

#[derive(Clone, Copy)]
enum Name {
    Append,
    Client,
    Command,
    Config,
    DbSize,
    Decr,
    DecrBy,
    Del,
    Echo,
    Exists,
    Expire,
    FlushAll,
    Get,
    HangUp,
    Incr,
    IncrBy,
    Info,
    MGet,
    MSet,
    Persist,
    PExpire,
    Ping,
    PTtl,
    Quit,
    Select,
    Set,
    SetNx,
    StrLen,
    Ttl,
}

/// Returns the command of this name, in small letters, and the number of its arguments, with the
/// name; a negative number is a minimum.
fn named(name: &[u8]) -> Option<(Name, isize)> {
    Some(match name {
        b"append" => (Name::Append, 3),
        b"client" => (Name::Client, -2),
        b"command" => (Name::Command, -1),
        b"config" => (Name::Config, -2),
        b"dbsize" => (Name::DbSize, 1),
        b"decr" => (Name::Decr, 2),
        b"decrby" => (Name::DecrBy, 3),
        b"del" => (Name::Del, -2),
        b"echo" => (Name::Echo, 2),
        b"exists" => (Name::Exists, -2),
        b"expire" => (Name::Expire, -3),
        b"flushall" => (Name::FlushAll, -1),
        b"get" => (Name::Get, 2),
        b"host:" | b"post" => (Name::HangUp, -1),
        b"incr" => (Name::Incr, 2),
        b"incrby" => (Name::IncrBy, 3),
        b"info" => (Name::Info, -1),
        b"mget" => (Name::MGet, -2),
        b"mset" => (Name::MSet, -3),
        b"persist" => (Name::Persist, 2),
        b"pexpire" => (Name::PExpire, -3),
        b"ping" => (Name::Ping, -1),
        b"pttl" => (Name::PTtl, 2),
        b"quit" => (Name::Quit, -1),
        b"select" => (Name::Select, 2),
        b"set" => (Name::Set, -3),
        b"setnx" => (Name::SetNx, 3),
        b"strlen" => (Name::StrLen, 2),
        b"ttl" => (Name::Ttl, 2),
        _ => return None,
    })
}

/// Parses a command.
///
/// # Errors
/// Redis's text about it.
pub fn parse<'a>(args: Args<'a>, clock: &Clock) -> Result<Request<'a>, Wrong> {
    let mut letters = [0; 8];
    let Some(name) = letters.get_mut(..args.get(0).len()) else { return Err(unknown(args)) };
    name.copy_from_slice(args.get(0));
    name.make_ascii_lowercase();
    let Some((command, arity)) = named(name) else { return Err(unknown(args)) };
    let len = args.len() as isize;
    if len < arity.abs() || (arity > 0 && len > arity) {
        return Err(wrong_number(name));
    }
    let one = |op| Ok(Request::One(args.get(1), op));
    let many = |many, op| match args.len() {
        2 => Ok(Request::One(args.get(1), op)),
        _ => Ok(Request::Many(many)),
    };
    match command {
        Name::Get => one(Op::Get),
        Name::Set => one(set(args, clock)?),
        Name::SetNx => one(Op::SetNx(args.get(2))),
        Name::Incr => one(Op::Add(1)),
        Name::Decr => one(Op::Add(-1)),
        Name::IncrBy => one(Op::Add(integer(args.get(2))?)),
        Name::DecrBy => match integer(args.get(2))?.checked_neg() {
            Some(number) => one(Op::Add(number)),
            None => Err(b"decrement would overflow".into()),
        },
        Name::Append => one(Op::Append(args.get(2))),
        Name::StrLen => one(Op::StrLen),
        Name::Expire => one(expire(args, 1000, name, clock)?),
        Name::PExpire => one(expire(args, 1, name, clock)?),
        Name::Ttl => one(Op::Ttl),
        Name::PTtl => one(Op::PTtl),
        Name::Persist => one(Op::Persist),
        Name::Del => many(Many::Del, Op::Del),
        Name::Exists => many(Many::Exists, Op::Exists),
        Name::MGet => Ok(Request::Many(Many::Get)),
        Name::MSet if len % 2 == 0 => Err(wrong_number(name)),
        Name::MSet => Ok(Request::Many(Many::Set)),
        Name::DbSize => Ok(Request::DbSize),
        Name::FlushAll => match args.len() {
            1 => Ok(Request::FlushAll),
            2 if is(args.get(1), "async") || is(args.get(1), "sync") => Ok(Request::FlushAll),
            _ => Err(SYNTAX.into()),
        },
        Name::Ping => match args.len() {
            1 => Ok(Request::Fixed(b"+PONG\r\n")),
            2 => Ok(Request::Bulk(args.get(1))),
            _ => Err(wrong_number(name)),
        },
        Name::Echo => Ok(Request::Bulk(args.get(1))),
        Name::Select => match integer(args.get(1))? {
            0 => Ok(Request::Fixed(b"+OK\r\n")),
            number if i32::try_from(number).is_err() => {
                let text = b"value is out of range, value must between -2147483648 and 2147483647";
                Err(text.into())
            }
            _ => Err(b"DB index is out of range".into()),
        },
        Name::Quit => Ok(Request::Quit),
        Name::HangUp => Ok(Request::HangUp),
        Name::Info => Ok(Request::Info),
        // No command is described, and no setting can be changed. Redis's benchmark reads two
        // settings.
        Name::Command => Ok(Request::Fixed(b"*0\r\n")),
        Name::Config if is(args.get(1), "get") => match args.len() {
            2 => Err(wrong_number(b"config|get")),
            3 if is(args.get(2), "save") => Ok(Request::Fixed(b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n")),
            3 if is(args.get(2), "appendonly") => {
                Ok(Request::Fixed(b"*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"))
            }
            _ => Ok(Request::Fixed(b"*0\r\n")),
        },
        Name::Config => Err(unknown_of("CONFIG", args.get(1))),
        Name::Client => match args.len() {
            3 if is(args.get(1), "setname") => Ok(Request::Fixed(b"+OK\r\n")),
            4 if is(args.get(1), "setinfo") => Ok(Request::Fixed(b"+OK\r\n")),
            2 if is(args.get(1), "getname") => Ok(Request::Fixed(b"$-1\r\n")),
            _ => Err(unknown_of("CLIENT", args.get(1))),
        },
    }
}

/// Returns true if it is this word, as redis compares them.
fn is(arg: &[u8], word: &str) -> bool {
    quoted(arg, usize::MAX).eq_ignore_ascii_case(word.as_bytes())
}

fn integer(arg: &[u8]) -> Result<i64, Wrong> {
    number::parse(arg).ok_or_else(|| NOT_AN_INTEGER.into())
}

fn set<'a>(args: Args<'a>, clock: &Clock) -> Result<Op<'a>, Wrong> {
    let mut only = Only::default();
    let (mut get, mut keep_expiry) = (false, false);
    // The name, the unit in milliseconds, and true if it counts from now.
    let units = [("ex", 1000, true), ("px", 1, true), ("exat", 1000, false), ("pxat", 1, false)];
    let mut expiry = None;
    let mut options = args.from(3);
    while let Some(option) = options.next() {
        if is(option, "nx") && !only.present {
            only.absent = true;
        } else if is(option, "xx") && !only.absent {
            only.present = true;
        } else if is(option, "get") {
            get = true;
        } else if is(option, "keepttl") && expiry.is_none() {
            keep_expiry = true;
        } else {
            let unit = units.iter().find(|unit| is(option, unit.0)).filter(|_| !keep_expiry);
            // The same option may be repeated; another one may not follow.
            let same = expiry.is_none_or(|(old, _)| Some(old) == unit);
            match (unit, options.next()) {
                (Some(unit), Some(time)) if same => expiry = Some((unit, time)),
                _ => return Err(SYNTAX.into()),
            }
        }
    }
    let expires = match expiry {
        None => None,
        Some(((_, unit, from_now), time)) => {
            let now = if *from_now { clock.now() } else { 0 };
            let time = Some(integer(time)?).filter(|time| *time > 0);
            let at = time.and_then(|time| time.checked_mul(*unit)?.checked_add(now));
            Some(at.ok_or_else(|| wrong_expiry(b"set"))?)
        }
    };
    Ok(Op::Set { bytes: args.get(2), only, expires, keep_expiry, get })
}

fn expire<'a>(args: Args<'a>, unit: i64, name: &[u8], clock: &Clock) -> Result<Op<'a>, Wrong> {
    let mut only = Only::default();
    for option in args.from(3) {
        match () {
            () if is(option, "nx") => only.absent = true,
            () if is(option, "xx") => only.present = true,
            () if is(option, "gt") => only.later = true,
            () if is(option, "lt") => only.earlier = true,
            () => {
                let option = quoted(option, usize::MAX);
                // Redis cuts the ends of lines off the end of an error.
                let cut = option.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n'));
                let option = &option[..option.len() - cut.count()];
                return Err([b"Unsupported option ", option].concat());
            }
        }
    }
    if only.absent && (only.present || only.later || only.earlier) {
        let text = b"NX and XX, GT or LT options at the same time are not compatible";
        return Err(text.into());
    }
    if only.later && only.earlier {
        return Err(b"GT and LT options at the same time are not compatible".into());
    }
    let time = integer(args.get(2))?.checked_mul(unit);
    // A time below the range is the lowest one.
    let at = time.and_then(|time| time.checked_add(clock.now()));
    Ok(Op::Expire { at: at.ok_or_else(|| wrong_expiry(name))?, only })
}

fn wrong_expiry(command: &[u8]) -> Wrong {
    [b"invalid expire time in '", command, b"' command"].concat()
}

fn wrong_number(command: &[u8]) -> Wrong {
    [b"wrong number of arguments for '", command, b"' command"].concat()
}

/// The number of bytes of the arguments that redis repeats.
const SHOWN: usize = 128;

fn unknown(args: Args<'_>) -> Wrong {
    let mut shown = Vec::new();
    for arg in args.from(1) {
        if shown.len() >= SHOWN {
            break;
        }
        let arg = quoted(arg, SHOWN - shown.len());
        shown.extend_from_slice(b"'");
        shown.extend_from_slice(arg);
        shown.extend_from_slice(b"' ");
    }
    let name = quoted(args.get(0), SHOWN);
    [b"unknown command '", name, b"', with args beginning with: ", &shown].concat()
}

fn unknown_of(command: &str, sub: &[u8]) -> Wrong {
    let command = command.as_bytes();
    [b"unknown subcommand '", quoted(sub, SHOWN), b"'. Try ", command, b" HELP."].concat()
}
