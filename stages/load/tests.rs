use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};

use super::*;
use crate::contract::{Artifact, StageDef};
use crate::formats::FORMATS;
use crate::formats::testing::with_job;
use crate::inspect::testing::graph;
use crate::kinds::{Part, Splits};

fn load(written: &Value) -> Graph {
    let stage = StageDef::of::<Load>();
    let checked = stage.check(&crate::built_in(), written.as_object().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    stage.run(&checked, &Job::alone(&cancel), folder.path()).unwrap();
    Graph::load(folder.path()).unwrap()
}

#[test]
fn the_format_names_the_reader_and_its_parameters_stand_beside_it() {
    let graph = load(&json!({"format": "csbm", "nodes": 60, "features": 3, "seed": 4}));
    assert_eq!((graph.nodes(), graph.features.cols(), graph.classes), (60, 3, 2));
}

#[test]
fn an_unknown_format_is_told_the_nearest() {
    let problems =
        StageDef::of::<Load>().check(&crate::built_in(), json!({"format": "csmb"}).as_object().unwrap()).unwrap_err();
    assert_eq!(problems[0].help.as_deref(), Some("did you mean `csbm`?"));
}

#[test]
fn formats_have_unique_names_and_a_sentence() {
    let mut names: Vec<_> = FORMATS.iter().map(|f| f.variant.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FORMATS.len());
    assert!(FORMATS.iter().all(|f| !f.variant.about.is_empty() && !f.variant.about.ends_with('.')));
}

#[test]
fn no_format_has_a_parameter_with_the_name_of_one_of_loads_own() {
    let names = |schema: &Value| schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let own = names(&StageDef::of::<Load>().own_schema(&crate::built_in()));
    assert_eq!(own, ["format", "expect", "masks", "filter"]);
    for format in FORMATS {
        assert!(names(format.variant.schema()).iter().all(|name| !own.contains(name)), "{}", format.variant.name);
    }
}

/// Six nodes: 1 and 2 are clones of 0 (both link to 3 and 4, no node links to them), 3 ⇄ 4 twice, 5 with a loop.
fn six() -> Graph {
    let edges = [(0, 3), (0, 4), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4), (4, 3), (3, 4), (5, 5), (5, 0)];
    graph(&edges, vec![0, 0, 0, 1, 1, 1], 2)
}

fn params(written: &Value) -> Params {
    let mut all = json!({"format": "csbm"});
    all.as_object_mut().unwrap().extend(written.as_object().unwrap().clone());
    let params: Params = serde_json::from_value(all).unwrap();
    params::Params::check(&params).unwrap();
    params
}

#[test]
fn a_graph_that_is_what_was_expected_passes() {
    // 10 distinct of 11 stored edges; one loop; 0–3 0–4 1–3 1–4 2–3 2–4 3–4 0–5, of which 3–4 joins one class.
    let expect = json!({"expect": {
        "nodes": 6, "features": 1, "classes": 2, "edges-distinct": 10, "self-loops": 1, "edges-undirected": 8,
        "unlabelled": 0, "splits": 0, "edge-homophily": 0.1254,
    }});
    assert_eq!(finish(&params(&expect), six(), "").unwrap(), six());
    assert_eq!(finish(&params(&json!({})), six(), "").unwrap(), six());
}

#[test]
fn every_difference_is_told_at_once_with_both_numbers() {
    let expect = json!({"expect": {
        "nodes": 7, "features": 2, "classes": 3, "edges-distinct": 11, "self-loops": 2, "edges-undirected": 9,
        "unlabelled": 1, "splits": 1, "split-sizes": [2, 2, 2], "edge-homophily": 0.1256,
    }});
    let error = finish(&params(&expect), six(), "edges.txt").unwrap_err();
    assert_eq!(
        error.to_string(),
        "edges.txt: not what `expect` says: nodes 6, expected 7; features 1, expected 2; classes 2, expected 3; \
         edges-distinct 10, expected 11; self-loops 1, expected 2; edges-undirected 8, expected 9; unlabelled 0, \
         expected 1; splits 0, expected 1; edge-homophily 0.1250, expected 0.1256"
    );
    assert!(error.hint().unwrap().contains("`ppgnn data verify`"));
}

#[test]
fn sizes_of_splits_are_expected_of_all_or_of_each() {
    let [tr, va, te, no] = [Part::Train, Part::Val, Part::Test, Part::None];
    let mut graph = six();
    graph.masks = Some(Splits { parts: vec![vec![tr, tr, tr, va, te, te], vec![tr, tr, va, va, te, no]] });
    let told = |sizes: Value| {
        let error = finish(&params(&json!({"expect": {"split-sizes": sizes}})), graph.clone(), "x").err()?;
        error.to_string().strip_prefix("x: not what `expect` says: ").map(str::to_owned)
    };
    assert_eq!(told(json!([[3, 1, 2], [2, 2, 1]])), None);
    assert_eq!(told(json!([3, 1, 2])).unwrap(), "split 1 has 2/2/1 (train/val/test), expected 3/1/2");
    assert_eq!(told(json!([[3, 1, 2]])).unwrap(), "splits 2, expected 1");
    graph.masks = None;
    let error = finish(&params(&json!({"expect": {"split-sizes": [3, 1, 2]}})), graph.clone(), "x").unwrap_err();
    assert_eq!(error.to_string(), "x: not what `expect` says: splits 0, expected at least one");
}

#[test]
fn drawn_splits_are_expected_like_those_of_a_file() {
    let drawn = json!({
        "masks": {"train": 1, "val": 1, "count": 2}, "expect": {"splits": 2, "split-sizes": [2, 2, 2]}
    });
    assert_eq!(params(&drawn).masks, Some(Draw { train: 1, val: 1, count: 2, seed: 12345 }));
    let graph = finish(&params(&drawn), six(), "").unwrap();
    assert_eq!(graph.masks.as_ref().map(Splits::len), Some(2));
    let error = finish(&params(&drawn), graph, "graph.npz").unwrap_err();
    assert_eq!(error.to_string(), "`masks` draws splits, but graph.npz has 2 of its own");
}

#[test]
fn duplicates_are_taken_away_after_the_check() {
    let both = json!({"filter": "duplicates", "expect": {"nodes": 6}});
    let kept = finish(&params(&both), six(), "").unwrap();
    // 0 stands for 1 and 2; 3, 4 and 5 become 1, 2 and 3.
    assert_eq!(kept.edges, [(0, 1), (0, 2), (1, 2), (2, 1), (1, 2), (3, 3), (3, 0)]);
    assert_eq!(kept.labels, [0, 1, 1, 1]);
}

#[test]
fn a_generated_graph_is_checked_too_and_named_by_its_format() {
    let written = json!({"format": "csbm", "nodes": 60, "features": 3, "expect": {"nodes": 61}});
    let stage = StageDef::of::<Load>();
    let checked = stage.check(&crate::built_in(), written.as_object().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = with_job(|job| stage.run(&checked, job, folder.path())).unwrap_err();
    assert_eq!(error.to_string(), "csbm: not what `expect` says: nodes 60, expected 61");
}

#[test]
fn the_first_file_of_the_parameters_is_the_place() {
    let format = FORMATS.iter().find(|f| f.variant.name == "heterophilous-npz").unwrap();
    let chosen = Chosen { row: format, params: &json!({"path": "folder/graph.npz"}) };
    assert_eq!(place(chosen), "folder/graph.npz");
}

#[test]
fn what_no_file_can_hold_is_refused_before_anything_runs() {
    let problems = |written: Value| {
        let mut all = json!({"format": "csbm"});
        all.as_object_mut().unwrap().extend(written.as_object().unwrap().clone());
        let problems = StageDef::of::<Load>().check(&crate::built_in(), all.as_object().unwrap()).unwrap_err();
        problems.into_iter().map(|p| p.message).collect::<Vec<_>>()
    };
    let found = problems(json!({"masks": {"train": 0, "count": 100_001}, "expect": {"edge-homophily": 1.5}}));
    assert_eq!(
        found,
        [
            "`masks.train`: expected a whole number at least 1, found `0`",
            "`masks.count`: expected a whole number at least 1 and at most 100000, found `100001`",
            "`expect.edge-homophily`: expected a number at least 0 and at most 1, found `1.5`",
        ]
    );
    let found = problems(json!({"expect": {"splits": 3, "split-sizes": [[1, 1, 1]]}}));
    assert_eq!(found, ["`expect.split-sizes` has 1 entries, but `splits` is 3"]);
    let found = problems(json!({"expect": {"split-sizes": [1, 2]}}));
    let wanted = "[train, val, test] or a list with one such per split";
    assert_eq!(found, [format!("`expect.split-sizes`: expected {wanted}, found a list of 2")]);
    assert_eq!(problems(json!({"expect": {"node": 3}})), ["unknown parameter `expect.node`"]);
    assert!(problems(json!({"filter": "duplicate"}))[0].contains("did you mean `duplicates`?"));
}

#[test]
fn more_classes_than_nodes_are_a_mistake_in_the_labels() {
    let error = finish(&params(&json!({})), graph(&[(0, 1)], vec![0, 60_000], 60_001), "my.npz").unwrap_err();
    assert_eq!(error.to_string(), "my.npz: labels go up to 60000, but there are 2 nodes");
}
