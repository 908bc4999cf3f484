// Commands in boxes: each is set up before its use, and cleaned up after it.
{
    let boxes = boxes
        .set_up(|slot| Ok::<_, String>(Folder::new(slot.index())))
        .clean_up(|_, folder| folder.map_or(Ok(()), Folder::empty))
        .build()?;
    let mut output = Vec::new();
    for command in ["compile", "run"] {
        output.push(boxes.run(Limits::wait(Duration::from_secs(5)), |folder| folder.execute(command))?);
    }
    output.join("; ")
}
