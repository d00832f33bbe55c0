//! Splits that train together against splits that train alone, by a plain loop that is written here: the same bytes for
//! any company, any grouping and any number of threads, of all models.

use super::by_hand::by_plain_loop;
use super::*;
use crate::models::Model;
use crate::models::testing::{Built, build_by_name, zoo};

pub(super) const SPLITS: usize = 5;

/// Steps so large that the validation loss soon rises, in every split at another time.
pub(super) fn restless(model: &str, epochs: usize) -> Params {
    Params {
        epochs,
        lr: 0.03,
        lr_decay_every: 4,
        lr_decay: 0.9,
        window: 4,
        select: ValMetric::of("loss"),
        ..params(model)
    }
}

/// The graph of the tests as a model wants it, with dense and with sparse features, which say something about the labels.
pub(super) fn graphs(model: &str) -> [TestGraph; 2] {
    [false, true].map(|sparse| {
        let (operator, mut nodes, spectrum) = testing::artifacts_with(testing::has_loops(model));
        if sparse {
            nodes.features = Features::Sparse(crate::math::testing::random(testing::NODES, 20, 0.2, 8));
        }
        let rows = nodes.features.to_dense();
        nodes.labels = (0..nodes.len()).map(|i| u32::from(rows.row(i)[..3].iter().sum::<f32>() > 0.1)).collect();
        TestGraph::of((operator, nodes, spectrum))
    })
}

/// Trains groups of splits as batches.
fn in_groups(p: &Params, variant: &Value, graph: &TestGraph, groups: &[&[usize]]) -> Vec<TrainedSplit> {
    let cancel = AtomicBool::new(false);
    let (job, splits) = (Job { chosen: chosen(&p.model, variant), ..Job::alone(&cancel) }, splits(SPLITS));
    let run = Run::new(p, graph.parts(), &splits, &job).unwrap();
    groups.iter().for_each(|g| Batch::new(&run, g).unwrap().train(&mut run.points.clock()).unwrap());
    let mut all = std::mem::take(&mut *lock(&run.finished));
    all.sort_by_key(|finished| finished.split);
    all.into_iter().map(|finished| finished.result.unwrap()).collect()
}

#[test]
fn any_company_gives_the_bytes_of_each_split_alone() {
    for (model, variant) in zoo() {
        let p = restless(model, 20);
        for graph in graphs(model) {
            let view = GraphView::new(graph.parts(), DType::F32, Device::Cpu).unwrap();
            let all = splits(SPLITS);
            let one = |split| by_plain_loop(&p, &variant, &view, &graph.nodes.labels, &all, split);
            let alone: Vec<_> = (0..SPLITS).map(one).collect();
            let lengths: Vec<_> = alone.iter().map(|split| split.history.len()).collect();
            let stop_together = lengths.iter().all(|l| *l == lengths[0]);
            assert!(
                !stop_together || matches!(graph.nodes.features, Features::Sparse(_)),
                "{model} {variant}: {lengths:?}"
            );
            for threads in [1, 2, 3, 9] {
                let trained = train_on(&graph, &p, &variant, &all, threads).unwrap();
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
        for graph in graphs(model) {
            let trained = train_on(&graph, &restless(model, 12), &variant, &splits(SPLITS), 1).unwrap();
            let view = GraphView::new(graph.parts(), DType::F32, Device::Cpu).unwrap();
            for split in &trained.splits {
                let built = build_by_name(model, &variant, &view, testing::streams(1));
                assert_eq!(logits_of(&built, split, &view), split.logits, "{model} {variant}");
            }
        }
    }
}

/// The logits that a model gives with the stored weights of a split.
pub(super) fn logits_of(built: &Built<dyn Model>, split: &TrainedSplit, view: &GraphView) -> Vec<f32> {
    for weight in &built.weights {
        let (shape, values) = &split.weights[&*weight.name];
        let shape = [&[1], shape.as_slice()].concat();
        weight.param.set(&Tensor::from_slice(values, shape, &Device::Cpu).unwrap()).unwrap();
    }
    testing::eval(&*built.model, view, 1).flatten_all().unwrap().to_vec1().unwrap()
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
fn a_batch_is_cut_where_the_model_says_that_its_activations_are_large() {
    let (graph, cancel) = (TestGraph::of(testing::artifacts()), AtomicBool::new(false));
    for (model, variant, widest) in [
        ("lr", json!({}), 2),
        ("mlp", json!({"hidden": 65536}), 65536),
        ("gcn", json!({"hidden": 1000}), 2000),
        ("pp-gnn", json!({"hidden": 1000, "order": 5000}), 1000),
        ("pp-gnn", json!({"hidden": 1000, "linear": true}), 2),
    ] {
        let job = Job { chosen: chosen(model, &variant), ..Job::alone(&cancel) };
        let (splits, params) = (splits(2), params(model));
        let run = Run::new(&params, graph.parts(), &splits, &job).unwrap();
        let expected = ACTIVATIONS / (testing::NODES * widest * 4);
        assert_eq!(run.largest_batch().unwrap(), expected.max(1), "{model} {variant}");
    }
}
