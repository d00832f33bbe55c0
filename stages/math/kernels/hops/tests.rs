//! Products with the graph against plain loops.

use super::*;
use crate::math::kernels::{pad_rows, padded, unpad_rows};
use crate::math::random::Stream;
use crate::math::testing::symmetric;

fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut stream = Stream::new(seed, &["test", "hops"]);
    (0..count).map(|_| stream.symmetric(1.0)).collect()
}

fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|x| *x as f32).collect()
}

fn wide<T: Vector>(rows: &[T], columns: usize) -> Vec<T> {
    let mut out = vec![T::default(); rows.len() / columns * padded(columns)];
    pad_rows(rows, columns, &mut out);
    out
}

fn narrow<T: Vector>(rows: &[T], columns: usize) -> Vec<T> {
    let mut out = vec![T::default(); rows.len() / padded(columns) * columns];
    unpad_rows(rows, columns, &mut out);
    out
}

fn plain_product(matrix: &Csr, z: &[f64], columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; z.len()];
    for i in 0..matrix.n() {
        let (js, vs) = matrix.row(i);
        for (j, v) in js.iter().zip(vs) {
            (0..columns).for_each(|c| out[i * columns + c] += v * z[*j as usize * columns + c]);
        }
    }
    out
}

/// p_k(S)·Z for k = 0..=order by plain loops.
fn plain_hops(matrix: &Csr, basis: Basis, order: usize, z: &[f64], columns: usize) -> Vec<Vec<f64>> {
    let mut hops = vec![z.to_vec()];
    for k in 1..=order {
        let mut next = plain_product(matrix, &hops[k - 1], columns);
        if basis == Basis::Chebyshev && k > 1 {
            next.iter_mut().zip(&hops[k - 2]).for_each(|(x, before)| *x = 2.0 * *x - before);
        }
        hops.push(next);
    }
    hops
}

fn close(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < tolerance)
}

#[test]
fn a_product_equals_the_plain_sum_for_every_width() {
    for n in [1, 37] {
        let matrix = symmetric(n, 3, 7);
        let propagator = Hops::new(matrix.clone());
        for columns in [1, 2, 5, 7, 8, 15, 16, 17, 21, 40, 64, 70, 130] {
            let z = numbers(n * columns, 1);
            let mut out = vec![7.0; n * padded(columns)];
            propagator.product(&wide(&z, columns), padded(columns), &mut out);
            assert!(close(&narrow(&out, columns), &plain_product(&matrix, &z, columns), 1e-13), "{columns}");
        }
    }
}

#[test]
fn polynomials_and_their_dots_equal_plain_sums_in_either_basis() {
    let n = 53;
    let matrix = symmetric(n, 3, 8);
    let propagator = Hops::new(matrix.clone());
    for basis in [Basis::Powers, Basis::Chebyshev] {
        for (order, columns) in [(0, 3), (1, 1), (2, 16), (5, 7), (9, 70)] {
            let (z, against) = (numbers(n * columns, 1), numbers(n * columns, 2));
            let (c, width) = (numbers((order + 1) * columns, 3), padded(columns));
            let hops = plain_hops(&matrix, basis, order, &z, columns);
            let mut expected = vec![0.0; z.len()];
            for (k, hop) in hops.iter().enumerate() {
                let row = c[k * columns..(k + 1) * columns].iter().cycle();
                expected.iter_mut().zip(hop).zip(row).for_each(|((sum, x), c)| *sum += c * x);
            }
            let (c, z) = (wide(&c, columns), wide(&z, columns));
            let (sum, dots) = propagator.polynomial(basis, &c, &z, Some(&wide(&against, columns)), width);
            assert_eq!((sum.clone(), vec![]), propagator.polynomial(basis, &c, &z, None, width));
            assert!(close(&narrow(&sum, columns), &expected, 1e-12), "{basis:?}, order {order}");
            for (k, hop) in hops.iter().enumerate() {
                for column in 0..columns {
                    let of = |x: &[f64]| x.iter().skip(column).step_by(columns).copied().collect::<Vec<_>>();
                    let dot: f64 = of(hop).iter().zip(of(&against)).map(|(a, b)| a * b).sum();
                    assert!((dots[k * width + column] - dot).abs() < 1e-12);
                }
            }
        }
    }
}

#[test]
fn threads_and_other_columns_change_no_byte_and_single_precision_is_near() {
    let (n, columns, order) = (1500, 20, 4);
    let propagator = Hops::new(symmetric(n, 5, 9));
    assert!(propagator.tasks.len() > 3, "enough work for several tasks");
    let (z, against, c) = (numbers(n * columns, 1), numbers(n * columns, 2), numbers((order + 1) * columns, 3));
    let run = |[z, against, c]: [&[f64]; 3], columns: usize, threads: usize| {
        let [z, against, c] = [z, against, c].map(|x| wide(&single(x), columns));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let width = padded(columns);
        let (sum, dots) = pool.install(|| propagator.polynomial(Basis::Chebyshev, &c, &z, Some(&against), width));
        (narrow(&sum, columns), narrow(&dots, columns))
    };
    let together = run([&z, &against, &c], columns, 1);
    for threads in [2, 3] {
        assert!(run([&z, &against, &c], columns, threads) == together);
    }
    for column in [0, 7, 19] {
        let of = |x: &[f64]| x.iter().skip(column).step_by(columns).copied().collect::<Vec<_>>();
        let alone = run([&of(&z), &of(&against), &of(&c)], 1, 1);
        let in_company: Vec<f32> = together.0.iter().skip(column).step_by(columns).copied().collect();
        assert!(alone.0 == in_company && alone.1 == of(&together.1));
    }
    let (c, z) = (wide(&c, columns), wide(&z, columns));
    let (exact, _) = propagator.polynomial(Basis::Chebyshev, &c, &z, None, padded(columns));
    let near: Vec<f64> = together.0.iter().map(|x| f64::from(*x)).collect();
    assert!(close(&near, &narrow(&exact, columns), 1e-5));
}

#[test]
fn other_weights_take_the_place_of_the_entries() {
    let (n, columns) = (37, 20);
    let matrix = symmetric(n, 3, 7);
    let (of, weights) = (Hops::new(matrix.clone()), numbers(matrix.values.len(), 4));
    let other = Csr::new(n, matrix.indptr.clone(), matrix.indices.clone(), weights.clone()).unwrap();
    let (z, start) = (numbers(n * columns, 1), numbers(n * columns, 2));
    let mut expected = plain_product(&other, &z, columns);
    expected.iter_mut().zip(&start).for_each(|(x, start)| *x += 0.3 * start);
    for rows in [0..n, 5..20] {
        let mut out = wide(&start[rows.start * columns..rows.end * columns], columns);
        let weights = &weights[of.entries(rows.clone())];
        of.weighted_rows(weights, rows.clone(), &wide(&z, columns), padded(columns), 0.3, &mut out);
        assert!(close(&narrow(&out, columns), &expected[rows.start * columns..rows.end * columns], 1e-13));
    }
}

#[test]
fn every_entry_knows_its_mirror_if_it_has_one() {
    let matrix = symmetric(50, 3, 11);
    let places: Vec<(usize, usize)> =
        (0..50).flat_map(|i| matrix.row(i).0.iter().map(move |j| (i, *j as usize))).collect();
    let of = Hops::new(matrix);
    let mirrors = of.mirrors().unwrap();
    assert_eq!(mirrors.len(), places.len());
    assert!(places.iter().zip(mirrors).all(|((i, j), at)| places[*at as usize] == (*j, *i)));
    let one_way = |indptr: &[u64], indices: &[u32]| {
        let matrix = Csr::new(3, indptr.to_vec(), indices.to_vec(), vec![1.0; indices.len()]).unwrap();
        Hops::new(matrix).mirrors().is_none()
    };
    assert!(one_way(&[0, 1, 1, 1], &[2]) && one_way(&[0, 1, 2, 3], &[1, 2, 0]) && !one_way(&[0, 1, 2, 2], &[1, 0]));
}

#[test]
fn the_first_loop_is_found() {
    let matrix = |entries: [(u32, f64); 3]| {
        let indptr = (0..=3).collect();
        Csr::new(3, indptr, entries.map(|e| e.0).to_vec(), entries.map(|e| e.1).to_vec()).unwrap()
    };
    assert_eq!(Hops::new(matrix([(1, 1.0), (0, 1.0), (2, 0.5)])).first_loop(), Some(2));
    assert_eq!(Hops::new(matrix([(1, 1.0), (0, 1.0), (2, 0.0)])).first_loop(), None, "a stored zero is none");
}
