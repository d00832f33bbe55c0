//! A small graph with its full spectrum, models with their weights, and gradients by finite differences, for tests.

use candle_core::{DType, Device, Result, Tensor, Var};
use faer::{Mat, Side as Triangle};
use serde_json::{Value, json};

use super::ops::{AsTensor, Gradients, Propagator, Sided, Sides, Tape};
use super::{Build, GraphParts, GraphView, Input, MODELS, Model, Named, Output, Pass, Streams, Weights};
use crate::contract::Chosen;
use crate::kinds::{Features, Matrix, Nodes, Operator, Projection, Relations, SeparatedHops, Side, Spectrum};
use crate::math::csr::Csr;
use crate::math::random::Stream;

/// Nodes of the graph; even, so that both sides together are the whole spectrum.
pub(crate) const NODES: usize = 14;

/// Two rings of seven nodes with chords between them, normalised with self-loops; two classes, five features.
pub(crate) fn artifacts() -> (Operator, Nodes, Spectrum) {
    artifacts_with(true)
}

/// The same, with or without self-loops.
pub(crate) fn artifacts_with(loops: bool) -> (Operator, Nodes, Spectrum) {
    let n = NODES;
    let mut adjacency = vec![vec![0.0; n]; n];
    for i in 0..n {
        let next = if i % 7 == 6 { i - 6 } else { i + 1 };
        let across = (i * 3 + 7) % n;
        for (a, b) in [(i, next), (i, across), (i, i)] {
            adjacency[a][b] = 1.0;
            adjacency[b][a] = 1.0;
        }
        adjacency[i][i] = if loops { 1.0 } else { 0.0 };
    }
    let (operator, spectrum) = normalised(&adjacency);
    let mut stream = Stream::new(11, &["testing"]);
    let data = (0..n * 5).map(|_| stream.normal() as f32).collect();
    let nodes = Nodes {
        features: Features::Dense(Matrix { rows: n, cols: 5, data }),
        labels: (0..n).map(|i| u32::from(i >= 7)).collect(),
        classes: 2,
    };
    (operator, nodes, spectrum)
}

/// D^{-1/2} A D^{-1/2} with all of its eigenpairs; a node without neighbours has an empty row.
pub(crate) fn normalised(adjacency: &[Vec<f64>]) -> (Operator, Spectrum) {
    let n = adjacency.len();
    let degree: Vec<f64> = adjacency.iter().map(|row| row.iter().sum()).collect();
    let normal = |i: usize, j: usize| {
        if adjacency[i][j] == 0.0 { 0.0 } else { adjacency[i][j] / (degree[i] * degree[j]).sqrt() }
    };
    let (mut indptr, mut indices, mut values) = (vec![0], vec![], vec![]);
    for (i, row) in adjacency.iter().enumerate() {
        for j in (0..n).filter(|j| row[*j] != 0.0) {
            indices.push(j as u32);
            values.push(normal(i, j));
        }
        indptr.push(indices.len() as u64);
    }
    (Operator { matrix: Csr::new(n, indptr, indices, values).unwrap() }, spectrum(n, normal))
}

/// All eigenpairs, the larger half on the low side.
fn spectrum(n: usize, entry: impl Fn(usize, usize) -> f64) -> Spectrum {
    let eigen = Mat::from_fn(n, n, &entry).self_adjoint_eigen(Triangle::Lower).unwrap();
    // faer returns ascending eigenvalues.
    let pair = |i: usize| {
        let vector: Vec<f32> = (0..n).map(|row| eigen.U()[(row, i)] as f32).collect();
        (eigen.S()[i], vector)
    };
    let side = |indices: &mut dyn Iterator<Item = usize>| {
        let pairs: Vec<_> = indices.map(pair).collect();
        Side { values: pairs.iter().map(|p| p.0).collect(), vectors: pairs.into_iter().flat_map(|p| p.1).collect() }
    };
    let (low, high) = (side(&mut (n / 2..n).rev()), side(&mut (0..n / 2).rev()));
    Spectrum { nodes: n, low, high, worst_residual: 0.0, worst_overlap: 0.0 }
}

/// The graph as models see it.
pub(crate) fn view(dtype: DType) -> GraphView {
    view_of(artifacts(), dtype)
}

/// Artifacts as models see them.
pub(crate) fn view_of(artifacts: (Operator, Nodes, Spectrum), dtype: DType) -> GraphView {
    GraphView::new(TestGraph::of(artifacts).parts(), dtype, Device::Cpu).unwrap()
}

/// All artifacts of one graph that a model may need.
pub(crate) struct TestGraph {
    pub operator: Operator,
    pub nodes: Nodes,
    pub spectrum: Spectrum,
    pub second_operator: Operator,
    pub projection: Projection,
    pub hops: SeparatedHops,
    pub relations: Relations,
}

impl TestGraph {
    /// Makes the others from operator, nodes and spectrum.
    pub fn of((operator, nodes, spectrum): (Operator, Nodes, Spectrum)) -> Self {
        let projection = projection(&spectrum, &nodes);
        let (hops, second_operator) = (hops(&operator), two_hops(&operator));
        let relations = relations(&operator);
        Self { operator, nodes, spectrum, second_operator, projection, hops, relations }
    }

    /// Everything that a view can be made of.
    pub fn parts(&self) -> GraphParts<'_> {
        GraphParts {
            spectrum: Some(&self.spectrum),
            second_operator: Some(&self.second_operator),
            projection: Some(&self.projection),
            hops: Some(&self.hops),
            relations: Some(&self.relations),
            ..GraphParts::of(&self.operator, &self.nodes)
        }
    }
}

/// The operator of nodes at distance exactly two, by plain products; none has a loop.
pub(crate) fn two_hops(operator: &Operator) -> Operator {
    let (matrix, n) = (&operator.matrix, operator.nodes());
    let near = |i: usize, j: usize| i == j || matrix.get(i, j) != 0.0;
    let apart = |i: usize, j: usize| !near(i, j) && (0..n).any(|k| near(i, k) && near(k, j));
    let row = |i: usize| (0..n).map(|j| f64::from(u8::from(apart(i, j)))).collect();
    normalised(&(0..n).map(row).collect::<Vec<Vec<f64>>>()).0
}

/// Neighbours, nodes five further on and the node itself, not in all relations; i hears j otherwise than j hears i.
pub(crate) fn relations(operator: &Operator) -> Relations {
    let n = operator.nodes();
    let relation = |i: usize, j: usize| match (i == j, operator.matrix.get(i, j) != 0.0, j == (i + 5) % n) {
        (true, ..) => Some(Relations::OWN),
        (_, true, _) => Some(((3 * i + 5 * j) % 4) as u8),
        (_, _, true) => Some(4 + (i % 3) as u8),
        _ => None,
    };
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for i in 0..n {
        for (j, relation) in (0..n).filter_map(|j| relation(i, j).map(|relation| (j, relation))) {
            indices.push(j as u32);
            values.push(relation);
        }
        indptr.push(indices.len() as u64);
    }
    Relations { pairs: Csr::new(n, indptr, indices, values).unwrap() }
}

/// The first four hops of the sum of the first four powers, by plain products.
pub(crate) fn hops(operator: &Operator) -> SeparatedHops {
    let (matrix, n) = (&operator.matrix, operator.nodes());
    let mut sum = vec![0.0; n * n];
    let (mut distance, mut power) = (vec![usize::MAX; n * n], vec![0.0; n * n]);
    (0..n).for_each(|i| (distance[i * n + i], power[i * n + i]) = (0, 1.0));
    for k in 1..=4 {
        let entry = |at: usize| (0..n).map(|m| matrix.get(at / n, m) * power[m * n + at % n]).sum::<f64>();
        power = (0..n * n).map(entry).collect();
        for at in 0..n * n {
            sum[at] += power[at];
            if power[at] != 0.0 && distance[at] == usize::MAX {
                distance[at] = k;
            }
        }
    }
    let hop = |l: usize| {
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for i in 0..n {
            for j in (0..n).filter(|j| distance[i * n + j] == l || (l == 1 && i == *j)) {
                indices.push(j as u32);
                values.push(sum[i * n + j] as f32);
            }
            indptr.push(indices.len() as u64);
        }
        (l, Csr::new(n, indptr, indices, values).unwrap())
    };
    SeparatedHops { nodes: n, hops: (1..=4).map(hop).collect() }
}

/// UᵀX by plain sums.
pub(crate) fn projection(spectrum: &Spectrum, nodes: &Nodes) -> Projection {
    let (x, n) = (nodes.features.to_dense(), spectrum.nodes);
    let vectors = spectrum.low.vectors.chunks(n).chain(spectrum.high.vectors.chunks(n));
    let sum = |u: &[f32], j: usize| (0..n).map(|i| f64::from(u[i]) * f64::from(x.row(i)[j])).sum::<f64>();
    let data: Vec<f32> = vectors.flat_map(|u| (0..x.cols).map(|j| sum(u, j) as f32).collect::<Vec<_>>()).collect();
    let eigenvalues = [&spectrum.low.values[..], &spectrum.high.values].concat();
    Projection { features: Matrix { rows: eigenvalues.len(), cols: x.cols, data }, eigenvalues }
}

/// Whether a model takes an operator with self-loops; some want none.
pub(crate) fn has_loops(model: &str) -> bool {
    !["bernnet", "fagcn", "h2gcn"].contains(&model)
}

/// The graph as a model sees it, with or without self-loops.
pub(crate) fn view_for(model: &str, dtype: DType) -> GraphView {
    view_of(artifacts_with(has_loops(model)), dtype)
}

/// As [`view_for`], with sparse features of 20 columns.
pub(crate) fn sparse_view_for(model: &str, dtype: DType) -> GraphView {
    let (operator, nodes, spectrum) = artifacts_with(has_loops(model));
    let features = Features::Sparse(crate::math::testing::random(NODES, 20, 0.2, 8));
    view_of((operator, Nodes { features, ..nodes }, spectrum), dtype)
}

/// Every model, with all variants that take a path of their own. All of them drop where they can.
pub(crate) fn zoo() -> Vec<(&'static str, Value)> {
    let pp = |extra: Value| {
        let mut params = json!({"hidden": 5, "order": 3, "local-order": 2, "bins": 2, "init": "random", "eta": 0.4});
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        ("pp-gnn", params)
    };
    vec![
        ("lr", json!({})),
        ("mlp", json!({"hidden": 5})),
        ("gcn", json!({"hidden": 5})),
        ("gcn", json!({"hidden": 5, "batch-norm": true})),
        ("gcn-kipf", json!({"hidden": 5})),
        ("gcn-kipf", json!({"hidden": 5, "batch-norm": true})),
        ("gcn-ogb", json!({"hidden": 5})),
        ("gcn-ogb", json!({"hidden": 5, "layers": 4, "batch-norm": false})),
        ("supergat", json!({"hidden": 3, "heads": 3, "out-heads": 2, "dropout": 0.4, "edge-loss": 0.7})),
        ("supergat", json!({"kind": "sd", "hidden": 2, "edge-loss": 3.0, "edges": 1.0, "negatives": 0.3})),
        ("supergat", json!({"kind": "sd", "hidden": 4, "heads": 1, "out-heads": 1, "edge-loss": 0.0})),
        ("geom-gcn", json!({"hidden": 5})),
        ("geom-gcn", json!({"hidden": 16, "dropout": 0.3})),
        ("fagcn", json!({"hidden": 5, "layers": 1})),
        ("sgcn", json!({"order": 2, "dropout": 0.0})),
        ("sgcn", json!({"order": 2, "dropout": 0.4})),
        ("lgc", json!({"order": 3})),
        ("tdgnn", json!({"hidden": 5, "hops": [1, 3], "dropout-hidden": 0.3})),
        ("tdgnn", json!({"hidden": 5, "hops": [1, 2], "weighted": true})),
        ("h2gcn", json!({"hidden": 5})),
        ("h2gcn", json!({"hidden": 5, "rounds": 1, "relu": false, "dropout": 0.3})),
        ("arma", json!({"stacks": 2, "depth": 2})),
        ("arma", json!({"stacks": 3, "depth": 3, "shared-weights": true, "last-activation": "identity"})),
        ("adagnn", json!({"hidden": 5, "layers": 2, "l1": 0.01})),
        ("adagnn", json!({"hidden": 5, "layers": 4, "dropout": 0.4})),
        ("gfir", json!({"order": 2})),
        ("gfir", json!({"order": 2, "drops": "weights"})),
        ("appnp", json!({"hidden": 5, "order": 3, "alpha": 0.2})),
        ("gpr-gnn", json!({"hidden": 5, "order": 3, "init": "random"})),
        ("bernnet", json!({"hidden": 5, "order": 3})),
        pp(json!({})),
        pp(json!({"variant": "low"})),
        pp(json!({"variant": "high"})),
        pp(json!({"variant": "gpr-low"})),
        pp(json!({"variant": "gpr-high"})),
        pp(json!({"linear": true})),
        pp(json!({"masks": "shared"})),
        pp(json!({"reg": 0.7})),
        pp(json!({"eta": 1.0})),
        pp(json!({"binning": "joint", "bins": 3, "reg": 0.7})),
        pp(json!({"binning": "by-nodes", "bins": 3})),
        pp(json!({"linear": true, "variant": "high", "reg": 0.7})),
        pp(json!({"filters": "features"})),
        pp(json!({"filters": "features", "variant": "low"})),
        pp(json!({"filters": "features", "variant": "high", "reg": 0.7})),
        pp(json!({"filters": "features", "variant": "gpr-low", "reg": 0.7})),
        pp(json!({"filters": "features", "variant": "gpr-high", "linear": true})),
        pp(
            json!({"filters": "features", "binning": "joint", "bins": 3, "init": "ppr", "local-alphas": [0.1, 0.5, 0.2, 0.9]}),
        ),
    ]
}

/// The parameters of a model without any dropout.
pub(crate) fn undropped(model: &str, params: &Value) -> Value {
    let mut params = params.clone();
    for name in ["dropout", "dprate", "dropout-hidden"] {
        let known = MODELS.iter().find(|row| row.variant.name == model).unwrap().variant.schema();
        if known["properties"].get(name).is_some() {
            params[name] = json!(0.0);
        }
    }
    params
}

/// Streams of the splits 0 to `lanes` − 1.
pub(crate) fn streams(lanes: usize) -> Vec<Streams> {
    (0..lanes).map(|lane| Streams::new(9, lane)).collect()
}

/// A model with its weights, and the streams as building has left them.
pub(crate) struct Built<M: ?Sized> {
    pub model: Box<M>,
    pub weights: Vec<Named>,
    pub streams: Vec<Streams>,
}

/// Builds a model of a known type.
pub(crate) fn build<M: Build>(params: &M::Params, graph: &GraphView, lanes: usize) -> Built<M> {
    let mut streams = streams(lanes);
    let mut weights = Weights::new(&mut streams, graph.dtype(), graph.device().clone());
    let model = Box::new(M::build(params, graph, &mut weights).unwrap());
    Built { model, weights: weights.into_named(), streams }
}

/// Builds a model by name.
pub(crate) fn build_by_name(name: &str, params: &Value, graph: &GraphView, streams: Vec<Streams>) -> Built<dyn Model> {
    let mut streams = streams;
    let mut weights = Weights::new(&mut streams, graph.dtype(), graph.device().clone());
    let row = MODELS.iter().find(|row| row.variant.name == name).unwrap();
    let model = Chosen { row, params }.build(graph, &mut weights).unwrap();
    Built { model, weights: weights.into_named(), streams }
}

impl<M: ?Sized> Built<M> {
    /// Returns a weight by name, lanes first.
    pub fn weight(&self, name: &str) -> Tensor {
        self.weights.iter().find(|named| named.name == name).unwrap().param.tensor()
    }

    /// Returns all trained weights.
    pub fn vars(&self) -> Vec<Var> {
        self.weights.iter().filter(|named| named.rule.is_some()).map(|named| named.param.var()).collect()
    }
}

impl<M: Model> Built<M> {
    /// Returns the logits of an evaluation.
    pub fn eval(&self, graph: &GraphView) -> Tensor {
        eval(&*self.model, graph, self.streams.len())
    }

    /// Returns whether training differs from evaluation by nothing but a mask on the activation `hidden`, with rate ½: survivors
    /// are twice what evaluation has.
    pub fn drops_hidden_units_alone(&mut self, graph: &GraphView) -> bool {
        let output = forward(&*self.model, graph, Sides::Both, &mut self.streams);
        let (_, hidden) = &output.hidden[0];
        let (main, eval) = (flat(hidden.main()), flat(hidden.eval().unwrap()));
        assert!(main.iter().any(|x| *x != 0.0) && main.iter().zip(&eval).any(|(m, e)| *m == 0.0 && *e != 0.0));
        main.iter().zip(&eval).all(|(m, e)| *m == 0.0 || (m - 2.0 * e).abs() < 1e-9)
    }

    /// Returns the logits of a training pass, with the masks that come next.
    pub fn train(&mut self, graph: &GraphView) -> Tensor {
        forward(&*self.model, graph, Sides::Train, &mut self.streams).logits.main().clone()
    }
}

/// Passes through a model.
pub(crate) fn forward(model: &dyn Model, graph: &GraphView, sides: Sides, streams: &mut [Streams]) -> Output {
    in_pass(sides, graph, streams, |x, pass| model.forward(graph, x, pass))
}

/// Computes something in a pass of its own.
pub(crate) fn in_pass<R>(
    sides: Sides,
    graph: &GraphView,
    streams: &mut [Streams],
    f: impl FnOnce(&Input, &mut Pass) -> Result<R>,
) -> R {
    f(&Input::new(&graph.features, &Tape::new(sides)), &mut Pass::new(sides, streams)).unwrap()
}

/// Returns the logits of an evaluation, lanes × nodes × classes.
pub(crate) fn eval(model: &dyn Model, graph: &GraphView, lanes: usize) -> Tensor {
    evaluated(graph, |x, pass| model.forward(graph, x, pass).map(|output| output.logits), lanes)
}

/// Returns what `forward` gives in a pass that evaluates.
pub(crate) fn evaluated(
    graph: &GraphView,
    forward: impl FnOnce(&Input, &mut Pass) -> Result<Sided>,
    lanes: usize,
) -> Tensor {
    in_pass(Sides::Eval, graph, &mut streams(lanes), forward).main().clone()
}

/// The operator as a dense matrix in double precision.
pub(crate) fn dense_operator(graph: &GraphView) -> Tensor {
    dense(&graph.operator)
}

/// An operator as a dense matrix in double precision.
pub(crate) fn dense(operator: &Propagator) -> Tensor {
    let (matrix, n) = (operator.matrix(), operator.n());
    let full: Vec<f64> = (0..n * n).map(|at| matrix.get(at / n, at % n)).collect();
    Tensor::from_vec(full, (n, n), &Device::Cpu).unwrap()
}

/// Computes Σ ⟨logits, weight⟩ + Σ term and its gradients in a training pass that starts with fresh streams.
pub(crate) fn weighted_pass(model: &dyn Model, graph: &GraphView, weight: &Tensor) -> (f64, Gradients) {
    let (tape, mut streams) = (Tape::new(Sides::Train), streams(weight.dim(0).unwrap()));
    let mut pass = Pass::new(Sides::Train, &mut streams);
    let output = model.forward(graph, &Input::new(&graph.features, &tape), &mut pass).unwrap();
    let logits = output.logits.main().clone();
    let mut value = (&logits * weight).unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap();
    let mut from = vec![(logits, weight.clone())];
    if let Some(term) = output.term {
        value += term.sum_all().unwrap().to_scalar::<f64>().unwrap();
        from.push((term.clone(), term.ones_like().unwrap()));
    }
    (value, tape.back(from).unwrap())
}

/// Runs `f` in a pool of that many threads.
pub(crate) fn with_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

/// All values of a tensor, in double precision.
pub(crate) fn flat(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The bits of all values of a tensor: `==` would take −0 for 0.
pub(crate) fn bits(tensor: &Tensor) -> Vec<u64> {
    flat(tensor).into_iter().map(f64::to_bits).collect()
}

/// A tensor of standard normal numbers in double precision.
pub(crate) fn normal(shape: &[usize], seed: u64) -> Tensor {
    let mut stream = Stream::new(seed, &["testing", "normal"]);
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| stream.normal()).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// The largest difference of two tensors.
pub(crate) fn distance(a: &Tensor, b: &Tensor) -> f64 {
    let difference = (a.to_dtype(DType::F64).unwrap() - b.to_dtype(DType::F64).unwrap()).unwrap();
    difference.abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar().unwrap()
}

/// Asserts that the gradients of `loss` by candle equal central differences within `tolerance` of the larger of 1 and
/// their size.
pub(crate) fn assert_gradients(vars: &[&Var], loss: impl Fn() -> Tensor, tolerance: f64) {
    let grads = loss().backward().unwrap();
    let gradients: Vec<Tensor> = vars.iter().map(|var| grads.get(var.as_tensor()).unwrap().clone()).collect();
    assert_differences(vars, &gradients, || loss().to_scalar().unwrap(), tolerance);
}

/// Asserts the same of a pass that returns its loss and gradients by the tape.
pub(crate) fn assert_tape_gradients(vars: &[&Var], pass: impl Fn() -> (f64, Gradients), tolerance: f64) {
    let found = pass().1;
    // A weight that reaches nothing has no gradient.
    let of = |var: &&Var| found.of(var.as_tensor()).unwrap().unwrap_or_else(|| var.zeros_like().unwrap());
    let gradients: Vec<Tensor> = vars.iter().map(of).collect();
    assert_differences(vars, &gradients, || pass().0, tolerance);
}

fn assert_differences(vars: &[&Var], gradients: &[Tensor], loss: impl Fn() -> f64, tolerance: f64) {
    let step = 1e-5;
    for (v, (var, gradient)) in vars.iter().zip(gradients).enumerate() {
        assert_eq!(gradient.dims(), var.dims());
        let at = flat(var);
        let value = |values: Vec<f64>| {
            var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu).unwrap()).unwrap();
            loss()
        };
        for (i, backward) in flat(gradient).iter().enumerate() {
            let shifted = |by: f64| at.iter().enumerate().map(|(j, x)| if i == j { x + by } else { *x }).collect();
            let numeric = (value(shifted(step)) - value(shifted(-step))) / (2.0 * step);
            let error = (numeric - backward).abs() / backward.abs().max(1.0);
            assert!(error < tolerance, "tensor {v}, entry {i}: {numeric} by differences, {backward} by backward");
        }
        value(at.clone());
    }
}
