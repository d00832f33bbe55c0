//! What `evd` takes and makes, before it runs.
//!
//! How many rows are left when twins and components are apart, and how many products an end takes, the graph alone knows; where
//! the same operator was decomposed before, both are taken from there.

use super::{LARGER, MOST_ROWS, Params, clipped};
use crate::contract::{Estimate, Known, Memory, Past, Size, Sizes, Sureness, Term, Work};
use crate::kinds::size;
use crate::math::eigen::Solver;

/// Rows of a part that is decomposed as a whole, to the third power.
const WHOLE: &str = "whole";
/// Products with the operator × (entries + rows).
const PRODUCTS: &str = "products";
/// Rows × basis vectors × basis vectors.
const ORTHOGONAL: &str = "orthogonal";
/// Basis vectors to the third power: the small eigenproblems.
const RITZ: &str = "ritz";
/// Nodes × pairs × pairs: the check of the result.
const CHECK: &str = "check";
/// Numbers of the vectors, which are turned and written.
const VECTORS: &str = "vectors";

pub(super) const TERMS: &[Term] = &[
    Term::shared(WHOLE, 1.3e-10),
    Term::shared(PRODUCTS, 5e-10),
    Term::shared(ORTHOGONAL, 3e-11),
    Term::shared(RITZ, 5e-10),
    Term::shared(CHECK, 3e-11),
    Term::alone(VECTORS, 4e-9),
];

/// Basis vectors per wanted pair, and more: what a search holds at most.
const BASIS: (f64, f64) = (1.6, 64.0);
/// The usual degree of a filter.
const DEGREE: f64 = 14.0;
/// Products that an estimate of the density takes.
const DENSITY: f64 = 1920.0;
/// Rows that are usually left of a node.
const REDUCED: f64 = 0.85;

pub(super) fn estimate(params: &Params, known: &Known) -> Estimate {
    if let Some(larger) = known.input(LARGER) {
        return slice(params, &larger.sizes);
    }
    let operator = known.sizes("operator");
    let nodes = operator.or_guess(size::NODES, 5000.0);
    let entries = operator.get(size::ENTRIES).unwrap_or(nodes * Size::guess(12.0));
    let half = Size { value: (nodes.value / 2.0).floor(), ..nodes };
    let k = Size::exact(params.k).min(half);
    let before = known.past_of_same("operator").find(|past| past.measured.contains_key("rows"));
    let rows = match known.measured("rows").or_else(|| before?.measured.get("rows").copied()) {
        Some(rows) => Size::about(rows),
        None => (nodes * REDUCED).at_most(Sureness::About),
    };
    let numbers = nodes * k * 2;
    let mut work = Work::default().and(CHECK, numbers * k * 2).and(VECTORS, numbers).shared_by(4);
    // Found vectors in double precision, those of the result, and once more as they are stored.
    let mut memory = Memory::default().and(entries * 40 + nodes * 100).and_for(numbers * 20, "lower `k`");
    if iterates(params, k, rows) {
        let basis = k * BASIS.0 + BASIS.1;
        let products = products(known, before, k) + DENSITY;
        work = work
            .and(PRODUCTS, products * (entries + rows))
            .and(ORTHOGONAL, rows * basis * basis * 2)
            .and(RITZ, basis * basis * basis * 2);
        let held = (rows * (basis * 2 + k * 4) * 8).min(Size::from(mebibytes(params)) + numbers * 16);
        memory = memory.and_for(held, "lower `k`, or `memory`");
    } else {
        work = work.and(WHOLE, rows * rows * rows);
        let way = if params.solver == Solver::Auto {
            "lower `k`, so that only the ends are computed"
        } else {
            "use `solver: auto`"
        };
        // A part of more rows is refused, and takes nothing.
        memory = memory.and_for(rows.min(MOST_ROWS) * rows.min(MOST_ROWS) * 48, way);
    }
    let note = half.known().and_then(|half| clipped(params.k, half));
    Estimate { sizes: sizes(nodes, [k; 2]), work, memory, notes: note.into_iter().collect() }
}

fn sizes(nodes: Size, [low, high]: [Size; 2]) -> Sizes {
    Sizes::default().with(size::NODES, nodes).with(size::LOW, low).with(size::HIGH, high)
}

/// Pairs that are taken from a larger result.
fn slice(params: &Params, larger: &Sizes) -> Estimate {
    let (nodes, k) = (larger.or_guess(size::NODES, 5000.0), Size::exact(params.k));
    let sides = [size::LOW, size::HIGH].map(|side| larger.get(side).map_or(k, |pairs| pairs.min(k)));
    let numbers = nodes * (sides[0] + sides[1]);
    let note = larger.known(size::LOW).and_then(|pairs| clipped(params.k, pairs));
    Estimate {
        sizes: sizes(nodes, sides),
        work: Work::default().and(VECTORS, numbers).shared_by(1),
        memory: Memory::default().and(numbers * 8),
        notes: note.into_iter().collect(),
    }
}

/// Whether only the ends of a part with so many rows are computed.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
fn iterates(params: &Params, k: Size, rows: Size) -> bool {
    params.solver.iterates(2 * k.value as usize, rows.value as usize)
}

/// Products of the operator with a vector: those that it took, those that it took before for about as many pairs, or as usual.
fn products(known: &Known, before: Option<&Past>, k: Size) -> Size {
    let measured = known.measured("products").map(Size::about);
    measured.unwrap_or_else(|| {
        let usual = (k * BASIS.0 + BASIS.1) * 2 * DEGREE;
        let of_past = |past: &Past| {
            let (took, pairs) = (past.measured.get("products")?, past.params.get("k")?.as_f64()?);
            // Where everything was decomposed as a whole there were none.
            (*took > DENSITY).then(|| (k / pairs.max(1.0)) * (took - DENSITY))
        };
        before.and_then(of_past).unwrap_or(usual).at_most(Sureness::About)
    })
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory are far below 2^53")]
fn mebibytes(params: &Params) -> f64 {
    params.memory.0 as f64
}
