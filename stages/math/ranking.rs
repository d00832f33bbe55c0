//! How well scores put the positive above the negative ones.
//!
//! Both functions sort what they are given, and depend on the order of the scores alone; equal scores count as ties.

#![expect(
    clippy::cast_precision_loss,
    reason = "pairs of nodes are counted exactly below 2^53, and rounded once above"
)]

/// Returns the area under the ROC curve: the share of pairs of a positive and a negative in which the positive has the larger
/// score, where a tie counts as half. `None` without a positive or without a negative.
pub fn roc_auc(scores: &mut [(f64, bool)]) -> Option<f64> {
    sort(scores);
    let positive = scores.iter().filter(|(_, positive)| *positive).count() as u64;
    let pairs = positive * (scores.len() as u64 - positive);
    let (mut below, mut won) = (0u64, 0u64);
    // From the largest score down: a negative loses against all positives that came before it.
    for tied in scores.chunk_by(|x, y| x.0 == y.0) {
        let more = tied.iter().filter(|(_, positive)| *positive).count() as u64;
        let negative = tied.len() as u64 - more;
        won += negative * (2 * below + more);
        below += more;
    }
    (pairs > 0).then(|| won as f64 / (2.0 * pairs as f64))
}

/// Returns the average precision: Σ (recallₙ − recallₙ₋₁) precisionₙ over the distinct scores, from the largest down. `None`
/// without a positive.
pub fn average_precision(scores: &mut [(f64, bool)]) -> Option<f64> {
    sort(scores);
    let (mut seen, mut found, mut area) = (0u64, 0u64, 0.0);
    for tied in scores.chunk_by(|x, y| x.0 == y.0) {
        let more = tied.iter().filter(|(_, positive)| *positive).count() as u64;
        (seen, found) = (seen + tied.len() as u64, found + more);
        area += more as f64 * (found as f64 / seen as f64);
    }
    (found > 0).then(|| area / found as f64)
}

fn sort(scores: &mut [(f64, bool)]) {
    scores.sort_unstable_by(|x, y| y.0.total_cmp(&x.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_by_hand() {
        // Positives 0.9 and 0.4, negatives 0.4, 0.1: of four pairs three are won and one is a tie.
        let scores = [(0.4, true), (0.1, false), (0.9, true), (0.4, false)];
        assert_eq!(roc_auc(&mut scores.clone()), Some(3.5 / 4.0));
        // Precision 1 at recall ½, then 2 of 3 at recall 1.
        assert_eq!(average_precision(&mut scores.clone()), Some(0.5 + 0.5 * 2.0 / 3.0));
    }

    #[test]
    fn one_kind_alone_has_no_ranking() {
        assert_eq!(roc_auc(&mut [(0.4, true), (0.1, true)]), None);
        assert_eq!(roc_auc(&mut []), None);
        assert_eq!(average_precision(&mut [(0.4, false)]), None);
        assert_eq!(average_precision(&mut [(0.4, true)]), Some(1.0));
    }
}
