//! Any bytes in any split: no panic, and the same commands.

use kv::frame::{Parsed, Parser};
use proptest::collection::vec;
use proptest::prelude::*;

/// The outcome of parsing some bytes.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    commands: Vec<Vec<Vec<u8>>>,
    broken: Option<Vec<u8>>,
    /// The number of bytes that were taken.
    taken: usize,
}

/// Parses pieces as a session does.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let (mut parser, mut bytes, mut outcome) = (Parser::default(), Vec::new(), Outcome::default());
    for piece in pieces {
        bytes.extend_from_slice(piece);
        let mut taken = 0;
        loop {
            match parser.next(&bytes[taken..]) {
                Parsed::Command(args, len) => {
                    outcome.commands.push(args.from(0).map(<[u8]>::to_vec).collect());
                    taken += len;
                }
                Parsed::Empty(len) => taken += len,
                Parsed::Incomplete => break,
                Parsed::Broken(text) => {
                    outcome.broken = Some(text);
                    outcome.taken += taken;
                    return outcome;
                }
            }
        }
        outcome.taken += taken;
        bytes.drain(..taken);
        if bytes.is_empty() {
            parser.shrink();
        }
    }
    outcome
}

fn frame(args: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Generates bytes that frames and lines consist of, and others.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..40),
        vec(proptest::sample::select(b"*$:0123-\r\n\"'\\x \0a".to_vec()), 0..40),
    ]
}

/// Generates input as clients send it: frames, lines, and both with errors in them.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let whole = vec(bytes(), 1..5).prop_map(|args| frame(&args));
    let wrong = (vec(bytes(), 1..4), any::<prop::sample::Index>(), any::<u8>());
    let wrong = wrong.prop_map(|(args, at, byte)| {
        let mut bytes = frame(&args);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    });
    let numbers = prop_oneof![Just(-1_i64), Just(0), 0..5_i64, any::<i64>()];
    let head = ("[*$]", numbers).prop_map(|(kind, n)| format!("{kind}{n}\r\n").into_bytes());
    let line = "[a-c\"' \\\\x]{0,12}\r?\n".prop_map(String::into_bytes);
    // About the maximum length of a line.
    let long = (65_500..65_600_usize, "[x*\r\n]", "(\r\n|)").prop_map(|(len, first, last)| {
        [first.as_bytes(), &vec![b'1'; len], last.as_bytes()].concat()
    });
    prop_oneof![10 => whole, 4 => wrong, 2 => head, 4 => line, 2 => bytes(), 1 => long]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 200 } else { 4000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_split_makes_no_difference(
        pieces in vec(piece(), 1..12),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = pieces.concat();
        let whole = read([bytes.as_slice()]);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let split = read(cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]));
        prop_assert_eq!(&whole, &split);
        if bytes.len() < 10_000 {
            prop_assert_eq!(&whole, &read(bytes.chunks(1)));
        }
    }

    #[test]
    fn whole_frames_come_out_as_they_went_in(commands in vec(vec(bytes(), 1..6), 0..10)) {
        let bytes: Vec<u8> = commands.iter().flat_map(|args| frame(args)).collect();
        let outcome = read([bytes.as_slice()]);
        prop_assert_eq!(outcome, Outcome { commands, broken: None, taken: bytes.len() });
    }

    #[test]
    fn whatever_is_quoted_comes_out(args in vec(bytes(), 1..6)) {
        let mut line = Vec::new();
        for arg in &args {
            line.push(b'"');
            for byte in arg {
                line.extend_from_slice(format!("\\x{byte:02X}").as_bytes());
            }
            line.extend_from_slice(b"\" ");
        }
        line.push(b'\n');
        let outcome = read([line.as_slice()]);
        prop_assert_eq!(outcome, Outcome { commands: vec![args], broken: None, taken: line.len() });
    }
}

#[test]
fn lines_are_too_long_at_the_same_byte() {
    for (head, end) in [("x", "\n"), ("*1", "\r\n"), ("*1\r\n$1", "\r\n")] {
        // The line that is too long begins behind the head of the array.
        let before = if head.contains('\n') { 4 } else { 0 };
        for len in 65_530..65_545 {
            let pad = vec![b'1'; before + len - head.len()];
            let bytes = [head.as_bytes(), &pad, end.as_bytes()].concat();
            let whole = read([bytes.as_slice()]);
            assert_eq!(whole, read(bytes.chunks(1000)), "{head:?} {len}");
            let text = whole.broken.unwrap_or_default();
            let too_big = text.windows(7).any(|word| word == b"too big");
            assert_eq!(too_big, len > 65_536, "{head:?} {len}");
        }
    }
}
