//! The quick start shows what its README says: these numbers, and a difference that has a reason.

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::kinds::Table;

use crate::support::{Project, without_notes};

fn run() -> (Table, String) {
    let project = Project::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/quickstart.yaml");
    let printed = project.run(&["run", file]).exit(0).stdout;
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(project.path("artifacts/results/quickstart/accuracy.json"), dir.path().join("table.json")).unwrap();
    (Table::load(dir.path()).unwrap(), printed)
}

#[test]
fn the_filter_that_fits_the_graph_carries_it() {
    let (table, printed) = run();
    let mean = |row: &str, column: &str| {
        let row = table.rows.iter().position(|r| r == row).unwrap();
        let column = table.columns.iter().position(|c| c == column).unwrap();
        table.cell(row, column).unwrap().mean
    };
    for graph in ["homophilic", "heterophilic"] {
        for method in ["GPR-GNN", "PP-GNN"] {
            let gain = mean(method, graph) - mean("MLP", graph);
            assert!(gain > 0.1, "{method} beats MLP by {gain:.3} on the {graph} graph");
        }
    }
    let low_high = |graph: &str| mean("PP-GNN (Low)", graph) - mean("PP-GNN (High)", graph);
    assert!(low_high("homophilic") > 0.2, "{}", low_high("homophilic"));
    assert!(low_high("heterophilic") < -0.2, "{}", low_high("heterophilic"));

    let readme = include_str!("../../README.md");
    let seen = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/pins")
        .join(format!("{}.txt", ppgnn_stages::contract::profile::numeric_profile()));
    if seen.exists() {
        // In how many splits a model has learned nothing depends on last bits.
        assert!(
            without_notes(readme).contains(without_notes(&printed).trim()),
            "the README shows another table than this:\n{printed}"
        );
        return;
    }
    // Another instruction set gives other last bits, and now and then another node right.
    for (row, name) in table.rows.iter().enumerate() {
        let line = readme.lines().find(|l| l.starts_with(&format!("| {name} |"))).unwrap();
        for (column, shown) in line.split('|').skip(2).take(table.columns.len()).enumerate() {
            let digits: String =
                shown.split('±').next().unwrap().chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
            let shown: f64 = digits.parse().unwrap();
            let mean = table.cell(row, column).unwrap().mean * 100.0;
            assert!((shown - mean).abs() < 2.0, "{name}: the README says {shown}, this machine {mean:.2}");
        }
    }
}
