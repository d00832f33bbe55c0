//! Figures: declared in pipelines, drawn by stages, published, and refused where what they show is not computed.

use std::collections::BTreeMap;

use crate::support::{Project, files};

/// One figure of every kind, on small graphs.
pub(crate) const DRAWN: &str = "
ppgnn: 1
name: drawn
extends: standard
datasets:
  one: { format: csbm, nodes: 90, degree: 6, features: 8, phi: 0.5, seed: 1 }
  two: { format: csbm, nodes: 90, degree: 6, features: 8, phi: -0.5, seed: 2 }
stages:
  load: { params: { dataset: one } }
  evd: { params: { k: 20 } }
  split: { params: { count: 3 } }
  train: { params: { model: mlp, epochs: 12, window: 0, hidden: 8 } }
sweep:
  axes:
    load.dataset: [one, two]
    method:
      MLP: { train.model: mlp }
      GPR-GNN: { train.model: gpr-gnn }
      PP-GNN: { train.model: pp-gnn, train.bins: 2, train.keep-hidden: true }
      order: { train.model: gpr-gnn }
  when: [{ match: { method: order }, axes: { train.order: [1, 2, 8] } }]
figures:
  order: { kind: metric, x: train.order, each: load.dataset, where: { method: order }, title: Order of GPR-GNN }
  methods: { kind: metric, x: method, each: load.dataset, where: { method: [MLP, PP-GNN] } }
  learning: { kind: learning, from: train, each: method, where: { load.dataset: one, method: [MLP, PP-GNN] } }
  responses: { kind: responses, from: train, each: method, where: { load.dataset: two, method: [GPR-GNN, PP-GNN] } }
  distances: { kind: distances, each: load.dataset, order: 4 }
  variances: { kind: distances, each: load.dataset, order: 4, measure: variance, relative: true }
  spectrum: { kind: spectrum, each: load.dataset }
  degrees: { kind: degrees, each: load.dataset }
  waveform: { kind: waveform }
  confusion: { kind: confusion, each: method, where: { load.dataset: one, method: [MLP, PP-GNN] } }
  ranks: { kind: ranks, x: load.dataset, each: method, where: { method: [MLP, GPR-GNN, PP-GNN] } }
  map: { kind: tsne, from: train, each: method, steps: 60, where: { load.dataset: one, method: [GPR-GNN, PP-GNN] } }
  layer: { kind: tsne, of: hidden, layer: network, from: train, steps: 60, where: { load.dataset: one, method: PP-GNN } }
  wiring: { kind: dag }
";

/// A small search, and every way to look at it.
const SEARCHED: &str = "
ppgnn: 1
name: drawn
extends: standard
datasets: { one: { format: csbm, nodes: 60, degree: 6, features: 8, phi: 0.5, seed: 1 } }
stages:
  load: { params: { dataset: one } }
  split: { params: { count: 2 } }
  train: { params: { model: mlp, epochs: 4, hidden: 4 } }
search: { params: { train.lr: { from: 0.001, to: 0.5, log: true }, train.dropout: [0.1, 0.5] }, trials: 6, round: 3 }
figures:
  best: { kind: search, title: Six trials }
  slices: { kind: search, show: slices }
  parallel: { kind: search, show: parallel }
  importance: { kind: search, show: importance }
";

/// The published files of a pipeline, by name.
fn published(project: &Project, store: &str) -> BTreeMap<String, Vec<u8>> {
    let all = files(&project.path(&format!("{store}/results/drawn")));
    // The report says how long things took.
    let drawn = all.into_iter().filter(|path| !path.ends_with("published.json") && !path.ends_with("report.html"));
    drawn.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn every_kind_is_drawn_with_the_same_bytes_for_any_number_of_threads_and_only_once() {
    let project = Project::new().file("drawn.yaml", DRAWN);
    project.run(&["run", "drawn.yaml", "-j", "1"]).exit(0);
    project.run(&["run", "drawn.yaml", "-j", "3", "--artifacts", "three"]).exit(0);
    let (one, three) = (published(&project, "artifacts"), published(&project, "three"));
    assert_eq!(one.keys().collect::<Vec<_>>(), three.keys().collect::<Vec<_>>());
    one.iter().for_each(|(name, bytes)| assert!(three[name] == *bytes, "{name}"));
    let kinds = project.run(&["list", "figures", "--json"]).exit(0).json();
    for item in kinds["items"].as_array().unwrap() {
        let kind = format!("kind: {}", item["name"].as_str().unwrap());
        let shown = |text: &str| text.contains(&format!("{kind},")) || text.contains(&format!("{kind} "));
        assert!(shown(DRAWN) || shown(SEARCHED), "no figure of {kind}");
    }
    let names = DRAWN.split("figures:\n").nth(1).unwrap().lines().map(|line| line.trim().split(':').next().unwrap());
    for name in names {
        let (svg, pdf, csv) = (format!("{name}.svg"), format!("{name}.pdf"), format!("{name}.csv"));
        let text = String::from_utf8(one[&svg].clone()).unwrap();
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{svg}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{svg}");
        assert!(one[&pdf].starts_with(b"%PDF-"), "{pdf}");
        assert!(one[&csv].iter().filter(|byte| **byte == b'\n').count() > 1, "{csv}");
    }
    project.run(&["run", "drawn.yaml"]).exit(0).says("0 ran");
    assert!(published(&project, "artifacts") == one);
}

#[test]
fn a_search_is_drawn_when_it_has_ended() {
    let project = Project::new().file("drawn.yaml", SEARCHED);
    project.run(&["check", "drawn.yaml"]).exit(0);
    project.run(&["run", "drawn.yaml"]).exit(0);
    let drawn = published(&project, "artifacts");
    let text = |name: &str| String::from_utf8(drawn[name].clone()).unwrap();
    assert_eq!(text("best.csv").lines().count(), 7, "{}", text("best.csv"));
    assert!(text("best.svg").contains("val accuracy in %") && text("best.svg").contains("Six trials"));
    for name in ["slices", "parallel", "importance"] {
        let (svg, csv) = (text(&format!("{name}.svg")), text(&format!("{name}.csv")));
        assert!(svg.contains("lr") && svg.contains("dropout") && csv.contains("train.lr"), "{name}: {csv}");
    }
    project.run(&["run", "drawn.yaml"]).exit(0).says("0 ran");
    let without: String =
        SEARCHED.lines().filter(|line| !line.starts_with("search:")).map(|line| format!("{line}\n")).collect();
    project.write("without.yaml", without);
    project.run(&["check", "without.yaml"]).exit(3).says("figure `best` is of a search, and the pipeline has none");
}

#[test]
fn the_numbers_of_a_figure_are_those_of_the_runs_behind_it() {
    let project = Project::new().file("drawn.yaml", DRAWN);
    project.run(&["run", "drawn.yaml", "order"]).exit(0);
    let csv = String::from_utf8(published(&project, "artifacts")["order.csv"].clone()).unwrap();
    let runs = project.run(&["export", "runs", "drawn.yaml", "order", "--format", "json"]).exit(0).json();
    let of_run = runs.as_array().unwrap().iter().filter(|run| run["dataset"] == "two" && run["train.order"] == 8);
    let values: Vec<f64> = of_run.map(|run| run["test-accuracy"].as_f64().unwrap()).collect();
    assert_eq!(values.len(), 3, "{runs}");
    let line = csv.lines().find(|line| line.starts_with("two,8,")).unwrap();
    let mean: f64 = line.split(',').nth(2).unwrap().parse().unwrap();
    assert!((mean - values.iter().sum::<f64>() / 3.0).abs() < 1e-12, "{line}: {values:?}");
}

#[test]
fn names_of_users_cannot_become_markup() {
    let name = "</title><script>alert(1)</script>\u{202e}\u{7}&\"'";
    let wild = DRAWN.replace("Order of GPR-GNN", &format!("'{}'", name.replace('\'', "''").replace('\u{7}', "")));
    let wild = wild.replace("MLP: {", "'<b onload=\"x\">&': {").replace("MLP", "'<b onload=\"x\">&'");
    let project = Project::new().file("drawn.yaml", &wild);
    project.run(&["run", "drawn.yaml", "order", "methods", "learning", "confusion"]).exit(0);
    for (name, bytes) in published(&project, "artifacts").iter().filter(|(name, _)| name.ends_with(".svg")) {
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(!text.contains("<script") && !text.contains("<b ") && !text.contains('\u{202e}'), "{name}: {text}");
        // Every tag that is there is one of the drawing.
        let tags = text.split('<').skip(1).map(|tag| tag.split([' ', '>', '/']).find(|word| !word.is_empty()).unwrap());
        for tag in tags {
            assert!(["svg", "title", "rect", "path", "text"].contains(&tag), "{name}: {tag}");
        }
    }
}

#[test]
fn a_figure_of_what_is_not_computed_is_refused_by_check() {
    for (from, to, said) in [
        (
            "method: [GPR-GNN, PP-GNN] } }\n  distances",
            "method: [MLP] } }\n  distances",
            "`mlp` has no frequency response to draw",
        ),
        (", train.keep-hidden: true", "", "the activation `network` of `pp-gnn` is not kept"),
        ("layer: network,", "layer: y,", "`pp-gnn` has no activation `y`"),
        ("kind: dag", "kind: dags", "there is no figure `dags`"),
        ("kind: dag", "sort: dag", "figure `wiring` has no `kind`"),
        ("x: train.order, ", "", "figure `order` has no axes along x"),
        ("x: train.order", "x: train.ordr", "`train.ordr`"),
        ("kind: spectrum, each", "kind: spectrum, x: method, each", "a figure of kind `spectrum` has no `x`"),
        (
            "kind: spectrum, each: load.dataset",
            "kind: spectrum",
            "figure `spectrum` would put several runs into one mark",
        ),
        ("kind: learning, from: train", "kind: learning, from: trian", "no stage `trian` that produces `trained`"),
        ("kind: waveform", "kind: waveform, each: method", "a figure of kind `waveform` has no `each`"),
        (
            "kind: distances, each: load.dataset, order: 4 }",
            "kind: distances, each: [load.dataset, method] }",
            "axis `method` changes nothing that reaches stage `featurize`",
        ),
    ] {
        let wrong = DRAWN.replace(from, to);
        assert_ne!(wrong, DRAWN, "{from}");
        Project::new().file("drawn.yaml", &wrong).run(&["check", "drawn.yaml"]).exit(3).says(said);
    }
    let without = "ppgnn: 1\nname: x\nstages: {}\nfigures: { f: { kind: spectrum } }\n";
    Project::new()
        .file("x.yaml", without)
        .run(&["check", "x.yaml"])
        .exit(3)
        .says("no stage produces spectrum for this figure");
}

#[test]
fn a_failed_run_costs_its_mark_and_the_figure_says_so() {
    // BernNet needs an operator without self-loops.
    let failing = DRAWN.replace("  when:", "      broken: { train.model: bernnet }\n  when:");
    let failing = failing
        .replace("where: { method: [MLP, PP-GNN] } }\n  learning", "where: { method: [MLP, broken] } }\n  learning");
    let project = Project::new().file("drawn.yaml", &failing);
    project.run(&["run", "drawn.yaml", "methods"]).exit(5);
    let drawn = published(&project, "artifacts");
    let (svg, csv) = (String::from_utf8_lossy(&drawn["methods.svg"]), String::from_utf8_lossy(&drawn["methods.csv"]));
    assert!(svg.contains("Left out: ") && csv.contains("two,MLP,") && !csv.contains("two,broken,"), "{csv}\n{svg}");
}
