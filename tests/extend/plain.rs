//! Models in plain form: the examples against the built-in models in lanes, from the same weights, through the public door.

use std::collections::BTreeMap;
use std::path::Path;

use ppgnn::stages::candle_core::{DType, Device, Tensor};
use ppgnn::stages::contract::Chosen;
use ppgnn::stages::kinds::{Features, Matrix, Nodes, Operator};
use ppgnn::stages::math::csr::Csr;
use ppgnn::stages::models::ops::{AsTensor, Gradients, Sides, Tape};
use ppgnn::stages::models::{GraphParts, GraphView, Input, MODELS, Model, ModelDef, Named, Pass, Streams, Weights};
use serde_json::{Value, json};

use super::{printed, run_as};

#[path = "../../examples/plain/gat.rs"]
pub mod gat;
#[path = "../../examples/plain/gcn.rs"]
pub mod gcn;
#[path = "../../examples/plain/gpr_gnn.rs"]
pub mod gpr_gnn;

static ROWS: [ModelDef; 3] =
    [ModelDef::plain::<gcn::Gcn>(), ModelDef::plain::<gpr_gnn::GprGnn>(), ModelDef::plain::<gat::Gat>()];

const NODES: usize = 30;
const COLUMNS: usize = 12;
const LANES: usize = 2;

/// Numbers between −1 and 1 that look random.
fn numbers(count: usize, seed: u32) -> Vec<f64> {
    let number = |i: u32| f64::from((i * 7919 + seed * 104_729) % 2003) / 1001.0 - 1.0;
    (0..u32::try_from(count).unwrap()).map(number).collect()
}

/// Three classes on a ring with chords and loops, normalised; a third of the features is not zero.
fn view(sparse: bool) -> GraphView {
    let near = |i: usize, j: usize| [0, 1, NODES - 1].contains(&((i + NODES - j) % NODES)) || (i * j) % 11 == 1;
    let degree = |i: usize| (0..NODES).filter(|j| near(i, *j)).count() as f64;
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for i in 0..NODES {
        for j in (0..NODES).filter(|j| near(i, *j)) {
            indices.push(u32::try_from(j).unwrap());
            values.push(1.0 / (degree(i) * degree(j)).sqrt());
        }
        indptr.push(indices.len() as u64);
    }
    let operator = Operator { matrix: Csr::new(NODES, indptr, indices, values).unwrap() };
    let full: Vec<f32> = numbers(NODES * COLUMNS, 3).iter().map(|x| if *x < 0.3 { 0.0 } else { *x as f32 }).collect();
    let features = if sparse {
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in full.chunks(COLUMNS) {
            for (j, x) in (0..).zip(row).filter(|(_, x)| **x != 0.0) {
                indices.push(j);
                values.push(*x);
            }
            indptr.push(indices.len() as u64);
        }
        Features::Sparse(Csr::rectangular(NODES, COLUMNS, indptr, indices, values).unwrap())
    } else {
        Features::Dense(Matrix { rows: NODES, cols: COLUMNS, data: full })
    };
    let nodes = Nodes { features, labels: (0..NODES).map(|i| (i % 3) as u32).collect(), classes: 3 };
    GraphView::new(GraphParts::of(&operator, &nodes), DType::F64, Device::Cpu).unwrap()
}

struct Built {
    model: Box<dyn Model>,
    weights: Vec<Named>,
    streams: Vec<Streams>,
}

fn build(rows: &'static [ModelDef], name: &str, params: &Value, graph: &GraphView) -> Built {
    let row = rows.iter().find(|row| row.variant.name == name).unwrap();
    let mut streams: Vec<Streams> = (0..LANES).map(|split| Streams::new(7, split)).collect();
    let mut weights = Weights::new(&mut streams, DType::F64, Device::Cpu);
    let model = Chosen { row, params }.build(graph, &mut weights).unwrap();
    Built { model, weights: weights.into_named(), streams }
}

impl Built {
    /// Training logits, evaluation logits and gradients of Σ ⟨training logits, g⟩ in the pass that comes next.
    fn pass(&mut self, graph: &GraphView) -> ([Tensor; 2], Gradients) {
        let (tape, mut pass) = (Tape::new(Sides::Both), Pass::new(Sides::Both, &mut self.streams));
        let output = self.model.forward(graph, &Input::new(&graph.features, &tape), &mut pass).unwrap();
        let (main, eval) = (output.logits.main().clone(), output.logits.eval().unwrap().clone());
        let gradient = Tensor::from_vec(numbers(main.elem_count(), 5), main.dims(), &Device::Cpu).unwrap();
        let gradients = tape.back(vec![(main.clone(), gradient)]).unwrap();
        ([main, eval], gradients)
    }

    fn weight(&self, name: &str) -> &Named {
        self.weights.iter().find(|weight| weight.name == name).unwrap_or_else(|| panic!("no weight `{name}`"))
    }
}

fn distance(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.dims(), b.dims());
    (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar().unwrap()
}

/// A tensor of the plain form as the form in lanes has it: candle-nn's layers hold W transposed.
fn as_in_lanes(tensor: &Tensor) -> Tensor {
    if tensor.rank() == 3 { tensor.transpose(1, 2).unwrap().contiguous().unwrap() } else { tensor.clone() }
}

#[test]
fn from_the_same_weights_both_forms_have_the_same_logits_and_gradients() {
    let gpr: Vec<String> = (0..=4).map(|k| format!("gamma.{k}")).collect();
    let layers = |names: [&str; 2]| names.map(|name| ["weight", "bias"].map(|part| format!("{name}.{part}"))).concat();
    let cases = [
        (
            "gcn",
            json!({"hidden": 16, "dropout": 0.5}),
            json!({"hidden": 16, "dropout": 0.5}),
            layers(["conv1", "conv2"]),
        ),
        ("gpr-gnn", json!({"order": 4}), json!({"order": 4}), layers(["lin1", "lin2"])),
    ];
    for (name, params, plain_params, shared) in cases {
        for graph in [view(true), view(false)] {
            let mut lanes = build(MODELS, name, &params, &graph);
            let mut plain = build(&ROWS, &format!("plain-{name}"), &plain_params, &graph);
            for (seed, name) in (11..).zip(&shared) {
                let to = &plain.weight(name).param;
                let values =
                    Tensor::from_vec(numbers(to.tensor().elem_count(), seed), to.tensor().dims(), &Device::Cpu);
                to.set(&values.unwrap()).unwrap();
                lanes.weight(name).param.set(&as_in_lanes(&to.tensor())).unwrap();
            }
            // The first pass and the next: dropout draws the same masks from the same streams.
            for _ in 0..2 {
                let ([main, eval], gradients) = lanes.pass(&graph);
                let ([plain_main, plain_eval], plain_gradients) = plain.pass(&graph);
                assert!(distance(&main, &plain_main) < 1e-9, "{name}: training logits");
                assert!(distance(&eval, &plain_eval) < 1e-9, "{name}: evaluation logits");
                assert!(distance(&main, &eval) > 1e-3, "{name}: dropout does something");
                let of_plain = |name: &str| plain_gradients.of(&plain.weight(name).param.tensor()).unwrap().unwrap();
                for name in &shared {
                    let expected = gradients.of(&lanes.weight(name).param.tensor()).unwrap().unwrap();
                    assert!(distance(&expected, &as_in_lanes(&of_plain(name))) < 1e-9, "gradient of {name}");
                }
                if name == "gpr-gnn" {
                    let of_gamma: Vec<Tensor> = gpr.iter().map(|name| of_plain(name)).collect();
                    let expected = gradients.of(&lanes.weight("gamma").param.tensor()).unwrap().unwrap();
                    assert!(distance(&expected, &Tensor::cat(&of_gamma, 1).unwrap()) < 1e-9);
                }
            }
        }
    }
}

const PIPELINE: &str = "
ppgnn: 1
extends: standard
name: plain
datasets: { toy: { format: csbm, nodes: 300, degree: 8, features: 40, phi: 0.5, seed: 1 } }
stages:
  load: { params: { dataset: toy } }
  split: { params: { method: stratified, count: 6, train: 0.48, val: 0.32 } }
  train: { params: { epochs: 60, lr: 0.02, window: 0 } }
sweep:
  axes:
    train.model: [gcn, plain-gcn, gpr-gnn, plain-gpr-gnn, plain-gat]
tables:
  accuracy: { rows: train.model, columns: [] }
";

#[test]
fn both_forms_give_the_same_table_within_noise() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plain.yaml"), PIPELINE).unwrap();
    printed(dir.path(), "run plain.yaml");
    let table = std::fs::read_to_string(dir.path().join("artifacts/results/plain/accuracy.json")).unwrap();
    let table: Value = serde_json::from_str(&table).unwrap();
    let mean = |model: &str| {
        let row = table["rows"].as_array().unwrap().iter().position(|row| row == model);
        let row = row.unwrap_or_else(|| panic!("{model}: {table}"));
        100.0 * table["cells"][row]["mean"].as_f64().unwrap()
    };
    for model in ["gcn", "gpr-gnn"] {
        let (lanes, plain) = (mean(model), mean(&format!("plain-{model}")));
        // Six splits of 60 test nodes: the standard error of a difference of means is about three points.
        assert!(lanes > 70.0 && (lanes - plain).abs() < 9.0, "{model}: {lanes} in lanes, {plain} in plain form");
    }
    assert!(mean("plain-gat") > 70.0, "{table}");
}

/// Every file that training has left but the manifests, which hold seconds.
fn trained(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for artifact in std::fs::read_dir(dir.join("artifacts/objects/train")).unwrap() {
        let artifact = artifact.unwrap();
        for file in std::fs::read_dir(artifact.path()).unwrap() {
            let file = file.unwrap();
            if file.file_name() != "manifest.json" {
                let name = format!("{:?}/{:?}", artifact.file_name(), file.file_name());
                found.insert(name, std::fs::read(file.path()).unwrap());
            }
        }
    }
    found
}

#[test]
fn threads_change_no_byte_of_what_is_trained_in_plain_form() {
    // Large enough that candle hands operations to threads of its own: 1100 × 64 values.
    let pipeline = PIPELINE.replace("nodes: 300", "nodes: 1100").replace("epochs: 60", "epochs: 3");
    let left = [("1", "1"), ("2", "2"), ("1", "4")].map(|(jobs, cores)| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plain.yaml"), &pipeline).unwrap();
        let variables = [("RAYON_NUM_THREADS", cores), ("CANDLE_NUM_THREADS", cores)];
        let output = run_as(dir.path(), &format!("run plain.yaml --quiet --jobs {jobs}"), &variables);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        trained(dir.path())
    });
    assert!(left[0].len() > 5);
    assert!(left[0] == left[1] && left[0] == left[2]);
}

#[test]
fn they_are_listed_checked_and_in_the_key_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let listed = printed(dir.path(), "list models plain-gcn");
    assert!(listed.contains("(version 1, crate plain 0.1.0)") && listed.contains("hidden"), "{listed}");
    std::fs::write(dir.path().join("plain.yaml"), PIPELINE.replace("epochs: 60", "epochs: 60, hidden: 0")).unwrap();
    let output = run_as(dir.path(), "check plain.yaml", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("hidden"), "{said}");
    let twice = ppgnn::Program::new().plain_model::<gcn::Gcn>().plain_model::<gcn::Gcn>();
    let said = twice.registry().err().unwrap()[0].to_string();
    assert!(said.contains("`plain-gcn`"), "{said}");
}
