// The first 15 of 100 applicants are in, in the order of the calls, and all 100 are answered.
{
    let applications = (0..100).map(|n| raffle.apply(format!("user {n}"), Limits::wait(Duration::from_secs(5))));
    let (mut places, mut refused) = (Vec::new(), 0);
    for application in applications {
        match application.await {
            Ok(admitted) => places.push(admitted.place),
            Err(_) => refused += 1,
        }
    }
    places.sort_unstable();
    format!("in: {places:?}, refused: {refused}")
}
