//! Real data sets, where they are here: counts of their publishers, eigenpairs by two solvers, models that learn.

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::kinds::Spectrum;
use serde_json::Value;

use crate::support::{Project, real_data};

/// Name, nodes, features, classes, distinct edges, loops, undirected edges, splits: as their publishers' files have them.
const COUNTS: [(&str, [u64; 7]); 11] = [
    ("texas", [183, 1703, 5, 325, 16, 279, 10]),
    ("wisconsin", [251, 1703, 5, 515, 16, 450, 10]),
    ("cornell", [183, 1703, 5, 298, 3, 277, 10]),
    ("actor", [7600, 932, 5, 30019, 93, 26659, 10]),
    ("chameleon", [2277, 2325, 5, 36101, 50, 31371, 10]),
    ("squirrel", [5201, 2089, 5, 217_073, 140, 198_353, 10]),
    ("cora", [2708, 1433, 7, 10556, 0, 5278, 10]),
    ("citeseer", [3327, 3703, 6, 9228, 124, 4552, 10]),
    ("pubmed", [19717, 500, 3, 88651, 3, 44324, 10]),
    ("computers", [13752, 767, 10, 287_209, 0, 245_861, 10]),
    ("photo", [7650, 745, 8, 143_663, 1, 119_081, 10]),
];

fn describe(project: &Project, data: &str, name: &str) -> Value {
    project.run(&["data", "describe", name, "--data-dir", data, "--json"]).exit(0).json()
}

#[test]
fn every_data_set_that_is_here_loads_by_name_with_the_counts_of_its_publisher() {
    let Some(data) = real_data() else { return };
    let (project, data) = (Project::new(), data.display().to_string());
    for (name, expected) in COUNTS {
        if project.run(&["data", "verify", name, "--data-dir", &data]).code == 4 {
            eprintln!("skipped: {name} is not in {data}");
            continue;
        }
        let counts = &describe(&project, &data, name)["description"]["counts"];
        let fields = ["nodes", "features", "classes", "edges-distinct", "self-loops", "edges-undirected", "splits"];
        assert_eq!(fields.map(|f| counts[f].as_u64().unwrap()), expected, "{name}");
    }
}

#[test]
fn the_leak_of_chameleon_and_squirrel_is_shown_with_its_size_and_can_be_filtered() {
    let Some(data) = real_data() else { return };
    let (project, data) = (Project::new(), data.display().to_string());
    // The published filtered graphs have 890 nodes and 8854 edges, 2223 and 46998: exact traffic tells more
    // pages apart than the five classes of it that these files have (see `filter` of `load`).
    for (name, share, nodes, edges) in [("chameleon", "57.6 %", 868, 8413), ("squirrel", "55.2 %", 2216, 46835)] {
        let described = describe(&project, &data, name);
        let warning = &described["warnings"][0];
        assert_eq!(warning["code"], "twins-across-parts");
        assert!(warning["message"].as_str().unwrap().contains(share), "{warning}");
        let filtered = format!(
            "ppgnn: 1\nname: f\ndatasets: {{f: {{dataset: {name}, filter: duplicates}}}}\nstages: {{load: {{params: {{dataset: f}}}}}}\n"
        );
        project.write("f.yaml", filtered);
        let run = project.run(&["data", "describe", "f", "--in", "f.yaml", "--data-dir", &data, "--json"]).exit(0);
        let counts = run.json()["description"]["counts"].clone();
        assert_eq!((counts["nodes"].as_u64(), counts["edges-undirected"].as_u64()), (Some(nodes), Some(edges)));
    }
}

#[test]
fn the_edges_of_cornell_say_nothing_about_labels_that_are_those_of_texas() {
    let Some(data) = real_data() else { return };
    let (project, data) = (Project::new(), data.display().to_string());
    let verified = project.run(&["data", "verify", "cornell", "--data-dir", &data]);
    verified.says("warning: cornell/out1_node_feature_label.txt and texas/out1_node_feature_label.txt are one file");
    // Counted by a separate script with Python's `Counter`: value and mean of 300 shuffles, to three digits.
    let expected = [
        ("texas", 0.192, 0.016, false),
        ("wisconsin", 0.131, 0.010, false),
        ("cornell", 0.017, 0.016, true),
        ("actor", 0.000, 0.000, true),
    ];
    for (name, edge, shuffled, nothing) in expected {
        let described = describe(&project, &data, name);
        let found = &described["description"]["label-informativeness"];
        let near = |field: &str, value: f64, by: f64| (found[field].as_f64().unwrap() - value).abs() <= by;
        assert!(near("edge", edge, 0.0005) && near("shuffled", shuffled, 0.002), "{name}: {found}");
        let warned = described["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "edges-say-nothing");
        assert_eq!(warned, nothing, "{name}: {described}");
    }
    project.write(
        "cornell.yaml",
        "{ppgnn: 1, name: c, stages: {load: {params: {dataset: cornell}}, split: {inputs: {graph: load}, params: {method: file}}}}",
    );
    project.run(&["check", "cornell.yaml", "--data-dir", &data]).exit(0).says("[edges-say-nothing]");
}

#[test]
fn the_guide_shows_what_describe_prints() {
    let Some(data) = real_data() else { return };
    let run = Project::new().run(&["data", "describe", "chameleon", "--data-dir", &data.display().to_string()]).exit(0);
    let page = include_str!("../../docs/data.md");
    let shown = page.split("$ ppgnn data describe chameleon\n").nth(1).unwrap().split("eigenvalues").next().unwrap();
    assert!(shown.lines().count() > 10 && run.stdout.starts_with(shown), "{}", run.stdout);
}

#[test]
fn the_pipelines_of_the_paper_share_eigenpairs() {
    let Some(data) = real_data() else { return };
    let (project, data) = (Project::new(), data.display().to_string());
    let keys = |name: &str| {
        let file = format!("{}/pipelines/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let plan = project.run(&["plan", &file, "--data-dir", &data, "--json"]).exit(0).json();
        let nodes = plan["nodes"].as_array().unwrap().clone();
        let evd = nodes.into_iter().filter(|n| n["stage"] == "evd");
        evd.map(|n| n["key"].as_str().unwrap().to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    let (tables, filters) = (keys("heterophily"), keys("ablation-filters"));
    // Squirrel's largest k is that of both; Chameleon's 256 pairs are a slice of 1024 in the second.
    assert_eq!((tables.len(), filters.len(), tables.intersection(&filters).count()), (5, 12, 1));
}

/// Decomposes a data set with both solvers and compares values and spaces.
fn solvers_agree(name: &str, k: usize) {
    let Some(data) = real_data() else { return };
    let project = Project::new();
    project.write(
        "both.yaml",
        format!(
            "ppgnn: 1\nname: both\nstages:\n  load: {{ params: {{ dataset: {name} }} }}\n  normalize: {{ inputs: {{ graph: load }} }}\n  \
             evd: {{ inputs: {{ operator: normalize }}, params: {{ k: {k} }} }}\nsweep: {{ axes: {{ evd.solver: [lanczos, dense] }} }}\n"
        ),
    );
    let data = data.display().to_string();
    project.run(&["run", "both.yaml", "--data-dir", &data]).exit(0);
    let plan = project.run(&["plan", "both.yaml", "--data-dir", &data, "--json"]).exit(0).json();
    let spectra: Vec<Spectrum> = plan["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|node| node["stage"] == "evd")
        .map(|node| project.path("artifacts/objects/evd").join(node["key"].as_str().unwrap()))
        .map(|folder| Spectrum::load(&folder).unwrap())
        .collect();
    let [one, other] = &spectra[..] else { panic!("{name}: two decompositions") };
    for (x, y) in [(&one.low, &other.low), (&one.high, &other.high)] {
        let worst = x.values.iter().zip(&y.values).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        assert!(x.values.len() == y.values.len() && worst < 1e-9, "{name}: values differ by {worst:e}");
        // ‖UᵀV‖²_F is the dimension exactly when the spaces agree; vectors were rounded to f32.
        let n = one.nodes;
        let dot = |u: &[f32], v: &[f32]| u.iter().zip(v).map(|(u, v)| f64::from(*u) * f64::from(*v)).sum::<f64>();
        let shared: f64 = x.vectors.chunks(n).flat_map(|u| y.vectors.chunks(n).map(move |v| dot(u, v).powi(2))).sum();
        let pairs = x.values.len() as f64;
        assert!((shared - pairs).abs() < 1e-4, "{name}: {shared} of {pairs} dimensions are shared");
    }
}

#[test]
fn both_solvers_find_the_same_spaces() {
    // A small graph is dense either way, and half a graph is too much for an iteration.
    for (name, k) in
        [("texas", 91), ("wisconsin", 125), ("cornell", 91), ("chameleon", 128), ("cora", 128), ("citeseer", 700)]
    {
        solvers_agree(name, k);
    }
}

/// Minutes each: `cargo test --profile quick --test science -- --ignored`.
#[test]
#[ignore = "takes half an hour"]
fn both_solvers_find_the_same_spaces_of_large_graphs() {
    for (name, k) in [("squirrel", 256), ("actor", 256), ("photo", 256), ("pubmed", 512), ("computers", 256)] {
        solvers_agree(name, k);
    }
}

/// Mean test accuracy over the splits, and the share of the most frequent class among the test nodes.
fn accuracy(metrics: &Value) -> (f64, f64) {
    let splits = metrics["splits"].as_array().unwrap();
    let mean = |of: &dyn Fn(&Value) -> f64| splits.iter().map(of).sum::<f64>() / splits.len() as f64;
    let majority = |split: &Value| {
        let row = |row: &Value| row.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>();
        let classes: Vec<u64> = split["confusion"].as_array().unwrap().iter().map(row).collect();
        classes.iter().copied().max().unwrap() as f64 / classes.iter().sum::<u64>() as f64
    };
    (mean(&|split| split["test"]["accuracy"].as_f64().unwrap()), mean(&majority))
}

#[test]
fn models_learn_from_real_graphs_what_each_one_can() {
    let Some(data) = real_data() else { return };
    let (project, data) = (Project::new(), data.display().to_string());
    project.write(
        "learn.yaml",
        "
ppgnn: 1
name: learn
stages:
  load: { params: { dataset: cora } }
  featurize: { inputs: { graph: load } }
  normalize: { inputs: { graph: load } }
  evd: { inputs: { operator: normalize }, params: { k: 64 } }
  split: { inputs: { graph: load }, params: { method: file, count: 3 } }
  train:
    inputs: { operator: normalize, nodes: featurize, splits: split, spectrum: evd }
    params: { model: mlp, epochs: 100, lr: 0.01, weight-decay: 0.0005, dropout: 0.5 }
  evaluate: { inputs: { trained: train, nodes: featurize, splits: split } }
sweep:
  axes: { load.dataset: [cora, texas], train.model: [mlp, gcn, pp-gnn] }
  exclude: [{ load.dataset: texas, train.model: pp-gnn }]
",
    );
    project.run(&["run", "learn.yaml", "--data-dir", &data]).exit(0);
    let plan = project.run(&["plan", "learn.yaml", "--data-dir", &data, "--json"]).exit(0).json();
    let scores = |dataset: &str, model: &str| {
        let id = format!("evaluate/{dataset}/{model}");
        let node = plan["nodes"].as_array().unwrap().iter().find(|n| n["id"] == id.as_str()).unwrap();
        let folder = project.path("artifacts/objects/evaluate").join(node["key"].as_str().unwrap());
        let metrics = serde_json::from_slice(&std::fs::read(folder.join("metrics.json")).unwrap()).unwrap();
        let (accuracy, majority) = accuracy(&metrics);
        eprintln!("{dataset}, {model}: {:.1} %, the largest class has {:.1} %", 100.0 * accuracy, 100.0 * majority);
        (accuracy, majority)
    };
    // Below the published values (Cora: 88 for GCN; Texas: 81 for MLP), and far from guessing.
    for (dataset, model, least) in
        [("cora", "mlp", 0.65), ("cora", "gcn", 0.8), ("cora", "pp-gnn", 0.8), ("texas", "mlp", 0.68)]
    {
        let (accuracy, majority) = scores(dataset, model);
        assert!(accuracy > least && accuracy > majority + 0.1, "{dataset}, {model}: {accuracy}");
    }
    // What the two graphs are known for: neighbours help on Cora and mislead on Texas.
    assert!(scores("cora", "gcn").0 > scores("cora", "mlp").0 + 0.05);
    assert!(scores("texas", "gcn").0 < scores("texas", "mlp").0 - 0.05);
}
