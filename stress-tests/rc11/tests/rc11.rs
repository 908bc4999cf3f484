//! See the library.

fn main() -> std::process::ExitCode {
    rc11_tests::main()
}
