//! Models that are programs of the user's: who may start them, what is in their keys, what becomes of those that fail.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Finished, Project, files, finish};

/// Where every program that these tests start leaves a trace.
const RAN: &str = "ran";

/// A model without any library: a node of a known class gets it, all others the first class if `tilt` says so.
const MODEL: &str = r#"
import json, os, struct, sys
open(os.environ["TRACE"], "a").write("x")
job = json.load(open("job.json"))
raw = open("data.safetensors", "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
begin, end = json.loads(raw[8:8 + size])["labels"]["data_offsets"]
labels = struct.unpack("<%dq" % ((end - begin) // 8), raw[8 + size + begin:8 + size + end])
tilt = float(job["params"].get("tilt", 0.5))
classes = range(job["classes"])
logits = [1.0 if label == c else (tilt if c == 0 else 0.0) for label in labels for c in classes]
print("1/1 done")
print("a warning", file=sys.stderr)
data = struct.pack("<%df" % len(logits), *logits)
shape = [len(job["splits"]), job["nodes"], job["classes"]]
header = json.dumps({"logits": {"dtype": "F32", "shape": shape, "data_offsets": [0, len(data)]}}).encode()
open("part", "wb").write(struct.pack("<Q", len(header)) + header + data)
os.rename("part", "result.safetensors")
"#;

/// A pipeline of an MLP and a program; `train` are parameters of the program, `rest` follows.
fn pipeline(train: &str, rest: &str) -> String {
    format!(
        "ppgnn: 1
name: p
extends: standard
datasets: {{ one: {{ format: csbm, nodes: 60, degree: 6, features: 8 }} }}
stages:
  split: {{ params: {{ count: 2 }} }}
  train: {{ params: {{ epochs: 3 }} }}
sweep:
  axes:
    load.dataset: [one]
    method:
      MLP: {{ train.model: mlp }}
      mine: {{ train.model: command, {train} }}
tables:
  accuracy: {{ rows: method, columns: load.dataset, metric: test-accuracy }}
{rest}"
    )
}

fn project(train: &str, rest: &str) -> Project {
    Project::new().file("p.yaml", &pipeline(train, rest)).file("model.py", MODEL)
}

/// Parameters of a program of the shell.
fn sh(script: &str) -> String {
    format!("train.run: [sh, -c, \"{script}\"]")
}

fn run(project: &Project, args: &[&str]) -> Finished {
    finish(project.command(args).env("TRACE", project.path(RAN)))
}

/// How often the program was started.
fn runs(project: &Project) -> usize {
    std::fs::read(project.path(RAN)).map_or(0, |trace| trace.len())
}

/// Whether Python is here; the test says so if it is not.
fn python() -> bool {
    has("python3", "sys").is_some()
}

/// `PPGNN_PYTHON`, or else `python3`, if it has a module; the test says so if it has not.
fn python_with(module: &str) -> Option<String> {
    has(&std::env::var("PPGNN_PYTHON").unwrap_or_else(|_| "python3".to_owned()), module)
}

fn has(python: &str, module: &str) -> Option<String> {
    let imported = Command::new(python).args(["-c", &format!("import {module}")]).output();
    let there = imported.is_ok_and(|ran| ran.status.success());
    if !there {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        // Written past the test runner, which shows nothing of a test that passes.
        let line = format!("skipped: {test}: `{python}` is not there, or has no module `{module}`\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    there.then(|| python.to_owned())
}

/// The files of the example.
fn example() -> Project {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/command");
    let project = Project::new();
    for file in files(&root) {
        project.write(file.file_name().unwrap().to_str().unwrap(), std::fs::read(&file).unwrap());
    }
    project
}

const PYTHON: &str = "train.run: [python3, model.py], train.files: [model.py]";

#[test]
fn a_file_from_a_stranger_starts_nothing() {
    let project = project(&sh("echo x > $TRACE; exit 1"), "");
    let what = "the pipeline would start commands on this machine: `sh -c echo x > $TRACE; exit 1`";
    run(&project, &["check", "p.yaml"]).exit(0);
    run(&project, &["plan", "p.yaml"]).exit(0).prints("commands: a run starts `sh -c echo x");
    let plan = run(&project, &["plan", "p.yaml", "--json"]).exit(0).json();
    assert_eq!(plan["commands"][0]["nodes"], 1, "{plan}");
    run(&project, &["run", "p.yaml", "-n"]).exit(0);
    run(&project, &["run", "p.yaml"]).exit(2).says(what).says("look at `p.yaml`").says("`ppgnn trust .`");
    assert_eq!(runs(&project), 0);
    // Where no command is needed, nobody asks.
    run(&project, &["run", "p.yaml", "evaluate/one/MLP"]).exit(0);
    run(&project, &["run", "p.yaml", "--allow-commands"]).exit(5).prints("| MLP |").prints("failed (exit status: 1)");
    assert_eq!(runs(&project), 2, "the shell has written two bytes");
}

#[test]
fn a_folder_is_trusted_with_all_that_is_in_it_and_nothing_else() {
    let project = Project::new().file("mine/p.yaml", &pipeline(&sh("exit 4"), ""));
    project.write("stranger/p.yaml", pipeline(&sh("exit 4"), ""));
    project.write("mine/extends.yaml", "ppgnn: 1\nname: e\nextends: ../stranger/p.yaml\n");
    project.write("stranger/model.py", MODEL);
    let with_file = format!("{}, train.files: [../stranger/model.py]", sh("exit 4"));
    project.write("mine/file.yaml", pipeline(&with_file, ""));
    run(&project, &["trust"]).exit(0);
    run(&project, &["trust", "no-folder"]).exit(2);
    run(&project, &["trust", "mine"]).exit(0).says("may start commands");
    let listed = run(&project, &["trust"]).exit(0);
    assert_eq!(listed.stdout.trim(), std::fs::canonicalize(project.path("mine")).unwrap().to_str().unwrap());
    run(&project, &["run", "mine/p.yaml"]).exit(5).says("failed (exit status: 4)");
    for (file, stranger) in [
        ("stranger/p.yaml", "stranger/p.yaml"),
        ("mine/extends.yaml", "mine/../stranger/p.yaml"),
        ("mine/file.yaml", "mine/../stranger/model.py"),
    ] {
        run(&project, &["run", file, "--replace"]).exit(2).says(&format!("look at `{stranger}`"));
    }
    run(&project, &["trust", "--remove", "mine"]).exit(0).says("may start no commands any more");
    run(&project, &["run", "mine/p.yaml"]).exit(2);
}

#[test]
fn the_key_has_what_decides_and_nothing_else() {
    let key = |project: &Project, args: &[&str]| {
        let plan = run(project, &[&["plan", "p.yaml", "--json"], args].concat()).exit(0).json();
        let is_it = |node: &&Value| node["id"] == "train/one/mine";
        plan["nodes"].as_array().unwrap().iter().find(is_it).unwrap()["key"].as_str().unwrap().to_owned()
    };
    let environment = "train.environment: [{ run: [python3, --version], prints: Python 3 }]";
    let text = pipeline(&format!("{PYTHON}, {environment}, train.params: {{ a: 1, b: x }}"), "");
    let project = Project::new().file("p.yaml", &text).file("model.py", MODEL);
    let first = key(&project, &[]);
    let changed = |old: &str, new: &str| {
        assert!(text.contains(old), "{old}");
        project.write("p.yaml", text.replace(old, new));
        let key = key(&project, &[]);
        project.write("p.yaml", &text);
        key
    };
    for (old, new) in [
        ("a: 1, b: x", "b: x, a: 1"),
        ("name: p", "name: other"),
        ("train.files: [model.py]", "train.files: [./model.py], train.timeout: 5, train.memory: 4GiB"),
    ] {
        assert_eq!(changed(old, new), first, "{new}");
    }
    project.write("other.py", MODEL);
    for (old, new) in [
        ("a: 1", "a: 2"),
        ("Python 3 ", "Python 3.1 "),
        ("python3, --version", "python, --version"),
        ("[python3, model.py]", "[python3, -O, model.py]"),
        ("files: [model.py]", "files: [model.py, other.py]"),
        ("files: [model.py]", "files: [other.py]"),
        ("epochs: 3", "epochs: 4"),
    ] {
        assert_ne!(changed(old, new), first, "{new}");
    }
    assert_ne!(key(&project, &["--set", "train[model=command].params.a=3"]), first);
    assert_eq!(key(&project, &["--set", "train[model=command].params.a=1"]), first);
    project.write("model.py", format!("{MODEL}# a comment\n"));
    assert_ne!(key(&project, &[]), first);
    project.write("model.py", MODEL);
    assert_eq!(key(&project, &[]), first);
}

#[test]
fn mistakes_are_told_where_they_are() {
    for (train, code, what) in [
        ("train.files: [model.py]", 3, "missing parameter `run`"),
        ("train.run: []", 3, "expected at least 1 entries, found 0"),
        ("train.run: python", 3, "`run`: expected"),
        ("train.run: [python3], train.files: [absent.py]", 4, "absent.py"),
        ("train.run: [python3], train.files: [model.py, ../mine/model.py]", 3, "two files are called `model.py`"),
        ("train.run: [python3], train.files: [job.json]", 3, "`job.json` is the name of a file that ppgnn writes"),
        ("train.run: [python3], train.params: [1]", 3, "`params`: expected"),
        ("train.run: [python3], train.timeout: 0", 3, "`timeout`: expected"),
        ("train.run: [python3], train.hidden: 8", 3, "`command` has no parameter `hidden`"),
        ("train.run: [python3], train.lr.x: 8", 3, "`lr`: expected"),
    ] {
        let run = run(&project(train, ""), &["plan", "p.yaml"]).exit(code);
        assert!(
            run.stderr.contains(what) && run.stderr.contains("p.yaml"),
            "{train}: `{what}` is not in\n{}",
            run.stderr
        );
    }
}

#[test]
fn its_result_is_a_result_like_any_other() {
    if !python() {
        return;
    }
    let project = project(PYTHON, "");
    let allowed = ["run", "p.yaml", "--allow-commands"];
    run(&project, &allowed).exit(0).prints("| MLP |").prints("| mine |");
    run(&project, &["run", "p.yaml", "--json"]).exit(0).prints("\"ran\":0");
    assert_eq!(runs(&project), 1);
    let mean = |metric: &str| {
        let set = format!("tables.accuracy.metric={metric}");
        let table = run(&project, &["run", "p.yaml", "--quiet", "--set", &set]).exit(0).stdout;
        let row = table.lines().find(|line| line.starts_with("| mine |")).unwrap().replace(['*', '<', '>'], " ");
        let number = |word: &str| word.parse::<f64>().ok();
        row.replace("ins", " ").replace('/', " ").split_whitespace().find_map(number).unwrap()
    };
    assert_eq!((mean("train-accuracy"), mean("val-accuracy")), (100.0, 100.0));
    assert!(mean("test-accuracy") < 75.0, "no label of a test node was handed over: {}", mean("test-accuracy"));
    run(&project, &["export", "predictions", "p.yaml", "train/one/mine", "-o", "predictions.csv"]).exit(0);
    run(&project, &["show", "p.yaml", "train/one/mine"])
        .exit(0)
        .prints("logits.safetensors")
        .prints("stderr  a warning");
    run(&project, &["trace", "p.yaml", "mine", "one"]).exit(0).prints("–");
    // Forced, it starts again, and gives the same bytes.
    run(&project, &["run", "p.yaml", "--force", "train/one/mine"]).exit(2);
    let again = run(&project, &[&allowed[..], &["--force", "train/one/mine"]].concat()).exit(0);
    assert!(!again.stderr.contains("differ"), "{}", again.stderr);
    assert_eq!(runs(&project), 2);
}

#[test]
fn sweeps_and_searches_vary_its_parameters() {
    if !python() {
        return;
    }
    let search = "search:
  params: { train.lr: [0.01, 0.1], train.params.tilt: { values: [0.0, 0.7], when: { train.model: command } } }
  sampler: grid
  trials: 4
";
    let project = project(&format!("{PYTHON}, train.params: {{ tilt: 9.0 }}"), search);
    run(&project, &["run", "p.yaml"]).exit(2).says("would start commands");
    run(&project, &["run", "p.yaml", "--allow-commands"]).exit(0).prints("| mine |");
    assert_eq!(runs(&project), 4, "two rates, two tilts");
    run(&project, &["search", "show", "p.yaml"]).exit(0).prints("train.params.tilt");
    run(&project, &["run", "p.yaml", "--json"]).exit(0).prints("\"ran\":0");

    let swept = pipeline(PYTHON, "").replace("    method:\n", "    train.params.tilt: [0.0, 0.7]\n    method:\n");
    let mlp = "      MLP: { train.model: mlp }\n";
    project.write("s.yaml", swept.replace(mlp, "").replace("rows: method", "rows: [method, train.params.tilt]"));
    run(&project, &["run", "s.yaml", "--replace", "--allow-commands"]).exit(0).prints("| mine, 0.7 |");
}

#[test]
fn ctrl_c_ends_the_program() {
    let project = project(&sh("echo $$ > $TRACE; sleep 300"), "");
    let mut command = project.command(&["run", "p.yaml", "--allow-commands"]);
    let child = command.env("TRACE", project.path(RAN)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let id = wait_for(&project.path(RAN));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let begun = Instant::now();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(!lives(&id));
}

#[test]
fn a_run_that_is_killed_leaves_nothing_that_is_taken_for_a_result() {
    if !python() {
        return;
    }
    // Half of a result, then nothing; the second time, the model.
    let project = project(PYTHON, "");
    let slow = "import os, time\nif not os.path.exists(os.environ['TRACE'] + '.go'):\n    open('result.safetensors', 'wb').write(b'x' * 99)\n    \
                open(os.environ['TRACE'], 'w').write(str(os.getpid()))\n    time.sleep(300)\n";
    project.write("model.py", format!("{slow}{MODEL}"));
    let mut command = project.command(&["run", "p.yaml", "--allow-commands"]);
    let mut child =
        command.env("TRACE", project.path(RAN)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let id = wait_for(&project.path(RAN));
    child.kill().unwrap();
    child.wait().unwrap();
    project.write("ran.go", "");
    run(&project, &["run", "p.yaml", "--allow-commands"]).exit(0).prints("| mine |");
    let calm = Project::new().file("p.yaml", &pipeline(PYTHON, "")).file("model.py", &format!("{slow}{MODEL}"));
    calm.write("ran.go", "");
    run(&calm, &["run", "p.yaml", "--allow-commands"]).exit(0);
    assert_eq!(project.artifact_bytes("artifacts"), calm.artifact_bytes("artifacts"));
    // Nobody can end the program of a run that was killed; it is ours to end here.
    let _ = Command::new("kill").args(["-9", &id]).status();
}

/// Waits until a program has written its number into a file.
fn wait_for(path: &Path) -> String {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if !text.trim().is_empty() {
            return text.trim().to_owned();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the program was not started");
}

fn lives(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

#[test]
fn the_example_is_short_and_can_be_planned() {
    let project = example();
    let lines = |text: &str| text.lines().count();
    let read = |name: &str| std::fs::read_to_string(project.path(name)).unwrap();
    assert!(lines(&read("gcn.py")) < 40 && lines(&read("compare.yaml")) < 25);
    let helper = ppgnn_stages::command::HELPER;
    assert!(lines(helper) < 60);
    let imports: Vec<&str> =
        helper.lines().filter(|line| line.starts_with("import") || line.starts_with("from")).collect();
    let known =
        ["import json", "import os", "import threading", "from types import SimpleNamespace", "import numpy as np"];
    assert_eq!(imports, known);
    project.run(&["plan", "compare.yaml"]).exit(0).prints("commands: a run starts `python gcn.py`");
}

#[test]
fn the_example_in_pytorch_is_tuned_and_stands_beside_built_in_models() {
    let Some(python) = python_with("torch, numpy") else { return };
    let project = example();
    // Fewer trials than the example has: PyTorch takes seconds to start.
    let mut command = project.command(&["run", "compare.yaml", "--allow-commands", "--set", "search.trials=2"]);
    // The pipeline says `python`: the one that has the module.
    let beside = Path::new(&python).parent().unwrap().to_str().unwrap().to_owned();
    let path = format!("{beside}:{}", std::env::var("PATH").unwrap());
    let table = finish(command.env("PATH", &path)).exit(0).stdout;
    let accuracy = |row: &str| {
        let line = table.lines().find(|line| line.starts_with(&format!("| {row} |"))).unwrap();
        let words = line.replace(['*', '<', '>', '/'], " ").replace("ins", " ");
        words.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap()
    };
    // Both are the same formula, with other random numbers; 75 test nodes in each of three splits.
    assert!((accuracy("GCN in PyTorch") - accuracy("GCN")).abs() < 10.0, "{table}");
    let set = ["--set", "search.trials=2"];
    project.run(&[&["search", "show", "compare.yaml"], &set[..]].concat()).exit(0).prints("GCN in PyTorch");
    project.run(&[&["run", "compare.yaml", "--json"], &set[..]].concat()).exit(0).prints("\"ran\":0");
    if python_with("torch_geometric").is_some() {
        let mut command = project.command(&["run", "gat.yaml", "--allow-commands", "--set", "search.trials=2"]);
        finish(command.env("PATH", path)).exit(0).prints("| GAT of PyTorch Geometric |");
    }
}

#[test]
fn the_helper_writes_all_that_a_result_may_have() {
    let Some(python) = python_with("numpy") else { return };
    let model = r#"
import numpy as np
import ppgnn_io
job = ppgnn_io.load()
assert job.features.shape == (job.nodes, job.columns) and job.weights.shape == job.edges.shape[1:]
assert (job.labels[job.train | job.val] >= 0).all() and (job.labels[job.parts == 3] == -1).all()
logits = [job.features @ np.ones((job.columns, job.classes)) for _ in job.splits]
history = [[[1.0, 0.5, 0.25]] * (3 + split) for split in job.splits]
weights = [{"lin.weight": np.eye(2) * split} for split in job.splits]
ppgnn_io.save(logits, best_epoch=[2, 3], history=history, weights=weights)
"#;
    let project = project(&format!("train.run: [\"{python}\", src/model.py], train.files: [src/model.py]"), "");
    project.write("src/model.py", model);
    run(&project, &["run", "p.yaml", "--allow-commands"]).exit(0);
    let history = run(&project, &["export", "history", "p.yaml", "train/one/mine", "--split", "1"]).exit(0).stdout;
    assert_eq!(history.lines().count(), 1 + 4, "{history}");
    run(&project, &["trace", "p.yaml", "mine", "one"]).exit(0).prints("chosen epoch");
    run(&project, &["show", "p.yaml", "train/one/mine"]).exit(0).prints("lin.weight");
}
