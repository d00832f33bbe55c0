//! Early stopping by a window, as the published code of the GPR-GNN family does it.
//!
//! After epoch e (counted from 0), stop if e > window and the validation loss of e is strictly larger than the mean of
//! the `window` losses before it. Any validation metric can stand in for the loss, negated where larger is better. This is not patience: it compares with a running mean, and can fire while the loss is
//! still near its minimum. It cannot fire before epoch index window + 1.

/// Decides after every epoch whether to stop.
#[derive(Clone, Debug)]
pub struct WindowedStop {
    window: usize,
    losses: Vec<f64>,
}

impl WindowedStop {
    /// Watches a window of that many epochs; 0 never stops.
    pub fn new(window: usize) -> Self {
        Self { window, losses: Vec::new() }
    }

    /// Takes the validation loss of the next epoch and returns whether to stop after it.
    pub fn observe(&mut self, val_loss: f64) -> bool {
        let epoch = self.losses.len();
        self.losses.push(val_loss);
        if self.window == 0 || epoch <= self.window {
            return false;
        }
        let before = &self.losses[epoch - self.window..epoch];
        // Summed afresh: a running sum would drift, and a constant loss must never look larger than its own mean.
        let mean = before.iter().map(|l| l - val_loss).sum::<f64>() / before.len() as f64;
        mean < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops_at(window: usize, loss: impl Fn(usize) -> f64, epochs: usize) -> Option<usize> {
        let mut rule = WindowedStop::new(window);
        (0..epochs).find(|e| rule.observe(loss(*e)))
    }

    #[test]
    fn a_constant_loss_never_stops() {
        // A third cannot be written in binary, so a mean taken by a plain sum could be off in the last bit.
        assert_eq!(stops_at(200, |_| 1.0 / 3.0, 1000), None);
    }

    #[test]
    fn a_rising_loss_stops_at_epoch_index_window_plus_one() {
        assert_eq!(stops_at(200, |e| e as f64, 1000), Some(201));
        assert_eq!(stops_at(3, |e| e as f64, 1000), Some(4));
    }

    #[test]
    fn a_falling_loss_never_stops() {
        assert_eq!(stops_at(5, |e| 1.0 / (1.0 + e as f64), 500), None);
    }

    #[test]
    fn only_the_window_before_the_epoch_counts() {
        // Losses 9 9 9 1 1 1 2: at epoch 6 the mean of the 3 before is 1 < 2; over all it would be 5.
        let losses = [9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 2.0];
        assert_eq!(stops_at(3, |e| losses[e], 7), Some(6));
    }

    #[test]
    fn window_zero_never_stops() {
        assert_eq!(stops_at(0, |e| e as f64, 500), None);
    }
}
