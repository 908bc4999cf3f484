//! Sends random commands to this server and to redis: the replies are equal, byte for byte.
//!
//! `KV_COMMANDS=1000000 KV_TABLE=actors cargo test --release --test against_redis` runs more
//! commands; `KV_SEED` changes them.

mod common;

use common::{Client, Dice, Kv, Redis, TABLES, frame, size, text};

/// The comparison of the replies to a command.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Compare {
    Exactly,
    /// The replies may differ by this time: in seconds or milliseconds, as the command counts.
    Within(i64),
}

struct Generator {
    dice: Dice,
}

const KEYS: &[&[u8]] = &[
    b"a",
    b"b",
    b"c",
    b"d",
    b"e",
    b"f",
    b"g",
    b"h",
    b"i",
    b"j",
    b"k",
    b"l",
    b"m",
    b"n",
    b"o",
    b"p",
    b"",
    b"\0",
    b"a\0b",
    b"\r\n",
    b"\xff\xfe",
    b"with blank",
    b"\"",
    b"'",
    b"*1\r\n",
    b"key:1",
    b"a long key that has no other purpose than to be longer than any small buffer could be",
];

const VALUES: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"10",
    b"123456789",
    b"",
    b" 1",
    b"1 ",
    b"+1",
    b"01",
    b"-0",
    b"1.5",
    b"1e3",
    b"x",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"99999999999999999999999",
    b"\0",
    b"1\0",
    b"\r\n",
    b"\xff",
    b"nan",
    b"-",
    b"9223372036854775800",
];

/// Values that are invalid as a time, for every command.
const WRONG_TIMES: &[&[u8]] = &[
    b"0",
    b"-1",
    b"-100000",
    b"x",
    b"",
    b"1.5",
    b"01",
    b"9223372036854775807",
    b"1\0",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"9223372036854775",
    b"9223372036854775806",
];

impl Generator {
    fn key(&mut self) -> Vec<u8> {
        self.dice.pick(KEYS).to_vec()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.dice.below(10) {
            0..6 => self.dice.pick(VALUES).to_vec(),
            6..8 => self.dice.below(1000).to_string().into_bytes(),
            8 => self.bytes(64),
            _ if self.dice.one_in(50) => self.bytes(40_000),
            _ => self.bytes(600),
        }
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = self.dice.below(most);
        (0..len).map(|_| self.dice.number() as u8).collect()
    }

    /// Returns a time that does not end before the test, and that differs each time; or an invalid
    /// one.
    fn time(&mut self, millis: bool) -> Vec<u8> {
        if self.dice.one_in(5) {
            return self.dice.pick(WRONG_TIMES).to_vec();
        }
        let seconds = 10_000 * (1 + self.dice.below(1_000_000_000));
        (if millis { seconds * 1000 } else { seconds }).to_string().into_bytes()
    }

    fn command(&mut self) -> (Vec<Vec<u8>>, Compare) {
        let mut compare = Compare::Exactly;
        let mut args: Vec<Vec<u8>> = match self.dice.below(100) {
            0..12 => vec![b"get".into(), self.key()],
            12..18 => vec![b"set".into(), self.key(), self.value()],
            18..30 => self.set(),
            30..33 => vec![b"setnx".into(), self.key(), self.value()],
            33..36 => vec![b"incr".into(), self.key()],
            36..39 => vec![b"decr".into(), self.key()],
            39..44 => vec![b"incrby".into(), self.key(), self.value()],
            44..46 => vec![b"decrby".into(), self.key(), self.value()],
            46..51 => vec![b"append".into(), self.key(), self.value()],
            51..54 => vec![b"strlen".into(), self.key()],
            54..60 => self.expire(),
            60..64 => {
                compare = Compare::Within(60);
                vec![b"ttl".into(), self.key()]
            }
            64..67 => {
                compare = Compare::Within(60_000);
                vec![b"pttl".into(), self.key()]
            }
            67..70 => vec![b"persist".into(), self.key()],
            70..76 => self.some(b"del", 4, false),
            76..80 => self.some(b"exists", 6, false),
            80..85 => self.some(b"mget", 6, false),
            85..89 => self.some(b"mset", 5, true),
            89..92 => vec![b"dbsize".into()],
            92 if self.dice.one_in(20) => {
                let mut args = vec![b"flushall".to_vec()];
                if self.dice.one_in(2) {
                    args.push(self.dice.pick::<[u8]>(&[b"ASYNC", b"sync", b"x", b""]).to_vec());
                }
                args
            }
            92 => vec![b"ping".into()],
            93 => vec![b"ping".into(), self.value()],
            94 => vec![b"echo".into(), self.value()],
            95 => {
                let numbers: &[&[u8]] = &[b"0", b"16", b"-1", b"x", b"99999999999", b"00"];
                vec![b"select".into(), self.dice.pick(numbers).to_vec()]
            }
            _ => self.unknown(),
        };
        // Too few arguments, or too many.
        if self.dice.one_in(25) {
            if self.dice.one_in(2) && args.len() > 1 {
                args.pop();
            } else {
                args.push(self.value());
            }
        }
        for letter in &mut args[0] {
            if self.dice.one_in(2) {
                letter.make_ascii_uppercase();
            }
        }
        (args, compare)
    }

    fn set(&mut self) -> Vec<Vec<u8>> {
        let mut args = vec![b"set".to_vec(), self.key(), self.value()];
        for _ in 0..1 + self.dice.below(3) {
            match self.dice.below(12) {
                0..2 => args.push(b"nx".into()),
                2..4 => args.push(b"XX".into()),
                4..6 => args.push(b"Get".into()),
                6 => args.push(b"keepttl".into()),
                7..9 => args.extend([b"eX".into(), self.time(false)]),
                9 => args.extend([b"px".into(), self.time(true)]),
                10 => {
                    let (name, time) = match self.dice.below(4) {
                        0 => ("exat", "4000000000"),
                        1 => ("pxat", "4000000000000"),
                        2 => ("exat", "-1"),
                        _ => ("pxat", "x"),
                    };
                    args.extend([name.into(), time.into()]);
                }
                _ => args.push(self.dice.pick::<[u8]>(&[b"", b"nxx", b"nx\0y", b"e"]).to_vec()),
            }
        }
        args
    }

    fn expire(&mut self) -> Vec<Vec<u8>> {
        let millis = self.dice.one_in(2);
        let name = if millis { b"pexpire".to_vec() } else { b"expire".to_vec() };
        let mut args = vec![name, self.key(), self.time(millis)];
        while self.dice.one_in(2) {
            let options: &[&[u8]] = &[b"nx", b"XX", b"gt", b"lT", b"x", b"", b"a\r\n", b"gt\0"];
            args.push(self.dice.pick(options).to_vec());
        }
        args
    }

    fn some(&mut self, name: &[u8], most: usize, values: bool) -> Vec<Vec<u8>> {
        let mut args = vec![name.to_vec()];
        for _ in 0..1 + self.dice.below(most) {
            args.push(self.key());
            if values {
                args.push(self.value());
            }
        }
        args
    }

    fn unknown(&mut self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] =
            &[b"frob", b"", b"get ", b"\0", b"ge\0t", b"\r\n", b"%s%n", b"\xff", b"xquit"];
        let mut args = vec![self.dice.pick(names).to_vec()];
        if self.dice.one_in(10) {
            args[0] = vec![b'z'; 300];
        }
        while !self.dice.one_in(3) {
            args.push(self.value());
        }
        args
    }

    /// Returns the bytes of a command: a frame, or a line.
    fn encode(&mut self, args: &[Vec<u8>]) -> Vec<u8> {
        if self.dice.one_in(40) {
            return [&b"*0\r\n"[..], &self.encode(args)].concat();
        }
        let len: usize = args.iter().map(|arg| 4 * arg.len() + 4).sum();
        if self.dice.below(8) > 0 || len > 60_000 {
            let args: Vec<_> = args.iter().map(Vec::as_slice).collect();
            return frame(&args);
        }
        let mut line = Vec::new();
        // It can contain neither an end of a line nor a zero, except behind a backslash.
        for arg in args {
            line.extend_from_slice(self.dice.pick::<[u8]>(&[b" ", b"  ", b"\t"]));
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
            let quotable = |byte: &u8| !matches!(byte, b'\'' | b'\\' | b'\n' | b'\r' | 0);
            if !arg.is_empty() && arg.iter().all(plain) {
                line.extend_from_slice(arg);
            } else if arg.iter().all(quotable) && self.dice.one_in(2) {
                line.extend_from_slice(&[b"'", arg.as_slice(), b"'"].concat());
            } else {
                line.push(b'"');
                for byte in arg {
                    match byte {
                        b'\n' => line.extend_from_slice(b"\\n"),
                        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' => line.push(*byte),
                        b'"' | b'\\' => line.extend_from_slice(&[b'\\', *byte]),
                        _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
                    }
                }
                line.push(b'"');
            }
        }
        // It must not begin like a frame.
        [b" ", line.as_slice(), self.dice.pick::<[u8]>(&[b"\r\n", b"\n"])].concat()
    }
}

fn number(reply: &[u8]) -> Option<i64> {
    std::str::from_utf8(reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?).ok()?.parse().ok()
}

fn equal(ours: &[u8], theirs: &[u8], compare: Compare) -> bool {
    match (compare, number(ours), number(theirs)) {
        (Compare::Within(limit), Some(ours), Some(theirs)) if ours > 0 && theirs > 0 => {
            ours.abs_diff(theirs) <= limit as u64
        }
        _ => ours == theirs,
    }
}

/// Writes a batch, in pieces or whole.
fn send(client: &mut Client, bytes: &[u8], dice: &mut Dice) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = if dice.one_in(4) { rest.len().min(64) } else { rest.len() };
        let (piece, behind) = rest.split_at(1 + dice.below(most));
        client.send(piece);
        rest = behind;
    }
}

fn compare_with_redis(table: &str, redis: &Redis, commands: usize, seed: u64) {
    let kv = Kv::start(table);
    let (mut ours, mut theirs) = (kv.client(), redis.client());
    theirs.ask("flushall");
    let mut generator = Generator { dice: Dice(seed) };
    let mut dice = Dice(!seed);
    let (mut compared, mut bytes_compared, mut errors) = (0, 0, 0);
    while compared < commands {
        let mut batch = Vec::new();
        let mut sent = Vec::new();
        for _ in 0..1 + dice.below(300) {
            let (args, compare) = generator.command();
            batch.extend(generator.encode(&args));
            sent.push((args, compare));
            if batch.len() > 64 * 1024 {
                break;
            }
        }
        send(&mut theirs, &batch, &mut dice);
        send(&mut ours, &batch, &mut dice);
        for (args, compare) in sent {
            let (our, their) = (ours.reply(), theirs.reply());
            assert!(
                equal(&our, &their, compare),
                "{table}, seed {seed}, command {compared}: {:?}\nours   {:?}\nredis's {:?}",
                args.iter().map(|arg| text(arg)).collect::<Vec<_>>(),
                text(&our),
                text(&their),
            );
            compared += 1;
            bytes_compared += our.len();
            errors += usize::from(our.starts_with(b"-"));
        }
    }
    // The values at the end are compared too.
    for key in KEYS {
        let get = frame(&[b"get", key]);
        ours.send(&get);
        theirs.send(&get);
        assert_eq!(text(&ours.reply()), text(&theirs.reply()), "{table}: the last {:?}", text(key));
    }
    println!("{table}: {compared} commands, {bytes_compared} bytes, {errors} errors: all equal");
}

#[test]
fn replies_are_redis_s_byte_for_byte() {
    let Some(redis) = Redis::start("replies_are_redis_s_byte_for_byte") else { return };
    let setting = |name: &str| std::env::var(name).ok();
    let commands = setting("KV_COMMANDS").map_or(size(5_000, 50_000), |n| n.parse().unwrap());
    let seed = setting("KV_SEED").map_or(11, |n| n.parse().unwrap());
    let only = setting("KV_TABLE");
    for table in TABLES {
        if only.as_ref().is_none_or(|only| only == table) {
            compare_with_redis(table, &redis, commands, seed);
        }
    }
}
