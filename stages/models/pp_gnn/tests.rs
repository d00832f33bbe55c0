//! Tests of PP-GNN: the identities that tie its branches to dense products and to GPR-GNN.

use candle_core::DType;

use super::*;
use crate::math::random::Stream;
use crate::models::blocks::propagate;
use crate::models::{GprGnn, testing};
use crate::optim::Decay;
use crate::params::Params as _;

fn build(params: &Params, data: &GraphView) -> (PpGnn, Streams) {
    let mut streams = Streams::new(9, 0);
    (PpGnn::build(params, data, &mut streams).unwrap(), streams)
}

fn eval(model: &impl Model, data: &GraphView) -> Tensor {
    model.forward(data, &mut Mode::Eval).unwrap()
}

/// Σ_k c_k Ã^k Z by repeated products.
fn by_hops(data: &GraphView, coefficients: &[f64], z: &Tensor) -> Tensor {
    let mut hop = z.clone();
    let mut sum = z.zeros_like().unwrap();
    for c in coefficients {
        sum = (sum + (&hop * *c).unwrap()).unwrap();
        hop = propagate(&data.operator, &hop).unwrap();
    }
    sum
}

#[test]
fn bins_with_one_polynomial_over_the_whole_spectrum_are_that_polynomial_of_the_operator() {
    let data = testing::view(DType::F64);
    let weights = vec![0.4, -0.7, 0.2, 0.9];
    let params =
        Params { order: 3, init: Scheme::Ws, weights: Some(weights.clone()), eta: 1.0, bins: 3, ..Params::default() };
    let (model, _) = build(&params, &data);
    let z = model.net.forward(&data, &mut Mode::Eval, Pass::MAIN).unwrap();
    // Eigenvectors are stored in single precision, so the basis is orthonormal to about 1e-7.
    assert!(testing::distance(&eval(&model, &data), &by_hops(&data, &weights, &z)) < 1e-6);
}

#[test]
fn without_the_spectral_branch_it_is_gpr_gnn_masks_included() {
    let data = testing::view(DType::F32);
    let (model, streams) = build(&Params { eta: 0.0, order: 6, alpha: 0.3, ..Params::default() }, &data);
    let mut gpr_streams = Streams::new(9, 0);
    let gpr_params = serde_json::from_str(r#"{"order": 6, "alpha": 0.3}"#).unwrap();
    let gpr = GprGnn::build(&gpr_params, &data, &mut gpr_streams).unwrap();
    assert_eq!(testing::distance(&eval(&model, &data), &eval(&gpr, &data)), 0.0);
    let trained = |m: &dyn Model, s| m.forward(&data, &mut Mode::Train(s)).unwrap();
    assert_eq!(testing::distance(&trained(&model, streams), &trained(&gpr, gpr_streams)), 0.0);
}

#[test]
fn zero_coefficients_in_all_bins_leave_the_scaled_gpr_gnn() {
    let data = testing::view(DType::F64);
    let (model, _) = build(&Params { eta: 0.3, ..Params::default() }, &data);
    for (_, gamma) in &model.spectral.gammas {
        gamma.set(&gamma.zeros_like().unwrap()).unwrap();
    }
    let gpr_params = serde_json::from_str(r#"{"order": 4}"#).unwrap();
    let gpr = GprGnn::build(&gpr_params, &data, &mut Streams::new(9, 0)).unwrap();
    assert!(testing::distance(&eval(&model, &data), &(eval(&gpr, &data) * 0.7).unwrap()) < 1e-12);
}

#[test]
fn one_layer_and_all_weight_on_power_k_give_simple_graph_convolution() {
    // SGC: logits = Ã^K (X W + b).
    let data = testing::view(DType::F64);
    let params = Params { linear: true, eta: 0.0, order: 3, init: Scheme::Sgc, alpha: 3.0, ..Params::default() };
    let (model, _) = build(&params, &data);
    let groups = model.groups();
    let (w, b) = (&groups[0].vars[0].1, &groups[0].vars[1].1);
    let xw = data.features.to_dense().unwrap().matmul(w).unwrap().broadcast_add(b).unwrap();
    assert!(testing::distance(&eval(&model, &data), &by_hops(&data, &[0.0, 0.0, 0.0, 1.0], &xw)) < 1e-12);
}

#[test]
fn variants_are_their_formulas() {
    // By hand: Σ over the kept pairs of weight · h(λ_i) u_i u_iᵀ Z, plus the global polynomial.
    let data = testing::view(DType::F64);
    let spectrum = data.spectrum.as_ref().unwrap();
    let (low, all) = (spectrum.low, spectrum.values.len());
    let eta = 0.3;
    for (variant, kept, weight, rest) in [
        (Terms::Full, 0..all, eta, 1.0 - eta),
        (Terms::Low, 0..low, 1.0, 0.0),
        (Terms::High, low..all, 1.0, 0.0),
        (Terms::GprLow, 0..low, eta, 1.0 - eta),
        (Terms::GprHigh, low..all, eta, 1.0 - eta),
    ] {
        let params =
            Params { variant, eta, order: 2, local_order: Some(3), bins: 2, init: Scheme::Random, ..Params::default() };
        let (model, _) = build(&params, &data);
        let z = model.net.forward(&data, &mut Mode::Eval, Pass::MAIN).unwrap();
        let mut expected = z.zeros_like().unwrap();
        for i in kept {
            let (side, at, of) = if i < low { ("gamma-low", i, low) } else { ("gamma-high", i - low, all - low) };
            let gamma = &model.spectral.gammas.iter().find(|g| g.0 == side).unwrap().1;
            let bin = usize::from(at >= of / 2);
            let row = gamma.get(bin).unwrap().to_vec1::<f64>().unwrap();
            let h: f64 = row.iter().rev().fold(0.0, |sum, c| sum * spectrum.values[i] + c);
            let u = spectrum.vectors.narrow(0, i, 1).unwrap();
            let term = u.t().unwrap().matmul(&u.matmul(&z).unwrap()).unwrap();
            expected = (expected + (term * (weight * h)).unwrap()).unwrap();
        }
        assert_eq!(model.gamma.is_some(), rest > 0.0);
        if let Some(gamma) = &model.gamma {
            let global = by_hops(&data, &gamma.to_vec1::<f64>().unwrap(), &z);
            expected = (expected + (global * rest).unwrap()).unwrap();
        }
        assert!(testing::distance(&eval(&model, &data), &expected) < 1e-12, "{variant:?}");
    }
}

#[test]
fn gradients_of_coefficients_and_network_match_finite_differences() {
    let data = testing::view(DType::F64);
    let params = Params { hidden: 4, order: 2, bins: 2, init: Scheme::Random, reg: 0.7, eta: 0.4, ..Params::default() };
    let (model, _) = build(&params, &data);
    let groups = model.groups();
    let vars: Vec<_> = groups.iter().flat_map(|g| g.vars.iter().map(|v| &v.1)).collect();
    assert_eq!(vars.len(), 7);
    let weight = testing::normal(&[data.nodes, data.classes], 5);
    let loss = || {
        let fit = (eval(&model, &data) * &weight).unwrap().sum_all().unwrap();
        (fit + model.penalty().unwrap().unwrap()).unwrap()
    };
    testing::assert_gradients(&vars, loss, 1e-6);
}

#[test]
fn independent_branches_see_masks_of_their_own_and_shared_ones_do_not() {
    // With the identity as filter in both branches, equal masks give equal branches.
    let data = testing::view(DType::F64);
    let logits = |masks| {
        let params = Params { masks, dprate: 0.0, init: Scheme::Sgc, alpha: 0.0, eta: 0.5, ..Params::default() };
        let (model, streams) = build(&params, &data);
        let net = model.net.forward(&data, &mut Mode::Train(Streams::new(9, 0)), Pass::MAIN).unwrap();
        let trained = model.forward(&data, &mut Mode::Train(streams)).unwrap();
        testing::distance(&trained, &net)
    };
    assert!(logits(Masks::Shared) < 1e-6);
    assert!(logits(Masks::Independent) > 1e-2);
}

#[test]
fn the_regulariser_is_off_by_default_and_scales_with_its_strength() {
    let data = testing::view(DType::F64);
    assert!(build(&Params::default(), &data).0.penalty().unwrap().is_none());
    let penalty = |params: Params| -> f64 {
        let (model, _) = build(&params, &data);
        model.penalty().unwrap().map_or(0.0, |p| p.to_scalar().unwrap())
    };
    let random = Params { init: Scheme::Random, reg: 1.0, ..Params::default() };
    let one = penalty(random.clone());
    assert!(one > 0.0 && (penalty(Params { reg: 2.0, ..random.clone() }) - 2.0 * one).abs() < 1e-12);
    assert!(penalty(Params { reg_gap: false, ..random.clone() }) < one, "the pair across the gap counts by default");
    let single = Params { bins: 1, reg_gap: false, ..random };
    assert_eq!(penalty(single), 0.0, "one bin a side has no neighbour");
}

#[test]
fn more_bins_than_pairs_are_refused_with_a_hint() {
    let data = testing::view(DType::F32);
    let too_many = testing::NODES / 2 + 1;
    for params in
        [Params { bins: too_many, ..Params::default() }, Params { bins_high: Some(too_many), ..Params::default() }]
    {
        let error = PpGnn::build(&params, &data, &mut Streams::new(0, 0)).err().unwrap();
        assert!(matches!(&error, StageError::Unusable { what, .. } if what.contains(&too_many.to_string())));
        assert!(error.hint().is_some());
    }
    let only_low = Params { bins_high: Some(too_many), variant: Terms::Low, ..Params::default() };
    assert!(PpGnn::build(&only_low, &data, &mut Streams::new(0, 0)).is_ok());
}

#[test]
fn bins_of_the_sides_can_differ_and_coefficients_are_not_decayed() {
    let data = testing::view(DType::F32);
    let (model, _) = build(&Params { bins_low: Some(5), bins_high: Some(2), order: 3, ..Params::default() }, &data);
    let shapes: Vec<_> = model.spectral.gammas.iter().map(|(_, g)| g.dims().to_vec()).collect();
    assert_eq!(shapes, [[5, 4], [2, 4]]);
    let decays: Vec<_> = model.groups().iter().map(|g| g.decay).collect();
    assert_eq!(decays, [Decay::Shared, Decay::Shared, Decay::Off, Decay::Off]);
}

#[test]
fn local_parameters_follow_the_global_ones_unless_given() {
    let data = testing::view(DType::F64);
    let rows = |params: Params| {
        let (model, _) = build(&params, &data);
        (model.gamma.unwrap().to_vec1::<f64>().unwrap(), model.spectral.gammas[0].1.to_vec2::<f64>().unwrap())
    };
    let (global, local) = rows(Params { alpha: 0.2, ..Params::default() });
    assert!(local.iter().all(|row| *row == global));
    let (_, local) = rows(Params { alpha: 0.2, local_alpha: Some(0.9), local_order: Some(1), ..Params::default() });
    let expected = Init { scheme: Scheme::Ppr, alpha: 0.9, weights: None }.coefficients(1, &mut Stream::new(0, &[]));
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
    let (operator, nodes, _) = testing::artifacts();
    let data = GraphView::new(&operator, &nodes, None, DType::F32).unwrap();
    let error = PpGnn::build(&Params::default(), &data, &mut Streams::new(0, 0)).err().unwrap();
    assert!(matches!(error, StageError::MissingInput { slot: "spectrum" }));
}
