// A lock with a wait and a lease, around code that awaits.
{
    let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_secs(60));
    let guard = locks.lock_within(format!("report {}", 7), limits).await?;
    let written = write_report().await;
    // Within its lease, of which something is left.
    let stands = !guard.is_lost() && guard.remaining() > Some(Duration::ZERO);
    drop(guard); // the next request is let in
    format!("{written}, stands: {stands}")
}
