//! Data sets by name in pipelines: known ones, absent ones, changed ones, and those that start from another.

use crate::support::Project;

const MANIFEST: &str = "\
ppgnn: 1
title: Mine
about: A graph of the tests.
licence: none
source: https://example.org
folder: mine
files: { graph.npz: { bytes: SIZE, sha256: DIGEST } }
load: { format: heterophilous-npz, path: graph.npz }
expect: { nodes: 24, splits: 2 }
";

const PIPELINE: &str = "\
ppgnn: 1
name: p
stages:
  load: {params: {dataset: mine}}
  featurize: {inputs: {graph: load}}
  normalize: {inputs: {graph: load}}
  split: {inputs: {graph: load}, params: {method: file}}
  train: {inputs: {operator: normalize, nodes: featurize, splits: split}, params: {model: mlp, epochs: 3, hidden: 4}}
  evaluate: {inputs: {trained: train, nodes: featurize, splits: split}}
sweep: {axes: {load.dataset: [mine, texas]}}
tables: {t: {rows: load.dataset, columns: [], reference: paper.csv, reference-title: paper}}
";

const PAPER: &str = "row,column,mean,std,note\nmine,,50.0,1.5,\ntexas,,81.35,6.33,\n";

fn graph() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/graph.npz")).unwrap()
}

/// A project with a manifest and its data, and a pipeline that uses it and Texas, which is not there.
fn project(pipeline: &str) -> Project {
    let sha256 = |bytes: &[u8]| {
        use sha2::Digest;
        sha2::Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    let manifest = MANIFEST.replace("SIZE", &graph().len().to_string()).replace("DIGEST", &sha256(&graph()));
    let project = Project::new().file("p.yaml", pipeline).file("paper.csv", PAPER);
    project.write("pipelines/datasets/mine.yaml", manifest);
    project.write("data/mine/graph.npz", graph());
    project
}

fn skipping() -> String {
    PIPELINE.replace("name: p\n", "name: p\nabsent-data: skip\n")
}

#[test]
fn absent_data_is_said_before_anything_runs_with_the_command_that_brings_it() {
    let project = project(PIPELINE);
    let run = project.run(&["run", "p.yaml"]).exit(4);
    let run = run.says("the data of `texas` is missing").says("`ppgnn data fetch texas`").says("p.yaml:10:37");
    assert!(!project.path("artifacts/objects").exists(), "{}", run.stderr);
    project.run(&["check", "p.yaml"]).exit(0).says("note: the data of `texas` is missing");
}

#[test]
fn absent_data_can_be_left_out_and_the_table_says_so() {
    let project = project(&skipping());
    let run = project.run(&["run", "p.yaml"]).exit(0).says("Left out: the data of `texas` is missing");
    let run = run.prints("| texas | absent (81.35 ± 6.33)<sup>").prints("(50.00 ± 1.50, ");
    run.prints("</sup> texas, its data is missing (ppgnn data fetch texas downloads it).").prints("In brackets: paper");
    for command in [&["plan", "p.yaml", "--json"], &["run", "p.yaml", "--json"], &["check", "p.yaml", "--json"]] {
        let json = project.run(command).exit(0).json();
        assert_eq!(json["absent-data"][0]["dataset"], "texas", "{command:?}");
    }
    // With nothing left to run it is a failure after all.
    std::fs::remove_file(project.path("data/mine/graph.npz")).unwrap();
    project.run(&["run", "p.yaml"]).exit(4).says("the data of `mine` is missing");
}

#[test]
fn data_that_nothing_can_fetch_is_to_be_got_by_hand() {
    let project = project(&skipping().replace("texas", "flickr"));
    let run = project.run(&["run", "p.yaml"]).exit(0).says("get the files by hand from https://");
    assert!(
        run.stdout.contains("by hand from https://") && !run.stdout.contains("data fetch flickr"),
        "{}",
        run.stdout
    );
}

#[test]
fn a_file_with_another_digest_is_refused_before_it_is_read() {
    let project = project(&skipping());
    let mut bytes = graph();
    bytes[40] ^= 1;
    project.write("data/mine/graph.npz", &bytes);
    project.run(&["check", "p.yaml"]).exit(4).says("a run will fail").says("has SHA-256 ");
    let described = project.run(&["data", "describe", "mine"]);
    assert!(described.stderr.contains("not of the published data set"), "{}", described.stderr);
    project.run(&["run", "p.yaml"]).exit(4).says("mine: ").says("has SHA-256 ").says("expected ");
    assert!(!project.path("artifacts/objects/load").exists());
}

#[test]
fn counts_that_differ_from_the_manifest_are_both_told() {
    let project = project(&skipping());
    let manifest = std::fs::read_to_string(project.path("pipelines/datasets/mine.yaml")).unwrap();
    project.write("pipelines/datasets/mine.yaml", manifest.replace("nodes: 24", "nodes: 25"));
    let run = project.run(&["run", "p.yaml"]).exit(4);
    assert!(run.stderr.contains("24") && run.stderr.contains("25") && run.stderr.contains("nodes"), "{}", run.stderr);
}

#[test]
fn a_data_set_starts_from_another_and_changes_it() {
    let start = "datasets: {half: {dataset: mine, expect: null, filter: duplicates}, mine: {filter: duplicates}}\n";
    let pipeline = skipping().replace("stages:", &format!("{start}stages:")).replace("[mine, texas]", "[mine, half]");
    let project = project(&pipeline);
    let plan = project.run(&["plan", "p.yaml", "--json"]).exit(0).json();
    let loads: Vec<_> = plan["nodes"].as_array().unwrap().iter().filter(|n| n["stage"] == "load").collect();
    assert_eq!(loads.len(), 2, "`expect` is in the key");
    project.run(&["run", "p.yaml", "load"]).exit(0);
    let circle = pipeline.replace("{filter: duplicates}}", "{dataset: half}}");
    project.write("circle.yaml", circle);
    project.run(&["check", "circle.yaml"]).exit(3).says("starts from itself");
    let unknown = pipeline.replace("dataset: mine, expect", "dataset: texsa, expect");
    project.write("unknown.yaml", unknown);
    project.run(&["check", "unknown.yaml"]).exit(3).says("unknown data set `texsa`").says("did you mean `texas`?");
}

#[test]
fn an_unknown_data_set_is_told_the_nearest_known_one() {
    let project = Project::new().file("p.yaml", &PIPELINE.replace("texas", "wisconsni"));
    project.run(&["check", "p.yaml"]).exit(3).says("unknown data set `wisconsni`").says("did you mean `wisconsin`?");
}

#[test]
fn a_broken_reference_names_file_and_line() {
    let project = project(&skipping());
    project.write("paper.csv", "row,column,mean,std,note\nmine,,best,,\n");
    project.run(&["run", "p.yaml"]).exit(4).says("paper.csv, line 2: mean is `best`, expected a number");
    assert!(!project.path("artifacts/objects/load").exists(), "said before anything runs");
    project.run(&["check", "p.yaml"]).exit(4).says("warning: tabulate/t: a run will fail: ");
    project.write("paper.csv", "row,column,mean,std,note\nmine,,400,,\n");
    project.run(&["run", "p.yaml"]).exit(4).says("mean is `400`, expected 0 to 100 (shares are in percent)");
    std::fs::remove_file(project.path("paper.csv")).unwrap();
    project.run(&["plan", "p.yaml"]).exit(4).says("cannot read").says("paper.csv");
}

#[test]
fn describe_reads_a_data_set_of_a_pipeline_too() {
    let project = project(&skipping());
    project.run(&["data", "describe", "mine"]).exit(0).prints("nodes                  24").prints("none in the store");
    let own = "datasets: {own: {format: heterophilous-npz, path: data/mine/graph.npz}}\nstages:";
    project.write("own.yaml", skipping().replace("stages:", own));
    let json = project.run(&["data", "describe", "own", "--in", "own.yaml", "--json"]).exit(0).json();
    assert_eq!(json["description"]["counts"]["nodes"], 24);
    project.run(&["data", "describe", "minee"]).exit(2).says("did you mean `mine`?");
    project.run(&["data", "describe", "texas"]).exit(4).says("ppgnn data fetch texas");
}

#[test]
fn edges_in_one_direction_are_no_news_where_the_format_stores_each_once() {
    let project = project(PIPELINE);
    project.write("tiny.yaml", crate::support::TINY);
    project.write("mine.yaml", crate::export::MINE);
    crate::export::write_people(&project);
    let told = |arguments: &[&str]| {
        let described = project.run(&[&["data", "describe"], arguments].concat()).exit(0).json();
        assert!(described["description"]["counts"]["edges-one-way"].as_u64().unwrap() > 0, "{described}");
        described["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "one-way-edges")
    };
    assert!(!told(&["mine", "--json"]));
    assert!(!told(&["one", "--in", "tiny.yaml", "--json"]));
    assert!(told(&["mine", "--in", "mine.yaml", "--json"]));
    let run = project.run(&["check", "p.yaml"]).exit(0);
    assert!(!run.stderr.contains("one-way-edges"), "{}", run.stderr);
}

#[test]
fn names_and_weights_of_ones_own_tables_are_described_and_used() {
    let pipeline = |more: &str, weights: &str| {
        format!(
            "ppgnn: 1\nname: own\ndatasets: {{own: {{format: tables, nodes: n.csv, edges: e.csv{more}}}}}\nstages:\n  \
             load: {{params: {{dataset: own}}}}\n  normalize: {{inputs: {{graph: load}}, params: {{weights: {weights}}}}}\n"
        )
    };
    let project = Project::new()
        .file("n.csv", "id,label,x\n007,\"cat, wild\",1\n7,dog\x1b[1m,2\n8,,3\n9,\"cat, wild\",4\n")
        .file("e.csv", "source,target,weight\n007,7,0.5\n7,007,0.5\n8,9,3\n")
        .file("own.yaml", &pipeline(", weight: weight", "use"))
        .file("plain.yaml", &pipeline("", "use"))
        .file("ignored.yaml", &pipeline("", "ignore"));
    let shown = project.run(&["data", "describe", "own", "--in", "own.yaml"]).exit(0);
    let shown = shown
        .prints("classes                2: cat, wild (2), dog\u{fffd}[1m (1)")
        .prints("unlabelled nodes     1 of 4");
    shown.prints("  weights              0.5 to 3, ignored unless `normalize` has `weights: use`");
    let json = project.run(&["data", "describe", "own", "--in", "own.yaml", "--json"]).exit(0).json();
    let description = &json["description"];
    assert_eq!(description["class-names"], serde_json::json!(["cat, wild", "dog\u{1b}[1m"]));
    assert_eq!(
        (&description["class-sizes"], &description["weights"]["max"]),
        (&serde_json::json!([2, 1]), &serde_json::json!(3.0))
    );
    project.run(&["run", "own.yaml"]).exit(0);
    project.run(&["run", "plain.yaml"]).exit(5).says("the edges of the graph have no weights");
    project.run(&["run", "ignored.yaml"]).exit(0);
    project.write("e.csv", "source,target,weight\n007,7,0.5\n7,007,0.25\n");
    let refused = project.run(&["run", "own.yaml"]).exit(5);
    refused.says("the edge between `007` and `7` has weights 0.25 and 0.5, expected one weight");
}

#[test]
fn an_empty_variable_is_one_that_is_not_set() {
    let project = project(&skipping());
    let run = crate::support::finish(project.command(&["check", "p.yaml"]).env("PPGNN_DATA_DIR", ""));
    assert_eq!(run.code, 0, "{}", run.stderr);
}
