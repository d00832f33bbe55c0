//! Which nodes a pipeline has, what is in their keys, and what it publishes.

use serde_json::json;

use crate::plan::testing::{CHAIN, names, node, plan, problems};

#[test]
fn a_stage_has_a_node_for_each_combination_of_the_axes_that_reach_it() {
    let plan = plan(&format!("{CHAIN}\nsweep: {{axes: {{load.size: [1, 2], train.seed: [3, 4]}}}}"));
    let expected = [
        "load/size=1",
        "train/size=1/seed=3",
        "train/size=1/seed=4",
        "load/size=2",
        "train/size=2/seed=3",
        "train/size=2/seed=4",
    ];
    assert_eq!(names(&plan), expected);
    assert_eq!(plan.unshared, 8);
    for (id, node) in plan.iter() {
        assert!(node.inputs.iter().all(|edge| edge.node < id), "{} stands before its inputs", node.name);
        assert_eq!(node.key, node.ingredients.key());
    }
}

#[test]
fn points_that_mean_the_same_are_one_node_with_several_names() {
    let plan = plan(&format!("{CHAIN}\nsweep: {{axes: {{how: {{a: {{train.size: 1}}, b: {{train.size: 1}}}}}}}}"));
    assert_eq!(names(&plan), ["load", "train/a"]);
    assert_eq!(node(&plan, "train/a").aliases.iter().map(ToString::to_string).collect::<Vec<_>>(), ["train/b"]);
}

#[test]
fn nodes_that_differ_in_nothing_that_is_shown_have_different_names() {
    let stages = "stages: {load: {}, other: {uses: load}, train: {inputs: {graph: load}}}";
    let axes = "how: {p: {other.size: 1}, q: {other.size: 2}}";
    let when = "{match: {how: p}, axes: {a: {x: {train.size: 1}}}}, {match: {how: q}, axes: {b: {x: {train.seed: 1}}}}";
    let plan = plan(&format!("{stages}\nsweep: {{axes: {{{axes}}}, when: [{when}]}}"));
    assert_eq!(names(&plan), ["load", "other/p", "train/x", "other/q", "train/x~"]);
}

#[test]
fn a_file_counts_by_its_content_and_starts_from_the_folder_of_its_text() {
    let plan = plan("stages: {load: {params: {path: data/a.npz}}}");
    let load = &plan.nodes[0];
    assert_eq!(load.ingredients.params["path"], json!({"blake3": "./data/a.npz"}));
    assert_eq!(load.params.all()["path"], json!("./data/a.npz"));
}

#[test]
fn every_problem_is_reported_and_a_file_that_is_missing_is_one() {
    let text =
        "stages: {load: {params: {path: missing.npz}}, train: {inputs: {graph: load}, params: {seed: -1, sise: 3}}}";
    let found = problems(text);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().any(|m| m.starts_with("cannot read `./missing.npz`")), "{found:?}");
    assert!(found.iter().any(|m| m.starts_with("stage `train`") && m.contains("sise")), "{found:?}");
}

#[test]
fn a_stage_that_publishes_does_so_at_every_point() {
    let stages = "stages: {load: {}, train: {inputs: {graph: load}}, draw: {inputs: {metrics: train}}}";
    let plan = plan(&format!("{stages}\nsweep: {{axes: {{how: {{a/b: {{train.size: 1}}, c: {{train.size: 2}}}}}}}}"));
    let outputs: Vec<_> = plan.outputs.iter().map(|o| (o.name.as_str(), plan.node(o.node).name.to_string())).collect();
    assert_eq!(outputs, [("draw-a_b", "draw/a/b".to_owned()), ("draw-c", "draw/c".to_owned())]);
}

#[test]
fn points_whose_names_make_one_file_name_are_published_apart() {
    let stages = "stages: {load: {}, train: {inputs: {graph: load}}, draw: {inputs: {metrics: train}}}";
    let plan = plan(&format!("{stages}\nsweep: {{axes: {{how: {{a/b: {{train.size: 1}}, a b: {{train.size: 2}}}}}}}}"));
    let names: Vec<&str> = plan.outputs.iter().map(|o| o.name.as_str()).collect();
    let second = plan.node(plan.outputs[1].node).key.short().to_string();
    assert_eq!(names, ["draw-a_b", &format!("draw-a_b-{second}")]);
}

#[test]
fn two_outputs_of_one_name_are_refused() {
    let stages = "stages: {load: {}, train: {inputs: {graph: load}}, draw: {inputs: {metrics: train}}}";
    let tables = "tables: {draw: {rows: [], columns: []}}";
    assert_eq!(problems(&format!("{stages}\n{tables}")), ["`draw` is already the name of another published result"]);
    let record = stages.replace("draw: {", "published: {uses: draw, ");
    assert_eq!(problems(&record), ["`published` is already the name of another published result"]);
}
