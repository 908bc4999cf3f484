use turnwise::Actor;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let orders = Actor::builder().name("orders").traced(true).spawn(Vec::new())?;
    let request = tracing::info_span!("request", id = 7);
    let accepted = request.in_scope(|| {
        orders.call(|orders| {
            tracing::info!("an order"); // in the span `turn`, which follows from `request`
            orders.push("tea");
            orders.len()
        })
    });
    assert_eq!(accepted.wait()?, 1);
    Ok(())
}
