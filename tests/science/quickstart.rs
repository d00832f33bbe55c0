//! The quick start shows what its README says: a difference that has a reason.

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::kinds::Table;

use crate::support::Project;

#[test]
fn the_filter_that_fits_the_graph_carries_it() {
    let project = Project::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/quickstart.yaml");
    // Fewer splits and epochs than the file asks for: the differences are large.
    project
        .run(&["run", file, "--set", "split.count=2", "--set", "train.epochs=60", "--set", "datasets.homophilic.nodes=600", "--set", "datasets.heterophilic.nodes=600"])
        .exit(0);
    let json = project.path("artifacts/results/quickstart/accuracy.json");
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(json, dir.path().join("table.json")).unwrap();
    let table = Table::load(dir.path()).unwrap();
    let mean = |row: &str, column: &str| {
        let row = table.rows.iter().position(|r| r == row).unwrap();
        let column = table.columns.iter().position(|c| c == column).unwrap();
        table.cell(row, column).unwrap().mean
    };
    for graph in ["homophilic", "heterophilic"] {
        for method in ["GPR-GNN", "PP-GNN"] {
            let gain = mean(method, graph) - mean("MLP", graph);
            assert!(gain > 0.05, "{method} beats MLP by {gain:.3} on the {graph} graph");
        }
    }
    let low_high = |graph: &str| mean("PP-GNN (Low)", graph) - mean("PP-GNN (High)", graph);
    assert!(low_high("homophilic") > 0.1, "{}", low_high("homophilic"));
    assert!(low_high("heterophilic") < -0.1, "{}", low_high("heterophilic"));
}
