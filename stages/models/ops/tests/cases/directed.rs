//! Operators that are not symmetric, and values in other rows.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{Case, Sizes, sided, times};
use crate::math::csr::Csr;
use crate::math::testing::random;
use crate::models::ops::Propagator;
use crate::models::testing::normal;

/// S·X for S of other rows than columns, ReLU(S·X) for a square one, and X in rows of one value.
pub fn directed(s: Sizes) -> Vec<Case> {
    let z = normal(&[s.lanes, s.nodes, s.columns], 51);
    let case = |name: &str, rows: usize, units: bool| {
        let (operator, full) = operator(rows, s.nodes);
        Case {
            name: name.to_owned(),
            lanes: s.lanes,
            inputs: vec![z.clone()],
            op: Box::new(move |x, eval, _, tape| match (sided(&x[0], eval, tape), units) {
                (x, true) => x.propagated_units(&operator, None, None),
                (x, false) => x.propagate(&operator),
            }),
            plain: Box::new(move |x| {
                let product = times(&full, &x[0]);
                if units { product.relu().unwrap() } else { product }
            }),
            has_beside: true,
            any_width: vec![0],
        }
    };
    let columns = s.columns;
    let regrouped = Case {
        name: "in rows of one".to_owned(),
        lanes: s.lanes,
        inputs: vec![z.clone()],
        op: Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).in_rows_of(1)),
        plain: Box::new(move |x| x[0].reshape((x[0].dim(0).unwrap(), x[0].dim(1).unwrap() * columns, 1)).unwrap()),
        has_beside: true,
        any_width: vec![0],
    };
    vec![
        case("propagate, more rows", s.nodes + 3, false),
        case("propagate, fewer rows", s.nodes.div_ceil(2), false),
        case("units, directed", s.nodes, true),
        regrouped,
    ]
}

/// An operator, and every entry of it.
fn operator(rows: usize, columns: usize) -> (Arc<Propagator>, Tensor) {
    let single = random(rows, u32::try_from(columns).unwrap(), 3.0 / columns as f64, 52);
    let values = single.values.iter().map(|value| f64::from(*value)).collect();
    let matrix = Csr::rectangular(rows, columns, single.indptr, single.indices, values).unwrap();
    // Only small graphs are compared with dense products.
    let (of, full) = if columns < 1000 { (rows, columns) } else { (0, 0) };
    let full_values: Vec<f64> = (0..of * full).map(|at| matrix.get(at / columns, at % columns)).collect();
    (Arc::new(Propagator::directed(matrix)), Tensor::from_vec(full_values, (of, full), &Device::Cpu).unwrap())
}

#[test]
fn what_goes_back_with_the_operator_itself_refuses_one_that_is_not_symmetric() {
    use crate::models::ops::{Basis, Sides, Tape};
    let (operator, _) = operator(4, 4);
    let (z, c) = (normal(&[1, 4, 2], 53), normal(&[1, 3], 54));
    let z = sided(&z, None, &Tape::new(Sides::Train));
    assert!(z.propagate(&operator).is_ok());
    for refused in [z.polynomial(&operator, Basis::Powers, &c), z.hop_sum(&[operator.clone(), operator.clone()], &c)] {
        assert!(refused.err().unwrap().to_string().starts_with("an operator that is not symmetric"));
    }
}
