//! How much longer or shorter a node takes than its terms say, judging by nodes that ran before.
//!
//! Every earlier node has a ratio, measured seconds over those that its terms say. The ratio of a new node is the weighted mean of
//! their logarithms: those of the same model, on the same inputs, of about the same size and with as many threads count most. A
//! prior keeps a single odd measurement from deciding, and is all there is where nothing ran before.

/// How much the terms themselves count, in measurements, and what they may be wrong by.
const PRIOR: (f64, f64) = (0.3, 0.7);
/// What is left between nodes that are all alike: other programs, caches, clocks.
const NOISE: f64 = 0.12;
/// How fast the weight of a measurement falls with the difference in size (of logarithms).
const WIDTH: f64 = 1.2;
/// Weight of a measurement of another variant of the stage, and with another number of threads.
const OTHER_VARIANT: f64 = 0.02;
const OTHER_THREADS: f64 = 0.5;
/// How much more a measurement on the same inputs counts.
const SAME_INPUTS: f64 = 12.0;
/// Weight of measurements of the same variant from which on a scale is no guess.
const ENOUGH: f64 = 0.2;

/// A node that ran, compared with the one in question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// What it took.
    pub seconds: f64,
    /// What its terms say.
    pub said: f64,
    /// Whether it is of the same variant.
    pub same_variant: bool,
    /// Whether it had as many threads.
    pub same_threads: bool,
    /// The share of inputs that are the same.
    pub same_inputs: f64,
}

/// What to multiply by what the terms say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The factor.
    pub factor: f64,
    /// What it may be wrong by, as a standard deviation of its logarithm.
    pub spread: f64,
    /// Whether nothing like it ran before.
    pub guess: bool,
}

/// Fits the scale of a node that takes `said` seconds by its terms.
pub fn fit(said: f64, measured: impl Iterator<Item = Measurement>) -> Scale {
    let (mut weights, mut sum, mut squares, mut alike) = (0.0, 0.0, 0.0, 0.0);
    for past in measured.filter(|past| past.seconds > 0.0 && past.said > 0.0) {
        let apart = (past.said / said.max(f64::MIN_POSITIVE)).ln() / WIDTH;
        let mut weight = (-apart * apart / 2.0).exp().max(1e-3) * (1.0 + SAME_INPUTS * past.same_inputs.powi(2));
        weight *= if past.same_variant { 1.0 } else { OTHER_VARIANT };
        weight *= if past.same_threads { 1.0 } else { OTHER_THREADS };
        let ratio = (past.seconds / past.said).ln();
        (weights, sum, squares) = (weights + weight, sum + weight * ratio, squares + weight * ratio * ratio);
        alike += if past.same_variant { weight } else { 0.0 };
    }
    let (prior, doubt) = PRIOR;
    let mean = sum / (weights + prior);
    let within = if weights > 0.0 { (squares / weights - (sum / weights).powi(2)).max(0.0) } else { 0.0 };
    let spread = (NOISE * NOISE + within + doubt * doubt * prior / (weights + prior)).sqrt();
    Scale { factor: mean.exp(), spread, guess: alike < ENOUGH }
}

/// Joins the spreads of the parts of a whole: seconds and spread of each. What is wrong with one is wrong with the others to some
/// part, as all of them run on one machine.
pub fn joint_spread(parts: impl Iterator<Item = (f64, f64)>) -> f64 {
    const SHARED: f64 = 0.4;
    let (mut total, mut together, mut apart) = (0.0, 0.0, 0.0);
    for (seconds, spread) in parts {
        total += seconds;
        together += seconds * spread;
        apart += (seconds * spread).powi(2);
    }
    if total <= 0.0 { 0.0 } else { (SHARED * together * together + (1.0 - SHARED) * apart).sqrt() / total }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIKE: Measurement =
        Measurement { seconds: 3.0, said: 1.0, same_variant: true, same_threads: true, same_inputs: 1.0 };

    #[test]
    fn without_a_past_the_terms_count_and_it_is_a_guess() {
        let scale = fit(1.0, std::iter::empty());
        assert!((scale.factor - 1.0).abs() < 1e-12 && scale.guess && scale.spread > 0.6, "{scale:?}");
    }

    #[test]
    fn one_node_on_the_same_inputs_is_nearly_believed() {
        let scale = fit(2.0, [ALIKE].into_iter());
        assert!((2.7..3.0).contains(&scale.factor) && !scale.guess && scale.spread < 0.25, "{scale:?}");
    }

    #[test]
    fn what_is_alike_counts_more_than_what_is_not() {
        let other = Measurement { seconds: 100.0, same_variant: false, same_inputs: 0.0, ..ALIKE };
        let many = std::iter::repeat_n(other, 50).chain([ALIKE]);
        let scale = fit(1.0, many);
        assert!((2.0..6.0).contains(&scale.factor), "{scale:?}");
        assert!(fit(1.0, std::iter::repeat_n(other, 5)).guess, "another model is no evidence of this one");
        // A thousand times smaller: its fixed costs tell nothing of a large one.
        let small = Measurement { seconds: 0.05, said: 0.001, same_inputs: 0.0, ..ALIKE };
        assert!(fit(1.0, [small, ALIKE].into_iter()).factor < 3.2);
    }

    #[test]
    fn what_disagrees_widens_the_range() {
        let twice = Measurement { seconds: 12.0, ..ALIKE };
        assert!(fit(1.0, [ALIKE, twice].into_iter()).spread > 0.5);
        assert!(fit(1.0, [ALIKE; 8].into_iter()).spread < 0.15);
        // What was measured as nothing tells nothing.
        assert!(fit(1.0, [Measurement { seconds: 0.0, ..ALIKE }].into_iter()).guess);
    }

    #[test]
    fn a_whole_is_surer_than_its_parts() {
        let one = joint_spread([(1.0, 0.3)].into_iter());
        let many = joint_spread(std::iter::repeat_n((1.0, 0.3), 100));
        assert!((one - 0.3).abs() < 1e-12 && (0.15..0.25).contains(&many), "{one} {many}");
        assert_eq!(joint_spread(std::iter::empty()), 0.0);
    }
}
