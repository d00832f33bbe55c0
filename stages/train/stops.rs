//! How many epochs a split will run: learned from splits that ran before.
//!
//! A split that stopped early says when; one that ran all its epochs says only that it did not stop until then. The share of
//! splits that still run after t epochs is estimated from both (Kaplan and Meier 1958), and the expected number of epochs is the
//! area under that curve. Beyond what was observed, splits are expected to go on stopping at the rate at which they did.

use crate::contract::{Past, Size};

/// Where nothing is known, the share of the epochs beyond the window that a split is expected to run.
pub(super) const USUAL_SHARE: f64 = 0.5;
/// How far the expectation is from the truth, as a standard deviation of its logarithm, by what it was learned from.
const SPREADS: [f64; 3] = [0.15, 0.5, 0.7];

/// One split that ran.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Life {
    epochs: f64,
    /// Whether it stopped before its last epoch.
    stopped: bool,
}

/// The epochs of a split that may run `epochs`, and what they may be wrong by (standard deviation of the logarithm).
pub(super) struct Expected {
    pub epochs: Size,
    pub spread: f64,
}

/// Expects epochs by earlier splits: `past` are lists of results, those most alike first; the first that has any counts.
pub(super) fn expect(epochs: usize, window: usize, past: [Vec<&Past>; 3]) -> Expected {
    if window == 0 || epochs <= window {
        return Expected { epochs: Size::exact(epochs), spread: 0.0 };
    }
    for (past, spread) in past.into_iter().zip(SPREADS) {
        let lives: Vec<Life> = past.into_iter().flat_map(|past| lives(past, window)).collect();
        // Splits that were cut off before anything could stop tell nothing.
        if lives.iter().any(|life| life.stopped || life.epochs > count(window)) {
            return Expected { epochs: Size::about(mean(lives, count(window), count(epochs))), spread };
        }
    }
    let usual = count(window) + USUAL_SHARE * count(epochs - window);
    Expected { epochs: Size::guess(usual), spread: 0.7 }
}

/// The splits of an earlier result, as if they had been watched with the window of today.
fn lives(past: &Past, window: usize) -> Vec<Life> {
    let number = |name: &str| past.params.get(name).and_then(serde_json::Value::as_f64);
    let (Some(most), Some(before)) = (number("epochs"), number("window").filter(|w| *w > 0.0)) else {
        return Vec::new();
    };
    let ran = past.facts.get("epochs").and_then(serde_json::Value::as_array).into_iter().flatten();
    let life = |ran: f64| Life { epochs: (ran - before + count(window)).max(0.0), stopped: ran < most };
    // A command may not say how many epochs it ran.
    ran.filter_map(serde_json::Value::as_f64).filter(|ran| *ran > 0.0).map(life).collect()
}

/// The area under the curve of survival up to `epochs`.
fn mean(mut lives: Vec<Life>, window: f64, epochs: f64) -> f64 {
    lives.sort_by(|a, b| a.epochs.total_cmp(&b.epochs).then(b.stopped.cmp(&a.stopped)));
    let stops = count(lives.iter().filter(|life| life.stopped).count());
    let exposure: f64 = lives.iter().map(|life| (life.epochs - window).max(1.0)).sum();
    let (mut area, mut alive, mut now) = (0.0, 1.0, 0.0);
    for (before, life) in lives.iter().enumerate() {
        let until = life.epochs.min(epochs);
        area += alive * (until - now).max(0.0);
        now = until.max(now);
        if life.epochs >= epochs {
            return area;
        }
        if life.stopped {
            alive *= 1.0 - 1.0 / count(lives.len() - before);
        }
    }
    let (left, rate) = (epochs - now, stops / exposure);
    area + alive * if rate * left > 1e-6 { (1.0 - (-rate * left).exp()) / rate } else { left }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 epochs")]
fn count(epochs: usize) -> f64 {
    epochs as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::contract::Sureness;

    /// Expects epochs after results with these parameters and these epochs of their splits.
    fn expected(epochs: usize, window: usize, earlier: &[(usize, usize, &[usize])]) -> Size {
        let past: Vec<Past> = earlier
            .iter()
            .map(|(epochs, window, ran)| Past {
                variant: None,
                params: json!({"epochs": epochs, "window": window}).as_object().unwrap().clone(),
                inputs: Vec::new(),
                measured: BTreeMap::new(),
                facts: json!({"epochs": ran}),
            })
            .collect();
        expect(epochs, window, [past.iter().collect(), Vec::new(), Vec::new()]).epochs
    }

    #[test]
    fn without_a_window_every_epoch_is_run() {
        assert_eq!(expected(1000, 0, &[(1000, 200, &[300])]).known(), Some(1000));
        assert_eq!(expected(150, 200, &[]).known(), Some(150));
    }

    #[test]
    fn without_a_past_a_stated_share_is_guessed() {
        assert_eq!(expected(1000, 200, &[]), Size::guess(600.0));
        // A smoke test of five epochs tells nothing about a thousand.
        assert_eq!(expected(1000, 200, &[(5, 200, &[5, 5])]).sure, Sureness::Guess);
    }

    #[test]
    fn splits_that_stopped_tell_when_others_will() {
        assert_eq!(expected(1000, 200, &[(1000, 200, &[300, 500])]), Size::about(400.0));
        // Fewer epochs cut off those that would have gone on.
        assert_eq!(expected(400, 200, &[(1000, 200, &[300, 500])]), Size::about(350.0));
        // Another window moves the stop by as much.
        assert_eq!(expected(1000, 100, &[(1000, 200, &[300, 500])]), Size::about(300.0));
    }

    #[test]
    fn splits_that_never_stopped_are_expected_to_go_on() {
        assert_eq!(expected(1500, 50, &[(150, 50, &[150, 150])]), Size::about(1500.0));
        let some = expected(1500, 50, &[(150, 50, &[150, 150, 150, 80])]).value;
        // One stop in 330 epochs beyond the window: far from all of them, and far from none.
        assert!((200.0..900.0).contains(&some), "{some}");
        let more = expected(1_000_000, 50, &[(150, 50, &[150, 150, 150, 80])]).value;
        assert!(more < 1000.0, "sooner or later all stop: {more}");
    }
}
