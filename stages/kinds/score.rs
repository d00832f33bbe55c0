//! Scores: how good predictions are on the nodes of one part. A new score is one implementation of [`Score`] and one row.
//!
//! The prediction of a node is the class of its largest logit; ties go to the lowest class. Macro-F1 is the mean F1 over the
//! classes that occur as truth or prediction, the loss is the mean cross-entropy in f64. A part without nodes scores 0.

use serde::{Deserialize, Serialize};

use crate::contract::params::{NoParams, Variant};
use crate::contract::{Crate, Row};
use crate::math::stats;

/// What was predicted for the nodes of a part.
pub struct Predicted<'a> {
    /// Of every node its logits, one per class, and its class.
    pub nodes: Vec<(&'a [f32], usize)>,
    /// Nodes by true class (row) and predicted class (column).
    pub confusion: Vec<Vec<u32>>,
}

impl<'a> Predicted<'a> {
    /// Predicts a class for every node.
    pub fn new(nodes: Vec<(&'a [f32], usize)>, classes: usize) -> Self {
        let mut confusion = vec![vec![0u32; classes]; classes];
        nodes.iter().for_each(|(logits, truth)| confusion[*truth][stats::argmax(logits)] += 1);
        Self { nodes, confusion }
    }
}

/// A number that says how good predictions are.
///
/// ```
/// use ppgnn_stages::contract::Crate;
/// use ppgnn_stages::kinds::{Predicted, Score};
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
///     fn of(part: &Predicted) -> f64 {
///         let positive = part.nodes.iter().filter(|(logits, class)| logits[*class] > 0.0).count();
///         positive as f64 / part.nodes.len().max(1) as f64
///     }
/// }
/// assert_eq!(Positive::of(&Predicted::new(vec![(&[0.5, -1.0], 0), (&[0.5, -1.0], 1)], 2)), 0.5);
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

    /// Scores the nodes of a part; 0 where there are none.
    fn of(part: &Predicted) -> f64;
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
    /// Scores the nodes of a part.
    pub of: fn(&Predicted) -> f64,
}

impl ScoreDef {
    /// The row of `S`.
    pub const fn of<S: Score>() -> Self {
        let variant = Variant::of::<NoParams>(S::NAME, S::ABOUT, S::VERSION, S::CRATE);
        Self { variant, scale: Scale { percent: S::PERCENT, larger_is_better: S::LARGER_IS_BETTER }, of: S::of }
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
pub static SCORES: &[ScoreDef] = &[ScoreDef::of::<Accuracy>(), ScoreDef::of::<MacroF1>(), ScoreDef::of::<Loss>()];

struct Accuracy;

impl Score for Accuracy {
    const NAME: &'static str = "accuracy";
    const ABOUT: &'static str = "Share of nodes whose largest logit is their class";
    const VERSION: u32 = 1;
    const PERCENT: bool = true;
    const LARGER_IS_BETTER: bool = true;
    #[expect(clippy::cast_precision_loss, reason = "a number of nodes is below 2^32")]
    fn of(part: &Predicted) -> f64 {
        let hits: u32 = part.confusion.iter().enumerate().map(|(class, row)| row[class]).sum();
        f64::from(hits) / part.nodes.len().max(1) as f64
    }
}

struct MacroF1;

impl Score for MacroF1 {
    const NAME: &'static str = "macro-f1";
    const ABOUT: &'static str = "Mean of the classes' F1 scores";
    const VERSION: u32 = 1;
    const PERCENT: bool = true;
    const LARGER_IS_BETTER: bool = true;
    fn of(part: &Predicted) -> f64 {
        stats::macro_f1(&part.confusion)
    }
}

struct Loss;

impl Score for Loss {
    const NAME: &'static str = "loss";
    const ABOUT: &'static str = "Mean cross-entropy";
    const VERSION: u32 = 1;
    const PERCENT: bool = false;
    const LARGER_IS_BETTER: bool = false;
    fn of(part: &Predicted) -> f64 {
        let losses = part.nodes.iter().filter_map(|(logits, class)| stats::cross_entropy(logits, *class));
        stats::mean(&losses.collect::<Vec<_>>()).unwrap_or(0.0)
    }
}
