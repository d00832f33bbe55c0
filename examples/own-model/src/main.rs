//! `ppgnn` with a model of one's own: `cargo run --release -- run compare.yaml`.

mod model;

use std::process::ExitCode;

/// The allocator of `ppgnn` itself: with that of the C library, half of the time goes into filling pages with zeros.
#[global_allocator]
static ALLOCATOR: ppgnn::MiMalloc = ppgnn::MiMalloc;

fn program() -> ppgnn::Program {
    ppgnn::Program::new().plain_model::<model::OwnModel>()
}

fn main() -> ExitCode {
    program().run()
}

#[cfg(test)]
mod tests {
    use super::program;

    /// The table of a few epochs on small graphs.
    #[test]
    fn the_pipeline_gives_its_table() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = folder.path().join("artifacts");
        let args = ["run", "compare.yaml", "--profile", "quick", "--artifacts", artifacts.to_str().unwrap()];
        assert_eq!(program().run_with(args), 0);
        let table = std::fs::read_to_string(artifacts.join("results/compare/quick/accuracy.md")).unwrap();
        assert!(table.contains("| own-model |") && table.contains("| gcn |"), "{table}");
    }
}
