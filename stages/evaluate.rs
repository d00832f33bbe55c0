//! `evaluate`: scores what was trained, split by split.
//!
//! The prediction of a node is the class of its largest logit; ties go to the lowest class. On the nodes of each part:
//! accuracy; macro-F1, the mean F1 over the classes that occur there as truth or prediction; and the mean
//! cross-entropy, in f64. A part without nodes scores 0 everywhere, with `nodes: 0` to tell it apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params;
use crate::contract::{Artifact, Job, Slot, Stage, StageError};
use crate::kinds::{Metrics, Nodes, Part, PartScore, SplitScores, Splits, Trained, TrainedSplit};
use crate::math::stats;

/// Parameters of `evaluate`: none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {}

impl params::Params for Params {}

/// The stage.
pub struct Evaluate;

impl Stage for Evaluate {
    const NAME: &'static str = "evaluate";
    const ABOUT: &'static str = "Scores a trained model on the parts of every split";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] =
        &[Slot::one("trained", Trained::KIND), Slot::one("nodes", Nodes::KIND), Slot::one("splits", Splits::KIND)];
    type Params = Params;
    type Output = Metrics;

    fn run(_: &Params, job: &Job) -> Result<Metrics, StageError> {
        job.check_cancelled()?;
        let (trained, nodes): (Trained, Nodes) = (job.input("trained")?, job.input("nodes")?);
        evaluate(&trained, &nodes.labels, nodes.classes, &job.input("splits")?)
    }
}

fn evaluate(trained: &Trained, labels: &[u32], classes: usize, splits: &Splits) -> Result<Metrics, StageError> {
    let nodes = labels.len();
    let pairs = [
        ("nodes", "nodes", trained.nodes, nodes),
        ("classes", "nodes", trained.classes, classes),
        ("splits", "splits", trained.splits.len(), splits.len()),
        ("nodes", "splits", trained.nodes, splits.parts.first().map_or(nodes, Vec::len)),
    ];
    for (what, slot, found, expected) in pairs {
        if found != expected {
            return Err(StageError::unusable(
                format!("`trained` has {found} {what}, but `{slot}` has {expected}"),
                "wire the same `nodes` and `splits` as in training",
            ));
        }
    }
    let scored = trained.splits.iter().zip(&splits.parts).enumerate();
    let scores: Result<_, _> = scored.map(|(i, (split, parts))| score(i, split, parts, labels, classes)).collect();
    Ok(Metrics { splits: scores? })
}

fn score(
    index: usize,
    split: &TrainedSplit,
    parts: &[Part],
    labels: &[u32],
    classes: usize,
) -> Result<SplitScores, StageError> {
    if let Some(at) = split.logits.iter().position(|z| !z.is_finite()) {
        let what = format!("a logit of node {} in split {index} is not finite", at / classes.max(1));
        return Err(StageError::numeric(what, "train with a lower learning rate"));
    }
    let (train, _) = score_part(Part::Train, split, parts, labels, classes);
    let (val, _) = score_part(Part::Val, split, parts, labels, classes);
    let (test, confusion) = score_part(Part::Test, split, parts, labels, classes);
    Ok(SplitScores { best_epoch: split.best_epoch, train, val, test, confusion })
}

/// Scores of a part, and its nodes by true class (row) and predicted class (column).
fn score_part(
    part: Part,
    split: &TrainedSplit,
    parts: &[Part],
    labels: &[u32],
    classes: usize,
) -> (PartScore, Vec<Vec<u32>>) {
    let mut confusion = vec![vec![0u32; classes]; classes];
    let mut losses = Vec::new();
    let rows = split.logits.chunks_exact(classes.max(1));
    for ((logits, label), _) in rows.zip(labels).zip(parts).filter(|(_, p)| **p == part) {
        let truth = *label as usize;
        confusion[truth][stats::argmax(logits)] += 1;
        losses.extend(stats::cross_entropy(logits, truth));
    }
    let hits: u32 = (0..classes).map(|c| confusion[c][c]).sum();
    #[expect(clippy::cast_precision_loss, reason = "a number of nodes is below 2^32")]
    let accuracy = f64::from(hits) / losses.len().max(1) as f64;
    let loss = stats::mean(&losses).unwrap_or(0.0);
    (PartScore { accuracy, macro_f1: stats::macro_f1(&confusion), loss, nodes: losses.len() }, confusion)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::contract::InputDir;
    use crate::kinds::{Features, Matrix};

    /// Five nodes, three classes: predictions 0, 1, 1 (a tie), 0, 2.
    fn trained() -> Trained {
        let logits = vec![2.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 3.0, 3.0, 9.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let split = TrainedSplit { best_epoch: 3, logits, ..TrainedSplit::default() };
        Trained { nodes: 5, classes: 3, splits: vec![split] }
    }

    const LABELS: [u32; 5] = [0, 1, 2, 1, 2];

    fn splits(parts: [Part; 5]) -> Splits {
        Splits { parts: vec![parts.to_vec()] }
    }

    #[test]
    fn scores_of_a_small_example_are_those_worked_out_by_hand() {
        use Part::{Test, Train, Val};
        let metrics = evaluate(&trained(), &LABELS, 3, &splits([Train, Test, Test, Test, Val])).unwrap();
        let scores = &metrics.splits[0];
        assert_eq!(scores.best_epoch, 3);
        // Test nodes 1, 2, 3: truth 1, 2, 1; prediction 1, 1 (the lower of a tie), 0.
        assert_eq!(scores.confusion, [[0, 0, 0], [1, 1, 0], [0, 1, 0]]);
        assert_eq!((scores.test.nodes, scores.test.accuracy), (3, 1.0 / 3.0));
        // F1: class 0 is 0, class 1 is 2·1/(2 + 2), class 2 is 0.
        assert!((scores.test.macro_f1 - 0.5 / 3.0).abs() < 1e-15);
        // −log softmax: node 1 log(e + 2) − 1; node 2 log(2e³ + e⁻¹) − 3; node 3 log(e⁹ + e + 1) − 1.
        let e = std::f64::consts::E;
        let expected =
            ((e + 2.0).ln() - 1.0) + ((2.0 * e.powi(3) + 1.0 / e).ln() - 3.0) + ((e.powi(9) + e + 1.0).ln() - 1.0);
        assert!((scores.test.loss - expected / 3.0).abs() < 1e-12);
        assert_eq!((scores.train.accuracy, scores.train.macro_f1, scores.val.accuracy), (1.0, 1.0, 1.0));
    }

    #[test]
    fn an_empty_part_scores_zero_of_no_nodes() {
        let metrics = evaluate(&trained(), &LABELS, 3, &splits([Part::Train; 5])).unwrap();
        let zero = PartScore { accuracy: 0.0, macro_f1: 0.0, loss: 0.0, nodes: 0 };
        assert_eq!((metrics.splits[0].val, metrics.splits[0].test), (zero, zero));
    }

    #[test]
    fn inputs_of_different_graphs_are_refused() {
        let parts = splits([Part::Train; 5]);
        let error = evaluate(&trained(), &LABELS[..4], 3, &parts).unwrap_err();
        assert_eq!(error.to_string(), "`trained` has 5 nodes, but `nodes` has 4");
        assert!(evaluate(&trained(), &LABELS, 4, &parts).is_err());
        let two = Splits { parts: vec![parts.parts[0].clone(); 2] };
        let error = evaluate(&trained(), &LABELS, 3, &two).unwrap_err();
        assert_eq!(error.to_string(), "`trained` has 1 splits, but `splits` has 2");
    }

    #[test]
    fn a_logit_that_is_not_finite_is_a_numeric_error() {
        let mut broken = trained();
        broken.splits[0].logits[7] = f32::NAN;
        let error = evaluate(&broken, &LABELS, 3, &splits([Part::Train; 5])).unwrap_err();
        assert_eq!(error.to_string(), "a logit of node 2 in split 0 is not finite");
    }

    #[test]
    fn the_stage_reads_its_three_slots() {
        let folder = tempfile::tempdir().unwrap();
        let dir = |slot: &'static str| {
            let dir = folder.path().join(slot);
            std::fs::create_dir(&dir).unwrap();
            InputDir { slot, key: String::new(), dir }
        };
        let inputs = [dir("trained"), dir("nodes"), dir("splits")];
        trained().save(&inputs[0].dir).unwrap();
        let features = Features::Dense(Matrix { rows: 5, cols: 1, data: vec![0.0; 5] });
        Nodes { features, labels: LABELS.to_vec(), classes: 3 }.save(&inputs[1].dir).unwrap();
        splits([Part::Test; 5]).save(&inputs[2].dir).unwrap();
        let cancel = AtomicBool::new(false);
        let job = Job { inputs: &inputs, ..Job::alone(&cancel) };
        assert_eq!(Evaluate::run(&Params {}, &job).unwrap().splits[0].test.nodes, 5);
    }
}
