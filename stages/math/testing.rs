//! Random matrices for tests of several modules.

use std::collections::BTreeMap;

use super::csr::Csr;
use super::random::Stream;

/// A random matrix with values in (0, 1) in a share of its places.
pub(crate) fn random(rows: usize, cols: u32, share: f64, seed: u64) -> Csr<f32> {
    let mut stream = Stream::new(seed, &["test", "sparse"]);
    let (mut indptr, mut indices, mut values) = (vec![0], vec![], vec![]);
    for _ in 0..rows {
        for column in 0..cols {
            if stream.uniform() < share {
                indices.push(column);
                values.push(stream.uniform() as f32);
            }
        }
        indptr.push(indices.len() as u64);
    }
    Csr::rectangular(rows, cols as usize, indptr, indices, values).unwrap()
}

/// A random symmetric matrix with about 2 · `per_row` entries per row, whose hops do not grow.
pub(crate) fn symmetric(n: usize, per_row: usize, seed: u64) -> Csr {
    let mut stream = Stream::new(seed, &["test", "symmetric"]);
    let mut entries = BTreeMap::new();
    for i in 0..n {
        for _ in 0..per_row {
            let (j, v) = (stream.below(n as u64) as usize, stream.symmetric(1.0 / per_row as f64));
            entries.insert((i, j), v);
            entries.insert((j, i), v);
        }
    }
    let mut indptr = vec![0; n + 1];
    entries.keys().for_each(|(i, _)| indptr[i + 1] += 1);
    (0..n).for_each(|i| indptr[i + 1] += indptr[i]);
    let indices = entries.keys().map(|(_, j)| *j as u32).collect();
    Csr::new(n, indptr, indices, entries.into_values().collect()).unwrap()
}
