//! Same file, same seed: the same bytes in every artifact and table, with one thread or many.

use crate::support::{Project, finish};

#[test]
fn the_number_of_threads_changes_no_byte() {
    let project = Project::tiny();
    let mut stores = Vec::new();
    for (store, jobs, rayon) in [("one", "1", "1"), ("four", "4", "3"), ("lone", "8", "8")] {
        let mut command = project.command(&["run", "tiny.yaml", "--artifacts", store, "-j", jobs]);
        let run = finish(command.env("RAYON_NUM_THREADS", rayon)).exit(0);
        stores.push((project.artifact_bytes(store), run.stdout));
    }
    assert_eq!(stores[0].0.len(), stores[1].0.len());
    assert!(!stores[0].0.is_empty());
    assert_eq!(stores[0], stores[1]);
    assert_eq!(stores[0], stores[2]);
}

#[test]
fn a_node_alone_on_all_cores_gives_the_same_bytes_as_one_among_many() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml", "--artifacts", "many", "-j", "4"]).exit(0);
    for target in ["load/one", "evd/one", "train/one/PP-GNN", "accuracy"] {
        project.run(&["run", "tiny.yaml", target, "--artifacts", "alone", "-j", "4"]).exit(0);
    }
    let (many, alone) = (project.artifact_bytes("many"), project.artifact_bytes("alone"));
    assert_eq!(many, alone);
}
