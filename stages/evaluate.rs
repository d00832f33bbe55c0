//! `evaluate`: scores what was trained, split by split.
//!
//! On the nodes of each part, every score of the table of scores ([`ScoreDef`]). What the nodes of a part do not define is
//! stored as undefined, with the reason. With `test: false` test nodes are left alone: a trial of a search that was not chosen
//! has no scores that anybody could choose by mistake.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Artifact, Estimate, Job, Known, Memory, Size, Sizes, Slot, Stage, StageError, Term, Uses, Work};
use crate::kinds::{
    Metrics, Nodes, Part, PartScore, Predicted, ScoreDef, SplitScores, Splits, Trained, TrainedSplit, size, suspicions,
};

/// Parameters of `evaluate`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Whether test nodes are scored too.
    #[serde(skip_serializing_if = "std::clone::Clone::clone")]
    pub test: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { test: true }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct Evaluate;

impl Stage for Evaluate {
    const NAME: &'static str = "evaluate";
    const ABOUT: &'static str = "Scores a trained model on the parts of every split";
    const VERSION: u32 = 2;
    const INPUTS: &'static [Slot] =
        &[Slot::one("trained", Trained::KIND), Slot::one("nodes", Nodes::KIND), Slot::one("splits", Splits::KIND)];
    const USES: Option<Uses> = Some(Uses::of::<ScoreDef>(|_, _| ()));
    const TERMS: &'static [Term] = &[
        Term::alone("frames", 3e-3),
        Term::alone("scores", 2.5e-8),
        Term::alone("weights", 1.2e-9),
        Term::alone("values", 1e-9),
    ];
    type Params = Params;
    type Output = Metrics;

    fn estimate(_: &Params, known: &Known) -> Estimate {
        let (trained, nodes) = (known.sizes("trained"), known.sizes("nodes"));
        let splits = trained.or_guess(size::SPLITS, 10.0);
        let logits = trained.or_guess(size::NODES, 5000.0) * trained.or_guess(size::CLASSES, 5.0) * splits;
        let weights = trained.or_guess(size::WEIGHTS, 1e5) * splits;
        Estimate {
            sizes: Sizes::default().with(size::SPLITS, splits),
            work: Work::default()
                .and("frames", Size::ONE)
                .and("scores", logits)
                .and("weights", weights)
                .and("values", nodes.or_guess(size::STORED, 1e5))
                .shared_by(1),
            memory: Memory::default()
                .and(size::feature_bytes(&nodes))
                .and_for(logits * 16 + weights * 8, "train on fewer splits at a time (`count` of `split`)"),
            notes: Vec::new(),
        }
    }

    fn run(params: &Params, job: &Job) -> Result<Metrics, StageError> {
        job.check_cancelled()?;
        let (trained, nodes): (Trained, Nodes) = (job.input("trained")?, job.input("nodes")?);
        let mut splits: Splits = job.input("splits")?;
        if !params.test {
            splits.parts.iter_mut().flatten().filter(|part| **part == Part::Test).for_each(|part| *part = Part::None);
        }
        let metrics = evaluate(&job.used(), &trained, &nodes.labels, nodes.classes, &splits)?;
        suspicions(&metrics.splits.iter().collect::<Vec<_>>()).iter().for_each(|what| job.warn(what));
        Ok(metrics)
    }
}

fn evaluate(
    rows: &[&ScoreDef],
    trained: &Trained,
    labels: &[u32],
    classes: usize,
    splits: &Splits,
) -> Result<Metrics, StageError> {
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
    let scores = scored.map(|(index, (split, parts))| {
        check_finite(index, split, classes)?;
        let scores = score(rows, split, parts, labels, classes);
        for (part, name) in [(&scores.train, "training"), (&scores.val, "validation"), (&scores.test, "test")] {
            let of_number = |(score, value): &(String, Result<f64, _>)| Some((score.clone(), *value.as_ref().ok()?));
            if let Some((score, value)) = part.scores.iter().filter_map(of_number).find(|(_, v)| !v.is_finite()) {
                let what = format!("metric `{score}` is `{value}` on the {name} nodes of split {index}");
                return Err(StageError::numeric(what, "a metric must be finite, or undefined with the reason"));
            }
        }
        Ok(scores)
    });
    Ok(Metrics { splits: scores.collect::<Result<_, StageError>>()? })
}

fn check_finite(index: usize, split: &TrainedSplit, classes: usize) -> Result<(), StageError> {
    let Some(at) = split.logits.iter().position(|z| !z.is_finite()) else { return Ok(()) };
    let what = format!("a logit of node {} in split {index} is not finite", at / classes.max(1));
    Err(StageError::numeric(what, "train with a lower learning rate"))
}

fn score(rows: &[&ScoreDef], split: &TrainedSplit, parts: &[Part], labels: &[u32], classes: usize) -> SplitScores {
    let predicted = |part: Part| {
        let nodes = split.logits.chunks_exact(classes.max(1)).zip(labels).zip(parts).filter(|(_, p)| **p == part);
        Predicted::new(nodes.map(|((logits, label), _)| (logits, *label as usize)).collect(), classes)
    };
    let scored = |part: &Predicted| PartScore {
        scores: rows.iter().map(|row| (row.variant.name.to_owned(), row.score(part))).collect(),
        nodes: part.nodes.len(),
    };
    let test = predicted(Part::Test);
    SplitScores {
        best_epoch: split.best_epoch,
        train: scored(&predicted(Part::Train)),
        val: scored(&predicted(Part::Val)),
        test: scored(&test),
        confusion: test.confusion,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::contract::{InputDir, StageDef};
    use crate::kinds::{Features, Matrix, SCORES};

    /// Evaluates with the built-in scores.
    fn evaluate(trained: &Trained, labels: &[u32], classes: usize, splits: &Splits) -> Result<Metrics, StageError> {
        super::evaluate(&SCORES.iter().collect::<Vec<_>>(), trained, labels, classes, splits)
    }

    /// Five nodes, three classes: predictions 0, 1, 1 (a tie), 0, 2.
    fn trained() -> Trained {
        let logits = vec![2.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 3.0, 3.0, 9.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let split = TrainedSplit { best_epoch: Some(3), logits, ..TrainedSplit::default() };
        Trained { nodes: 5, classes: 3, splits: vec![split], watched: vec![] }
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
        assert_eq!(scores.best_epoch, Some(3));
        // Test nodes 1, 2, 3: truth 1, 2, 1; prediction 1, 1 (the lower of a tie), 0.
        assert_eq!(scores.confusion, [[0, 0, 0], [1, 1, 0], [0, 1, 0]]);
        let of = |part: &PartScore, name: &str| part.get(name).unwrap().clone().unwrap();
        assert_eq!((scores.test.nodes, of(&scores.test, "accuracy")), (3, 1.0 / 3.0));
        // F1: class 0 is 0, class 1 is 2·1/(2 + 2), class 2 is 0.
        assert!((of(&scores.test, "macro-f1") - 0.5 / 3.0).abs() < 1e-15);
        // −log softmax: node 1 log(e + 2) − 1; node 2 log(2e³ + e⁻¹) − 3; node 3 log(e⁹ + e + 1) − 1.
        let e = std::f64::consts::E;
        let expected =
            ((e + 2.0).ln() - 1.0) + ((2.0 * e.powi(3) + 1.0 / e).ln() - 3.0) + ((e.powi(9) + e + 1.0).ln() - 1.0);
        assert!((of(&scores.test, "loss") - expected / 3.0).abs() < 1e-12);
        let right = [of(&scores.train, "accuracy"), of(&scores.train, "macro-f1"), of(&scores.val, "accuracy")];
        assert_eq!(right, [1.0; 3]);
    }

    #[test]
    fn an_empty_part_has_no_scores_and_says_so() {
        let metrics = evaluate(&trained(), &LABELS, 3, &splits([Part::Train; 5])).unwrap();
        let why = || Err("there are no nodes".into());
        let scores = SCORES.iter().map(|row| (row.variant.name.to_owned(), why())).collect();
        let nothing = PartScore { scores, nodes: 0 };
        assert_eq!((&metrics.splits[0].val, &metrics.splits[0].test), (&nothing, &nothing));
    }

    #[test]
    fn what_is_undefined_stays_so_in_the_store() {
        use Part::{Test, Train, Val};
        let metrics = evaluate(&trained(), &LABELS, 3, &splits([Train, Test, Test, Test, Val])).unwrap();
        let auc = Err(crate::kinds::Undefined("no node is of class 0".into()));
        assert_eq!(metrics.splits[0].test.get("roc-auc"), Some(&auc));
        let folder = tempfile::tempdir().unwrap();
        metrics.save(folder.path()).unwrap();
        assert_eq!(Metrics::load(folder.path()).unwrap(), metrics);
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
            InputDir { slot, key: String::new(), dir, remarks: Vec::new() }
        };
        let inputs = [dir("trained"), dir("nodes"), dir("splits")];
        trained().save(&inputs[0].dir).unwrap();
        let features = Features::Dense(Matrix { rows: 5, cols: 1, data: vec![0.0; 5] });
        Nodes { features, labels: LABELS.to_vec(), classes: 3 }.save(&inputs[1].dir).unwrap();
        splits([Part::Test; 5]).save(&inputs[2].dir).unwrap();
        let cancel = AtomicBool::new(false);
        let job = Job { inputs: &inputs, ..Job::alone(&cancel) };
        let (stage, out) = (StageDef::of::<Evaluate>(), tempfile::tempdir().unwrap());
        let checked = stage.check(&crate::built_in(), &serde_json::Map::new()).unwrap();
        stage.run(&checked, &job, out.path()).unwrap();
        let test = Metrics::load(out.path()).unwrap().splits.remove(0).test;
        assert_eq!(test.nodes, 5);
        let names: Vec<_> = test.scores.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, SCORES.iter().map(|row| row.variant.name).collect::<Vec<_>>());
    }
}
