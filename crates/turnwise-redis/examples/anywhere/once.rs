// A job that runs once per tick, however many programs try.
{
    let attempts = (0..5).map(|_| jobs.try_run("count players", |_| count_players()));
    let ran: Vec<u32> = attempts.filter_map(|ran| ran.ok()).collect();
    format!("counted {ran:?}")
}
