//! Eigenpairs of both ends of a spectrum.

use super::{Arrays, Data, Frame, Values};
use crate::kinds::{Side, Spectrum};

fn sides(spectrum: &Spectrum) -> [(&'static str, &Side); 2] {
    [("low", &spectrum.low), ("high", &spectrum.high)]
}

/// `low.values` (pairs, descending), `low.vectors` (pairs × nodes: a row is an eigenvector), and the same of `high`.
pub fn spectrum_arrays(spectrum: &Spectrum) -> Arrays {
    let mut arrays = Arrays::default();
    for (name, side) in sides(spectrum) {
        let pairs = side.values.len();
        arrays.add(format!("{name}.values"), &[pairs], Data::F64(side.values.clone()));
        arrays.add(format!("{name}.vectors"), &[pairs, spectrum.nodes], Data::F32(side.vectors.clone()));
    }
    arrays
}

/// The eigenvalues: `side`, `pair` (its row in `<side>.vectors`) and `eigenvalue`, descending.
pub fn spectrum_values(spectrum: &Spectrum) -> Frame {
    let each = || sides(spectrum).into_iter().flat_map(|(name, side)| side.values.iter().map(move |v| (name, *v)));
    let pairs = sides(spectrum).into_iter().flat_map(|(_, side)| 0..side.values.len());
    Frame::of_rows(each().count())
        .with("side", Values::texts(each().map(|(side, _)| side)))
        .with("pair", Values::wholes(pairs))
        .with("eigenvalue", Values::numbers(each().map(|(_, value)| value)))
}
