// Commands in boxes: each is set up before its use, and cleaned up after it.
{
    let boxes = boxes
        .set_up(|slot| Ok::<_, String>(Folder::new(slot.index())))
        .clean_up(|_, folder| folder.map_or(Ok(()), Folder::empty))
        .on_quarantine(|slot, why| println!("box {slot}: {why}"))
        .lease(Duration::from_secs(60))
        .build()?;
    let mut output = Vec::new();
    for command in ["compile", "run", "break the box"] {
        let job = |folder: &mut Slot<Folder, String>| folder.execute(command);
        let ran = boxes.run(Limits::wait(Duration::from_secs(5)), job);
        output.push(match ran {
            Ok(said) => said,
            Err(RunSlotError::CleanUp { value, slot, error }) => format!("{value}, {slot}: {error}"),
            Err(error) => return Err(error.into()),
        });
    }
    output.join("; ")
}
