//! Lanes side by side as columns: one product with the eigenvectors, or with the features, then serves all of them.

use candle_core::{Result, Tensor, bail};

use super::launch::Arg;
use super::{dims, floats, make, small};

/// lanes × rows × columns as rows × lanes × columns, with the lanes of another tensor behind them if there is one.
///
/// # Errors
/// When the shapes do not fit.
pub fn side_by_side(x: &Tensor, other: Option<&Tensor>) -> Result<Tensor> {
    let (lanes, rows, columns) = dims(x)?;
    let size = lanes * rows * columns;
    let x = floats(x, size, "x")?;
    let other = other.map(|other| floats(other, size, "the other side")).transpose()?;
    let sides = if other.is_some() { 2 } else { 1 };
    let numbers = [Arg::U32(small(lanes)?), Arg::U64(rows as u64), Arg::U32(small(columns)?)];
    let args = [&[Arg::Read(&x), Arg::read(other.as_ref())], &numbers[..]].concat();
    make("side_by_side", (size * sides, 1), &args, &[rows, lanes * sides, columns])
}

/// Some lanes of rows × lanes × columns, from the `first` on, as lanes × rows × columns.
///
/// # Errors
/// When there are not so many.
pub fn apart(x: &Tensor, first: usize, lanes: usize) -> Result<Tensor> {
    let (rows, all, columns) = dims(x)?;
    if first + lanes > all {
        bail!("lanes {first} to {} of {all}", first + lanes);
    }
    let x = floats(x, rows * all * columns, "x")?;
    let (first, all, columns_) = (small(first)?, small(all)?, small(columns)?);
    let args = [Arg::Read(&x), Arg::U32(first), Arg::U32(all), Arg::U64(rows as u64), Arg::U32(columns_)];
    make("apart", (rows * columns, lanes), &args, &[lanes, rows, columns])
}

/// h ⊙ y, with h: lanes × pairs and y: pairs × lanes × columns, or two sides of so many lanes.
///
/// # Errors
/// When the shapes do not fit.
pub fn scaled_pairs(y: &Tensor, h: &Tensor) -> Result<Tensor> {
    let ((pairs, all, columns), (lanes, of_pairs)) = (dims(y)?, h.dims2()?);
    if of_pairs != pairs || !all.is_multiple_of(lanes.max(1)) {
        bail!("a response of {:?} for {:?}", h.dims(), y.dims());
    }
    let size = pairs * all * columns;
    let (y, h) = (floats(y, size, "y")?, floats(h, lanes * pairs, "response")?);
    let numbers = [Arg::U64(pairs as u64), Arg::U32(small(lanes)?), Arg::U32(small(all)?), Arg::U32(small(columns)?)];
    make("scaled_pairs", (size, 1), &[&[Arg::Read(&y), Arg::Read(&h)], &numbers[..]].concat(), &[pairs, all, columns])
}

/// ⟨t_p, y_p⟩ of every lane of t: lanes × pairs. Both are pairs × lanes × columns; y may have more lanes behind.
///
/// # Errors
/// When the shapes do not fit.
pub fn pair_dots(t: &Tensor, y: &Tensor) -> Result<Tensor> {
    let ((pairs, lanes, columns), (of_pairs, all, of_columns)) = (dims(t)?, dims(y)?);
    if (pairs, columns) != (of_pairs, of_columns) || all < lanes {
        bail!("{:?} and {:?} do not fit", t.dims(), y.dims());
    }
    let (t, y) = (floats(t, pairs * lanes * columns, "t")?, floats(y, pairs * all * columns, "y")?);
    let numbers = [Arg::U64(pairs as u64), Arg::U32(small(lanes)?), Arg::U32(small(all)?), Arg::U32(small(columns)?)];
    make("pair_dots", (pairs, lanes), &[&[Arg::Read(&t), Arg::Read(&y)], &numbers[..]].concat(), &[lanes, pairs])
}
