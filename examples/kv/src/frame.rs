//! Commands out of bytes: RESP2 frames and inline commands.
//!
//! The bytes stay where they were read to; a command is a list of places in them. A frame that has
//! not come whole leaves its state here, so no byte of an argument is looked at twice, and nothing
//! is allocated for a length that was only announced.
//!
//! What comes out depends on the bytes alone and not on how they were split. Redis looks whether a
//! line is too long whenever it has read something, so with it a line of a little more than 64 KiB
//! depends on the network; here it is too long from the first byte on.

use std::ops::Range;

use memchr::memchr2;

use crate::{inline, number};

/// The longest line: an inline command, or the head of an array or an argument.
const LINE: usize = 64 * 1024;
/// The longest argument.
pub const BULK: i64 = 512 * 1024 * 1024;

/// The arguments of one command.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    places: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    /// There is always a first: the command's name.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// # Panics
    /// If there are not so many.
    pub fn get(&self, n: usize) -> &'a [u8] {
        &self.bytes[self.places[n].clone()]
    }

    pub fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let Args { bytes, places } = *self;
        places[first..].iter().map(move |place| &bytes[place.clone()])
    }
}

/// What the bytes begin with.
#[derive(Debug)]
pub enum Parsed<'a> {
    /// A command, and how many bytes it was.
    Command(Args<'a>, usize),
    /// So many bytes without a command.
    Empty(usize),
    /// The beginning of a command.
    Incomplete,
    /// Something else: redis's text about it. The connection is at its end.
    Broken(Vec<u8>),
}

/// The frame that is being read.
#[derive(Debug, Default)]
pub struct Parser {
    /// How far it was read.
    at: usize,
    /// So many arguments are to come. None: its first line is.
    missing: Option<i64>,
    /// The length of the next argument. None: its line is to come.
    bulk: Option<usize>,
    places: Vec<Range<usize>>,
    /// The arguments of an inline command, unquoted.
    unquoted: Vec<u8>,
}

/// A line, or why there is none.
enum Line {
    To(usize),
    Incomplete,
    TooLong,
}

/// Where the line from `at` on ends. A zero byte hides what comes after it.
fn line(bytes: &[u8], at: usize, end: u8) -> Line {
    let rest = &bytes[at..];
    let head = &rest[..rest.len().min(LINE + 1)];
    match memchr2(end, 0, head) {
        Some(found) if head[found] == end => Line::To(at + found),
        _ if head.len() > LINE => Line::TooLong,
        _ => Line::Incomplete,
    }
}

/// As [`line`], for a line that ends with two bytes. The second is not looked at.
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
    /// Reads on. `bytes` are all those that have not been taken: when it answers with
    /// [`Incomplete`](Parsed::Incomplete), the next call gets the same and more.
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
            // Its two last bytes are not looked at.
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

    /// Gives back memory that an unusual command has needed.
    pub fn shrink(&mut self) {
        if self.missing.is_none() {
            self.places.clear();
            self.places.shrink_to(1024);
            self.unquoted.clear();
            self.unquoted.shrink_to(4096);
        }
    }
}
