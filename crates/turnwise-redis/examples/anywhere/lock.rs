// Locks with a wait and a lease, around code that awaits.
{
    let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_secs(60));
    let guard = locks.lock_within("report 7", limits).await?;
    let written = write_report().await;
    // Within its lease, of which something is left.
    let stands = !guard.is_lost() && guard.remaining() > Some(Duration::ZERO);
    let info = locks.info("report 7").await?.ok_or("it is held")?;
    let held = (info.holders, info.waiting, info.fence == Some(guard.fence()));
    guard.renew(Duration::from_secs(90)).await?;
    guard.release().await?; // the next request is let in
    let free = locks.info("report 7").await?.is_none();

    // Two accounts, or none, in the order of their names; one is taken away meanwhile.
    let both = locks.lock_all(["bob", "ada", "bob"], limits).await?;
    locks.force_release("ada").await?;
    let (mut lost, mut kept) = (0, 0);
    for guard in both {
        let fence = guard.fence();
        match guard.release().await {
            Err(ReleaseError::Lost(hold)) if hold == fence => lost += 1,
            released => kept += u32::from(released.is_ok()),
        }
    }

    // An owner has one of two already.
    let me = Owner::new();
    let report = locks.lock_as(&me, "report 8", limits).await?;
    let all = locks.lock_all_as(&me, ["report 8", "mail 8"], limits).await?;
    let had = all.iter().filter(|guard| guard.fence() == report.fence()).count();
    format!("{written}, stands: {stands}, held: {held:?}, free: {free}, lost: {lost}, kept: {kept}, had: {had}")
}
