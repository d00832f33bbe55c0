//! Principal components against values by hand and by plain loops, and their laws.

use super::*;
use crate::math::random::Stream;
use crate::math::testing::random;

fn components(table: Table, d: usize) -> Result<Components, EigenError> {
    super::components(table, Centre::Means, d)
}

fn filled(x: &Csr<f32>) -> Vec<f32> {
    let mut full = vec![0.0; x.n() * x.cols()];
    for i in 0..x.n() {
        let (columns, values) = x.row(i);
        columns.iter().zip(values).for_each(|(c, v)| full[i * x.cols() + *c as usize] = *v);
    }
    full
}

fn normal(n: usize, columns: usize) -> Vec<f32> {
    let mut stream = Stream::new(2, &["test"]);
    // Columns of different size, so that variances are apart.
    (0..n * columns).map(|at| (stream.normal() * (1.0 + (at % columns) as f64)) as f32).collect()
}

fn assert_close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    let worst = a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
    assert!(worst < tolerance, "differs by {worst}");
}

#[test]
fn a_small_example_is_as_by_hand() {
    // Points (1,1), (2,2), (3,3), (2,1), (2,3) around the mean (2,2): the centred square is [[2,2],[2,4]], whose
    // eigenvalues are 3 ± √5. With φ = (1 + √5)/2 the larger has the direction (1, φ), normalised by √(1 + φ²).
    let x = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 2.0, 1.0, 2.0, 3.0];
    let found = components(Table::Dense(&x, 2), 2).unwrap();
    let root = 5f64.sqrt();
    assert_close(&found.variances, &[(3.0 + root) / 4.0, (3.0 - root) / 4.0], 1e-14);
    assert!((found.total - 1.5).abs() < 1e-14);
    let phi = (1.0 + root) / 2.0;
    let length = (1.0 + phi * phi).sqrt();
    // The second direction is (φ, −1): its largest entry is positive.
    let score = |a: f64, b: f64| [(a + phi * b) / length, (phi * a - b) / length];
    let expected = [score(-1.0, -1.0), score(0.0, 0.0), score(1.0, 1.0), score(0.0, -1.0), score(0.0, 1.0)].concat();
    assert_close(&found.scores, &expected, 1e-14);
}

#[test]
fn around_the_origin_scores_keep_all_products_of_rows() {
    let (n, columns) = (12, 5);
    let full = normal(n, columns);
    let row = |i: usize| full[i * columns..(i + 1) * columns].iter().map(|x| f64::from(*x));
    let indices = (0..n * columns).map(|at| (at % columns) as u32).collect();
    let sparse = Csr::rectangular(n, columns, (0..=n).map(|i| (i * columns) as u64).collect(), indices, full.clone());
    for table in [Table::Dense(&full, columns), Table::Sparse(&sparse.unwrap())] {
        let found = super::components(table, Centre::Origin, columns).unwrap();
        let scores: Vec<&[f64]> = found.scores.chunks(columns).collect();
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let expected: f64 = row(i).zip(row(j)).map(|(a, b)| a * b).sum();
            let product: f64 = scores[i].iter().zip(scores[j]).map(|(a, b)| a * b).sum();
            assert!((expected - product).abs() < 1e-9, "{i}, {j}");
        }
    }
}

#[test]
fn scores_are_uncorrelated_and_their_variances_descend() {
    for (n, columns, d) in [(40, 7, 5), (9, 30, 8), (20, 20, 12)] {
        let found = components(Table::Dense(&normal(n, columns), columns), d).unwrap();
        assert!(found.variances.windows(2).all(|w| w[0] >= w[1]) && found.variances[d - 1] > 0.0);
        for i in 0..d {
            for j in 0..d {
                let sum: f64 = found.scores.chunks(d).map(|row| row[i] * row[j]).sum();
                let expected = if i == j { found.variances[i] } else { 0.0 };
                assert!((sum / (n - 1) as f64 - expected).abs() < 1e-10, "{n} × {columns}: {i}, {j}");
            }
            let mean: f64 = found.scores.chunks(d).map(|row| row[i]).sum();
            assert!(mean.abs() < 1e-10);
        }
    }
}

#[test]
fn what_is_lost_is_the_variance_of_the_components_left_out() {
    // Distances between centred rows, which all components keep: Σ|x_c|² − Σ|t|² is what the dropped ones have.
    for (n, columns, d) in [(30, 10, 4), (10, 30, 4)] {
        let x = normal(n, columns);
        let all = components(Table::Dense(&x, columns), n.min(columns)).unwrap();
        let some = components(Table::Dense(&x, columns), d).unwrap();
        let kept: f64 = some.scores.iter().map(|t| t * t).sum::<f64>() / (n - 1) as f64;
        assert!((all.total - kept - all.variances[d..].iter().sum::<f64>()).abs() < 1e-10);
        let first: Vec<f64> = all.scores.chunks(n.min(columns)).flat_map(|row| &row[..d]).copied().collect();
        assert_close(&some.scores, &first, 1e-10);
        // All components together are a rotation: inner products of rows stay.
        let mean = |c: usize| x.iter().skip(c).step_by(columns).map(|x| f64::from(*x)).sum::<f64>() / n as f64;
        let centred = |i: usize, c: usize| f64::from(x[i * columns + c]) - mean(c);
        for i in 0..n {
            for j in 0..n {
                let d = n.min(columns);
                let wanted: f64 = (0..columns).map(|c| centred(i, c) * centred(j, c)).sum();
                let product: f64 = (0..d).map(|c| all.scores[i * d + c] * all.scores[j * d + c]).sum();
                assert!((wanted - product).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn the_largest_loading_is_positive() {
    for (n, columns) in [(30, 8), (8, 30)] {
        let x = normal(n, columns);
        let found = components(Table::Dense(&x, columns), 6).unwrap();
        let centred = Centred::new(Table::Dense(&x, columns), Centre::Means);
        // V = X_cᵀ T Λ⁻¹.
        let columns_of_t = transposed(&found.scores, n, 6);
        let loadings = transposed(&centred.transposed_times(&columns_of_t, 6), columns, 6);
        for loading in loadings.chunks(columns) {
            let largest = loading.iter().copied().fold(0.0, |most: f64, x| if x.abs() > most.abs() { x } else { most });
            assert!(largest > 0.0, "{loading:?}");
        }
    }
}

#[test]
fn sparse_and_dense_matrices_and_both_squares_agree() {
    for (n, columns) in [(60, 25), (25, 60)] {
        let sparse = random(n, columns, 0.2, 7);
        let columns = columns as usize;
        let full = filled(&sparse);
        let (a, b) =
            (components(Table::Sparse(&sparse), 10).unwrap(), components(Table::Dense(&full, columns), 10).unwrap());
        assert_close(&a.scores, &b.scores, 1e-9);
        assert_close(&a.variances, &b.variances, 1e-9);
        assert!((a.total - b.total).abs() < 1e-9);
        // Columns of zeros change nothing but the square that is decomposed.
        let wide = 100;
        let padded: Vec<f32> =
            full.chunks(columns).flat_map(|row| [row, &vec![0.0; wide - columns]].concat()).collect();
        assert_close(&components(Table::Dense(&padded, wide), 10).unwrap().scores, &a.scores, 1e-9);
    }
}

#[test]
fn components_without_variance_are_zero() {
    // Rank one: every column is a multiple of the first. Dense and sparse, high and wide.
    for (n, columns) in [(12usize, 4usize), (4, 12)] {
        let x: Vec<f32> = (0..n * columns).map(|at| ((1 + at / columns) * (1 + at % columns)) as f32).collect();
        let indices = (0..n).flat_map(|_| 0..u32::try_from(columns).unwrap()).collect();
        let indptr = (0..=n).map(|i| (i * columns) as u64).collect();
        let sparse = Csr::rectangular(n, columns, indptr, indices, x.clone()).unwrap();
        for table in [Table::Dense(&x, columns), Table::Sparse(&sparse)] {
            let found = components(table, 3).unwrap();
            assert!(found.variances[0] > 1.0 && found.variances[1..] == [0.0, 0.0]);
            assert!(found.scores.chunks(3).all(|row| row[1].to_bits() == 0 && row[2].to_bits() == 0));
        }
    }
    let constant = components(Table::Dense(&[0.1; 30], 3), 2).unwrap();
    assert!(constant.scores.iter().all(|t| *t == 0.0) && constant.variances == [0.0; 2]);
}

#[test]
fn a_value_that_is_not_finite_is_an_error_and_an_empty_matrix_is_none() {
    let x = [1.0, f32::NAN, 2.0, 3.0];
    assert!(components(Table::Dense(&x, 2), 1).is_err());
    assert!(components(Table::Dense(&[], 0), 1).unwrap().scores.is_empty());
}

/// Not a check but a measurement: the features of Cora-Full in size and density.
#[test]
#[ignore = "measures time: minutes"]
fn time_of_500_components_of_a_large_matrix() {
    let x = random(19_793, 8_710, 0.0066, 1);
    let start = std::time::Instant::now();
    let found = components(Table::Sparse(&x), 500).unwrap();
    let share = found.variances.iter().sum::<f64>() / found.total;
    eprintln!("19793 × 8710: {:?}, {share:.3} of the variance", start.elapsed());
}

#[test]
fn threads_do_not_change_a_byte() {
    let sparse = random(500, 300, 0.1, 3);
    let dense = normal(700, 150);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let tables = [Table::Sparse(&sparse), Table::Dense(&dense, 150), Table::Dense(&dense, 1000)];
            tables.map(|table| components(table, 20).unwrap())
        })
    };
    let one = with(1);
    assert!(one == with(2) && one == with(3));
}
