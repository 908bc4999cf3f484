//! Figures of a run.

/// Returns the median.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the processor time so far of a server, which has one thread, in nanoseconds. Zero where
/// the system does not report it.
pub(crate) fn processor(server: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{server}/schedstat")).unwrap_or_default();
    text.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or(0)
}
