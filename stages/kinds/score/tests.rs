// The expected values are those of this script (Python 3.11, scikit-learn 1.9.1):
//
//     import numpy as np
//     from sklearn.metrics import (accuracy_score, balanced_accuracy_score, f1_score, roc_auc_score,
//                                  average_precision_score, log_loss)
//     def case(n, classes, step, skew):
//         h = lambda a: (a * 2654435761) % 2**32
//         logit = lambda i, c: ((h(1 + i * classes + c) >> 16) // step * step) / 8192 - 4
//         z = np.array([[logit(i, c) for c in range(classes)] for i in range(n)], dtype=np.float64)
//         y = np.array([max(h(77 + i) % (classes + skew) - skew, 0) for i in range(n)])
//         return z, y
//     def scores(z, y):
//         e = np.exp(z - z.max(1, keepdims=True)); p = e / e.sum(1, keepdims=True); k = z.shape[1]
//         hot = np.eye(k)[y]
//         top, guess = p.max(1), z.argmax(1)
//         bins = np.clip(np.ceil(top * 15).astype(int), 1, 15)
//         ece = sum(abs((top[bins == b] - (guess == y)[bins == b]).sum()) for b in range(1, 16)) / len(y)
//         auc = roc_auc_score(y, p[:, 1]) if k == 2 else roc_auc_score(y, p, multi_class="ovr", labels=range(k))
//         ap = average_precision_score(y, p[:, 1]) if k == 2 else average_precision_score(hot, p, average="macro")
//         return [accuracy_score(y, guess), f1_score(y, guess, average="macro"), log_loss(y, p, labels=range(k)), auc, ap,
//                 balanced_accuracy_score(y, guess), f1_score(y, guess, average="micro"), ece]
//     for c in [(500, 2, 1, 0), (500, 2, 8192, 3), (300, 5, 1, 2), (300, 5, 16384, 4), (7, 2, 1, 0), (200, 2, 65536, 1)]:
//         print(c, [repr(float(x)) for x in scores(*case(*c))])

use super::*;

fn hash(x: u64) -> u64 {
    (x * 2_654_435_761) % (1 << 32)
}

/// Logits and classes of a case of the script: nodes, classes, width of the steps that make ties, weight of class 0.
fn case((nodes, classes, step, skew): (u64, u64, u64, u64)) -> (Vec<f32>, Vec<usize>) {
    let logit = |at: u64| ((hash(1 + at) >> 16) / step * step) as f32 / 8192.0 - 4.0;
    let class = |i: u64| (hash(77 + i) % (classes + skew)).saturating_sub(skew) as usize;
    ((0..nodes * classes).map(logit).collect(), (0..nodes).map(class).collect())
}

fn predicted<'a>(logits: &'a [f32], truth: &[usize], classes: usize) -> Predicted<'a> {
    Predicted::new(logits.chunks_exact(classes).zip(truth.iter().copied()).collect(), classes)
}

fn score(part: &Predicted, name: &str) -> Result<f64, Undefined> {
    SCORES.iter().find(|row| row.variant.name == name).unwrap().score(part)
}

#[test]
#[rustfmt::skip]
fn scores_are_those_of_scikit_learn_on_random_tied_and_degenerate_predictions() {
    let names =
        ["accuracy", "macro-f1", "loss", "roc-auc", "average-precision", "balanced-accuracy", "micro-f1", "calibration-error"];
    assert_eq!(SCORES.iter().map(|row| row.variant.name).collect::<Vec<_>>(), names);
    let cases = [
        ((500, 2, 1, 0), [0.496, 0.48863636363636365, 1.9339135888060723, 0.49326400000000004, 0.4951583917659317, 0.496, 0.496, 0.4734300964655451]),
        ((500, 2, 8192, 3), [0.576, 0.4851869839728023, 1.8898852748443775, 0.5074124999999999, 0.20157748213102117, 0.5062500000000001, 0.576, 0.3928099949916587]),
        ((300, 5, 1, 2), [0.21, 0.1848218108329332, 3.393828409933856, 0.5026425270255339, 0.2070945185825162, 0.19353944562899789, 0.21, 0.5735897548807668]),
        ((300, 5, 16384, 4), [0.21, 0.16075976936687053, 3.36428991917207, 0.4889252763912374, 0.20062098690505176, 0.17632435663432494, 0.21, 0.5295006900718827]),
        ((7, 2, 1, 0), [0.5714285714285714, 0.5714285714285714, 1.6087324263223255, 0.5833333333333334, 0.6190476190476191, 0.5833333333333333, 0.5714285714285714, 0.39984347932932846]),
        ((200, 2, 65536, 1), [0.665, 0.3993993993993994, 0.6931471805599452, 0.5, 0.335, 0.5, 0.665, 0.165]),
    ];
    for (case_of, expected) in cases {
        let (logits, truth) = case(case_of);
        let part = predicted(&logits, &truth, case_of.1 as usize);
        for (row, expected) in SCORES.iter().zip(expected) {
            let value = row.score(&part).unwrap();
            assert!((value - expected).abs() < 1e-12, "{} of {case_of:?}: {value}, expected {expected}", row.variant.name);
        }
    }
}

#[test]
fn what_needs_a_class_that_no_node_has_is_undefined_and_says_which() {
    let logits = [0.0, 1.0, 2.0, 1.0, 0.0, 3.0, 0.5, 0.5, 0.0];
    let part = predicted(&logits, &[0, 2, 2], 3);
    for name in ["roc-auc", "average-precision"] {
        assert_eq!(score(&part, name), Err("no node is of class 1".into()), "{name}");
    }
    assert!(score(&part, "balanced-accuracy").is_ok());
    let all_positive = predicted(&logits[..4], &[1, 1], 2);
    assert_eq!(score(&all_positive, "roc-auc"), Err("no node is of class 0".into()));
    // As in scikit-learn, average precision needs no negative.
    assert_eq!(score(&all_positive, "average-precision"), Ok(1.0));
    assert_eq!(score(&predicted(&logits[..2], &[0, 0], 1), "roc-auc"), Err("there is one class only".into()));
    for row in SCORES {
        assert_eq!(row.score(&predicted(&[], &[], 3)), Err("there are no nodes".into()));
    }
}

#[test]
fn probabilities_that_are_known_are_taken() {
    let logits = [0.0, 1.0, 2.0, 1.0];
    let part = predicted(&logits, &[0, 1], 2).with_probabilities(vec![0.1, 0.9, 0.8, 0.2]);
    assert_eq!(part.probabilities(), [0.1, 0.9, 0.8, 0.2]);
    assert!((predicted(&logits, &[0, 1], 2).probabilities()[1] - 1.0 / (1.0 + (-1f64).exp())).abs() < 1e-15);
}
