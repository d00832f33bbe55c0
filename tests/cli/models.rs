//! Models that cannot work: refused by `check` where sizes tell, and a failed cell where only training does.

use crate::support::{Project, golden};

/// A graph of 40 nodes with everything that a model may need; `separate` and `train` have these parameters.
fn project(separate: &str, train: &str) -> Project {
    let text = format!(
        "ppgnn: 1
name: m
datasets:
  small: {{ format: csbm, nodes: 40, degree: 6, features: 4 }}
stages:
  load: {{ params: {{ dataset: small }} }}
  featurize: {{ inputs: {{ graph: load }} }}
  normalize: {{ inputs: {{ graph: load }} }}
  evd: {{ inputs: {{ operator: normalize }}, params: {{ k: 4 }} }}
  separate: {{ inputs: {{ operator: normalize }}, params: {{ {separate} }} }}
  split: {{ inputs: {{ graph: load }}, params: {{ count: 2 }} }}
  train:
    inputs: {{ operator: normalize, nodes: featurize, splits: split, spectrum: evd, hops: separate }}
    params: {{ model: mlp, epochs: 5 }}
  evaluate: {{ inputs: {{ trained: train, nodes: featurize, splits: split }} }}
sweep:
  axes:
    load.dataset: [small]
    method:
      plain: {{ train.model: mlp }}
      other: {{ {train} }}
tables:
  accuracy: {{ rows: method, columns: load.dataset, metric: test-accuracy }}
"
    );
    Project::new().file("m.yaml", &text)
}

#[test]
fn combinations_that_cannot_work_are_refused_at_check_with_numbers() {
    let hops = "depth: 3, hops: [1, 2]";
    for (name, separate, train) in [
        ("arma-cap", hops, "train.model: arma, train.stacks: 3, train.cap-hidden: 2"),
        ("gfir-cap", hops, "train.model: gfir, train.order: 9, train.cap-hidden: 4"),
        ("pp-gnn-bins", hops, "train.model: pp-gnn, train.bins: 9"),
        ("pp-gnn-alphas", hops, "train.model: pp-gnn, train.bins: 2, 'train.local-alphas': [0.1, 0.2]"),
        ("tdgnn-hops", hops, "train.model: tdgnn, train.hops: [1, 3]"),
        ("separate-beyond", "depth: 60, hops: [1, 40]", "train.model: tdgnn, train.hops: [1, 40]"),
    ] {
        let project = project(separate, train);
        let check = project.run(&["check", "m.yaml"]).exit(5).prints("m.yaml: valid;");
        golden(&format!("refused/{name}.txt"), &check.stderr);
        assert_eq!(project.run(&["check", "m.yaml", "--json"]).exit(5).json()["exit-code"], 5, "{name}");
        // What can be computed is; the other run is a failed cell, and its reason is the same.
        let what = check.stderr.lines().find_map(|line| line.split_once("a run will fail: ")).unwrap().1;
        let what = what.split("; ").next().unwrap();
        project.run(&["run", "m.yaml", "--quiet"]).exit(5).says(what).prints("| plain");
    }
}

/// A small graph with everything that H2GCN needs; both operators have these parameters.
fn two_hops(first: &str, second: &str) -> Project {
    let text = format!(
        "ppgnn: 1
name: h
datasets:
  small: {{ format: csbm, nodes: 40, degree: 6, features: 4 }}
stages:
  load: {{ params: {{ dataset: small }} }}
  featurize: {{ inputs: {{ graph: load }} }}
  normalize: {{ inputs: {{ graph: load }}, params: {{ {first} }} }}
  two-hops: {{ uses: normalize, inputs: {{ graph: load }}, params: {{ {second} }} }}
  split: {{ inputs: {{ graph: load }}, params: {{ count: 2 }} }}
  train:
    inputs: {{ operator: normalize, nodes: featurize, splits: split, second-operator: two-hops }}
    params: {{ model: h2gcn, hidden: 8, epochs: 5 }}
"
    );
    Project::new().file("h.yaml", &text)
}

#[test]
fn h2gcn_takes_graphs_of_one_and_two_hops_without_self_loops() {
    let (near, far) = ("self-loops: false", "self-loops: false, hops: 2");
    two_hops(near, far).run(&["check", "h.yaml"]).exit(0);
    two_hops(near, far).run(&["run", "h.yaml", "--quiet"]).exit(0);
    for (first, second, why) in [
        ("self-loops: true", far, "takes operators without self-loops, but `operator` has some"),
        (near, "hops: 2", "takes operators without self-loops, but `second-operator` has some"),
    ] {
        let project = two_hops(first, second);
        project.run(&["check", "h.yaml"]).exit(5).says("a run will fail: ").says(why);
        project.run(&["check", "h.yaml", "--no-data"]).exit(5).says(why);
    }
    // What only the graphs tell.
    two_hops(near, near).run(&["run", "h.yaml", "--quiet"]).exit(5).says("which are neighbours").says("`hops: 2`");
    two_hops(near, "self-loops: false, hops: 2, weights: use")
        .run(&["check", "h.yaml"])
        .exit(3)
        .says("weights of edges say nothing about nodes that are two hops apart");
}

#[test]
fn what_fits_is_not_refused() {
    let project = project("depth: 3, hops: [1, 2]", "train.model: arma, train.stacks: 3, train.cap-hidden: 64");
    project.run(&["check", "m.yaml"]).exit(0).prints("m.yaml: valid;");
}

#[test]
fn a_loss_that_is_no_number_is_a_failed_cell_with_epoch_rate_and_last_loss() {
    // Forty layers without normalisation, whose weights are some hundreds after a step: single precision overflows.
    let deep = "train.model: gcn-ogb, train.layers: 40, train.batch-norm: false, train.dropout: 0, train.lr: 100";
    let project = project("depth: 3, hops: [1, 2]", deep);
    // Before any step the logits are next to nothing, and the loss of two classes is ln 2.
    let what = "the validation loss of split `0` is `NaN` in epoch `0` (`0.6931` before; learning rate `100`)";
    let run = project.run(&["run", "m.yaml", "--quiet"]).exit(5).says(what).says("lower `lr`");
    run.prints("| plain")
        .prints("| other | absent<sup>1</sup> |")
        .prints("train/small/other failed: the validation loss");
    let csv = project.run(&["table", "m.yaml", "--format", "csv"]).exit(0).stdout;
    assert!(csv.contains("other,small,test-accuracy,,,0,,,,"), "no number stands for it: {csv}");
}
