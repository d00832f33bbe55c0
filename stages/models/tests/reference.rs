//! Every model against PyTorch: logits, loss, gradients and all weights after one step of the optimiser.
//!
//! The values are in `tests/science/models.json`, which `python3 tests/science/models.py` has computed in double precision
//! from the formulas, with PyTorch's own gradients and Adam; the script says how. There is no dropout.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use serde_json::Value;

use crate::kinds::{Features, Matrix, Nodes, Operator, Side, Spectrum};
use crate::math::csr::Csr;
use crate::models::ops::{AsTensor, Sides, Tape, Targets};
use crate::models::testing::{build_by_name, distance, has_loops, streams, view_of};
use crate::models::{GraphView, Input, Output, Pass};
use crate::optim::{Adam, Settings};

const LANES: usize = 2;

fn file() -> Value {
    serde_json::from_str(include_str!("../../../tests/science/models.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn singles(value: &Value) -> Vec<f32> {
    numbers(value).into_iter().map(|x| x as f32).collect()
}

fn integers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|x| u32::try_from(x.as_u64().unwrap()).unwrap()).collect()
}

/// A tensor of the file, the same in every lane.
fn tensor(value: &Value) -> Tensor {
    let shape: Vec<usize> = integers(&value["shape"]).into_iter().map(|x| x as usize).collect();
    let one = Tensor::from_vec(numbers(&value["values"]), shape, &Device::Cpu).unwrap();
    one.broadcast_left(LANES).unwrap().contiguous().unwrap()
}

/// D^{-1/2} A D^{-1/2} with or without self-loops; a node without neighbours has an empty row.
fn operator(edges: &Value, n: usize, loops: bool) -> Operator {
    let mut adjacency = vec![vec![0.0; n]; n];
    (0..n).for_each(|i| adjacency[i][i] = if loops { 1.0 } else { 0.0 });
    for edge in edges.as_array().unwrap() {
        let edge = integers(edge);
        let (i, j) = (edge[0] as usize, edge[1] as usize);
        (adjacency[i][j], adjacency[j][i]) = (1.0, 1.0);
    }
    let degree: Vec<f64> = adjacency.iter().map(|row| row.iter().sum()).collect();
    let (mut indptr, mut indices, mut values) = (vec![0], vec![], vec![]);
    for (i, row) in adjacency.iter().enumerate() {
        for j in (0..n).filter(|j| row[*j] != 0.0) {
            indices.push(j as u32);
            values.push(1.0 / (degree[i] * degree[j]).sqrt());
        }
        indptr.push(indices.len() as u64);
    }
    Operator { matrix: Csr::new(n, indptr, indices, values).unwrap() }
}

/// The graph of the file, with dense features and with sparse ones.
fn graphs(graph: &Value, loops: bool, dtype: DType) -> [GraphView; 2] {
    let n = graph["nodes"].as_u64().unwrap() as usize;
    let cols = integers(&graph["features"]["shape"])[1] as usize;
    let data = singles(&graph["features"]["values"]);
    let side = |name: &str| {
        let side = &graph["spectrum"][name];
        Side { values: numbers(&side["values"]), vectors: singles(&side["vectors"]["values"]).into_iter().collect() }
    };
    let spectrum = Spectrum { nodes: n, low: side("low"), high: side("high"), worst_residual: 0.0, worst_overlap: 0.0 };
    let (mut indptr, mut indices, mut values) = (vec![0], vec![], vec![]);
    for row in data.chunks(cols) {
        for (column, x) in (0u32..).zip(row).filter(|(_, x)| **x != 0.0) {
            indices.push(column);
            values.push(*x);
        }
        indptr.push(indices.len() as u64);
    }
    let sparse = Features::Sparse(Csr::rectangular(n, cols, indptr, indices, values).unwrap());
    [Features::Dense(Matrix { rows: n, cols, data }), sparse].map(|features| {
        let nodes = Nodes { features, labels: integers(&graph["labels"]), classes: 3 };
        view_of((operator(&graph["edges"], n, loops), nodes, spectrum.clone()), dtype)
    })
}

/// The largest differences of logits, loss, gradients and weights after a step from those of a case.
fn differences(case: &Value, graph: &GraphView, file: &Value) -> [f64; 4] {
    let (name, of) = (case["model"].as_str().unwrap(), &file["optimiser"]);
    let mut built = build_by_name(name, &case["params"], graph, streams(LANES));
    let count = |field: &str| case[field].as_object().map_or(0, |named| named.len());
    assert_eq!(built.weights.len(), count("weights") + count("states"), "{}", case["name"]);
    for weight in &built.weights {
        let field = if weight.rule.is_some() { "weights" } else { "states" };
        let start = tensor(&case[field][&*weight.name]);
        assert_eq!(start.dims(), weight.param.tensor().dims(), "{}: {}", case["name"], weight.name);
        weight.param.set(&start.to_dtype(graph.dtype()).unwrap()).unwrap();
    }
    let tape = Tape::new(Sides::Both);
    let mut pass = Pass::new(Sides::Both, &mut built.streams);
    let Output { logits, term, .. } =
        built.model.forward(graph, &Input::new(&graph.features, &tape), &mut pass).unwrap();
    let labels: Arc<[u32]> = integers(&file["graph"]["labels"]).into();
    let targets = Targets::new(labels, vec![integers(&file["graph"]["train"]); LANES]);
    let (mut losses, gradient) = targets.loss(logits.main()).unwrap();
    let mut from = vec![(logits.main().clone(), gradient)];
    if let Some(term) = term {
        let terms = term.to_dtype(DType::F64).unwrap().to_vec1::<f64>().unwrap();
        losses.iter_mut().zip(terms).for_each(|(loss, term)| *loss += term);
        from.push((term.clone(), term.ones_like().unwrap()));
    }
    let gradients = tape.back(from).unwrap();
    let lr = of["lr"].as_f64().unwrap();
    let settings = Settings { lr, lr_now: lr, weight_decay: of["weight-decay"].as_f64().unwrap() };
    let (mut of_gradients, mut of_steps) = (0f64, 0f64);
    for weight in &built.weights {
        weight.param.commit().unwrap();
        let Some(rule) = weight.rule else {
            let after = tensor(&case["states-after"][&*weight.name]);
            of_steps = of_steps.max(distance(&weight.param.tensor(), &after));
            continue;
        };
        let gradient = gradients.of(&weight.param.tensor()).unwrap().unwrap();
        of_gradients = of_gradients.max(distance(&gradient, &tensor(&case["gradients"][&*weight.name])));
        Adam::new(rule).step(&weight.param.var(), &gradient, settings).unwrap();
        of_steps = of_steps.max(distance(&weight.param.tensor(), &tensor(&case["after"][&*weight.name])));
    }
    let evaluated = case.get("eval-logits").unwrap_or(&case["logits"]);
    let sides = [(logits.main(), &case["logits"]), (logits.eval().unwrap(), evaluated)];
    let sides = sides.map(|(side, expected)| distance(side, &tensor(expected)));
    let of_losses = losses.iter().map(|loss| (loss - case["loss"].as_f64().unwrap()).abs()).fold(0.0, f64::max);
    [sides[0].max(sides[1]), of_losses, of_gradients, of_steps]
}

#[test]
fn one_step_of_every_model_agrees_with_pytorch() {
    let file = file();
    let cases = file["cases"].as_array().unwrap();
    for row in crate::models::MODELS {
        let name = row.variant.name;
        let known = cases.iter().any(|case| case["model"] == name);
        assert!(known, "no values for {name}: add a case to tests/science/models.py and run it (it needs PyTorch)");
    }
    // Features and eigenvectors are stored in single precision, so double precision starts from numbers that are off by
    // some 1e-8.
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 2e-7)] {
        for case in cases {
            for graph in graphs(&file["graph"], has_loops(case["model"].as_str().unwrap()), dtype) {
                let found = differences(case, &graph, &file);
                assert!(found.iter().all(|d| *d < tolerance), "{} in {dtype:?}: {found:?}", case["name"]);
            }
        }
    }
}
