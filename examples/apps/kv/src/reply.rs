//! Replies, as RESP2 writes them.

use crate::number;

/// The error for an argument that should be an integer and is not.
pub const NOT_AN_INTEGER: &[u8] = b"value is not an integer or out of range";
pub const SYNTAX: &[u8] = b"syntax error";

pub fn ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"+OK\r\n");
}

pub fn nil(out: &mut Vec<u8>) {
    out.extend_from_slice(b"$-1\r\n");
}

pub fn integer(number: i64, out: &mut Vec<u8>) {
    line(b':', number, out);
}

/// Appends the head of an array.
pub fn array(len: usize, out: &mut Vec<u8>) {
    line(b'*', len as i64, out);
}

pub fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    line(b'$', bytes.len() as i64, out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn line(kind: u8, number: i64, out: &mut Vec<u8>) {
    out.push(kind);
    number::write(number, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends an error. A text may quote the client: the ends of lines in it become blanks.
pub fn error(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"-ERR ");
    out.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

/// Returns the part of a client's bytes that redis repeats in an error: they end at the first zero.
pub fn quoted(bytes: &[u8], most: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(most)];
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}
