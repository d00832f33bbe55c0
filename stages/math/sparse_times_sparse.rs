//! The product of two sparse matrices.
//!
//! A row of A·B is a sum of rows of B. It is collected in a dense row with a list of the columns that were touched, a thread a row, so
//! the number of threads changes no byte: an entry is summed in the order of the entries of A's row.

use rayon::prelude::*;

use super::csr::Csr;

/// Rows that one task computes.
const ROWS: usize = 64;

/// Returns A·B; `None` if the columns of A are not the rows of B.
pub fn product(a: &Csr, b: &Csr) -> Option<Csr> {
    if a.cols() != b.n() {
        return None;
    }
    let block = |first: usize| {
        let (mut sums, mut touched) = (vec![0.0; b.cols()], Vec::new());
        let mut is_touched = vec![false; b.cols()];
        let rows = (first..(first + ROWS).min(a.n())).map(|i| {
            let (columns, values) = a.row(i);
            for (k, x) in columns.iter().zip(values) {
                let (of_b, y) = b.row(*k as usize);
                for (j, y) in of_b.iter().zip(y) {
                    let at = *j as usize;
                    if !std::mem::replace(&mut is_touched[at], true) {
                        touched.push(*j);
                    }
                    sums[at] += x * y;
                }
            }
            touched.sort_unstable();
            let row: Vec<(u32, f64)> = touched.iter().map(|j| (*j, std::mem::take(&mut sums[*j as usize]))).collect();
            touched.drain(..).for_each(|j| is_touched[j as usize] = false);
            row
        });
        rows.collect::<Vec<_>>()
    };
    let blocks: Vec<Vec<Vec<(u32, f64)>>> = (0..a.n()).into_par_iter().step_by(ROWS).map(block).collect();
    let (mut indptr, mut indices, mut values) = (vec![0u64], Vec::new(), Vec::new());
    for row in blocks.into_iter().flatten() {
        for (column, value) in row {
            indices.push(column);
            values.push(value);
        }
        indptr.push(indices.len() as u64);
    }
    Csr::rectangular(a.n(), b.cols(), indptr, indices, values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::testing::{random, symmetric};

    #[test]
    fn entries_are_sums_of_products_for_any_number_of_threads() {
        let a = symmetric(150, 4, 1);
        let b = random(150, 40, 0.1, 2);
        let b =
            Csr::rectangular(150, 40, b.indptr, b.indices, b.values.iter().map(|v| f64::from(*v)).collect()).unwrap();
        let ab = product(&a, &b).unwrap();
        assert_eq!((ab.n(), ab.cols()), (150, 40));
        for i in 0..150 {
            for j in 0..40 {
                let sum: f64 = (0..150).map(|k| a.get(i, k) * b.get(k, j)).sum();
                assert!((ab.get(i, j) - sum).abs() < 1e-12);
            }
        }
        let three = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_eq!(three.install(|| product(&a, &b)), Some(ab));
        assert_eq!(product(&b, &b), None);
    }
}
