//! Parses commands from bytes: RESP2 frames and inline commands.
//!
//! The bytes stay in the buffer that they were read to; a command is a list of ranges in it. The
//! parser keeps the state of an incomplete frame. So no byte of an argument is read twice, and
//! nothing is allocated for a length that was only announced.
//!
//! The result depends only on the bytes, and not on how they were split. Redis checks the length of
//! a line after each read. So with redis, the result for a line of a little more than 64 KiB
//! depends on the network; here such a line is always too long.

use std::ops::Range;

use memchr::memchr2;

use crate::{inline, number};

/// The maximum length of a line: an inline command, or the head of an array or an argument.
const LINE: usize = 64 * 1024;
/// The maximum length of an argument.
pub const BULK: i64 = 512 * 1024 * 1024;

/// The arguments of a command.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    places: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    /// Returns the number of arguments. The first is always there: the command's name.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// # Panics
    /// If `n` is not less than the number of arguments.
    pub fn get(&self, n: usize) -> &'a [u8] {
        &self.bytes[self.places[n].clone()]
    }

    pub fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let Args { bytes, places } = *self;
        places[first..].iter().map(move |place| &bytes[place.clone()])
    }
}

/// The item at the beginning of the bytes.
#[derive(Debug)]
pub enum Parsed<'a> {
    /// A command, and its length in bytes.
    Command(Args<'a>, usize),
    /// This many bytes without a command.
    Empty(usize),
    /// The beginning of a command.
    Incomplete,
    /// Invalid bytes, with redis's text about them. The connection must be closed.
    Broken(Vec<u8>),
}

/// The frame that is being read.
#[derive(Debug, Default)]
pub struct Parser {
    /// The position up to which it was read.
    at: usize,
    /// The number of arguments to come. None before its first line.
    missing: Option<i64>,
    /// The length of the next argument. None before its line.
    bulk: Option<usize>,
    places: Vec<Range<usize>>,
    /// The arguments of an inline command, unquoted.
    unquoted: Vec<u8>,
}

/// A line, or the reason why there is none.
enum Line {
    To(usize),
    Incomplete,
    TooLong,
}

/// Finds the end of the line from `at` on. A zero byte hides the bytes after it.
fn line(bytes: &[u8], at: usize, end: u8) -> Line {
    let rest = &bytes[at..];
    let head = &rest[..rest.len().min(LINE + 1)];
    match memchr2(end, 0, head) {
        Some(found) if head[found] == end => Line::To(at + found),
        _ if head.len() > LINE => Line::TooLong,
        _ => Line::Incomplete,
    }
}

/// As [`line`], for a line that ends with two bytes. The second one is not checked.
fn line_of_frame(bytes: &[u8], at: usize) -> Line {
    match line(bytes, at, b'\r') {
        Line::To(end) if end + 1 == bytes.len() => Line::Incomplete,
        line => line,
    }
}

fn broken(text: &[u8]) -> Parsed<'static> {
    Parsed::Broken([b"Protocol error: ", text].concat())
}

impl Parser {
    /// Continues to parse. `bytes` are all those that have not been taken: after
    /// [`Incomplete`](Parsed::Incomplete), the next call gets the same bytes and more.
    pub fn next<'a>(&'a mut self, bytes: &'a [u8]) -> Parsed<'a> {
        if self.missing.is_none() {
            self.places.clear();
            match bytes.first() {
                None => return Parsed::Incomplete,
                Some(b'*') => {}
                Some(_) => return self.inline(bytes),
            }
            let end = match line_of_frame(bytes, 0) {
                Line::To(end) => end,
                Line::Incomplete => return Parsed::Incomplete,
                Line::TooLong => return broken(b"too big mbulk count string"),
            };
            match number::parse(&bytes[1..end]) {
                Some(count) if count > i64::from(i32::MAX) => {
                    return broken(b"invalid multibulk length");
                }
                None => return broken(b"invalid multibulk length"),
                Some(..=0) => return Parsed::Empty(end + 2),
                count => self.missing = count,
            }
            self.at = end + 2;
        }
        while self.missing > Some(0) {
            let len = match self.bulk {
                Some(len) => len,
                None => {
                    let end = match line_of_frame(bytes, self.at) {
                        Line::To(end) => end,
                        Line::Incomplete => return Parsed::Incomplete,
                        Line::TooLong => return broken(b"too big bulk count string"),
                    };
                    match bytes[self.at] {
                        b'$' => {}
                        b'\r' => return broken(b"expected '$', got ' '"),
                        got => return broken(&[b"expected '$', got '", &[got][..], b"'"].concat()),
                    }
                    let len = match number::parse(&bytes[self.at + 1..end]) {
                        Some(len @ 0..=BULK) => len as usize,
                        _ => return broken(b"invalid bulk length"),
                    };
                    self.at = end + 2;
                    self.bulk = Some(len);
                    len
                }
            };
            // Its last two bytes are not checked.
            if bytes.len() - self.at < len + 2 {
                return Parsed::Incomplete;
            }
            self.places.push(self.at..self.at + len);
            self.at += len + 2;
            self.bulk = None;
            self.missing = self.missing.map(|missing| missing - 1);
        }
        self.missing = None;
        Parsed::Command(Args { bytes, places: &self.places }, self.at)
    }

    fn inline<'a>(&'a mut self, bytes: &'a [u8]) -> Parsed<'a> {
        let end = match line(bytes, 0, b'\n') {
            Line::To(end) => end,
            Line::Incomplete => return Parsed::Incomplete,
            Line::TooLong => return broken(b"too big inline request"),
        };
        let text = &bytes[..end];
        self.unquoted.clear();
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if inline::split(text, &mut self.unquoted, &mut self.places).is_err() {
            return broken(b"unbalanced quotes in request");
        }
        if self.places.is_empty() {
            return Parsed::Empty(end + 1);
        }
        Parsed::Command(Args { bytes: &self.unquoted, places: &self.places }, end + 1)
    }

    /// Frees memory that an unusual command has needed.
    pub fn shrink(&mut self) {
        if self.missing.is_none() {
            self.places.clear();
            self.places.shrink_to(1024);
            self.unquoted.clear();
            self.unquoted.shrink_to(4096);
        }
    }
}
