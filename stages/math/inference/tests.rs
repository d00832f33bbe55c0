//! Everything here against SciPy 1.17: the values in `tests/science/statistics.json` are those of
//! `tests/science/statistics.py`, which says how they were computed.

use serde_json::Value;

use super::{bootstrap, critical_difference, friedman, holm, mean_ranks, paired_test, tails};

const TOLERANCE: f64 = 1e-9;

fn file() -> Value {
    serde_json::from_str(include_str!("../../../tests/science/statistics.json")).unwrap()
}

fn cases(file: &Value) -> &[Value] {
    let cases = file.as_array().unwrap();
    assert!(!cases.is_empty());
    cases
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn whole(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn assert_close(found: f64, expected: &Value, case: &Value) {
    let expected = number(expected);
    let apart = (found - expected).abs() / expected.abs().max(1.0);
    assert!(apart < TOLERANCE, "{found} is {apart:e} from {expected} in {case}");
}

#[test]
fn tails_are_those_of_scipy() {
    let file = &file()["tails"];
    for case in cases(&file["t"]) {
        let p = tails::student_two_sided(number(&case["x"]), whole(&case["d"])).unwrap();
        assert_close(p, &case["p"], case);
    }
    for case in cases(&file["f"]) {
        let p = tails::f_upper(number(&case["x"]), whole(&case["d"][0]), whole(&case["d"][1])).unwrap();
        assert_close(p, &case["p"], case);
    }
    for case in cases(&file["chi"]) {
        let p = tails::chi_square_upper(number(&case["x"]), whole(&case["d"])).unwrap();
        assert_close(p, &case["p"], case);
    }
    assert_eq!(tails::student_two_sided(1.0, 0), None);
}

#[test]
fn paired_tests_are_those_of_scipy() {
    for case in cases(&file()["paired"]) {
        let test = paired_test(&numbers(&case["a"]), &numbers(&case["b"]), number(&case["ratio"])).unwrap();
        assert_close(test.t.unwrap(), &case["t"], case);
        assert_close(test.p, &case["p"], case);
    }
}

#[test]
fn corrected_p_values_are_those_of_the_formula() {
    for case in cases(&file()["holm"]) {
        for (found, expected) in holm(&numbers(&case["p"])).iter().zip(cases(&case["corrected"])) {
            assert_close(*found, expected, case);
        }
    }
}

#[test]
fn ranks_and_their_tests_are_those_of_scipy() {
    for case in cases(&file()["friedman"]) {
        let scores: Vec<Vec<f64>> = cases(&case["scores"]).iter().map(numbers).collect();
        let ranks: Vec<Vec<f64>> = scores.iter().map(|row| mean_ranks(row)).collect();
        assert_eq!(ranks, cases(&case["ranks"]).iter().map(numbers).collect::<Vec<_>>());
        let test = friedman(&ranks).unwrap();
        assert_close(test.chi_square, &case["chi"], case);
        assert_close(test.p, &case["p"], case);
        assert_close(test.f.unwrap(), &case["f"], case);
        assert_close(test.f_p, &case["f_p"], case);
    }
}

#[test]
fn critical_differences_are_those_of_the_studentized_range() {
    for case in cases(&file()["critical_difference"]) {
        let found = critical_difference(number(&case["alpha"]), whole(&case["k"]), whole(&case["n"])).unwrap();
        assert_close(found, &case["difference"], case);
    }
    // Demšar (2006), table 5, prints 2.949 for seven classifiers at 0.05, from a table of q/√2 with three digits: 2.9483 here.
    let q = critical_difference(0.05, 7, 1).unwrap() / (7.0f64 * 8.0 / 6.0).sqrt();
    assert!((q - 2.949).abs() < 1e-3, "{q}");
}

#[test]
fn intervals_of_all_samples_are_those_of_numpy() {
    for case in cases(&file()["interval"]) {
        let values = numbers(&case["values"]);
        let n = values.len();
        let samples = n.pow(u32::try_from(n).unwrap());
        // Sample after sample: the digits of its number in base n, the first one first.
        let mut drawn = 0;
        let draw = || {
            let (sample, digit) = (drawn / n, drawn % n);
            drawn += 1;
            sample / n.pow(u32::try_from(n - 1 - digit).unwrap()) % n
        };
        let [low, high] = bootstrap::interval(&values, samples, draw).unwrap();
        assert_close(low, &case["low"], case);
        assert_close(high, &case["high"], case);
    }
}
