//! Runs every model, each in a process of its own: see `loom_tests::main`.

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "models/stacks.rs"]
mod stacks;

fn main() -> std::process::ExitCode {
    loom_tests::main()
}
