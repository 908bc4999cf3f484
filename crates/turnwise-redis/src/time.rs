//! How long things last.

use std::time::Duration;

use tokio::time::Instant;

/// Less than this no timer keeps, and no network.
pub(crate) const SHORTEST: Duration = Duration::from_millis(10);

/// More than this is as good as for ever. A server's numbers are exact to 2^53 microseconds, which
/// this is far below.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// So long from now.
pub(crate) fn after(duration: Duration) -> Instant {
    Instant::now() + duration.min(LONGEST)
}

/// So long from then.
pub(crate) fn later(sent: Instant, lease: Duration) -> Instant {
    sent + lease.min(LONGEST)
}
