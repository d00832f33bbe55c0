//! BernNet (He et al., "Learning Arbitrary Graph Spectral Filters via Bernstein Approximation", NeurIPS 2021).
//!
//! ```text
//! H      = drop_p(ReLU(drop_p(X) W₁ + b₁)) W₂ + b₂                                nodes × classes
//! logits = Σ_{k=0}^{K} ReLU(t_k) 2^{−K} C(K, k) (2I − L)^{K−k} L^k drop_dprate(H),   L = I − Â₀
//! ```
//!
//! The operator is Â₀, without self-loops (`normalize` with `self-loops: false`). t starts at 1, which makes the filter
//! the identity; it has a learning rate of its own and no decay. The published code takes K + K(K+1)/2 products; here it
//! is K, see [`to_chebyshev`].

use candle_core::{DType, Device, Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Perceptron, bernstein, to_chebyshev};
use super::ops::{AsTensor, Basis};
use super::{Build, GraphSizes, GraphView, Input, Level, Model, ModelWork, Output, Param, Pass, Respond, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;
use crate::optim::{Decay, Rate, Rule};

/// Parameters of `bernnet`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Share of the network's output dropped before propagation.
    #[schemars(with = "DropoutRate")]
    pub dprate: f64,
    /// Order of the Bernstein polynomials, which is the number of propagation steps.
    #[schemars(range(min = 0, max = 200))]
    pub order: usize,
    /// Learning rate of the filter's coefficients.
    #[schemars(range(max = 100.0), extend("exclusiveMinimum" = 0.0))]
    pub bern_lr: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, dropout: 0.5, dprate: 0.5, order: 10, bern_lr: 0.01 }
    }
}

impl crate::contract::params::Params for Params {}

/// A perceptron filtered by a non-negative combination of Bernstein polynomials.
pub struct BernNet {
    net: Perceptron,
    /// t, lanes × (order + 1).
    theta: Param,
    /// Chebyshev coefficients of every Bernstein polynomial, (order + 1) × (order + 1), in double precision.
    bernstein: Tensor,
    dprate: f64,
}

impl Build for BernNet {
    const NAME: &'static str = "bernnet";
    const ABOUT: &'static str = "Perceptron filtered by trained Bernstein polynomials of the Laplacian";
    const REFERENCE: &'static str = "He et al., \"BernNet\", NeurIPS 2021";
    const EQUATION: &'static str = "Σ_k ReLU(θ_k) 2^−K C(K, k) (2I − L)^{K−k} L^k drop(MLP(X))";
    const VERSION: u32 = 1;
    const HIDDEN: &'static [&'static str] = &["network"];
    const RESPONSE: Option<Respond<Params>> = Some(|params, learned, at| {
        let theta = learned.values("theta").into_iter().map(|t| t.max(0.0));
        Level::of(theta.zip(bernstein(params.order, at.lambda)).map(|(t, b)| t * b).sum())
    });
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        if let Some(node) = graph.operator.first_loop() {
            return Err(has_loops(&format!("node `{node}` has one")));
        }
        let net = Perceptron::new(graph, Some(params.hidden), params.dropout, weights)?;
        let rule = Rule { rate: Rate::Own(params.bern_lr), decay: Decay::Off };
        let count = params.order + 1;
        let theta = weights.add("theta", rule, &[count], "init/theta", |_| vec![1.0; count])?;
        let bernstein = Tensor::from_vec(to_chebyshev(params.order).concat(), (count, count), &Device::Cpu)?;
        Ok(Self { net, theta, bernstein: bernstein.to_device(weights.device())?, dprate: params.dprate })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        Perceptron::widest(graph, Some(params.hidden))
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let net = Perceptron::work(graph, Some(params.hidden), 1);
        net.units(graph.classes).hops(params.order, graph.classes).trained(params.order + 1)
    }

    fn fits(_: &Params, graph: &GraphSizes) -> std::result::Result<(), StageError> {
        if graph.loops.is_some_and(|loops| loops > 0) { Err(has_loops("the operator has some")) } else { Ok(()) }
    }
}

fn has_loops(which: &str) -> StageError {
    StageError::unusable(
        format!("`bernnet` filters with the Laplacian of a graph without self-loops, but {which}"),
        "set `self-loops: false` in the `normalize` that `train` is wired to",
    )
}

impl Model for BernNet {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let h = self.net.forward(x, pass)?;
        let dropped = h.dropout(pass.dropout(self.dprate, "dropout/propagated"))?;
        // A few numbers, in double precision: large terms of opposite signs may meet here.
        let coefficients = self.theta.tensor().relu()?.to_dtype(DType::F64)?.matmul(&self.bernstein)?;
        let coefficients = coefficients.to_dtype(graph.dtype())?;
        let logits = dropped.polynomial(&graph.operator, Basis::Chebyshev, &coefficients)?;
        Ok(Output::from(logits).with_hidden("network", &h))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::testing::{self, Built, distance, flat};

    fn build(params: &Params, graph: &GraphView) -> Built<BernNet> {
        testing::build::<BernNet>(params, graph, 2)
    }

    /// Sets t of every lane.
    fn set(built: &Built<BernNet>, t: &[f64]) {
        let t = Tensor::new(t, &Device::Cpu).unwrap();
        built.model.theta.set(&Tensor::stack(&[&t, &t], 0).unwrap()).unwrap();
    }

    /// H, which is filtered.
    fn network(built: &Built<BernNet>, graph: &GraphView) -> Tensor {
        testing::evaluated(graph, |x, pass| built.model.net.forward(x, pass), 2)
    }

    /// A·Z of every lane.
    fn times(a: &Tensor, z: &Tensor) -> Tensor {
        a.broadcast_left(2).unwrap().contiguous().unwrap().matmul(z).unwrap()
    }

    #[test]
    fn coefficients_of_one_leave_the_network_as_it_is() {
        for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
            let graph = testing::view_for("bernnet", dtype);
            for order in [0, 1, 10, 30] {
                let built = build(&Params { order, ..Params::default() }, &graph);
                assert!(flat(&built.weight("theta")).iter().all(|t| *t == 1.0), "t starts at 1");
                assert!(distance(&built.eval(&graph), &network(&built, &graph)) < tolerance, "order {order}");
            }
        }
    }

    #[test]
    fn coefficients_of_k_over_order_are_half_of_the_laplacian() {
        let graph = testing::view_for("bernnet", DType::F64);
        let s = testing::dense_operator(&graph);
        for order in [1, 4, 10] {
            let built = build(&Params { order, ..Params::default() }, &graph);
            set(&built, &(0..=order).map(|k| k as f64 / order as f64).collect::<Vec<_>>());
            let h = network(&built, &graph);
            let expected = ((&h - times(&s, &h)).unwrap() * 0.5).unwrap();
            assert!(distance(&built.eval(&graph), &expected) < 1e-12, "order {order}");
        }
    }

    #[test]
    fn logits_are_those_of_the_formula_and_negative_coefficients_count_as_zero() {
        let graph = testing::view_for("bernnet", DType::F64);
        let s = testing::dense_operator(&graph);
        let eye = Tensor::eye(testing::NODES, DType::F64, &Device::Cpu).unwrap();
        // 2I − L and L.
        let (up, down) = ((&eye + &s).unwrap(), (&eye - &s).unwrap());
        for order in [0, 1, 4, 10] {
            let built = build(&Params { order, ..Params::default() }, &graph);
            let t: Vec<f64> = (0..=order).map(|k| (k as f64 * 1.7).sin()).collect();
            assert!(order < 4 || t.iter().any(|t| *t < 0.0));
            set(&built, &t);
            let h = network(&built, &graph);
            let mut expected = h.zeros_like().unwrap();
            for (k, t) in t.iter().enumerate() {
                let binomial = (0..k).fold(1.0, |c, i| c * (order - i) as f64 / (i + 1) as f64);
                let low = (0..k).fold(h.clone(), |z, _| times(&down, &z));
                let term = (k..order).fold(low, |z, _| times(&up, &z));
                let factor = t.max(0.0) * binomial / 2f64.powi(order as i32);
                expected = (expected + (term * factor).unwrap()).unwrap();
            }
            assert!(distance(&built.eval(&graph), &expected) < 1e-12, "order {order}");
        }
    }

    #[test]
    fn the_filter_has_a_rate_of_its_own_and_no_decay() {
        let built = build(&Params { bern_lr: 0.03, ..Params::default() }, &testing::view_for("bernnet", DType::F32));
        let theta = built.weights.iter().find(|w| w.name == "theta").unwrap();
        assert_eq!(theta.rule.unwrap(), Rule { rate: Rate::Own(0.03), decay: Decay::Off });
        assert!(built.weights.iter().filter(|w| w.name != "theta").all(|w| w.rule == Some(Rule::decayed())));
    }

    #[test]
    fn an_operator_with_self_loops_is_refused_with_a_hint() {
        let graph = testing::view(DType::F32);
        let mut streams = testing::streams(1);
        let mut weights = Weights::new(&mut streams, DType::F32, Device::Cpu);
        let error = BernNet::build(&Params::default(), &graph, &mut weights).err().unwrap();
        assert!(matches!(&error, StageError::Unusable { what, .. } if what.contains("node `0`")), "{error}");
        assert!(error.hint().unwrap().contains("`self-loops: false`"));
    }
}
