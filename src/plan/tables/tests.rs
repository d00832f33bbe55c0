//! Which runs belong to which cell.

use serde_json::{Value, json};

use crate::pipeline::{Data, FoundText, Key, Known, KnownDataset, Node, PipelineError, Source, Span};
use crate::plan::Plan;
use crate::plan::testing::{CHAIN, node, plan, plan_with, problems, registry};

const SWEEP: &str = "sweep: {axes: {load.size: [1, 2], train.seed: [3, 4]}}";

fn swept(table: &str) -> String {
    format!("{CHAIN}\n{SWEEP}\ntables: {{t: {{{table}}}}}")
}

/// A parameter of the table's node.
fn param(plan: &Plan, name: &str) -> Value {
    node(plan, "tabulate/t").params.all()[name].clone()
}

/// For each cell its row, its column, and the names of the runs of every candidate.
fn cells(plan: &Plan) -> Vec<Value> {
    let table = node(plan, "tabulate/t");
    let run = |at: &Value| {
        let edge = &table.inputs[usize::try_from(at.as_u64().unwrap()).unwrap()];
        plan.node(edge.node).name.point.join("/")
    };
    let cell = |cell: &Value| {
        let candidates = cell["candidates"].as_array().unwrap();
        let candidates = candidates.iter().map(|c| c.as_array().unwrap().iter().map(run).collect::<Vec<_>>());
        json!([cell["row"], cell["column"], candidates.collect::<Vec<_>>()])
    };
    param(plan, "cells").as_array().unwrap().iter().map(cell).collect()
}

#[test]
fn a_run_stands_in_the_row_and_column_of_its_point() {
    let plan = plan(&swept("rows: train.seed, columns: load.size"));
    assert_eq!((param(&plan, "rows"), param(&plan, "columns")), (json!(["3", "4"]), json!(["1", "2"])));
    assert_eq!((param(&plan, "row-title"), param(&plan, "column-title")), (json!("seed"), json!("size")));
    assert_eq!(param(&plan, "title"), "t");
    let expected = [
        json!([0, 0, [["size=1/seed=3"]]]),
        json!([0, 1, [["size=2/seed=3"]]]),
        json!([1, 0, [["size=1/seed=4"]]]),
        json!([1, 1, [["size=2/seed=4"]]]),
    ];
    assert_eq!(cells(&plan), expected);
    assert_eq!(plan.outputs.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["t"]);
}

#[test]
fn pooled_runs_are_one_candidate_and_picked_ones_are_several() {
    let pooled = plan(&swept("rows: load.size, columns: [], pool: train.seed"));
    let expected =
        [json!([0, 0, [["size=1/seed=3", "size=1/seed=4"]]]), json!([1, 0, [["size=2/seed=3", "size=2/seed=4"]]])];
    assert_eq!(cells(&pooled), expected);
    assert_eq!(param(&pooled, "pooled"), json!(["train.seed"]));
    let picked = plan(&swept("rows: load.size, columns: [], pick: val-accuracy").replace("train.seed", "train.size"));
    let expected =
        [json!([0, 0, [["size=1/size=3"], ["size=1/size=4"]]]), json!([1, 0, [["size=2/size=3"], ["size=2/size=4"]]])];
    assert_eq!(cells(&picked), expected);
    assert_eq!(param(&picked, "cells")[0]["labels"], json!(["size=3", "size=4"]));
    assert_eq!(param(&picked, "picked-from"), json!(["train.size"]));
    assert!(!node(&picked, "tabulate/t").params.all().contains_key("pooled"));
}

#[test]
fn neither_seeds_nor_data_are_picked_from() {
    let found = problems(&swept("rows: load.size, columns: [], pick: val-accuracy"));
    let seeds =
        "table `t` would show the best of several seeds: `train.seed` is neither a row nor a column, nor pooled";
    assert_eq!(found, [seeds]);
    let labelled = "sweep: {axes: {again: {a: {train.seed: 1}, b: {train.seed: 2}}}}";
    let text = format!("{CHAIN}\n{labelled}\ntables: {{t: {{rows: [], columns: [], pick: val-accuracy}}}}");
    assert_eq!(problems(&text).len(), 1);
    let found = problems(&swept("rows: [], columns: [], pool: train.seed, pick: val-accuracy"));
    let data = "table `t` would show the best of several data sets or splits: `load.size` is neither a row nor a \
                column, nor pooled";
    assert_eq!(found, [data]);
    // A seed that goes with something else is part of a configuration.
    let with = "sweep: {axes: {how: {a: {train.seed: 1, train.size: 1}, b: {train.seed: 2, train.size: 2}}}}";
    plan(&format!("{CHAIN}\n{with}\ntables: {{t: {{rows: [], columns: [], pick: val-accuracy}}}}"));
}

#[test]
fn where_limits_the_points() {
    let plan = plan(&swept("rows: load.size, columns: [], where: {train.seed: 4}"));
    assert_eq!(cells(&plan), [json!([0, 0, [["size=1/seed=4"]]]), json!([1, 0, [["size=2/seed=4"]]])]);
}

#[test]
fn points_that_are_one_node_are_one_candidate() {
    let sweep = "sweep: {axes: {how: {a: {train.size: 1}, b: {train.size: 1}}}}";
    let plan = plan(&format!("{CHAIN}\n{sweep}\ntables: {{t: {{rows: [], columns: []}}}}"));
    assert_eq!(cells(&plan), [json!([0, 0, [["a"]]])]);
}

#[test]
fn several_runs_in_a_cell_are_refused_with_the_axes_they_differ_in() {
    let found = problems(&swept("rows: load.size, columns: []"));
    let expected = "table `t` would put several runs into one cell: `train.seed` is neither a row nor a column";
    assert_eq!(found, [expected]);
}

#[test]
fn what_a_table_cannot_show_is_reported() {
    let found = problems(&swept("rows: load.seize, columns: train.sead"));
    assert_eq!(found, ["unknown axis `load.seize`", "unknown axis `train.sead`"]);
    let found = problems(&format!("{}\n", swept("from: load, rows: [], columns: []")));
    assert_eq!(found, ["no stage `load` that produces `metrics`"]);
    let found = problems("stages: {load: {}}\ntables: {t: {rows: [], columns: []}}");
    assert_eq!(found, ["no stage produces metrics for this table"]);
    let unreached = "stages: {load: {}, other: {uses: load}, train: {inputs: {graph: load}}}";
    let text = format!(
        "{unreached}\nsweep: {{axes: {{other.size: [1, 2]}}}}\ntables: {{t: {{rows: other.size, columns: []}}}}"
    );
    assert_eq!(problems(&text), ["axis `other.size` changes nothing that reaches stage `train`"]);
}

#[test]
fn a_file_of_a_table_counts_by_its_content() {
    let plan = plan(&swept("rows: load.size, columns: train.seed, reference: paper.csv"));
    let table = node(&plan, "tabulate/t");
    assert_eq!(table.ingredients.params["reference"], json!({"blake3": "./paper.csv"}));
    let found = problems(&swept("rows: load.size, columns: train.seed, reference: missing.csv"));
    assert!(found.len() == 1 && found[0].starts_with("cannot read `./missing.csv`"), "{found:?}");
}

/// Two data sets, one of which has no file.
struct TwoDatasets;

impl Known for TwoDatasets {
    fn datasets(&self) -> Vec<String> {
        vec!["here".into(), "missing".into()]
    }
    fn model(&self, _: &str) -> Option<FoundText> {
        None
    }
    fn bases(&self) -> Vec<String> {
        Vec::new()
    }
    fn base(&self, _: &str) -> Option<Source> {
        None
    }
    fn dataset(&self, name: &str) -> Option<Result<KnownDataset, PipelineError>> {
        let key = Key { name: "path".into(), span: Span::default() };
        let path = Node { data: Data::Scalar(format!("{name}.npz").into()), span: Span::default() };
        let source = Source { name: name.into(), folder: "/data".into(), text: "".into() };
        Some(Ok(KnownDataset { source, params: vec![(key, path)], by_hand: None }))
    }
}

#[test]
fn a_cell_without_data_says_why_unless_another_run_fills_it() {
    let table = |placed: &str| {
        let sweep = "sweep: {axes: {load.dataset: [here, missing]}}";
        let text = format!("absent-data: skip\n{CHAIN}\n{sweep}\ntables: {{t: {{{placed}, columns: []}}}}");
        plan_with(&text, &TwoDatasets).unwrap_or_else(|e| panic!("{e}"))
    };
    let apart = table("rows: load.dataset");
    assert_eq!(cells(&apart), [json!([0, 0, [["here"]]])]);
    assert_eq!(param(&apart, "rows"), json!(["here", "missing"]));
    let why = "missing, its data is missing (ppgnn data fetch missing downloads it)";
    assert_eq!(param(&apart, "absent"), json!([{"row": 1, "column": 0, "why": why}]));
    let together = table("rows: [], pool: load.dataset");
    assert_eq!((cells(&together), param(&together, "absent")), (vec![json!([0, 0, [["here"]]])], json!([])));
    assert_eq!(param(&together, "cells")[0]["missing"], json!([{"candidate": 0, "why": why}]));
}

#[test]
fn a_table_without_runs_that_failed_is_another_table() {
    let whole = plan(&swept("rows: load.size, columns: [], pool: train.seed, reference: paper.csv"));
    let failed = |name: &str| [(node(&whole, name).key, "train failed: no luck".to_owned())].into_iter().collect();
    let rest = whole.without(&registry(), &failed("train/size=1/seed=3"));
    assert_eq!(cells(&rest), [json!([0, 0, [["size=1/seed=4"]]]), json!([1, 0, [["size=2/seed=3", "size=2/seed=4"]]])]);
    let missing = json!([{"candidate": 0, "why": "train failed: no luck"}]);
    assert_eq!(param(&rest, "cells")[0]["missing"], missing);
    let [whole_table, table] = [&whole, &rest].map(|plan| node(plan, "tabulate/t"));
    assert_ne!(whole_table.key, table.key);
    assert_eq!(table.key, table.ingredients.key());
    assert_eq!(table.ingredients.params["reference"], json!({"blake3": "./paper.csv"}));
    assert_eq!(table.ingredients.inputs.len(), 3);
    // What is upstream of several runs takes all of them along.
    let rest = whole.without(&registry(), &failed("load/size=1"));
    assert_eq!(cells(&rest), [json!([1, 0, [["size=2/seed=3", "size=2/seed=4"]]])]);
    assert_eq!(param(&rest, "absent"), json!([{"row": 0, "column": 0, "why": "train failed: no luck"}]));
    // Everything else is as it was.
    let same = |name: &str| node(&whole, name).key == node(&rest, name).key;
    assert!(same("load/size=1") && same("train/size=2/seed=4"));
    let nothing = whole.without(&registry(), &Default::default());
    assert_eq!(node(&nothing, "tabulate/t").key, whole_table.key);
}
