//! Scores: how good predictions are on the nodes of one part. A new score is one implementation of [`Score`] and one row.
//!
//! The prediction of a node is the class of its largest logit; ties go to the lowest class. Its probabilities are the softmax
//! of its logits in f64. A score that these nodes do not define (ROC-AUC where a class has no node) is [`Undefined`] with the
//! reason, never a number. The built-in scores agree with scikit-learn:
//!
//! | score | scikit-learn |
//! | --- | --- |
//! | `accuracy` | `accuracy_score` |
//! | `balanced-accuracy` | `balanced_accuracy_score`: mean recall of the classes that nodes have |
//! | `macro-f1`, `micro-f1` | `f1_score(average=…)`: of the classes that occur as truth or prediction |
//! | `roc-auc` | `roc_auc_score`: of the second of two classes; of more, `multi_class="ovr"`, the mean over classes |
//! | `average-precision` | `average_precision_score`: of the second of two classes; of more, the mean over classes |
//! | `loss` | `log_loss`, without clipping |
//! | `calibration-error` | none: Σ over 15 equal bins of confidence of share × \|accuracy − mean confidence\| |

#![expect(clippy::cast_precision_loss, reason = "a number of nodes is below 2^32")]

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contract::params::{NoParams, Variant};
use crate::contract::{Crate, Row};
use crate::math::{ranking, stats};

/// What was predicted for the nodes of a part.
pub struct Predicted<'a> {
    /// Of every node its logits, one per class, and its class.
    pub nodes: Vec<(&'a [f32], usize)>,
    /// Nodes by true class (row) and predicted class (column).
    pub confusion: Vec<Vec<u32>>,
    probabilities: OnceCell<Vec<f64>>,
}

impl<'a> Predicted<'a> {
    /// Predicts a class for every node.
    pub fn new(nodes: Vec<(&'a [f32], usize)>, classes: usize) -> Self {
        let mut confusion = vec![vec![0u32; classes]; classes];
        nodes.iter().for_each(|(logits, truth)| confusion[*truth][stats::argmax(logits)] += 1);
        Self { nodes, confusion, probabilities: OnceCell::new() }
    }

    /// The same, of nodes whose probabilities (nodes × classes) are known already.
    #[must_use]
    pub fn with_probabilities(self, probabilities: Vec<f64>) -> Self {
        Self { probabilities: probabilities.into(), ..self }
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.confusion.len()
    }

    /// Returns the probability of every class for every node, nodes × classes.
    pub fn probabilities(&self) -> &[f64] {
        self.probabilities.get_or_init(|| {
            let mut all = vec![0.0; self.nodes.len() * self.classes()];
            for ((logits, _), shares) in self.nodes.iter().zip(all.chunks_exact_mut(self.classes().max(1))) {
                stats::softmax(logits, shares);
            }
            all
        })
    }

    /// Returns how many nodes are of a class, and for how many it was predicted.
    fn counts(&self, class: usize) -> (u32, u32) {
        (self.confusion[class].iter().sum(), self.confusion.iter().map(|row| row[class]).sum())
    }

    /// Means a score of one class against the others over all classes; of two classes the second alone is scored.
    fn one_against_rest(&self, score: fn(&mut [(f64, bool)]) -> Option<f64>) -> Result<f64, Undefined> {
        let classes = self.classes();
        if classes < 2 {
            return Err("there is one class only".into());
        }
        let scored = if classes == 2 { 1..2 } else { 0..classes };
        let mut sum = 0.0;
        let mut of_class = Vec::with_capacity(self.nodes.len());
        for class in scored.clone() {
            of_class.clear();
            let column = self.probabilities().iter().skip(class).step_by(classes);
            of_class.extend(column.zip(&self.nodes).map(|(p, (_, truth))| (*p, *truth == class)));
            let value = score(&mut of_class);
            sum += value.ok_or_else(|| {
                let lacks = |class: &usize| self.counts(*class).0 == 0;
                let class = (0..classes).find(lacks).unwrap_or(class);
                Undefined(format!("no node is of class {class}").into())
            })?;
        }
        Ok(sum / scored.len() as f64)
    }
}

/// Why the nodes of a part have no such score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Undefined(pub Cow<'static, str>);

impl From<&'static str> for Undefined {
    fn from(why: &'static str) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number that says how good predictions are.
///
/// ```
/// use ppgnn_stages::contract::Crate;
/// use ppgnn_stages::kinds::{Predicted, Score, Undefined};
///
/// /// Share of nodes whose class has a positive logit.
/// struct Positive;
///
/// impl Score for Positive {
///     const NAME: &'static str = "positive";
///     const ABOUT: &'static str = "Share of nodes whose class has a positive logit";
///     const VERSION: u32 = 1;
///     const CRATE: Crate = Crate { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") };
///     const PERCENT: bool = true;
///     const LARGER_IS_BETTER: bool = true;
///     fn of(part: &Predicted) -> Result<f64, Undefined> {
///         let positive = part.nodes.iter().filter(|(logits, class)| logits[*class] > 0.0).count();
///         Ok(positive as f64 / part.nodes.len() as f64)
///     }
/// }
/// assert_eq!(Positive::of(&Predicted::new(vec![(&[0.5, -1.0], 0), (&[0.5, -1.0], 1)], 2)), Ok(0.5));
/// ```
pub trait Score: 'static {
    /// Name in kebab-case; a metric is a part and a score, such as `test-accuracy`.
    const NAME: &'static str;
    /// One sentence without a period.
    const ABOUT: &'static str;
    /// Raised whenever the same predictions may give another number.
    const VERSION: u32;
    /// The crate it comes from; a program that adds a score of its own must name it.
    const CRATE: Crate = Crate::BUILT_IN;
    /// Whether tables show it in percent.
    const PERCENT: bool;
    /// Whether a larger number is better.
    const LARGER_IS_BETTER: bool;

    /// Scores the nodes of a part, of which there is at least one.
    ///
    /// # Errors
    /// [`Undefined`] where these nodes have no such score.
    fn of(part: &Predicted) -> Result<f64, Undefined>;
}

/// How a score is shown and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scale {
    /// Whether it is shown in percent.
    pub percent: bool,
    /// Whether a larger number is better.
    pub larger_is_better: bool,
}

impl Scale {
    /// Returns a number that is the larger the better.
    pub fn worth(self, value: f64) -> f64 {
        if self.larger_is_better { value } else { -value }
    }
}

/// A row of [`SCORES`].
#[derive(Clone, Copy)]
pub struct ScoreDef {
    /// Name, sentence and version.
    pub variant: Variant,
    /// How it is shown and compared.
    pub scale: Scale,
    of: fn(&Predicted) -> Result<f64, Undefined>,
}

impl ScoreDef {
    /// The row of `S`.
    pub const fn of<S: Score>() -> Self {
        let variant = Variant::of::<NoParams>(S::NAME, S::ABOUT, S::VERSION, S::CRATE);
        Self { variant, scale: Scale { percent: S::PERCENT, larger_is_better: S::LARGER_IS_BETTER }, of: S::of }
    }

    /// Scores the nodes of a part.
    ///
    /// # Errors
    /// [`Undefined`] where these nodes have no such score.
    pub fn score(&self, part: &Predicted) -> Result<f64, Undefined> {
        if part.nodes.is_empty() { Err("there are no nodes".into()) } else { (self.of)(part) }
    }

    /// Says whether nodes of some classes have such a score, whatever is predicted for them: by example.
    ///
    /// # Errors
    /// [`Undefined`] if they have none.
    pub fn defined(&self, classes: usize, has: impl Fn(usize) -> bool) -> Result<(), Undefined> {
        let logits = vec![0.0; classes];
        let nodes = (0..classes).filter(|class| has(*class)).flat_map(|class| [(&logits[..], class); 2]).collect();
        self.score(&Predicted::new(nodes, classes)).map(drop)
    }
}

impl Row for ScoreDef {
    fn noun(&self) -> &'static str {
        "metric"
    }
    fn variant(&self) -> &Variant {
        &self.variant
    }
    fn reserved(&self) -> &'static [&'static str] {
        // Columns that stand beside the scores in `metrics.parquet` and `metrics.json`.
        &["split", "part", "nodes"]
    }
}

/// Every built-in score, in the order in which metrics are stored.
pub static SCORES: &[ScoreDef] = &[
    ScoreDef::of::<Accuracy>(),
    ScoreDef::of::<MacroF1>(),
    ScoreDef::of::<Loss>(),
    ScoreDef::of::<RocAuc>(),
    ScoreDef::of::<AveragePrecision>(),
    ScoreDef::of::<BalancedAccuracy>(),
    ScoreDef::of::<MicroF1>(),
    ScoreDef::of::<CalibrationError>(),
];

/// Declares a score: the type, its name, what it is, how it is shown, and the function.
macro_rules! score {
    ($type:ident, $name:literal, $about:literal, percent: $percent:literal, larger: $larger:literal, $of:expr) => {
        struct $type;

        impl Score for $type {
            const NAME: &'static str = $name;
            const ABOUT: &'static str = $about;
            const VERSION: u32 = 1;
            const PERCENT: bool = $percent;
            const LARGER_IS_BETTER: bool = $larger;
            fn of(part: &Predicted) -> Result<f64, Undefined> {
                $of(part)
            }
        }
    };
}

score!(Accuracy, "accuracy", "Share of nodes whose largest logit is their class", percent: true, larger: true, accuracy);
score!(MicroF1, "micro-f1", "F1 score of all nodes together: the accuracy, as every node has one class",
    percent: true, larger: true, accuracy);
score!(MacroF1, "macro-f1", "Mean of the classes' F1 scores", percent: true, larger: true,
    |part: &Predicted| Ok(stats::macro_f1(&part.confusion)));
score!(Loss, "loss", "Mean cross-entropy", percent: false, larger: false, loss);
score!(BalancedAccuracy, "balanced-accuracy", "Mean of the classes' shares of right predictions",
    percent: true, larger: true, balanced_accuracy);
score!(RocAuc, "roc-auc", "Area under the ROC curve: of the second of two classes, else the mean of each class against the rest",
    percent: true, larger: true, |part: &Predicted| part.one_against_rest(ranking::roc_auc));
score!(AveragePrecision, "average-precision",
    "Average precision: of the second of two classes, else the mean of each class against the rest",
    percent: true, larger: true, |part: &Predicted| part.one_against_rest(ranking::average_precision));
score!(CalibrationError, "calibration-error", "Expected calibration error, in 15 bins of confidence",
    percent: true, larger: false, calibration_error);

fn accuracy(part: &Predicted) -> Result<f64, Undefined> {
    let hits: u32 = part.confusion.iter().enumerate().map(|(class, row)| row[class]).sum();
    Ok(f64::from(hits) / part.nodes.len() as f64)
}

fn loss(part: &Predicted) -> Result<f64, Undefined> {
    let losses = part.nodes.iter().filter_map(|(logits, class)| stats::cross_entropy(logits, *class));
    stats::mean(&losses.collect::<Vec<_>>()).ok_or_else(|| "there are no nodes".into())
}

fn balanced_accuracy(part: &Predicted) -> Result<f64, Undefined> {
    let recall = |class: usize| match part.counts(class).0 {
        0 => None,
        nodes => Some(f64::from(part.confusion[class][class]) / f64::from(nodes)),
    };
    let recalls: Vec<f64> = (0..part.classes()).filter_map(recall).collect();
    stats::mean(&recalls).ok_or_else(|| "there are no nodes".into())
}

fn calibration_error(part: &Predicted) -> Result<f64, Undefined> {
    const BINS: usize = 15;
    let mut bins = [(0.0, 0.0); BINS];
    for ((logits, class), shares) in part.nodes.iter().zip(part.probabilities().chunks_exact(part.classes().max(1))) {
        let predicted = stats::argmax(logits);
        let confidence = shares[predicted];
        // The bin of (b / 15, (b + 1) / 15].
        let bin = ((confidence * BINS as f64).ceil() as usize).clamp(1, BINS) - 1;
        bins[bin].0 += confidence;
        bins[bin].1 += f64::from(u8::from(predicted == *class));
    }
    let apart: f64 = bins.iter().map(|(confidence, right)| (confidence - right).abs()).sum();
    Ok(apart / part.nodes.len() as f64)
}

#[cfg(test)]
mod tests;
