//! Training on real data ends where the paper does. Minutes of training, so it runs when asked for:
//! `cargo test --test cli bands -- --ignored --nocapture`.

use serde_json::Value;

use crate::support::{Project, real_data};

/// Model, data set, and how far from the printed value it may end, in points: two of the printed standard deviations on WebKB; on Cora
/// the larger of one standard deviation and 1.5; on Chameleon and Squirrel four, where results hinge on features and the range of the
/// learning rate. Settings are published ones, tuned for other splits by other rules, but for [`CHOSEN`].
const BANDS: [(&str, &str, f64); 8] = [
    ("MLP", "texas", 12.7),
    ("H2GCN", "wisconsin", 9.4),
    ("GCN", "chameleon", 4.0),
    ("PP-GNN", "chameleon", 4.0),
    ("BernNet", "squirrel", 4.0),
    ("GPR-GNN", "cora", 1.5),
    ("SGCN", "cora", 1.5),
    ("SuperGAT", "cora", 1.5),
];

/// SuperGAT's settings for Cora were tuned with 20 training nodes of a class, and weigh the loss on edges by 11.3. On these splits validation
/// nodes prefer 1.0 and less decay (88.6 % against 85.4 %), out of two weights of the loss and three decays.
const CHOSEN: [&str; 4] = [
    "--set",
    "train[load.dataset=cora,method=SuperGAT].edge-loss=1.0",
    "--set",
    "train[load.dataset=cora,method=SuperGAT].weight-decay=0.002",
];

/// The cell of a row and a column.
fn cell<'t>(table: &'t Value, row: &str, column: &str) -> &'t Value {
    let place = |names: &str, name: &str| table[names].as_array().unwrap().iter().position(|one| one == name);
    let at = |cell: &&Value| (cell["row"].as_u64(), cell["column"].as_u64());
    let wanted = (place("rows", row).map(|at| at as u64), place("columns", column).map(|at| at as u64));
    table["cells"]
        .as_array()
        .unwrap()
        .iter()
        .find(|cell| at(cell) == wanted)
        .unwrap_or_else(|| panic!("{row}, {column}"))
}

#[test]
#[ignore = "trains on real data for minutes"]
fn models_end_in_the_bands_of_the_paper() {
    let Some(data) = real_data() else { return };
    let pipeline = concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/all-models.yaml");
    let project = Project::new();
    let data = data.to_str().unwrap();
    let targets: Vec<String> = BANDS.iter().map(|(model, dataset, _)| format!("evaluate/{dataset}/{model}")).collect();
    let mut args = [&["run", pipeline, "--data-dir", data, "-q"], &CHOSEN[..]].concat();
    args.extend(targets.iter().map(String::as_str));
    project.run(&args).exit(0);
    let table = |name: &str| {
        let args = ["table", pipeline, name, "--data-dir", data, "--format", "json"];
        project.run(&[&args[..], &CHOSEN].concat()).json()
    };
    let (apart, alike) = (table("heterophilic"), table("homophilic"));
    let mut far = Vec::new();
    for (model, dataset, band) in BANDS {
        let cell = cell(if dataset == "cora" { &alike } else { &apart }, model, dataset);
        let [ours, printed] = [&cell["mean"], &cell["reference"]["mean"]].map(|mean| 100.0 * mean.as_f64().unwrap());
        eprintln!("{model} on {dataset}: {ours:.2}, printed {printed:.2}, band {band}");
        if (ours - printed).abs() > band {
            far.push(format!("{model} on {dataset}: {ours:.2} is further than {band} from {printed:.2}"));
        }
    }
    assert!(far.is_empty(), "{far:#?}");
}
