//! Splits that train together against splits that train alone, by a plain loop that is written here: the same bytes for
//! any company, any grouping and any number of threads, of all models.

use std::sync::Arc;

use candle_core::DType;

use super::*;
use crate::models::testing::{Built, build_by_name, flat, zoo};
use crate::models::{Model, Pass, Sides, Streams};
use crate::optim::{Adam, Settings, StepDecay, WindowedStop};

const SPLITS: usize = 5;

/// Steps so large that the validation loss soon rises, in every split at another time.
fn restless(model: &str, epochs: usize) -> Params {
    Params { epochs, lr: 0.03, lr_decay_every: 4, lr_decay: 0.9, window: 4, select: Select::ValLoss, ..params(model) }
}

/// The graph of the tests as a model wants it, with dense and with sparse features, which say something about the labels.
fn graphs(model: &str) -> [(Operator, Nodes, Spectrum); 2] {
    [false, true].map(|sparse| {
        let (operator, mut nodes, spectrum) = testing::artifacts_with(model != "bernnet");
        if sparse {
            nodes.features = Features::Sparse(crate::math::sparse_product::tests::random(testing::NODES, 20, 0.2, 8));
        }
        let rows = nodes.features.to_dense();
        nodes.labels = (0..nodes.len()).map(|i| u32::from(rows.row(i)[..3].iter().sum::<f32>() > 0.1)).collect();
        (operator, nodes, spectrum)
    })
}

fn weights_of(built: &Built<dyn Model>) -> Vec<Vec<f32>> {
    built.weights.iter().map(|w| flat(&w.param.tensor()).into_iter().map(|x| x as f32).collect()).collect()
}

/// Trains one split as the documentation of the stage says it: step, evaluation alone, choice, stop.
fn by_plain_loop(p: &Params, variant: &Value, view: &GraphView, labels: &[u32], split: usize) -> TrainedSplit {
    let (all, labels): (_, Arc<[u32]>) = (splits(SPLITS), labels.into());
    let targets = |part| Targets::new(labels.clone(), vec![all.nodes(split, part)]);
    let (train, val) = (targets(Part::Train), targets(Part::Val));
    let mut built = build_by_name(&p.model, variant, view, vec![Streams::new(p.seed, split)]);
    let mut adams: Vec<_> = built.weights.iter().map(|w| Adam::new(w.rule)).collect();
    let schedule = StepDecay { lr: p.lr, factor: p.lr_decay, every: p.lr_decay_every };
    let (mut stop, mut history) = (WindowedStop::new(p.window), Vec::<Epoch>::new());
    let mut kept: Option<(usize, Vec<f32>, Vec<Vec<f32>>)> = None;
    for epoch in 0..p.epochs {
        let mut pass = Pass::new(Sides::Train, &mut built.streams);
        let logits = built.model.forward(view, &mut pass).unwrap().main().clone();
        let (losses, gradient) = train.loss(&logits).unwrap();
        let (mut train_loss, mut from) = (losses[0], vec![(logits, gradient)]);
        if let Some(penalty) = built.model.penalty().unwrap() {
            train_loss += flat(&penalty)[0];
            from.push((penalty.clone(), penalty.ones_like().unwrap()));
        }
        let gradients = pass.back(from).unwrap();
        let settings = Settings { lr: p.lr, lr_now: schedule.at(epoch), weight_decay: p.weight_decay };
        for (weight, adam) in built.weights.iter().zip(&mut adams) {
            if let Some(gradient) = gradients.of(&weight.param.tensor()).unwrap() {
                adam.step(&weight.param.var(), &gradient, settings).unwrap();
            }
        }
        let logits = testing::eval(&*built.model, view, 1);
        let score = val.scores(&logits).unwrap()[0];
        let best = history.iter().map(|e| e.val_loss).fold(f64::INFINITY, f64::min);
        history.push(Epoch { train_loss, val_loss: score.loss, val_accuracy: score.accuracy });
        if score.loss < best {
            let logits = flat(&logits).into_iter().map(|x| x as f32).collect();
            kept = Some((epoch, logits, weights_of(&built)));
        }
        if stop.observe(score.loss) {
            break;
        }
    }
    let (best_epoch, logits, values) = kept.unwrap();
    let shape = |w: &crate::models::Named| w.param.tensor().dims()[1..].to_vec();
    let named = built.weights.iter().zip(values).map(|(w, values)| (w.name.to_owned(), (shape(w), values)));
    TrainedSplit { best_epoch, logits, weights: named.collect(), history }
}

/// Trains groups of splits as batches.
fn in_groups(
    p: &Params,
    variant: &Value,
    graph: &(Operator, Nodes, Spectrum),
    groups: &[&[usize]],
) -> Vec<TrainedSplit> {
    let (operator, nodes, spectrum) = graph;
    let cancel = AtomicBool::new(false);
    let (job, splits) = (Job { chosen: chosen(&p.model, variant), ..Job::alone(&cancel) }, splits(SPLITS));
    let run = Run {
        params: p,
        model: job.chosen().unwrap(),
        data: GraphView::new(operator, nodes, Some(spectrum), DType::F32).unwrap(),
        labels: &nodes.labels,
        splits: &splits,
        job: &job,
        epochs_done: AtomicU64::new(0),
        first_failed: AtomicUsize::new(usize::MAX),
    };
    let mut all: Vec<_> = groups.iter().flat_map(|g| Batch::new(&run, g).and_then(Batch::train).unwrap()).collect();
    all.sort_by_key(|(split, _)| *split);
    all.into_iter().map(|(_, result)| result.unwrap()).collect()
}

#[test]
fn any_company_gives_the_bytes_of_each_split_alone() {
    for (model, variant) in zoo() {
        let p = restless(model, 20);
        for graph in graphs(model) {
            let (operator, nodes, spectrum) = &graph;
            let view = GraphView::new(operator, nodes, Some(spectrum), DType::F32).unwrap();
            let alone: Vec<_> =
                (0..SPLITS).map(|split| by_plain_loop(&p, &variant, &view, &nodes.labels, split)).collect();
            let lengths: Vec<_> = alone.iter().map(|split| split.history.len()).collect();
            let stop_together = lengths.iter().all(|l| *l == lengths[0]);
            assert!(!stop_together || matches!(nodes.features, Features::Sparse(_)), "{model} {variant}: {lengths:?}");
            for threads in [1, 2, 3, 9] {
                let cancel = AtomicBool::new(false);
                let job = Job { threads, chosen: chosen(model, &variant), ..Job::alone(&cancel) };
                let trained = train(&p, operator, nodes, &splits(SPLITS), Some(spectrum), &job).unwrap();
                // `==` on floats is meant: bytes must agree.
                assert!(trained.splits == alone, "{model} {variant} with {threads} threads");
            }
            for groups in [&[&[0, 2, 4][..], &[1, 3]][..], &[&[4, 1, 3, 0, 2]], &[&[3], &[0, 1, 2, 4]]] {
                assert!(in_groups(&p, &variant, &graph, groups) == alone, "{model} {variant} in {groups:?}");
            }
        }
    }
}

#[test]
fn stored_weights_give_the_stored_logits() {
    for (model, variant) in zoo() {
        for (operator, nodes, spectrum) in graphs(model) {
            let cancel = AtomicBool::new(false);
            let job = Job { chosen: chosen(model, &variant), ..Job::alone(&cancel) };
            let trained =
                train(&restless(model, 12), &operator, &nodes, &splits(SPLITS), Some(&spectrum), &job).unwrap();
            let view = GraphView::new(&operator, &nodes, Some(&spectrum), DType::F32).unwrap();
            for split in &trained.splits {
                let built = build_by_name(model, &variant, &view, testing::streams(1));
                for weight in &built.weights {
                    let (shape, values) = &split.weights[weight.name];
                    let shape = [&[1], shape.as_slice()].concat();
                    weight.param.set(&Tensor::from_slice(values, shape, &Device::Cpu).unwrap()).unwrap();
                }
                let logits: Vec<f32> = testing::eval(&*built.model, &view, 1).flatten_all().unwrap().to_vec1().unwrap();
                assert_eq!(logits, split.logits, "{model} {variant}");
            }
        }
    }
}

#[test]
fn batches_hold_every_split_once_and_none_is_too_large() {
    for splits in [1, 2, 7, 10, 23] {
        for threads in [1, 2, 3, 9, 40] {
            for largest in [1, 3, 10, 100] {
                let batches = batches(splits, threads, largest);
                assert_eq!(batches.concat(), (0..splits).collect::<Vec<_>>());
                assert!(batches.iter().all(|b| (1..=largest).contains(&b.len())));
                assert!(batches.len() >= threads.min(splits), "no thread is idle while another has two splits");
                assert!(batches.len() <= threads.max(splits.div_ceil(largest)));
            }
        }
    }
}

#[test]
fn a_batch_is_cut_where_its_activations_are_large() {
    let (operator, nodes, _) = testing::artifacts();
    let cancel = AtomicBool::new(false);
    let variant = json!({"hidden": 65536});
    let job = Job { chosen: chosen("mlp", &variant), ..Job::alone(&cancel) };
    let (splits, params) = (splits(2), params("mlp"));
    let run = Run {
        params: &params,
        model: job.chosen().unwrap(),
        data: GraphView::new(&operator, &nodes, None, DType::F32).unwrap(),
        labels: &nodes.labels,
        splits: &splits,
        job: &job,
        epochs_done: AtomicU64::new(0),
        first_failed: AtomicUsize::new(usize::MAX),
    };
    assert_eq!(run.largest_batch().unwrap(), ACTIVATIONS / (testing::NODES * 65536 * 4));
}
