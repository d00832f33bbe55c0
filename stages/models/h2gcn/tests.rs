//! Tests of H2GCN: dense products on joined columns, what is dropped and what is not, graphs that are refused.

use candle_core::{DType, Device};

use super::*;
use crate::models::ops::{Mask, Sides};
use crate::models::testing::{self, bits, distance, flat, forward, streams};
use crate::models::work;

/// All parts of a node for one lane, in the order of the rows of W_c, by dense products.
fn dense_parts(built: &testing::Built<H2gcn>, graph: &GraphView, lane: usize) -> Vec<Tensor> {
    let params = &built.model.params;
    let r = graph.features.to_dense().unwrap().matmul(&built.weight("embed.weight").get(lane).unwrap()).unwrap();
    let r = if params.relu { r.relu().unwrap() } else { r };
    let operators = [&graph.operator, &built.model.second].map(|operator| testing::dense(operator));
    let round = |parts: &[Tensor]| {
        let of = |a: &Tensor| parts.iter().map(|part| a.matmul(part).unwrap()).collect::<Vec<_>>();
        operators.iter().flat_map(of).collect::<Vec<_>>()
    };
    let once = round(std::slice::from_ref(&r));
    match params.rounds {
        1 => [once, vec![r]].concat(),
        _ => [round(&once), vec![r], once].concat(),
    }
}

fn variants() -> impl Iterator<Item = Params> {
    let of = |rounds| [(true, 0.5), (true, 0.0), (false, 0.5), (false, 0.0)].map(|(relu, p)| (rounds, relu, p));
    let all = [1, 2].into_iter().flat_map(of);
    all.flat_map(|(rounds, relu, dropout)| [1, 6, 16].map(|hidden| Params { hidden, rounds, relu, dropout }))
}

#[test]
fn logits_are_those_of_dense_products_on_joined_columns() {
    let graph = testing::view_for("h2gcn", DType::F64);
    for params in variants() {
        let built = testing::build::<H2gcn>(&params, &graph, 2);
        let logits = built.eval(&graph);
        for lane in 0..2 {
            let joined = Tensor::cat(&dense_parts(&built, &graph, lane), 1).unwrap();
            let expected = joined.matmul(&built.weight("classifier.weight").get(lane).unwrap()).unwrap();
            assert!(distance(&logits.get(lane).unwrap(), &expected) < 1e-12, "{params:?}");
        }
    }
}

#[test]
fn training_drops_what_the_classifier_reads_and_nothing_else() {
    let graph = testing::view_for("h2gcn", DType::F64);
    for params in variants().filter(|params| params.dropout > 0.0) {
        let mut built = testing::build::<H2gcn>(&params, &graph, 2);
        let output = forward(&*built.model, &graph, Sides::Both, &mut built.streams);
        let (_, hidden) = &output.hidden[0];
        assert_eq!(bits(hidden.main()), bits(hidden.eval().unwrap()), "neither features nor hidden units are dropped");
        for (lane, mut stream) in streams(2).into_iter().enumerate() {
            // Masks are drawn round by round, the first for r₀.
            let mut dropped = dense_parts(&built, &graph, lane);
            let first = first_part(0, params.rounds);
            let order = (first..dropped.len()).chain(0..first);
            for at in order {
                let mut values = flat(&dropped[at]);
                Mask::draw(stream.open("dropout/parts"), values.len(), 0.5).apply(&mut values);
                dropped[at] = Tensor::from_vec(values, dropped[at].dims(), &Device::Cpu).unwrap();
            }
            let joined = Tensor::cat(&dropped, 1).unwrap();
            let expected = joined.matmul(&built.weight("classifier.weight").get(lane).unwrap()).unwrap();
            assert!(distance(&output.logits.main().get(lane).unwrap(), &expected) < 1e-12, "{params:?}");
        }
    }
}

#[test]
fn there_are_two_decayed_matrices_of_glorot_and_no_biases() {
    let graph = testing::view_for("h2gcn", DType::F64);
    for (rounds, joined) in [(1, 300), (2, 700)] {
        let built = testing::build::<H2gcn>(&Params { hidden: 100, rounds, ..Params::default() }, &graph, 2);
        let names: Vec<_> = built.weights.iter().map(|weight| &*weight.name).collect();
        assert_eq!(names, ["embed.weight", "classifier.weight"]);
        assert!(built.weights.iter().all(|weight| weight.rule == Some(Rule::decayed())));
        let inputs = graph.features.columns();
        for (name, [rows, columns]) in [("embed.weight", [inputs, 100]), ("classifier.weight", [joined, 2])] {
            let weight = built.weight(name);
            assert_eq!(weight.dims(), [2, rows, columns]);
            let (r, largest) = ((6.0 / (rows + columns) as f64).sqrt(), flat(&weight).into_iter().fold(0.0, f64::max));
            assert!(largest <= r && largest > 0.97 * r, "{name}");
        }
    }
}

#[test]
fn the_graphs_of_the_tests_have_no_pair_in_common() {
    let graph = testing::view_for("h2gcn", DType::F64);
    let (near, far) = (testing::dense_operator(&graph), testing::dense(graph.second_operator.as_ref().unwrap()));
    assert!(flat(&(&near * &far).unwrap()).iter().all(|x| *x == 0.0));
    let n = graph.nodes;
    assert!((0..n).all(|i| flat(&near)[i * n + i] == 0.0 && flat(&far)[i * n + i] == 0.0));
    assert!(flat(&far).iter().any(|x| *x != 0.0));
}

fn refused(graph: &GraphView) -> StageError {
    let mut streams = streams(1);
    let mut weights = Weights::new(&mut streams, graph.dtype(), Device::Cpu);
    H2gcn::build(&Params::default(), graph, &mut weights).err().unwrap()
}

#[test]
fn operators_that_are_not_of_one_and_two_hops_are_refused_with_a_hint() {
    let error = refused(&testing::view(DType::F32));
    assert!(error.to_string().ends_with("but node `0` of `operator` has one"), "{error}");
    assert!(error.hint().unwrap().contains("`self-loops: false`"));
    let mut graph = testing::view_for("h2gcn", DType::F32);
    let second = graph.second_operator.replace(testing::view(DType::F32).operator);
    assert!(refused(&graph).to_string().ends_with("but node `0` of `second-operator` has one"));
    graph.second_operator = Some(graph.operator.clone());
    let error = refused(&graph);
    assert!(error.to_string().contains("which are neighbours"), "{error}");
    assert!(error.hint().unwrap().contains("`hops: 2`"));
    graph.second_operator = None;
    assert!(matches!(refused(&graph), StageError::MissingInput { slot: "second-operator" }));
    assert!(second.is_some());

    let fits = |loops, second_loops| {
        H2gcn::fits(&Params::default(), &GraphSizes { loops, second_loops, ..work::tests::graph() })
    };
    assert!(fits(Some(0), Some(0)).is_ok() && fits(None, None).is_ok());
    assert!(fits(Some(5), None).unwrap_err().to_string().ends_with("but `operator` has some"));
    assert!(fits(Some(0), Some(5)).unwrap_err().to_string().ends_with("but `second-operator` has some"));
}

#[test]
fn dropout_costs_products_of_hidden_units_instead_of_classes() {
    let hops = |params: &Params| {
        let graph = GraphSizes { second_entries: Size::exact(9500), ..work::tests::graph() };
        let work = H2gcn::work(params, &graph);
        assert_eq!(work.weights.known(), Some(20 * params.hidden + parts(params.rounds) * params.hidden * 3));
        work.amounts().find(|(term, _)| *term == "hops").unwrap().1.value
    };
    let params = Params::default();
    // Three products with either graph, there and back.
    assert!((hops(&params) - 10_000.0 * 3.0 * 64.0 * 2.0).abs() < 1e-3);
    assert!((hops(&Params { dropout: 0.0, ..params.clone() }) - 10_000.0 * 3.0 * 3.0 * 2.0).abs() < 1e-3);
    assert!((hops(&Params { rounds: 1, ..params }) - 10_000.0 * 64.0 * 2.0).abs() < 1e-3);
}
