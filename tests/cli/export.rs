//! `ppgnn export`: what is written, what is refused, and that other programs read it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use candle_nn::{Module as _, VarBuilder};
use ppgnn::stages::candle_core::{DType, Device, Result, Tensor, safetensors};

use crate::guide;
use crate::support::{Finished, Project, TINY, finish};

/// A graph of a person's own: ids, class names and a node without a class.
pub const MINE: &str = "
ppgnn: 1
name: mine
datasets:
  mine: { format: tables, nodes: people.csv, edges: links.csv }
stages:
  load: { params: { dataset: mine } }
  featurize: { inputs: { graph: load } }
  normalize: { inputs: { graph: load } }
  evd: { inputs: { operator: normalize }, params: { k: 4 } }
  split: { inputs: { graph: load }, params: { count: 3 } }
  train:
    inputs: { operator: normalize, nodes: featurize, splits: split, spectrum: evd }
    params: { model: pp-gnn, bins: 2, epochs: 5, hidden: 8 }
  evaluate: { inputs: { trained: train, nodes: featurize, splits: split } }
";

/// Writes `people.csv` and `links.csv`: ids and class names that a CSV file must quote, and ids that look like numbers.
pub fn write_people(project: &Project) {
    let mut people = csv::Writer::from_writer(Vec::new());
    let mut links = String::from("source,target\n");
    people.write_record(["id", "label", "age", "score"]).unwrap();
    for i in 0..40u32 {
        let class = if i == 7 {
            ""
        } else if i % 2 == 0 {
            "blue, mostly"
        } else {
            "\"red\""
        };
        people.write_record([&id(i), class, &(20 + i * 7 % 40).to_string(), &(i * 13 % 17).to_string()]).unwrap();
        links += &format!("{},{}\n{},{}\n", id(i), id((i + 2) % 40), id(i), id((i * 5 + 3) % 40));
    }
    project.write("people.csv", people.into_inner().unwrap());
    project.write("links.csv", links);
}

fn id(i: u32) -> String {
    if i < 10 { format!("00{i}") } else { format!("p{i}") }
}

/// A project in which [`crate::support::TINY`] has run.
fn tiny() -> Project {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    project
}

/// The table that a command prints: names, and rows.
fn table(run: &Finished) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_reader(run.stdout.as_bytes());
    let names = reader.headers().unwrap().iter().map(str::to_owned).collect();
    (names, reader.records().map(|r| r.unwrap().iter().map(str::to_owned).collect()).collect())
}

/// Python with these modules: `PPGNN_PYTHON`, or `python3`. Says so where there is none.
fn python(modules: &str) -> Option<PathBuf> {
    let python = std::env::var_os("PPGNN_PYTHON").map_or("python3".into(), PathBuf::from);
    let there = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    if there.is_ok_and(|run| run.status.success()) {
        return Some(python);
    }
    skipped(&format!("no Python with {modules} (PPGNN_PYTHON names one)"));
    None
}

/// Says that a test is skipped, past the test runner, which shows nothing of a test that passes.
fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes()).unwrap();
}

#[test]
fn predictions_have_a_row_for_every_split_and_node() {
    let project = tiny();
    let run = project.run(&["export", "predictions", "tiny.yaml", "train/one"]).exit(0);
    let (names, rows) = table(&run);
    let expected = ["node", "load.dataset", "method", "split", "id", "part", "true", "predicted", "p:0", "p:1"];
    assert_eq!(names, expected);
    // Two models, two splits, sixty nodes.
    assert_eq!(rows.len(), 240);
    assert_eq!(rows[0][..4], ["train/one/MLP", "one", "MLP", "0"]);
    for row in &rows {
        let [p, q]: [f64; 2] = [row[8].parse().unwrap(), row[9].parse().unwrap()];
        assert!((p + q - 1.0).abs() < 1e-12, "{row:?}");
        assert_eq!(row[7], if p >= q { "0" } else { "1" });
    }
    let parts = |part: &str| rows.iter().filter(|r| r[5] == part).count();
    assert_eq!(parts("train") + parts("val") + parts("test"), 240);
    // What depends on a model means the model; a table means all behind it.
    let down = project.run(&["export", "predictions", "tiny.yaml", "evaluate/one"]).exit(0);
    assert_eq!(down.stdout, run.stdout);
    assert_eq!(table(&project.run(&["export", "predictions", "tiny.yaml", "accuracy"]).exit(0)).1.len(), 480);
    let (_, one) =
        table(&project.run(&["export", "predictions", "tiny.yaml", "train/one/MLP", "--split", "1"]).exit(0));
    assert!(one.len() == 60 && one.iter().all(|row| row[3] == "1"));
    let json = project.run(&["export", "predictions", "tiny.yaml", "train/one", "--format", "json"]).exit(0).json();
    assert_eq!(json.as_array().unwrap().len(), 240);
    assert_eq!(json[0]["p:0"].as_f64().unwrap(), rows[0][8].parse::<f64>().unwrap());
}

#[test]
fn predictions_are_joined_by_id_with_the_table_that_the_graph_came_from() {
    let project = Project::new().file("mine.yaml", MINE);
    write_people(&project);
    project.run(&["run", "mine.yaml"]).exit(0);
    let (names, rows) = table(&project.run(&["export", "predictions", "mine.yaml", "--split", "2"]).exit(0));
    let people = std::fs::read_to_string(project.path("people.csv")).unwrap();
    let people: Vec<csv::StringRecord> =
        csv::Reader::from_reader(people.as_bytes()).records().map(|r| r.unwrap()).collect();
    assert_eq!(names[..6], ["node", "split", "id", "part", "true", "predicted"]);
    assert_eq!(
        names[6..].iter().map(|n| n.strip_prefix("p:").unwrap()).collect::<std::collections::BTreeSet<_>>(),
        ["\"red\"", "blue, mostly"].into()
    );
    assert_eq!(rows.len(), people.len());
    for person in &people {
        // Byte for byte: `007` is not `7`.
        let row = rows.iter().find(|row| row[2] == person[0]).unwrap();
        assert_eq!(row[4], person[1]);
        assert!(!row[5].is_empty());
    }
    let unlabelled: Vec<_> = rows.iter().filter(|row| row[3] == "unlabelled").collect();
    assert!(unlabelled.len() == 1 && unlabelled[0][2] == "007" && unlabelled[0][4].is_empty(), "{unlabelled:?}");
    let (names, nodes) = table(&project.run(&["export", "nodes", "mine.yaml"]).exit(0));
    assert_eq!(names, ["node", "number", "id", "class"]);
    assert_eq!((nodes.len(), &nodes[7][1..]), (40, &["7".to_owned(), "007".into(), String::new()][..]));
}

#[test]
fn only_splits_that_did_not_use_a_node_vote_on_it() {
    let project = tiny();
    let all = table(&project.run(&["export", "predictions", "tiny.yaml", "train/one/MLP"]).exit(0)).1;
    let vote = project.run(&["export", "predictions", "tiny.yaml", "train/one/MLP", "--vote"]).exit(0);
    let (names, rows) = table(&vote);
    assert_eq!(names[3..], ["id", "true", "votes", "predicted", "p:0", "p:1"]);
    assert_eq!(rows.len(), 60);
    for row in &rows {
        let voters: Vec<f64> =
            all.iter().filter(|r| r[4] == row[3] && r[5] == "test").map(|r| r[8].parse().unwrap()).collect();
        assert_eq!(row[5], voters.len().to_string());
        if voters.is_empty() {
            assert_eq!(row[6..], ["", "", ""]);
        } else {
            let mean = voters.iter().sum::<f64>() / voters.len() as f64;
            assert!((row[7].parse::<f64>().unwrap() - mean).abs() < 1e-12);
        }
    }
}

#[test]
fn the_history_marks_one_epoch_of_every_split() {
    let run = tiny().run(&["export", "history", "tiny.yaml", "train/one/MLP"]).exit(0);
    let (names, rows) = table(&run);
    assert_eq!(names[3..], ["split", "epoch", "train-loss", "val-loss", "val-accuracy", "chosen"]);
    assert_eq!((rows.len(), rows.iter().filter(|r| r[8] == "true").count()), (10, 2));
}

#[test]
fn runs_are_published_beside_every_table() {
    let project = tiny();
    let run = project.run(&["export", "runs", "tiny.yaml"]).exit(0);
    let (names, rows) = table(&run);
    for name in [
        "node",
        "dataset",
        "model",
        "load.dataset",
        "method",
        "seed",
        "split",
        "test-accuracy",
        "val-loss",
        "train-nodes",
        "chosen-epoch",
        "seconds",
        "key",
        "train-key",
        "train.lr",
        "train.bins",
        "evd.k",
        "load.nodes",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    // Two graphs, two models, two splits.
    assert_eq!(rows.len(), 8);
    let mlp =
        rows.iter().find(|r| r[at("model")] == "mlp" && r[at("dataset")] == "two" && r[at("split")] == "1").unwrap();
    assert_eq!((mlp[at("train.hidden")].as_str(), mlp[at("train.bins")].as_str()), ("8", ""));
    assert!(mlp[at("seconds")].parse::<f64>().unwrap() >= 0.0);
    let published = std::fs::read_to_string(project.path("artifacts/results/tiny/accuracy.runs.csv")).unwrap();
    // Every run is in a cell: nothing was picked.
    let (header, lines) = run.stdout.split_once('\n').unwrap();
    let with_flag = lines.lines().map(|line| format!("{line},true\n")).collect::<String>();
    assert_eq!(published, format!("{header},in-table\n{with_flag}"));
    let parquet =
        ppgnn::stages::export::Frame::read_parquet(&project.path("artifacts/results/tiny/accuracy.runs.parquet"));
    assert_eq!(parquet.unwrap().rows(), 8);
    // The key is the one that the table names its runs by.
    let json = std::fs::read_to_string(project.path("artifacts/results/tiny/accuracy.json")).unwrap();
    assert!(rows.iter().all(|row| json.contains(&row[at("key")])));
    // Nothing is left behind, and a second run publishes the same bytes.
    assert_eq!(std::fs::read_dir(project.path("artifacts/tmp")).unwrap().count(), 0);
    project.run(&["run", "tiny.yaml"]).exit(0);
    assert_eq!(std::fs::read_to_string(project.path("artifacts/results/tiny/accuracy.runs.csv")).unwrap(), published);
}

#[test]
fn a_filter_is_the_polynomial_of_the_weights() {
    let project = tiny();
    project.write("gpr.yaml", TINY.replace("MLP: { train.model: mlp }", "MLP: { train.model: gpr-gnn }"));
    let gpr = ["gpr.yaml", "train/one/MLP"];
    project.run(&[&["run"], &gpr[..]].concat()).exit(0);
    project.run(&[&["export", "weights"], &gpr[..], &["--split", "1", "-o", "gpr.safetensors"]].concat()).exit(0);
    let weights = safetensors::load(project.path("gpr.safetensors"), &Device::Cpu).unwrap();
    let gamma: Vec<f32> = weights["gamma"].to_vec1().unwrap();
    let (names, rows) = table(&project.run(&[&["export", "filter"], &gpr[..], &["--split", "1"]].concat()).exit(0));
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    // The operator's spectrum is in the store, though the model needs none.
    assert_eq!(rows.iter().filter(|r| r[at("at")] == "eigenvalue").count(), 16);
    assert_eq!(rows.iter().filter(|r| r[at("at")] == "grid").count(), 201);
    for row in &rows {
        let (x, h): (f64, f64) = (row[at("lambda")].parse().unwrap(), row[at("response")].parse().unwrap());
        let expected: f64 = gamma.iter().rev().fold(0.0, |sum, g| sum * x + f64::from(*g));
        assert!((h - expected).abs() < 1e-12, "{row:?}");
    }
    // PP-GNN has bins: at an eigenvalue both terms count, between the sides the global one alone.
    let (names, rows) =
        table(&project.run(&["export", "filter", "tiny.yaml", "train/one/PP-GNN", "--split", "0"]).exit(0));
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    let bins: Vec<String> = rows[..16].iter().map(|r| format!("{}{}", r[at("side")], r[at("bin")])).collect();
    let expected = ["low0", "low1", "high0", "high1"];
    assert!(bins.chunks(4).zip(expected).all(|(of_bin, name)| of_bin.iter().all(|b| b == name)), "{bins:?}");
    let number = |row: &Vec<String>, name: &str| row[at(name)].parse::<f64>().unwrap_or(0.0);
    for row in &rows {
        assert!((number(row, "response") - number(row, "global") - number(row, "local")).abs() < 1e-12);
    }
    let middle = rows.iter().find(|r| r[at("at")] == "grid" && number(r, "lambda") == 0.0).unwrap();
    assert_eq!(middle[at("local")], "");
    // All models at once: those that filter. One by name: an error that says which do.
    assert_eq!(table(&project.run(&["export", "filter", "tiny.yaml"]).exit(0)).1.len(), 2 * 2 * 217);
    let refused = project.run(&["export", "filter", "tiny.yaml", "train/one/MLP"]).exit(2);
    refused.says("mlp is not a function of the operator").says("`pp-gnn`");
}

/// Loads exported weights of an MLP as the guide shows.
fn mlp(path: PathBuf, (features, hidden, classes): (usize, usize, usize)) -> Result<[candle_nn::Linear; 2]> {
    let weights = VarBuilder::from_buffered_safetensors(std::fs::read(path)?, DType::F32, &Device::Cpu)?;
    let lin1 = candle_nn::linear(features, hidden, weights.pp("lin1"))?;
    let lin2 = candle_nn::linear(hidden, classes, weights.pp("lin2"))?;
    Ok([lin1, lin2])
}

fn distance(a: &Tensor, b: &Tensor) -> f32 {
    (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar().unwrap()
}

#[test]
fn weights_load_in_candle_nn_as_they_are() {
    let shown = guide::page("docs/after-the-run.md").blocks("rust").concat();
    assert!(
        shown.lines().count() == 3 && shown.lines().all(|line| include_str!("export.rs").contains(line)),
        "{shown}"
    );
    let project = tiny();
    let of_mlp = ["tiny.yaml", "train/one/MLP", "--split", "0", "-o"];
    project.run(&[&["export", "weights"], &of_mlp[..], &["mlp.safetensors"]].concat()).exit(0).says("Wrote 4 arrays");
    project.run(&[&["export", "predictions"], &of_mlp[..], &["logits.safetensors"]].concat()).exit(0);
    project.run(&["export", "features", "tiny.yaml", "train/one/MLP", "-o", "x.safetensors"]).exit(0);
    let load = |name: &str| safetensors::load(project.path(name), &Device::Cpu).unwrap();
    let [lin1, lin2] = mlp(project.path("mlp.safetensors"), (8, 8, 2)).unwrap();
    let x = &load("x.safetensors")["features"];
    let logits = lin2.forward(&lin1.forward(x).unwrap().relu().unwrap()).unwrap();
    assert!(distance(&logits, &load("logits.safetensors")["logits"].get(0).unwrap()) < 1e-5);
}

#[test]
fn a_forward_pass_of_pp_gnn_can_be_computed_again() {
    let project = tiny();
    let node = ["tiny.yaml", "train/two/PP-GNN"];
    for (what, split) in
        [("weights", true), ("predictions", true), ("spectrum", false), ("operator", false), ("features", false)]
    {
        let split = if split { &["--split", "1"][..] } else { &[] };
        project.run(&[&["export", what], &node[..], split, &["-o", &format!("{what}.safetensors")]].concat()).exit(0);
    }
    let load = |name: &str| safetensors::load(project.path(&format!("{name}.safetensors")), &Device::Cpu).unwrap();
    let (w, s, a) = (load("weights"), load("spectrum"), load("operator"));
    let layer = |x: &Tensor, name: &str| {
        let product = x.matmul(&w[&format!("{name}.weight")].t().unwrap()).unwrap();
        product.broadcast_add(&w[&format!("{name}.bias")]).unwrap()
    };
    let z = layer(&layer(&load("features")["features"], "lin1").relu().unwrap(), "lin2");
    let n = z.dim(0).unwrap();
    let whole = |name: &str| a[name].to_vec1::<i64>().unwrap().into_iter().map(|i| usize::try_from(i).unwrap());
    let (indptr, indices): (Vec<usize>, Vec<usize>) = (whole("indptr").collect(), whole("indices").collect());
    let mut dense = vec![0.0; n * n];
    for row in 0..n {
        for (at, value) in (indptr[row]..indptr[row + 1]).zip(&a["values"].to_vec1::<f64>().unwrap()[indptr[row]..]) {
            dense[row * n + indices[at]] = *value as f32;
        }
    }
    let operator = Tensor::from_vec(dense, (n, n), &Device::Cpu).unwrap();
    let (mut power, mut again) = (z.clone(), z.zeros_like().unwrap());
    for gamma in w["gamma"].to_vec1::<f32>().unwrap() {
        again = (again + (&power * (f64::from(gamma) * 0.5)).unwrap()).unwrap();
        power = operator.matmul(&power).unwrap();
    }
    for side in ["low", "high"] {
        let values = s[&format!("{side}.values")].to_vec1::<f64>().unwrap();
        let gamma = w[&format!("gamma_{side}")].to_vec2::<f32>().unwrap();
        let h = values.iter().enumerate().map(|(i, x)| {
            // Eight pairs, two bins.
            gamma[i / 4].iter().rev().fold(0.0, |sum, g| sum * x + f64::from(*g)) as f32 * 0.5
        });
        let h = Tensor::from_iter(h, &Device::Cpu).unwrap().unsqueeze(1).unwrap();
        let vectors = &s[&format!("{side}.vectors")];
        let filtered = vectors.matmul(&z).unwrap().broadcast_mul(&h).unwrap();
        again = (again + vectors.t().unwrap().matmul(&filtered).unwrap()).unwrap();
    }
    let distance = distance(&again, &load("predictions")["logits"].get(0).unwrap());
    assert!(distance < 1e-5, "{distance}");
}

#[test]
fn a_graph_comes_with_its_splits() {
    let project = tiny();
    project.run(&["export", "graph", "tiny.yaml", "train/one/MLP"]).exit(0).says("to tiny-graph.safetensors");
    let graph = safetensors::load(project.path("tiny-graph.safetensors"), &Device::Cpu).unwrap();
    assert_eq!(graph["splits"].dims(), [2, 60]);
    assert_eq!(
        (graph["features"].dims(), graph["labels"].dims(), graph["edges"].dim(0).unwrap()),
        (&[60, 8][..], &[60][..], 2)
    );
    let (names, rows) = table(&project.run(&["export", "graph", "tiny.yaml", "load/one", "--format", "csv"]).exit(0));
    assert_eq!((names.last().map(String::as_str), rows.len()), (Some("target"), graph["edges"].dim(1).unwrap()));
    // Several nodes: every array stands under the name of its node.
    project.run(&["export", "spectrum", "tiny.yaml", "-o", "all.safetensors"]).exit(0);
    let all = safetensors::load(project.path("all.safetensors"), &Device::Cpu).unwrap();
    assert!(all.contains_key("evd/one/low.values") && all.contains_key("evd/two/high.vectors"));
}

#[test]
fn what_was_not_computed_names_the_command_that_computes_it() {
    let project = Project::tiny();
    let absent = project.run(&["export", "predictions", "tiny.yaml", "train/one/MLP", "-o", "p.csv"]).exit(4);
    absent.says("have not been computed").says("`ppgnn run tiny.yaml ").says("train/one/MLP");
    assert!(!project.path("p.csv").exists() && !project.path("artifacts").exists());
    project.run(&["export", "spectrum", "tiny.yaml", "evd/one"]).exit(4).says("`ppgnn run tiny.yaml evd/one` computes");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_does() {
    let project = tiny();
    let refused = |args: &[&str]| project.run(&[&["export"], args].concat()).exit(2);
    refused(&["weights", "tiny.yaml", "--format", "csv"])
        .says("weights cannot be exported as csv")
        .says("possible are `safetensors`, `npz`");
    refused(&["history", "tiny.yaml", "-o", "history.npz"]).says("history cannot be exported as npz");
    refused(&["predictions", "tiny.yaml", "--split", "7"]).says("has no split 7; it has 2");
    refused(&["spectrum", "tiny.yaml", "--split", "0"]).says("does not depend on a split");
    refused(&["history", "tiny.yaml", "--vote"]).says("--vote is for tables of predictions");
    refused(&["predictions", "tiny.yaml", "load/one"]).says("`load/one` has no predictions").says("`train`");
    refused(&["weights", "tiny.yaml", "-o", "-"]).says("is not written to stdout");
    refused(&["predictions", "tiny.yaml", "train/three"]).says("the plan has no node `train/three`");
    refused(&["predictions", "tiny.yaml", "-o", "nowhere/p.csv"]).says("cannot write `nowhere/p.csv`");
    refused(&["predictions", "tiny.yaml", "-o", "artifacts"]).says("it is a folder");
}

#[test]
fn the_python_of_the_guide_runs() {
    let page = guide::page("docs/after-the-run.md");
    let project = guide::project();
    write_people(&project);
    project.write("mine.yaml", MINE);
    project.run(&["run", "mine.yaml"]).exit(0);
    project.run(&["export", "predictions", "mine.yaml", "--vote", "-o", "vote-people.csv"]).exit(0);
    for command in page.blocks("console").iter().flat_map(|b| b.lines()).filter(|l| l.contains(" -o ")) {
        let words: Vec<&str> =
            command.trim_start_matches("$ ppgnn ").split(' ').chain(["--profile", "quick"]).collect();
        project.run(&words).exit(0);
    }
    let mut count = 0;
    for block in page.blocks("python") {
        count += 1;
        let imports = block.lines().filter_map(|l| l.strip_prefix("import ").or_else(|| l.strip_prefix("from ")));
        let modules: Vec<&str> = imports.map(|rest| rest.split(' ').next().unwrap()).collect();
        let Some(python) = python(&modules.join(", ")) else { continue };
        let run = finish(Command::new(python).arg("-c").arg(&block).current_dir(project.path("")));
        assert_eq!(run.code, 0, "{block}\n{}{}", run.stdout, run.stderr);
    }
    assert!(count >= 6, "{count}");
}
