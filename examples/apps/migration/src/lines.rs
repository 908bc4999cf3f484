//! The length of each version.

/// The five files, in the order of the libraries.
pub const SOURCES: [&str; 5] = [
    include_str!("turnwise.rs"),
    include_str!("kameo.rs"),
    include_str!("ractor.rs"),
    include_str!("xtra.rs"),
    include_str!("actix.rs"),
];

/// Returns the number of lines of code: those that are neither blank nor a comment.
pub fn lines(source: &str) -> usize {
    let lines = source.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}
