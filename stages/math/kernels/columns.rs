//! Columns of a matrix: their sums, and what normalises them. Compiled for the widest registers there are.
//!
//! A sum of a column is made in double precision, row by row, so registers hold several columns and change no byte.

use pulp::Arch;

use super::simd::Vector;

/// sums ← sums + Σ x, for rows as long as the sums.
pub fn add<T: Vector>(rows: &[T], sums: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in rows.chunks_exact(sums.len().max(1)) {
                sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x.widen());
            }
        },
    );
}

/// sums ← sums + Σ (x − mean)².
pub fn add_squares<T: Vector>(rows: &[T], mean: &[f64], sums: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in rows.chunks_exact(sums.len().max(1)) {
                for ((sum, x), mean) in sums.iter_mut().zip(row).zip(mean) {
                    let difference = x.widen() - mean;
                    *sum += difference * difference;
                }
            }
        },
    );
}

/// Adds Σ g to the first sums and Σ g · (x − mean) · rate to the second.
pub fn add_products<T: Vector>(rows: &[T], gradient: &[T], mean: &[f64], rate: &[f64], sums: [&mut [f64]; 2]) {
    let [levels, slopes] = sums;
    let columns = levels.len();
    let (slopes, mean, rate) = (&mut slopes[..columns], &mean[..columns], &rate[..columns]);
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let gradient = gradient.chunks_exact(columns.max(1));
            for (row, gradient) in rows.chunks_exact(columns.max(1)).zip(gradient) {
                let (row, gradient) = (&row[..columns], &gradient[..columns]);
                for c in 0..columns {
                    let g = gradient[c].widen();
                    levels[c] += g;
                    slopes[c] += g * ((row[c].widen() - mean[c]) * rate[c]);
                }
            }
        },
    );
}

/// x ← (x − mean) · rate + shift.
pub fn normalise<T: Vector>(rows: &mut [T], mean: &[T], rate: &[T], shift: &[T]) {
    let columns = mean.len();
    let (rate, shift) = (&rate[..columns], &shift[..columns]);
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in rows.chunks_exact_mut(columns.max(1)) {
                let row = &mut row[..columns];
                for c in 0..columns {
                    row[c] = (row[c] - mean[c]) * rate[c] + shift[c];
                }
            }
        },
    );
}

/// g ← rate · (g − level − (x − mean) · slope).
pub fn pass_back<T: Vector>(gradient: &mut [T], rows: &[T], [mean, rate, level, slope]: [&[T]; 4]) {
    let columns = mean.len();
    let (rate, level, slope) = (&rate[..columns], &level[..columns], &slope[..columns]);
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let rows = rows.chunks_exact(columns.max(1));
            for (gradient, row) in gradient.chunks_exact_mut(columns.max(1)).zip(rows) {
                let (gradient, row) = (&mut gradient[..columns], &row[..columns]);
                for c in 0..columns {
                    gradient[c] = rate[c] * (gradient[c] - level[c] - (row[c] - mean[c]) * slope[c]);
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_every_width_are_summed_and_normalised_as_by_hand() {
        for columns in [1, 3, 8, 16, 21] {
            let x: Vec<f64> = (0..4 * columns).map(|i| f64::from(i as u32 * 7 % 11)).collect();
            let g: Vec<f64> = x.iter().map(|x| 2.0 - x).collect();
            let at = |row: usize, c: usize| x[row * columns + c];
            let (mean, rate) = (vec![2.0; columns], vec![0.5; columns]);
            let (mut sums, mut squares) = (vec![1.0; columns], vec![1.0; columns]);
            let (mut levels, mut slopes) = (vec![1.0; columns], vec![1.0; columns]);
            add(&x, &mut sums);
            add_squares(&x, &mean, &mut squares);
            add_products(&x, &g, &mean, &rate, [&mut levels, &mut slopes]);
            let mut normal = x.clone();
            normalise(&mut normal, &mean, &rate, &vec![3.0; columns]);
            let mut back = g.clone();
            pass_back(&mut back, &x, [&mean, &rate, &vec![0.25; columns], &vec![4.0; columns]]);
            for c in 0..columns {
                let over = |f: &dyn Fn(f64) -> f64| 1.0 + (0..4).map(|row| f(at(row, c))).sum::<f64>();
                assert_eq!(sums[c], over(&|x| x));
                assert_eq!(squares[c], over(&|x| (x - 2.0).powi(2)));
                assert_eq!(levels[c], over(&|x| 2.0 - x));
                assert_eq!(slopes[c], over(&|x| (2.0 - x) * (x - 2.0) * 0.5));
                for row in 0..4 {
                    let x = at(row, c);
                    assert_eq!(normal[row * columns + c], (x - 2.0) * 0.5 + 3.0);
                    assert_eq!(back[row * columns + c], 0.5 * (2.0 - x - 0.25 - (x - 2.0) * 4.0));
                }
            }
        }
    }
}
