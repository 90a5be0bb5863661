//! The host alone, for tests and measurements. The product runs it as `ferroplane internal host`.

fn main() -> std::process::ExitCode {
    ferroplane_sandbox::host::main()
}
