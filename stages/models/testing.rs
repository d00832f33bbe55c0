//! A small graph with its full spectrum, and gradients by finite differences, for the tests of models.

use candle_core::{DType, Device, Tensor, Var};
use faer::{Mat, Side as Triangle};

use super::GraphView;
use crate::kinds::{Features, Matrix, Nodes, Operator, Side, Spectrum};
use crate::math::csr::Csr;
use crate::math::random::Stream;

/// Nodes of the graph; even, so that both sides together are the whole spectrum.
pub(crate) const NODES: usize = 14;

/// Two rings of seven nodes with chords between them, normalised with self-loops; two classes, five features.
pub(crate) fn artifacts() -> (Operator, Nodes, Spectrum) {
    let n = NODES;
    let mut adjacency = vec![vec![0.0; n]; n];
    for i in 0..n {
        let next = if i % 7 == 6 { i - 6 } else { i + 1 };
        let across = (i * 3 + 7) % n;
        for (a, b) in [(i, next), (i, across), (i, i)] {
            adjacency[a][b] = 1.0;
            adjacency[b][a] = 1.0;
        }
    }
    let degree: Vec<f64> = adjacency.iter().map(|row| row.iter().sum()).collect();
    let normal = |i: usize, j: usize| adjacency[i][j] / (degree[i] * degree[j]).sqrt();
    let (mut indptr, mut indices, mut values) = (vec![0], vec![], vec![]);
    for (i, row) in adjacency.iter().enumerate() {
        for j in (0..n).filter(|j| row[*j] != 0.0) {
            indices.push(j as u32);
            values.push(normal(i, j));
        }
        indptr.push(indices.len() as u64);
    }
    let mut stream = Stream::new(11, &["testing"]);
    let data = (0..n * 5).map(|_| stream.normal() as f32).collect();
    let operator = Operator { matrix: Csr::new(n, indptr, indices, values).unwrap() };
    let nodes = Nodes {
        features: Features::Dense(Matrix { rows: n, cols: 5, data }),
        labels: (0..n).map(|i| u32::from(i >= 7)).collect(),
        classes: 2,
    };
    (operator, nodes, spectrum(n, normal))
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
    let (operator, nodes, spectrum) = artifacts();
    GraphView::new(&operator, &nodes, Some(&spectrum), dtype).unwrap()
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

/// Asserts that the gradients of `loss` equal central differences within `tolerance` of the larger of 1 and their size.
pub(crate) fn assert_gradients(vars: &[&Var], loss: impl Fn() -> Tensor, tolerance: f64) {
    let grads = loss().backward().unwrap();
    let step = 1e-5;
    for (v, var) in vars.iter().enumerate() {
        let gradient = grads.get(var.as_tensor()).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let at = var.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let value = |values: Vec<f64>| {
            var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu).unwrap()).unwrap();
            loss().to_scalar::<f64>().unwrap()
        };
        for (i, backward) in gradient.iter().enumerate() {
            let shifted = |by: f64| at.iter().enumerate().map(|(j, x)| if i == j { x + by } else { *x }).collect();
            let numeric = (value(shifted(step)) - value(shifted(-step))) / (2.0 * step);
            let error = (numeric - backward).abs() / backward.abs().max(1.0);
            assert!(error < tolerance, "tensor {v}, entry {i}: {numeric} by differences, {backward} by backward");
        }
        value(at.clone());
    }
}
