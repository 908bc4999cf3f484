//! Runs every model, each in a process of its own: see `loom_tests::main`.

fn main() -> std::process::ExitCode {
    loom_tests::main()
}
