// A job that runs once per tick, however many programs try; and one that cron calls a little early.
{
    let attempts = (0..5).map(|_| jobs.try_run("count players", |_| count_players()));
    let ran: Vec<u32> = attempts.filter_map(|ran| ran.ok()).collect();
    let nearest = jobs.clone().nearest().allow_overlap();
    let tick = nearest.try_run("back up", |tick| tick)?;
    let again = nearest.try_run("back up", |tick| tick);
    let taken = matches!(again, Err(NotMine::Taken { tick: last, .. }) if last == tick);
    format!("counted {ran:?}; backed up in tick {tick}, taken: {taken}")
}
