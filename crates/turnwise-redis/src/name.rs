//! Names of objects, and their keys in a store.
//!
//! A key is `PREFIX:{KIND:NAME}`. A cluster hashes the part in braces, and all keys of an object
//! begin with it, so they live on one node. Names are escaped, so no name collides with the keys of
//! another object.

use std::error::Error;
use std::fmt;
use std::fmt::Write;

/// The maximum length of a name, in bytes.
const LONGEST: usize = 1024;

/// The reasons why a name is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name is longer than 1,024 bytes.
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("a name must not be empty"),
            NameError::TooLong { bytes } => {
                write!(f, "the name has {bytes} bytes; the limit is {LONGEST}")
            }
        }
    }
}

impl Error for NameError {}

/// Returns the key of an object.
pub(crate) fn key(prefix: &str, kind: &str, name: &str) -> Result<String, NameError> {
    check(name)?;
    let mut key = String::with_capacity(prefix.len() + kind.len() + name.len() + 4);
    write!(key, "{prefix}:{{{kind}:").expect("a write to a String does not fail");
    escape(name, &mut key);
    key.push('}');
    Ok(key)
}

/// Returns a prefix, escaped as in keys.
pub(crate) fn prefix(text: &str) -> Result<String, NameError> {
    check(text)?;
    let mut prefix = String::new();
    escape(text, &mut prefix);
    Ok(prefix)
}

pub(crate) fn check(name: &str) -> Result<(), NameError> {
    match name.len() {
        0 => Err(NameError::Empty),
        bytes if bytes > LONGEST => Err(NameError::TooLong { bytes }),
        _ => Ok(()),
    }
}

/// Escapes characters that have a meaning in keys, and those that are invisible in a terminal.
fn escape(name: &str, to: &mut String) {
    for c in name.chars() {
        if matches!(c, '{' | '}' | '%' | '*') || c.is_control() || c.is_whitespace() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                write!(to, "%{byte:02X}").expect("a write to a String does not fail");
            }
        } else {
            to.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_run_into_each_other() {
        let of = |name| key("p", "lock", name).unwrap();
        assert_eq!(of("order 7"), "p:{lock:order%207}");
        assert_eq!(of("a}:q"), "p:{lock:a%7D:q}");
        assert_ne!(of("a}"), of("a%7D"));
        assert_ne!(key("p", "tick", "a"), key("p", "lock", "a"));
        assert_eq!(key("p", "lock", ""), Err(NameError::Empty));
        let long = "x".repeat(1025);
        assert_eq!(key("p", "lock", &long), Err(NameError::TooLong { bytes: 1025 }));
        assert!(key("p", "lock", &long[..1024]).is_ok());
    }
}
