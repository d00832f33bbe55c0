//! The `ppgnn` program.

fn main() -> std::process::ExitCode {
    ppgnn::cli::main()
}
