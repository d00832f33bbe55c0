//! Racing: which trials deserve all splits, by what they scored on the first few.
//!
//! A trial is compared with the best one on the same splits, so that easy and hard splits cancel. It stops where it is behind by more
//! than `margin` standard errors of the difference. With three splits, the variance of one trial's differences says little: that of
//! all trials that are compared at the time is pooled.

use ppgnn_stages::math::stats::mean;

/// When trials stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Race {
    /// Splits that every trial gets.
    pub after: usize,
    /// Standard errors that a trial may be behind.
    pub margin: f64,
}

impl Default for Race {
    fn default() -> Self {
        Self { after: 3, margin: 2.0 }
    }
}

/// Scores of a trial, split by split; larger is better, and none where the score is undefined.
pub type OfSplits = [Option<f64>];

/// Returns which trials stop, by their scores on the first splits and those of the best trial on the same ones.
pub fn stopped(race: &Race, best: &OfSplits, trials: &[Vec<Option<f64>>]) -> Vec<bool> {
    let differences: Vec<Vec<f64>> = trials.iter().map(|trial| behind(best, trial)).collect();
    let (mut squares, mut freedom) = (0.0, 0usize);
    for of_trial in &differences {
        let Some(middle) = mean(of_trial) else { continue };
        squares += of_trial.iter().map(|difference| (difference - middle).powi(2)).sum::<f64>();
        freedom += of_trial.len() - 1;
    }
    let variance = squares / freedom.max(1) as f64;
    let is_behind = |of_trial: &Vec<f64>| {
        let error = (variance / of_trial.len().max(1) as f64).sqrt();
        mean(of_trial).is_none_or(|difference| difference > race.margin * error)
    };
    differences.iter().map(is_behind).collect()
}

/// What a trial that stopped is taken to score on all splits: as far behind the best one as on those that it has.
pub fn expected(best: &OfSplits, stopped: &OfSplits) -> Option<f64> {
    let all: Vec<f64> = best.iter().flatten().copied().collect();
    Some(mean(&all)? - mean(&behind(best, stopped))?)
}

/// How far a trial is behind, on the splits that both have.
fn behind(best: &OfSplits, trial: &OfSplits) -> Vec<f64> {
    best.iter().zip(trial).filter_map(|(best, trial)| Some((*best)? - (*trial)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn a_trial_stops_where_it_is_behind_by_more_than_noise() {
        let best = scores(&[0.9, 0.5, 0.7, 0.8]);
        // Splits differ by 0.4, and trials from the best by 0.01 to 0.03: only paired can that be told.
        let trials = [&[0.89, 0.49, 0.68][..], &[0.7, 0.31, 0.5], &[0.91, 0.52, 0.7]].map(scores);
        let race = Race { after: 3, margin: 2.0 };
        // Deviations of differences: 0.0058, 0.0058 and 0.01, pooled 0.0075, standard error 0.0043; means 0.0133, 0.197 and −0.01.
        assert_eq!(stopped(&race, &best, &trials), [true, true, false]);
        assert_eq!(stopped(&Race { margin: 4.0, ..race }, &best, &trials), [false, true, false]);
    }

    #[test]
    fn the_best_itself_never_stops_and_one_without_scores_does() {
        let best = scores(&[0.5, 0.6, 0.7]);
        assert_eq!(stopped(&Race::default(), &best, &[best.clone(), vec![None; 3]]), [false, true]);
        assert_eq!(stopped(&Race { after: 1, margin: 0.0 }, &best[..1], &[best[..1].to_vec()]), [false]);
    }

    #[test]
    fn what_stopped_is_as_far_behind_as_on_the_splits_that_it_has() {
        let best = scores(&[0.9, 0.5, 0.7, 0.8]);
        let value = expected(&best, &scores(&[0.8, 0.3])).unwrap();
        assert!((value - (0.725 - 0.15)).abs() < 1e-12, "{value}");
        assert_eq!(expected(&best, &[]), None);
    }
}
