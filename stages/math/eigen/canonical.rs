//! What makes eigenvectors unique: signs, and bases of the spaces of repeated eigenvalues.

use super::CLUSTER;

/// Entries this near to the largest are as large.
const TIE: f64 = 1e-6;
/// Unit vectors whose projections onto a space are this nearly as long as the longest: coarser than a solver is accurate,
/// so that on a symmetric graph the first one is chosen, not the one that rounding favours.
const PIVOT_TIE: f64 = 1e-3;

/// Returns whether the entry that decides the sign of a vector is negative: the first whose magnitude is within 1e-6
/// (relative) of its largest.
pub(in super::super) fn is_negative(vector: &[f64]) -> bool {
    let largest = vector.iter().fold(0f64, |m, x| m.max(x.abs()));
    let decides = vector.iter().find(|x| x.abs() >= largest * (1.0 - TIE));
    decides.is_some_and(|x| *x < 0.0)
}

/// Makes the entry that decides the sign of a vector positive.
pub(super) fn fix_sign(vector: &mut [f64]) {
    if is_negative(vector) {
        vector.iter_mut().for_each(|x| *x = -*x);
    }
}

/// Ranges of equal values in a descending list: each is at most [`CLUSTER`] below the one before.
pub(super) fn clusters(values: &[f64]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut start = 0;
    values.chunk_by(|a, b| a - b <= CLUSTER).map(move |cluster| {
        let range = start..start + cluster.len();
        start = range.end;
        range
    })
}

/// Replaces an orthonormal basis U (n × d, one vector after the other) by one that depends on its space alone.
///
/// The first vector is the longest projection of a unit vector onto the space (ties within 1e-3: the first one);
/// the next ones are found the same way in what is left.
pub(super) fn basis(vectors: &mut [f64], n: usize) {
    let count = vectors.len() / n;
    for first in 0..count {
        let left = &mut vectors[first * n..];
        let mut held = vec![0f64; n];
        for u in left.chunks_exact(n) {
            held.iter_mut().zip(u).for_each(|(held, u)| *held += u * u);
        }
        let most = held.iter().fold(0f64, |m, x| m.max(*x));
        let Some(pivot) = held.iter().position(|x| *x >= most * (1.0 - PIVOT_TIE)) else { return };
        // Plane rotations of vectors turn the row of the pivot into (length, 0, …, 0).
        let (head, rest) = left.split_at_mut(n);
        for u in rest.chunks_exact_mut(n) {
            let (a, b) = (head[pivot], u[pivot]);
            let length = a.hypot(b);
            if b == 0.0 || length == 0.0 {
                continue;
            }
            let (cosine, sine) = (a / length, b / length);
            for (x, y) in head.iter_mut().zip(u) {
                (*x, *y) = (cosine * *x + sine * *y, cosine * *y - sine * *x);
            }
        }
        if head[pivot] < 0.0 {
            head.iter_mut().for_each(|x| *x = -*x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::Stream;

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// Gram–Schmidt.
    fn orthonormal(n: usize, count: usize, seed: u64) -> Vec<f64> {
        let mut stream = Stream::new(seed, &["test"]);
        let mut vectors: Vec<f64> = Vec::new();
        while vectors.len() < n * count {
            let mut new: Vec<f64> = (0..n).map(|_| stream.normal()).collect();
            for u in vectors.chunks_exact(n) {
                let overlap = dot(u, &new);
                new.iter_mut().zip(u).for_each(|(x, u)| *x -= overlap * u);
            }
            let length = dot(&new, &new).sqrt();
            vectors.extend(new.iter().map(|x| x / length));
        }
        vectors
    }

    #[test]
    fn a_basis_depends_on_its_space_alone() {
        let (n, count) = (20, 4);
        let mut one = orthonormal(n, count, 1);
        // The same space, turned by a random rotation.
        let turn = orthonormal(count, count, 2);
        let mut other: Vec<f64> = Vec::new();
        for row in turn.chunks_exact(count) {
            other.extend((0..n).map(|i| (0..count).map(|j| row[j] * one[j * n + i]).sum::<f64>()));
        }
        basis(&mut one, n);
        basis(&mut other, n);
        assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-12));
        for (i, u) in one.chunks_exact(n).enumerate() {
            for (j, v) in one.chunks_exact(n).enumerate() {
                assert!((dot(u, v) - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn equal_values_make_a_cluster() {
        let values = [1.0, 1.0, 0.5 + 5e-10, 0.5, 0.5 - 5e-10, 0.4];
        assert_eq!(clusters(&values).collect::<Vec<_>>(), [0..2, 2..5, 5..6]);
        assert_eq!(clusters(&[]).count(), 0);
    }
}
