//! The judgement of the benchmarks: which repeats are to be trusted, and how good predictions are.

#[path = "../../benches/price/compare.rs"]
mod compare;
#[path = "../../benches/support/repeats.rs"]
mod repeats;

use compare::{Accuracy, Pair, by_name};
use repeats::{Estimate, TRUSTED};

#[test]
fn the_best_repeat_counts_and_the_second_says_how_well_it_is_known() {
    let estimate = Estimate::best(&[3.0, 2.0, 2.5]).unwrap();
    assert_eq!(estimate, Estimate { value: 2.0, spread: 0.25 });
    assert!(!estimate.is_trusted());
    assert!(Estimate::best(&[9.0, 2.0, 2.1]).unwrap().is_trusted(), "one slow repeat is no reason to doubt");
}

#[test]
fn a_difference_is_as_uncertain_as_both_of_its_times() {
    // 10.1 − 10.0 and 2.3 − 2.0 are small beside each time, but 0.4 is 5 % of 8.
    let estimate = Estimate::difference(&[10.0, 10.1, 14.0], &[2.3, 2.0]).unwrap();
    assert!((estimate.value - 8.0).abs() < 1e-12 && (estimate.spread - 0.05).abs() < 1e-12, "{estimate:?}");
    // The same scatter on a short difference is worth nothing.
    let estimate = Estimate::difference(&[10.0, 10.1], &[9.0, 9.3]).unwrap();
    assert!(estimate.spread > TRUSTED && !estimate.is_trusted(), "{estimate:?}");
}

#[test]
fn a_difference_that_is_not_positive_is_refused() {
    assert_eq!(Estimate::difference(&[2.0, 2.1], &[2.0, 2.1]), None);
    assert_eq!(Estimate::difference(&[2.0, 2.1], &[3.0, 3.1]), None);
    assert_eq!(Estimate::difference(&[], &[3.0]), None);
    assert_eq!(Estimate::best(&[0.0, -1.0, f64::NAN, f64::INFINITY]), None);
}

#[test]
fn one_repeat_is_never_trusted() {
    let alone = Estimate::best(&[2.0]).unwrap();
    assert!(alone.spread.is_infinite() && !alone.is_trusted());
    assert_eq!(alone.shown(1), "?");
}

#[test]
fn a_ratio_is_trusted_only_if_both_sides_are_known_well() {
    let (ours, theirs) = (Estimate { value: 2.0, spread: 0.02 }, Estimate { value: 30.0, spread: 0.05 });
    assert_eq!(theirs.over(ours).shown(1), "15.0 ±7%");
    assert_eq!(theirs.over(Estimate { spread: 0.14, ..ours }).shown(1), "?");
    assert_eq!(ours.times(1e3).shown(0), "2000 ±2%");
}

#[test]
fn predictions_are_judged_by_their_median_and_by_a_factor_of_two() {
    let pair = |said: f64, took: f64| Pair { said, took };
    // Errors of 0, 25, 50 and 100 %; twice and half as long are a factor of 2, three times as long is not.
    let accuracy = Accuracy::of(&[pair(1.0, 1.0), pair(1.25, 1.0), pair(1.0, 2.0), pair(2.0, 1.0)]).unwrap();
    assert!((accuracy.median_error - 0.375).abs() < 1e-12 && accuracy.within_two == 1.0, "{accuracy:?}");
    assert_eq!((accuracy.count, accuracy.nine_tenths, accuracy.total), (4, 2.0, pair(5.25, 5.0)));
    let worse = Accuracy::of(&[pair(3.0, 1.0), pair(1.0, 1.0)]).unwrap();
    assert_eq!((worse.within_two, worse.nine_tenths, worse.median_error), (0.5, 3.0, 1.0));
    assert_eq!(Accuracy::of(&[pair(1.0, 0.0)]), None);
    let named = [("a".to_owned(), pair(1.0, 1.0)), ("b".to_owned(), pair(1.0, 2.0)), ("a".to_owned(), pair(3.0, 1.0))];
    assert_eq!(by_name(&named)["a"], [pair(1.0, 1.0), pair(3.0, 1.0)]);
}
