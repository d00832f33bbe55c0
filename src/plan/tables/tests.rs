//! Which runs belong to which cell.

use serde_json::{Value, json};

use crate::pipeline::{Data, Key, Known, KnownDatasets, Node, PipelineError, Source, Span};
use crate::plan::Plan;
use crate::plan::testing::{CHAIN, node, plan, plan_with, problems};

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
    let picked = plan(&swept("rows: load.size, columns: [], pick: val-accuracy"));
    let expected =
        [json!([0, 0, [["size=1/seed=3"], ["size=1/seed=4"]]]), json!([1, 0, [["size=2/seed=3"], ["size=2/seed=4"]]])];
    assert_eq!(cells(&picked), expected);
    assert_eq!(param(&picked, "cells")[0]["labels"], json!(["seed=3", "seed=4"]));
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

impl KnownDatasets for TwoDatasets {
    fn names(&self) -> Vec<String> {
        vec!["here".into(), "missing".into()]
    }
    fn find(&self, name: &str) -> Option<Result<Known, PipelineError>> {
        let key = Key { name: "path".into(), span: Span::default() };
        let path = Node { data: Data::Scalar(format!("{name}.npz").into()), span: Span::default() };
        let source = Source { name: name.into(), folder: "/data".into(), text: "".into() };
        Some(Ok(Known { source, params: vec![(key, path)], by_hand: None }))
    }
}

#[test]
fn a_cell_without_data_says_why_unless_another_run_fills_it() {
    let table = |rows: &str| {
        let sweep = "sweep: {axes: {load.dataset: [here, missing]}}";
        let text = format!(
            "absent-data: skip\n{CHAIN}\n{sweep}\ntables: {{t: {{rows: {rows}, columns: [], pick: val-loss}}}}"
        );
        plan_with(&text, &TwoDatasets).unwrap_or_else(|e| panic!("{e}"))
    };
    let apart = table("load.dataset");
    assert_eq!(cells(&apart), [json!([0, 0, [["here"]]])]);
    assert_eq!(param(&apart, "rows"), json!(["here", "missing"]));
    let why = "missing, its data is missing (ppgnn data fetch missing downloads it)";
    assert_eq!(param(&apart, "absent"), json!([{"row": 1, "column": 0, "why": why}]));
    let together = table("[]");
    assert_eq!((cells(&together), param(&together, "absent")), (vec![json!([0, 0, [["here"]]])], json!([])));
}
