//! Files that data sets have for other stages than `load`: chosen by name, and missed by nobody but those who need them.

use crate::support::{Project, finish, real_data};

fn project(relate: &str, methods: &str, datasets: &str, more: &str) -> Project {
    on_ring(Project::new(), relate, methods, datasets, more)
}

/// Adds `r.yaml`: a ring of 24 nodes in a table, with a file of its relations, and one that lacks a row. The data sets `mine` and `bare` are
/// the same graph, and only the first knows of its relations.
pub fn on_ring(project: Project, relate: &str, methods: &str, datasets: &str, more: &str) -> Project {
    let n = 24;
    let nodes: String = (0..n).map(|i| format!("{i},{},{}.5,{}\n", i % 2, i % 5, 7 - i % 3)).collect();
    let edges: String = (0..n).map(|i| format!("{i},{}\n", (i + 1) % n)).collect();
    let row = |i: usize, j: usize, space: &str| format!("{i},{}\t{space}\t{}\n", j % n, (i + j) % 4);
    let rows = (0..n).map(|i| row(i, i + 1, "graph") + &row((i + 1) % n, i, "graph") + &row(i, i + 2, "latent_space"));
    let pairs = format!("node1,node2\tspace\trelation_type\n{}", rows.collect::<String>());
    let text = format!(
        "ppgnn: 1
name: r
{more}
datasets:
  mine: {{ format: tables, nodes: nodes.csv, edges: edges.csv, neighbourhoods: {{ poincare: near.txt }} }}
  bare: {{ format: tables, nodes: nodes.csv, edges: edges.csv }}
stages:
  load: {{ params: {{ dataset: mine }} }}
  relate: {{ inputs: {{ graph: load }}, params: {{ {relate} }} }}
  featurize: {{ inputs: {{ graph: load }} }}
  normalize: {{ inputs: {{ graph: load }} }}
  split: {{ inputs: {{ graph: load }}, params: {{ count: 2 }} }}
  train:
    inputs: {{ operator: normalize, nodes: featurize, splits: split, relations: relate }}
    params: {{ model: mlp, hidden: 8, epochs: 5 }}
  evaluate: {{ inputs: {{ trained: train, nodes: featurize, splits: split }} }}
sweep:
  axes:
    load.dataset: [{datasets}]
    train.model: [{methods}]
tables:
  accuracy: {{ rows: train.model, columns: load.dataset, metric: test-accuracy }}
"
    );
    let short = pairs.lines().filter(|line| !line.starts_with("3,4\t")).map(|line| format!("{line}\n"));
    project
        .file("r.yaml", &text)
        .file("nodes.csv", &format!("id,label,a,b\n{nodes}"))
        .file("edges.csv", &format!("source,target\n{edges}"))
        .file("near.txt", &pairs)
        .file("short.txt", &short.collect::<String>())
}

#[test]
fn a_name_stands_for_the_file_that_the_data_set_has() {
    let project = project("embedding: poincare", "geom-gcn", "mine", "");
    project.run(&["check", "r.yaml"]).exit(0);
    project.run(&["run", "r.yaml", "--quiet"]).exit(0).prints("| geom-gcn");
    // A file counts by its content, however it was named.
    let by_path = project.run(&["plan", "r.yaml", "--set", "relate.embedding=null", "--set", "relate.file=near.txt"]);
    by_path.exit(0).prints("8 hit, 0 miss");
}

#[test]
fn a_name_that_the_data_set_does_not_have_is_a_mistake_with_the_nearest() {
    let wrong = project("embedding: poincar", "geom-gcn", "mine", "");
    wrong.run(&["check", "r.yaml"]).exit(3).says("`mine` has no `neighbourhoods` of name `poincar`").says("`poincare`");
    let both = project("embedding: poincare, file: near.txt", "geom-gcn", "mine", "");
    both.run(&["check", "r.yaml"]).exit(3).says("stage `relate` has both `embedding` and `file`");
}

#[test]
fn a_data_set_without_such_files_costs_the_cell_of_the_model_that_needs_them() {
    let strict = project("embedding: poincare", "mlp, geom-gcn", "mine, bare", "");
    let refused = strict.run(&["plan", "r.yaml"]).exit(4);
    refused.says("no `neighbourhoods` of `bare` are known, which stage `relate` reads").says("`absent-data: skip`");
    // Nobody needs them for a perceptron.
    project("embedding: poincare", "mlp", "bare", "").run(&["run", "r.yaml", "--quiet"]).exit(0);
    let skipped = project("embedding: poincare", "mlp, geom-gcn", "mine, bare", "absent-data: skip");
    let run = skipped.run(&["run", "r.yaml", "--quiet"]).exit(0);
    let run = run.prints("bare, no neighbourhoods of it are known");
    let row = run.stdout.lines().find(|line| line.contains("| geom-gcn")).unwrap();
    assert!(row.contains("| absent") && row.matches('±').count() == 1, "{row}");
    let row = run.stdout.lines().find(|line| line.contains("| mlp")).unwrap();
    assert_eq!(row.matches('±').count(), 2, "both perceptrons were trained: {row}");
}

#[test]
fn a_file_of_another_graph_is_refused_with_its_place() {
    let project = project("file: short.txt", "geom-gcn", "mine", "");
    let run = project.run(&["run", "r.yaml", "--quiet"]).exit(4);
    run.says("short.txt: has no row that says how node `3` is related to node `4`").says("another data set");
}

/// The manifests know the published files.
#[test]
fn published_neighbourhoods_are_read_by_name_and_absent_for_squirrel() {
    let Some(data) = real_data() else { return };
    let text = "ppgnn: 1
name: p
absent-data: skip
stages:
  load: { params: { dataset: texas } }
  relate: { inputs: { graph: load }, params: { embedding: isomap } }
sweep:
  axes:
    load.dataset: [texas, squirrel]
    relate.embedding: [poincare, isomap, struc2vec]
";
    let project = Project::new().file("p.yaml", text);
    let run = |command: &str| finish(project.command(&[command, "p.yaml"]).env("PPGNN_DATA_DIR", &data));
    run("run").exit(0).says("no `neighbourhoods` of `squirrel` are known");
    let made = std::fs::read_dir(project.path("artifacts/objects/relate")).unwrap().count();
    assert_eq!(made, 3, "one for each embedding of Texas");
    // A file of one's own is no missing data of Texas.
    let (stages, _) = text.split_once("sweep:").unwrap();
    project.write("q.yaml", stages.replace("embedding: isomap", "file: q.txt"));
    let own = finish(project.command(&["check", "q.yaml"]).env("PPGNN_DATA_DIR", &data));
    own.exit(4).says("cannot read `./q.txt`");
}
