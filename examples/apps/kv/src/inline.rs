//! Inline commands: a line of words, with quotes as redis reads them.

use std::ops::Range;

/// An error: a quote is not closed, or is followed by something other than a space.
#[derive(Debug)]
pub struct Unbalanced;

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Appends the words of a line to `out`, and their places to `places`.
///
/// # Errors
/// [`Unbalanced`].
pub fn split(
    line: &[u8],
    out: &mut Vec<u8>,
    places: &mut Vec<Range<usize>>,
) -> Result<(), Unbalanced> {
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|&&byte| is_space(byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = out.len();
        rest = word(rest, out)?;
        places.push(start..out.len());
    }
}

/// Appends a word. Returns the bytes behind it.
fn word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        match rest {
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            // A quote may begin inside a word, and ends it.
            [quote @ (b'"' | b'\''), tail @ ..] => {
                let behind = unquote(*quote, tail, out)?;
                return match behind.first() {
                    Some(&byte) if !is_space(byte) => Err(Unbalanced),
                    _ => Ok(behind),
                };
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

fn unquote<'a>(quote: u8, mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        let (byte, tail) = match (quote, rest) {
            (_, []) => return Err(Unbalanced),
            (b'"', [b'\\', b'x', high, low, tail @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), tail)
            }
            (b'"', [b'\\', escaped, tail @ ..]) => (escape(*escaped), tail),
            (b'\'', [b'\\', b'\'', tail @ ..]) => (b'\'', tail),
            (_, [byte, tail @ ..]) if *byte == quote => return Ok(tail),
            (_, [byte, tail @ ..]) => (*byte, tail),
        };
        out.push(byte);
        rest = tail;
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn escape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        byte => byte,
    }
}
