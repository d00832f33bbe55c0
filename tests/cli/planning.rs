//! What a plan says before anything runs: its price, its memory, what must fail, and what counts only in part.

use serde_json::Value;

use crate::support::Project;

/// A generated graph, one model, three splits.
const ONE: &str = "
ppgnn: 1
name: one
datasets: {g: {format: csbm, nodes: 600, degree: 8, features: 30}}
stages:
  load: {params: {dataset: g}}
  featurize: {inputs: {graph: load}}
  normalize: {inputs: {graph: load}}
  evd: {inputs: {operator: normalize}, params: {k: 10}}
  split: {inputs: {graph: load}, params: {count: 3}}
  train: {inputs: {operator: normalize, nodes: featurize, splits: split, spectrum: evd}, params: {model: gcn, epochs: 20, window: 0}}
  evaluate: {inputs: {trained: train, nodes: featurize, splits: split}}
sweep: {axes: {load.dataset: [g]}}
tables: {t: {rows: load.dataset, columns: []}}
";

/// Changes the text of [`ONE`].
fn changed(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(ONE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// What `plan --json` says with some settings.
fn plan(project: &Project, settings: &[&str]) -> Value {
    let mut args = vec!["plan", "one.yaml", "--json", "-j", "1"];
    settings.iter().for_each(|setting| args.extend(["--set", setting]));
    project.run(&args).exit(0).json()
}

fn wall(plan: &Value) -> f64 {
    plan["wall-seconds"]["expected"].as_f64().unwrap()
}

#[test]
fn the_price_follows_what_there_is_to_do() {
    let project = Project::new().file("one.yaml", ONE);
    let price = |settings: &[&str]| wall(&plan(&project, settings));
    // Without a past: ten times the epochs of a long run are about ten times the time, and so on.
    let epochs = [151, 1500, 1_000_000].map(|epochs| price(&[&format!("train.epochs={epochs}")]));
    assert!(
        (6.0..12.0).contains(&(epochs[1] / epochs[0])) && (500.0..800.0).contains(&(epochs[2] / epochs[1])),
        "{epochs:?}"
    );
    let [three, ten] =
        [3, 10].map(|splits| price(&["train.epochs=1500", "datasets.g.nodes=2000", &format!("split.count={splits}")]));
    assert!((2.5..4.0).contains(&(ten / three)), "{three} {ten}");
    let [few, many] = [2000, 200_000].map(|nodes| price(&["train.epochs=1500", &format!("datasets.g.nodes={nodes}")]));
    assert!((40.0..400.0).contains(&(many / few)), "{few} {many}");
    // The same holds when something has run, and what it took counts instead of a guess.
    let before = plan(&project, &["train.epochs=300"]);
    assert_eq!(before["guess"], true, "{before}");
    project.run(&["plan", "one.yaml"]).exit(0).prints("a guess (?)").prints(" on ").prints(" to ");
    project.run(&["run", "one.yaml", "-q", "-j", "1"]).exit(0);
    let after = plan(&project, &["train.epochs=300"]);
    assert_eq!(after["guess"], false, "{after}");
    let range = |plan: &Value| wall(plan) / plan["wall-seconds"]["low"].as_f64().unwrap();
    assert!(range(&after) < range(&before), "{after} {before}");
    let epochs = [1500, 15_000].map(|epochs| price(&[&format!("train.epochs={epochs}")]));
    assert!((6.0..12.0).contains(&(epochs[1] / epochs[0])), "{epochs:?}");
}

#[test]
fn what_does_not_fit_into_the_memory_is_refused_before_it_starts() {
    for (from, to, node, remedy) in [
        ("nodes: 600", "nodes: 11000", "train", "lower `hidden`"),
        ("nodes: 600, degree: 8", "nodes: 200000, degree: 100000", "load", "lower `degree` or `nodes`"),
    ] {
        let text = changed(&[(from, to), ("model: gcn", "model: gcn, hidden: 65536")]);
        let project = Project::new().file("one.yaml", &text);
        let what = format!("will fail: {node}/g: it needs about ");
        let shown = project.run(&["plan", "one.yaml", "--memory", "20GiB"]).exit(0).prints(&what).prints(remedy);
        assert_eq!(shown.stdout.matches("will fail").count(), 1, "what waits for it is not told: {}", shown.stdout);
        let run =
            project.run(&["run", "one.yaml", "--memory", "20GiB"]).exit(5).says(remedy).says("and 21.5 GB are allowed");
        assert!(!run.stderr.contains(&format!("Ran [   0.0s ] {node}")), "{}", run.stderr);
        let events = project.events("artifacts");
        assert!(!events.iter().any(|e| e["event"] == "node-started" && e["node"] == format!("{node}/g")));
    }
}

#[test]
fn nodes_that_do_not_fit_beside_each_other_run_one_after_the_other() {
    let axes = "sweep: {axes: {load.dataset: [g], train.seed: [0, 1, 2, 3]}}";
    let text = changed(&[
        ("sweep: {axes: {load.dataset: [g]}}", axes),
        ("columns: []", "columns: [], pool: train.seed"),
        ("nodes: 600", "nodes: 3000"),
        ("model: gcn", "model: gcn, hidden: 512"),
    ]);
    let project = Project::new().file("one.yaml", &text);
    let with = |memory: &str| {
        let plan = project.run(&["plan", "one.yaml", "--json", "-j", "4", "--memory", memory]).exit(0).json();
        (wall(&plan), plan["memory"]["largest"]["bytes"].as_u64().unwrap())
    };
    let (beside, largest) = with("100GiB");
    // Room for one of them, beside what the program takes itself.
    let (after, _) = with(&format!("{}MiB", largest / (1 << 20) * 3 / 2 + 96));
    assert!(after > 2.0 * beside, "{after} {beside}");
}

#[test]
fn check_finds_what_must_fail() {
    let pp_gnn = ("model: gcn", "model: pp-gnn");
    let small = ("degree: 8", "degree: 8, share: 0.004");
    for (changes, why) in [
        (&[("model: gcn", "model: bernnet")][..], "`bernnet` filters with the Laplacian of a graph without self-loops"),
        (&[("model: gcn", "model: fagcn")], "`fagcn` sums over the neighbours of a graph without self-loops"),
        (
            &[
                ("model: gcn", "model: supergat"),
                (
                    "normalize: {inputs: {graph: load}}",
                    "normalize: {inputs: {graph: load}, params: {self-loops: false}}",
                ),
            ],
            "in `supergat` every node attends to itself, too: its operator needs all self-loops, but `0` of `600` nodes have one",
        ),
        (&[("featurize: {inputs: {graph: load}}", "featurize: {inputs: {graph: load}, params: {pca: 31}}")], "31"),
        (
            &[pp_gnn, ("epochs: 20", "epochs: 20, bins: 11")],
            "`11` bins on the low side, but the spectrum has `10` eigenpairs",
        ),
        (&[small, ("count: 3", "count: 3, train: 0.2")], "all training nodes of split `0` are of one class"),
        (
            &[small, ("count: 3", "count: 3, val: 0.2"), ("epochs: 20", "epochs: 20, select: val-roc-auc")],
            "`val-roc-auc` of split `0` is undefined",
        ),
    ] {
        let project = Project::new().file("one.yaml", &changed(changes));
        let check = project.run(&["check", "one.yaml"]).exit(5).says("a run will fail: ").says(why);
        assert_eq!(check.stderr.matches("a run will fail").count(), 1, "{}", check.stderr);
        let json = project.run(&["check", "one.yaml", "--json"]).exit(5).json();
        let found = json["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] == "will-fail");
        assert_eq!((&json["exit-code"], found.count()), (&5.into(), 1), "{json}");
        project.run(&["plan", "one.yaml"]).exit(0).prints("will fail: ").prints(why);
        project.run(&["run", "one.yaml"]).exit(5).says(why);
        assert!(!project.path("artifacts/objects/train").exists(), "{why}");
        // By parameters alone as well, where those tell.
        if !changes.contains(&small) {
            project.run(&["check", "one.yaml", "--no-data"]).exit(5).says(why);
        }
    }
    Project::new().file("one.yaml", ONE).run(&["check", "one.yaml"]).exit(0);
}

#[test]
fn check_tells_a_fault_of_many_nodes_once() {
    let axes = "sweep: {axes: {load.dataset: [g], train.seed: [0, 1, 2]}}";
    let text = changed(&[
        ("sweep: {axes: {load.dataset: [g]}}", axes),
        ("columns: []", "columns: [], pool: train.seed"),
        ("model: gcn", "model: bernnet"),
    ]);
    let project = Project::new().file("one.yaml", &text);
    let check =
        project.run(&["check", "one.yaml"]).exit(5).says("warning: train/g/seed=0 and 2 more: a run will fail: ");
    assert_eq!(check.stderr.matches("a run will fail").count(), 1, "{}", check.stderr);
}

#[test]
fn check_finds_files_that_are_not_there() {
    let project = Project::new();
    project.write("one.yaml", changed(&[("columns: []", "columns: [], reference: paper.csv")]));
    project.run(&["check", "one.yaml"]).exit(4).says("cannot read `").says("paper.csv").says("one.yaml:");
    let own = "datasets: {g: {format: tables, nodes: n.csv, edges: e.csv}}";
    project.write("one.yaml", changed(&[("datasets: {g: {format: csbm, nodes: 600, degree: 8, features: 30}}", own)]));
    project.run(&["check", "one.yaml"]).exit(4).says("cannot read `").says("e.csv");
    project.run(&["check", "one.yaml", "--no-data"]).exit(0);
}

#[test]
fn what_is_checked_by_data_is_checked_from_the_store() {
    // Masks of a file: class 1 has no validation node in the second split.
    let nodes = "id,label,x\n1,a,1\n2,a,2\n3,a,3\n4,b,4\n5,b,5\n6,b,6\n";
    let project = Project::new().file("n.csv", nodes).file("e.csv", "source,target\n1,2\n3,4\n5,6\n");
    let own = "datasets: {g: {format: tables, nodes: n.csv, edges: e.csv}}";
    let generated = "datasets: {g: {format: csbm, nodes: 600, degree: 8, features: 30}}";
    project.write(
        "one.yaml",
        changed(&[
            (generated, own),
            ("count: 3", "count: 2, train: 0.7, val: 0.1"),
            ("k: 10", "k: 2"),
            ("model: gcn", "model: gcn, select: val-roc-auc"),
        ]),
    );
    // Every class keeps a node of each part, so this can be computed; one with a single node cannot.
    project.run(&["check", "one.yaml"]).exit(0);
    project.run(&["run", "one.yaml", "load", "split", "-q"]).exit(0);
    project.write("n.csv", nodes.replace("5,b", "5,a").replace("6,b", "6,a"));
    project.run(&["check", "one.yaml"]).exit(5).says("`val-roc-auc` of split `0` is undefined");
}

#[test]
fn more_pairs_than_there_are_are_clipped_in_sight() {
    let axes = "sweep: {axes: {load.dataset: [g], method: {A: {train.model: pp-gnn}, B: {train.model: mlp}}}}";
    let text = changed(&[
        ("sweep: {axes: {load.dataset: [g]}}", axes),
        ("rows: load.dataset, columns: []", "rows: method, columns: load.dataset"),
        ("nodes: 600", "nodes: 60"),
        ("k: 10", "k: 256"),
    ]);
    let project = Project::new().file("one.yaml", &text);
    let note = "`k: 256` counts as 30: a side of the spectrum has no more pairs";
    project.run(&["plan", "one.yaml"]).exit(0).prints(&format!("note: evd/g: {note}"));
    project.run(&["check", "one.yaml"]).exit(0).says(&format!("note: evd/g: {note}"));
    let run = project.run(&["run", "one.yaml"]).exit(0).says(note);
    let row = |name: &str| run.stdout.lines().find(|line| line.starts_with(&format!("| {name} "))).unwrap().to_owned();
    assert!(row("A").contains("<sup>1</sup>") || row("A").contains("<sup>1,"), "{}", run.stdout);
    let run = run.prints("<sup>1</sup> evd: \\`k: 256\\` counts as 30");
    assert!(!run.stdout.lines().any(|line| line.starts_with("| B ") && line.contains("<sup>1")), "{}", run.stdout);
    // The same when the eigenpairs are in the store already.
    let longer = project.run(&["run", "one.yaml", "--set", "train.epochs=21"]).exit(0);
    longer.prints("counts as 30");
}

#[test]
fn a_class_that_rounding_leaves_without_training_nodes_is_named() {
    let nodes = (0..40).map(|i| format!("{i},{},1\n", ["cat", "dog", "cat", "dog"][i % 4])).collect::<String>();
    let project = Project::new()
        .file("n.csv", &format!("id,label,x\n{nodes}40,rare,1\n41,rare,0\n"))
        .file("e.csv", "source,target\n0,1\n2,3\n40,41\n");
    let own = "datasets: {g: {format: tables, nodes: n.csv, edges: e.csv}}";
    let generated = "datasets: {g: {format: csbm, nodes: 600, degree: 8, features: 30}}";
    project.write("one.yaml", changed(&[(generated, own), ("count: 3", "count: 3, train: 0.2")]));
    let run = project.run(&["run", "one.yaml"]).exit(0);
    let run = run.says("class rare has no training node: `train: 0.2` of its 2 nodes rounds to 0");
    run.prints("split: class rare has no training node");
    let plan = project.run(&["plan", "one.yaml", "--set", "split.seed=1"]).exit(0);
    plan.prints("note: split/g: class 2 has no training node: `train: 0.2` of its 2 nodes rounds to 0");
}
