//! Gradients of every model against finite differences in double precision, two lanes, dropout included: a pass that
//! starts with the same streams has the same masks.

use candle_core::DType;

use crate::models::testing::{
    assert_tape_gradients, build_by_name, normal, sparse_view_for, streams, undropped, view_for, weighted_pass, zoo,
};

#[test]
fn gradients_match_finite_differences() {
    for (name, params) in zoo() {
        for graph in [view_for(name, DType::F64), sparse_view_for(name, DType::F64)] {
            for params in [&params, &undropped(name, &params)] {
                let built = build_by_name(name, params, &graph, streams(2));
                let (weight, vars) = (normal(&[2, graph.nodes, graph.classes], 5), built.vars());
                // Away from where models start: at a bias of 0 a unit without input stands at the edge of its ReLU.
                for (seed, var) in (9..).zip(&vars) {
                    let moved = (var.as_tensor() + (normal(var.dims(), seed) * 0.1).unwrap()).unwrap();
                    var.set(&moved).unwrap();
                }
                let pass = || weighted_pass(&*built.model, &graph, &weight);
                assert_tape_gradients(&vars.iter().collect::<Vec<_>>(), pass, 1e-6);
            }
        }
    }
}
