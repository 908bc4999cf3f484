//! Atomic operations as they stand in the sources, and weaker forms of their orderings.

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Returns the operations of a text, with their lines: a name before a parenthesis that contains an
/// ordering; without the relaxed ones if these need no check.
pub(crate) fn scan_text(text: &str, skip_relaxed: bool) -> Vec<(usize, String)> {
    let mut operations = Vec::new();
    for (at, _) in text.match_indices('(') {
        let before = &text[..at];
        let name = before
            .rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .next()
            .unwrap_or_default();
        let called = before[..before.len() - name.len()].chars().next_back();
        let is_method = called == Some('.')
            && (matches!(name, "load" | "store" | "swap")
                || name.starts_with("compare_exchange")
                || name.starts_with("fetch_"));
        let name = if name == "fence_behind" { "fence" } else { name };
        let is_fence = name == "fence" && called.is_some_and(char::is_whitespace);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        if !(is_method || is_fence) || before[line_start..].contains("//") {
            continue;
        }
        let arguments = arguments(&text[at..]);
        let words = arguments.split(|c: char| !c.is_ascii_alphanumeric());
        let orders = |word: &&str| !skip_relaxed || *word != "Relaxed";
        if words.filter(orders).any(|word| ORDERINGS.contains(&word)) {
            operations.push((before.matches('\n').count() + 1, name.to_owned()));
        }
    }
    operations
}

/// Returns the content of the parentheses at the start of the text.
fn arguments(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

/// Returns the next weaker forms of the ordering that a site has. A fence is taken away.
pub(crate) fn weaker_than(site: &str, ordering: &str) -> &'static [&'static str] {
    match ordering {
        _ if site.ends_with("@fence") => &["None"],
        "AcqRel" => &["Acquire", "Release"],
        "Acquire" | "Release" => &["Relaxed"],
        "Relaxed" => &[],
        other => panic!("{site} is {other}: say here how it is weakened"),
    }
}
