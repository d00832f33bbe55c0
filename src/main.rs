//! The `ppgnn` program.

fn main() -> std::process::ExitCode {
    ppgnn::Program::new().run()
}
