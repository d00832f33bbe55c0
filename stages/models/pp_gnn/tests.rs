//! Tests of PP-GNN: the identities that tie its branches to dense products and to GPR-GNN.

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use super::params::{Binning, Terms};
use super::*;
use crate::contract::Size;
use crate::contract::params::Params as _;
use crate::models::blocks::{Init, Scheme};
use crate::models::ops::Sides;
use crate::models::testing::{self, Built, distance};
use crate::models::{GprGnn, work};
use crate::optim::Rule;

const LANES: usize = 2;

fn build(params: &Params, graph: &GraphView) -> Built<PpGnn> {
    testing::build::<PpGnn>(params, graph, LANES)
}

/// Z₀, which is filtered.
fn network(built: &Built<PpGnn>, graph: &GraphView) -> Tensor {
    testing::evaluated(graph, |x, pass| built.model.net.as_ref().unwrap().forward(x, pass), LANES)
}

/// A·Z of every lane.
fn times(a: &Tensor, z: &Tensor) -> Tensor {
    a.broadcast_left(LANES).unwrap().contiguous().unwrap().matmul(z).unwrap()
}

/// Σ_k c_k Ã^k Z by repeated dense products; `coefficients`: lanes × degrees.
fn by_hops(graph: &GraphView, coefficients: &Tensor, z: &Tensor) -> Tensor {
    let operator = testing::dense_operator(graph);
    let (mut hop, mut sum) = (z.clone(), z.zeros_like().unwrap());
    for k in 0..coefficients.dim(1).unwrap() {
        let c = coefficients.narrow(1, k, 1).unwrap().unsqueeze(2).unwrap();
        sum = (sum + hop.broadcast_mul(&c).unwrap()).unwrap();
        hop = times(&operator, &hop);
    }
    sum
}

/// The same coefficients in every lane.
fn in_all_lanes(coefficients: &[f64]) -> Tensor {
    Tensor::new(coefficients, &Device::Cpu).unwrap().broadcast_left(LANES).unwrap().contiguous().unwrap()
}

#[test]
fn bins_with_one_polynomial_over_the_whole_spectrum_are_that_polynomial_of_the_operator() {
    let graph = testing::view(DType::F64);
    let weights = vec![0.4, -0.7, 0.2, 0.9];
    let params =
        Params { order: 3, init: Scheme::Ws, weights: Some(weights.clone()), eta: 1.0, bins: 3, ..Params::default() };
    let built = build(&params, &graph);
    let expected = by_hops(&graph, &in_all_lanes(&weights), &network(&built, &graph));
    // Eigenvectors are stored in single precision, so the basis is orthonormal to about 1e-7.
    assert!(distance(&built.eval(&graph), &expected) < 1e-6);
}

#[test]
fn without_the_spectral_branch_it_is_gpr_gnn_masks_included() {
    let graph = testing::view(DType::F32);
    let mut ours = build(&Params { eta: 0.0, order: 6, alpha: 0.3, ..Params::default() }, &graph);
    let params = serde_json::from_value(json!({"order": 6, "alpha": 0.3})).unwrap();
    let mut gpr = testing::build::<GprGnn>(&params, &graph, LANES);
    assert_eq!(distance(&ours.eval(&graph), &gpr.eval(&graph)), 0.0);
    for _ in 0..3 {
        assert_eq!(distance(&ours.train(&graph), &gpr.train(&graph)), 0.0);
    }
}

#[test]
fn zero_coefficients_in_all_bins_leave_the_scaled_gpr_gnn() {
    let graph = testing::view(DType::F64);
    let built = build(&Params { eta: 0.3, ..Params::default() }, &graph);
    for gamma in &built.model.spectral.gammas {
        gamma.set(&gamma.tensor().zeros_like().unwrap()).unwrap();
    }
    let gpr = testing::build::<GprGnn>(&serde_json::from_value(json!({"order": 4})).unwrap(), &graph, LANES);
    assert!(distance(&built.eval(&graph), &(gpr.eval(&graph) * 0.7).unwrap()) < 1e-12);
}

#[test]
fn one_layer_and_all_weight_on_power_k_give_simple_graph_convolution() {
    // SGC: logits = Ã^K (X W + b).
    let graph = testing::view(DType::F64);
    let params = Params { linear: true, eta: 0.0, order: 3, init: Scheme::Sgc, alpha: 3.0, ..Params::default() };
    let built = build(&params, &graph);
    let (w, b) = (built.weight("lin1.weight"), built.weight("lin1.bias").unsqueeze(1).unwrap());
    let x = graph.features.to_dense().unwrap().broadcast_left(LANES).unwrap().contiguous().unwrap();
    let xw = x.matmul(&w).unwrap().broadcast_add(&b).unwrap();
    assert!(distance(&built.eval(&graph), &by_hops(&graph, &in_all_lanes(&[0.0, 0.0, 0.0, 1.0]), &xw)) < 1e-12);
    // Invariant: the model of that name, which adds its bias after propagation, where there is none.
    let sgcn = testing::build_by_name("sgcn", &json!({"order": 3}), &graph, testing::streams(LANES));
    let none = built.weight("lin1.bias").zeros_like().unwrap();
    for (weights, from, to, value) in [
        (&sgcn.weights, "lin.weight", "lin.bias", w),
        (&built.weights, "lin1.weight", "lin1.bias", built.weight("lin1.weight")),
    ] {
        let set =
            |name: &str, value: &Tensor| weights.iter().find(|n| n.name == name).unwrap().param.set(value).unwrap();
        set(from, &value);
        set(to, &none);
    }
    assert!(distance(&built.eval(&graph), &testing::eval(&*sgcn.model, &graph, LANES)) < 1e-12);
}

#[test]
fn variants_are_their_formulas() {
    // By hand: Σ over the kept pairs of weight · h(λ_i) u_i u_iᵀ Z, plus the global polynomial.
    let (operator, nodes, spectrum) = testing::artifacts();
    let graph = testing::view_of((operator, nodes, spectrum.clone()), DType::F64);
    let values = [&spectrum.low.values[..], &spectrum.high.values[..]].concat();
    let vectors: Vec<f64> =
        spectrum.low.vectors.iter().chain(spectrum.high.vectors.iter()).map(|x| f64::from(*x)).collect();
    let (low, all, eta) = (spectrum.low.values.len(), values.len(), 0.3);
    for (variant, kept, weight, rest) in [
        (Terms::Full, 0..all, eta, 1.0 - eta),
        (Terms::Low, 0..low, 1.0, 0.0),
        (Terms::High, low..all, 1.0, 0.0),
        (Terms::GprLow, 0..low, eta, 1.0 - eta),
        (Terms::GprHigh, low..all, eta, 1.0 - eta),
    ] {
        let params =
            Params { variant, eta, order: 2, local_order: Some(3), bins: 2, init: Scheme::Random, ..Params::default() };
        let built = build(&params, &graph);
        let z = network(&built, &graph);
        let mut expected = z.zeros_like().unwrap();
        for i in kept {
            let (side, at, of) = if i < low { ("gamma-low", i, low) } else { ("gamma-high", i - low, all - low) };
            let bin = usize::from(at >= of / 2);
            let rows = built.weight(side).narrow(1, bin, 1).unwrap().squeeze(1).unwrap().to_vec2::<f64>().unwrap();
            let h = rows.iter().map(|row| weight * row.iter().rev().fold(0.0, |sum, c| sum * values[i] + c));
            let h = Tensor::from_vec(h.collect::<Vec<_>>(), (LANES, 1, 1), &Device::Cpu).unwrap();
            let u = &vectors[i * testing::NODES..(i + 1) * testing::NODES];
            let u = Tensor::from_slice(u, (testing::NODES, 1), &Device::Cpu).unwrap();
            let term = times(&u.matmul(&u.t().unwrap()).unwrap(), &z);
            expected = (expected + term.broadcast_mul(&h).unwrap()).unwrap();
        }
        assert_eq!(built.model.gamma.is_some(), rest > 0.0);
        if let Some(gamma) = &built.model.gamma {
            expected = (expected + (by_hops(&graph, &gamma.tensor(), &z) * rest).unwrap()).unwrap();
        }
        assert!(distance(&built.eval(&graph), &expected) < 1e-12, "{variant:?}");
    }
}

#[test]
fn independent_branches_see_masks_of_their_own_and_shared_ones_do_not() {
    // With the identity as filter in both branches, equal masks give equal branches.
    let graph = testing::view(DType::F64);
    let far = |masks| {
        let params = Params { masks, dprate: 0.0, init: Scheme::Sgc, alpha: 0.0, eta: 0.5, ..Params::default() };
        let mut built = build(&params, &graph);
        let trained = built.train(&graph);
        let mut again = build(&params, &graph);
        let net = |x: &Input, pass: &mut Pass| built.model.net.as_ref().unwrap().forward(x, pass);
        distance(&trained, testing::in_pass(Sides::Train, &graph, &mut again.streams, net).main())
    };
    assert!(far(BranchMasks::Shared) < 1e-6);
    assert!(far(BranchMasks::Independent) > 1e-2);
}

#[test]
fn the_regulariser_is_off_by_default_and_scales_with_its_strength() {
    let graph = testing::view(DType::F64);
    assert!(build(&Params::default(), &graph).model.spectral.penalty().unwrap().is_none());
    let penalties = |params: Params| -> Vec<f64> {
        build(&params, &graph).model.spectral.penalty().unwrap().map_or(vec![0.0; LANES], |p| p.to_vec1().unwrap())
    };
    let random = Params { init: Scheme::Random, reg: 1.0, ..Params::default() };
    let one = penalties(random.clone());
    assert_ne!(one[0], one[1], "every lane has its own");
    let all = |params: Params, holds: &dyn Fn(f64, f64) -> bool| {
        penalties(params).iter().zip(&one).all(|(penalty, one)| holds(*penalty, *one))
    };
    assert!(one.iter().all(|one| *one > 0.0));
    assert!(all(Params { reg: 2.0, ..random.clone() }, &|two, one| (two - 2.0 * one).abs() < 1e-12));
    let without_gap = Params { reg_gap: false, ..random.clone() };
    assert!(all(without_gap, &|less, one| less < one), "the pair across the gap counts by default");
    let single = Params { bins: 1, reg_gap: false, ..random };
    assert_eq!(penalties(single), [0.0; LANES], "one bin a side has no neighbour");
}

fn refusal(params: &Params, graph: &GraphView) -> Option<StageError> {
    let mut streams = testing::streams(1);
    PpGnn::build(params, graph, &mut Weights::new(&mut streams, graph.dtype(), Device::Cpu)).err()
}

#[test]
fn more_bins_than_pairs_are_refused_with_a_hint() {
    let graph = testing::view(DType::F32);
    let too_many = testing::NODES / 2 + 1;
    for params in
        [Params { bins: too_many, ..Params::default() }, Params { bins_high: Some(too_many), ..Params::default() }]
    {
        let error = refusal(&params, &graph).unwrap();
        assert!(matches!(&error, StageError::Unusable { what, .. } if what.contains(&too_many.to_string())));
        assert!(error.hint().is_some());
    }
    let only_low = Params { bins_high: Some(too_many), variant: Terms::Low, ..Params::default() };
    assert!(refusal(&only_low, &graph).is_none());
}

#[test]
fn bins_of_the_sides_can_differ_and_coefficients_are_not_decayed() {
    let graph = testing::view(DType::F32);
    let built = build(&Params { bins_low: Some(5), bins_high: Some(2), order: 3, ..Params::default() }, &graph);
    let shapes: Vec<_> = built.model.spectral.gammas.iter().map(|g| g.tensor().dims().to_vec()).collect();
    assert_eq!(shapes, [[LANES, 5, 4], [LANES, 2, 4]]);
    let rules: Vec<_> = built.weights.iter().filter_map(|w| w.rule).collect();
    assert_eq!(rules, [[Rule::decayed(); 4].as_slice(), &[Rule::free(); 3]].concat());
}

#[test]
fn local_parameters_follow_the_global_ones_unless_given() {
    let graph = testing::view(DType::F64);
    let rows = |params: Params| {
        let built = build(&params, &graph);
        let local = built.weight("gamma-low").to_vec3::<f64>().unwrap().concat();
        (built.weight("gamma").to_vec2::<f64>().unwrap().swap_remove(0), local)
    };
    let (global, local) = rows(Params { alpha: 0.2, ..Params::default() });
    assert!(local.iter().all(|row| *row == global));
    let (_, local) = rows(Params { alpha: 0.2, local_alpha: Some(0.9), local_order: Some(1), ..Params::default() });
    let expected = Init { scheme: Scheme::Ppr, alpha: 0.9, weights: None }.fixed(1);
    assert!(local.iter().all(|row| *row == expected));
}

#[test]
fn parameters_that_do_not_fit_each_other_are_reported_once() {
    let problems = |params: Params| params.check().err().map_or(vec![], |p| p.into_iter().map(|p| p.param).collect());
    assert!(problems(Params::default()).is_empty());
    assert_eq!(problems(Params { alpha: 2.0, local_order: Some(2), ..Params::default() }), ["alpha"]);
    assert_eq!(problems(Params { local_alpha: Some(-1.0), ..Params::default() }), ["local-alpha"]);
    let listed = Params { init: Scheme::Ws, weights: Some(vec![1.0; 5]), ..Params::default() };
    assert!(problems(listed.clone()).is_empty());
    assert_eq!(problems(Params { local_order: Some(2), ..listed }), ["local-weights"]);
}

#[test]
fn it_cannot_be_built_without_a_spectrum() {
    let mut graph = testing::view(DType::F32);
    graph.spectrum = None;
    let error = refusal(&Params::default(), &graph).unwrap();
    assert!(matches!(error, StageError::MissingInput { slot: "spectrum" }));
}

#[test]
fn filtered_features_pass_through_a_network_of_their_own() {
    // By hand: U diag(h) Uᵀ X as a dense product, then two layers; the other branch is GPR-GNN.
    let (operator, nodes, spectrum) = testing::artifacts();
    let graph = testing::view_of((operator, nodes, spectrum.clone()), DType::F64);
    let x = graph.features.to_dense().unwrap();
    let rows: Vec<f64> =
        spectrum.low.vectors.iter().chain(spectrum.high.vectors.iter()).map(|u| f64::from(*u)).collect();
    let u = Tensor::from_vec(rows, (testing::NODES, testing::NODES), &Device::Cpu).unwrap();
    let low = spectrum.low.values.len();
    for (variant, kept, eta) in
        [(Terms::Full, 0..testing::NODES, 0.3), (Terms::Low, 0..low, 1.0), (Terms::GprHigh, low..testing::NODES, 0.3)]
    {
        let params =
            Params { variant, filters: Filters::Features, eta: 0.3, init: Scheme::Random, ..Params::default() };
        let built = build(&params, &graph);
        let h = built.model.spectral.response().unwrap();
        let u = u.narrow(0, kept.start, kept.len()).unwrap();
        let ours = built.eval(&graph);
        for lane in 0..LANES {
            let weight = |name: &str| built.weight(name).get(lane).unwrap();
            let spread = u.broadcast_mul(&h.get(lane).unwrap().unsqueeze(1).unwrap()).unwrap();
            let filtered = u.t().unwrap().matmul(&spread).unwrap().matmul(&x).unwrap();
            let layer = |x: &Tensor, name: &str| {
                let (w, b) = (weight(&format!("spectral-{name}.weight")), weight(&format!("spectral-{name}.bias")));
                x.matmul(&w).unwrap().broadcast_add(&b).unwrap()
            };
            let z = (layer(&layer(&filtered, "lin1").relu().unwrap(), "lin2") * eta).unwrap();
            let mut expected = z.unsqueeze(0).unwrap();
            if let Some(gamma) = &built.model.gamma {
                let global = by_hops(&graph, &gamma.tensor(), &network(&built, &graph)).get(lane).unwrap();
                expected = (expected + (global * (1.0 - eta)).unwrap().unsqueeze(0).unwrap()).unwrap();
            }
            // UᵀX is stored in single precision.
            assert!(distance(&ours.get(lane).unwrap(), &expected.squeeze(0).unwrap()) < 1e-5, "{variant:?}");
        }
        assert_eq!(built.weights.iter().any(|w| w.name == "lin1.weight"), variant != Terms::Low);
    }
}

#[test]
fn filtered_features_have_no_dropout_on_their_input_and_one_layer_has_none_at_all() {
    let graph = testing::view(DType::F64);
    let features = Params { filters: Filters::Features, variant: Terms::High, dropout: 0.9, ..Params::default() };
    let mut linear = build(&Params { linear: true, ..features.clone() }, &graph);
    assert_eq!(distance(&linear.train(&graph), &linear.eval(&graph)), 0.0);
    let mut deep = build(&features, &graph);
    assert!(distance(&deep.train(&graph), &deep.eval(&graph)) > 1e-3, "hidden units are dropped");
    let rules: Vec<_> = deep.weights.iter().filter_map(|w| w.rule).collect();
    assert_eq!(rules, [[Rule::free()].as_slice(), &[Rule::decayed(); 4]].concat(), "coefficients are not decayed");
}

#[test]
fn every_bin_can_start_from_an_alpha_of_its_own() {
    let graph = testing::view(DType::F64);
    let alphas = vec![0.1, 0.5, 0.9, 0.3, 0.7];
    let started = |params: &Params, name: &str| build(params, &graph).weight(name).get(0).unwrap().to_vec2().unwrap();
    let expected = |alphas: &[f64]| -> Vec<Vec<f64>> {
        alphas.iter().map(|alpha| Init { scheme: Scheme::Ppr, alpha: *alpha, weights: None }.fixed(4)).collect()
    };
    let sides = Params { bins: 2, local_alphas: Some(alphas.clone()), ..Params::default() };
    let low: Vec<Vec<f64>> = started(&sides, "gamma-low");
    assert_eq!((low, started(&sides, "gamma-high")), (expected(&alphas[..2]), expected(&alphas[2..4])));
    // Fourteen pairs in five slices are of two pairs each, and there is a last one.
    let joint = Params { binning: Binning::Joint, bins: 5, ..sides.clone() };
    assert!(refusal(&joint, &graph).unwrap().to_string().contains("lists `5` numbers for `7` bins"));
    let joint = Params { bins: 4, local_alphas: Some(alphas.clone()), ..joint };
    assert_eq!(started(&joint, "gamma-joint"), expected(&alphas));
    // By the number of nodes, as many as there are pairs here, the same.
    let by_nodes = Params { binning: Binning::ByNodes, ..joint };
    assert_eq!(started(&by_nodes, "gamma-joint"), expected(&alphas));
}

#[test]
fn bins_by_nodes_are_those_of_the_public_commands() {
    // Bins of the kept pairs, from nodes, pairs per side and `bins`: Chameleon, Squirrel, and more bins than pairs.
    for (nodes, k, bins, expected) in
        [(2277, 256, 4, vec![512]), (5201, 1024, 4, vec![1300, 748]), (2000, 8, 20, vec![16])]
    {
        let params = Params { binning: Binning::ByNodes, bins, ..Params::default() };
        let graph = GraphSizes { nodes: Size::exact(nodes), pairs: [Size::exact(k); 2], ..work::tests::graph() };
        assert!(PpGnn::fits(&params, &graph).is_ok());
        assert_eq!(spectral::bin_sizes(&params, nodes, [k, k]), expected);
    }
}

#[test]
fn a_list_of_alphas_that_is_not_of_the_bins_is_refused_by_sizes() {
    let graph = work::tests::graph();
    let fits = |params: Params| PpGnn::fits(&params, &graph).map_err(|error| error.to_string());
    let listed = |count: usize| Params { bins: 2, local_alphas: Some(vec![0.5; count]), ..Params::default() };
    assert!(fits(listed(4)).is_ok() && fits(listed(5)).is_ok());
    assert!(fits(listed(3)).unwrap_err().contains("lists `3` numbers for `4` bins"));
    // Eight and seven pairs in slices of five.
    let joint = |count| Params { binning: Binning::Joint, bins: 3, ..listed(count) };
    assert!(fits(joint(3)).is_ok() && fits(joint(2)).is_err());
    let by_nodes = Params { binning: Binning::ByNodes, ..listed(1) };
    assert!(fits(by_nodes.clone()).is_ok(), "a hundred nodes in two bins leave all pairs in one");
    let unknown = GraphSizes { nodes: Size::guess(100.0), ..graph.clone() };
    assert!(PpGnn::fits(&Params { local_alphas: Some(vec![0.5; 9]), ..by_nodes }, &unknown).is_ok());
}

#[test]
fn the_spectral_branch_drops_nothing_before_its_filter() {
    let graph = testing::view(DType::F64);
    for filters in [Filters::Output, Filters::Features] {
        let params = Params { filters, variant: Terms::High, dropout: 0.0, dprate: 0.9, ..Params::default() };
        let mut built = build(&params, &graph);
        assert_eq!(distance(&built.train(&graph), &built.eval(&graph)), 0.0, "{filters:?}");
        let mut with_global = build(&Params { variant: Terms::GprHigh, ..params }, &graph);
        assert!(distance(&with_global.train(&graph), &with_global.eval(&graph)) > 1e-3);
    }
}

#[test]
fn the_network_is_trained_in_every_variant_of_both_forms() {
    // The code that is public now never trains it where the global term has no weight.
    let graph = testing::view(DType::F64);
    for filters in [Filters::Output, Filters::Features] {
        for variant in [Terms::Full, Terms::Low, Terms::High, Terms::GprLow, Terms::GprHigh] {
            for (linear, eta) in [(false, 0.4), (true, 0.4), (false, 1.0)] {
                let params = Params { filters, variant, linear, eta, reg: 0.5, ..Params::default() };
                let built = build(&params, &graph);
                let weight = testing::normal(&[LANES, graph.nodes, graph.classes], 3);
                let (_, gradients) = testing::weighted_pass(&*built.model, &graph, &weight);
                let first = if filters == Filters::Output { "lin1.weight" } else { "spectral-lin1.weight" };
                let gradient = gradients.of(&built.weight(first)).unwrap();
                assert!(gradient.is_some_and(|g| testing::flat(&g).iter().any(|x| *x != 0.0)), "{params:?}");
            }
        }
    }
}

#[test]
fn what_belongs_to_another_binning_or_init_is_refused() {
    let problems = |params: Params| params.check().err().map_or(vec![], |p| p.into_iter().map(|p| p.param).collect());
    let joint = Params { binning: Binning::Joint, ..Params::default() };
    assert!(problems(joint.clone()).is_empty());
    assert_eq!(problems(Params { bins_low: Some(3), ..joint }), ["bins-low"]);
    let listed = Params { local_alphas: Some(vec![0.1, 0.2]), ..Params::default() };
    assert!(problems(listed.clone()).is_empty());
    assert_eq!(problems(Params { local_alphas: Some(vec![0.1, 1.5]), ..Params::default() }), ["local-alphas"]);
    assert_eq!(problems(Params { init: Scheme::Random, ..listed.clone() }), ["local-alphas"]);
    assert_eq!(problems(Params { local_alpha: Some(0.9), ..listed }), ["local-alphas"]);
    let graph = testing::view(DType::F32);
    let many = Params { binning: Binning::Joint, bins: testing::NODES + 1, ..Params::default() };
    assert!(refusal(&many, &graph).unwrap().to_string().contains("`15` bins on the kept sides"));
    let mut without = testing::view(DType::F32);
    without.spectrum.as_mut().unwrap().projection = None;
    let features = Params { filters: Filters::Features, ..Params::default() };
    assert!(matches!(refusal(&features, &without), Some(StageError::MissingInput { slot: "projection" })));
}

#[test]
fn defaults_of_newer_parameters_are_not_in_the_key() {
    let written = serde_json::to_value(Params::default().complete()).unwrap();
    for name in ["filters", "binning", "local-alphas"] {
        assert!(written.get(name).is_none(), "{name}");
    }
}
