// A lock with a wait and a lease, around code that awaits.
{
    let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_secs(60));
    let guard = locks.lock_within("report", limits).await?;
    let written = write_report().await;
    let stands = !guard.is_lost(); // within its lease
    drop(guard); // the next request is let in
    format!("{written}, stands: {stands}")
}
