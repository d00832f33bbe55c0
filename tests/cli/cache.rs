//! `cache ls|verify|gc`.

use crate::support::Project;

#[test]
fn ls_lists_what_is_there() {
    let project = Project::tiny();
    project.run(&["cache", "ls"]).exit(0).prints("0 artifacts");
    project.run(&["run", "tiny.yaml"]).exit(0);
    project.run(&["cache", "ls"]).exit(0).prints("19 artifacts").prints("train/one/PP-GNN");
    let listed = project.run(&["cache", "ls", "evd", "--json"]).exit(0).json();
    assert_eq!(listed["artifacts"].as_array().unwrap().len(), 2);
}

#[test]
fn gc_shows_first_and_never_takes_what_a_published_result_needs() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    project.run(&["cache", "gc"]).exit(0).prints("nothing to delete");
    // Not published: only a target below the table was asked for.
    project.run(&["run", "tiny.yaml", "train/one/MLP", "--set", "train.seed=7"]).exit(0);
    project.run(&["cache", "gc"]).exit(0).prints("1 could be deleted").prints("train");
    project.run(&["cache", "ls"]).exit(0).prints("20 artifacts");
    project.run(&["cache", "gc", "--older-than", "1d"]).exit(0).prints("nothing to delete");
    project.run(&["cache", "gc", "--delete"]).exit(0).prints("deleted 1 of 1");
    project.run(&["cache", "ls"]).exit(0).prints("19 artifacts");
    let again = project.run(&["run", "tiny.yaml", "--json"]).exit(0).json();
    assert_eq!(again["ran"], 0);
    project.run(&["cache", "gc", "--older-than", "soon"]).exit(2).says("30d");
}

#[test]
fn resume_points_are_counted_and_deleted_on_request() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml", "load"]).exit(0);
    project.write(&format!("artifacts/resume/{}/state", "ab".repeat(32)), "x".repeat(1500));
    project.run(&["cache", "ls"]).exit(0).prints("2 artifacts").prints("1 resume points, 1.5 kB");
    let listed = project.run(&["cache", "ls", "--json"]).exit(0).json();
    assert_eq!(listed["resume-points"][0]["bytes"], 1500);
    let old = project.run(&["cache", "gc", "--older-than", "1d"]).exit(0);
    assert!(!old.stdout.contains("resume point"), "{}", old.stdout);
    project.run(&["cache", "gc"]).exit(0).prints("resume point    1.5 kB  abababab");
    project.run(&["cache", "gc", "--delete"]).exit(0);
    let listed = project.run(&["cache", "ls", "--json"]).exit(0).json();
    assert_eq!(listed["resume-points"], serde_json::json!([]));
}

#[test]
fn gc_leaves_a_folder_alone_that_is_not_a_store() {
    let project = Project::tiny().file("home/tmp/mine.txt", "keep");
    project.run(&["cache", "gc", "--delete", "--artifacts", "home"]).exit(7).says("not an artifact store");
    project.run(&["run", "tiny.yaml", "--artifacts", "home"]).exit(7).says("not a store");
    assert_eq!(std::fs::read_to_string(project.path("home/tmp/mine.txt")).unwrap(), "keep");
    assert!(!project.path("home/store.json").exists());
    // What is in the way of nothing stays: the folder of a project has a README in it.
    project.write("artifacts/README.md", "about");
    project.run(&["run", "tiny.yaml", "load"]).exit(0);
    project.write("artifacts/tmp/notes.txt", "mine");
    project.run(&["cache", "gc", "--delete"]).exit(0);
    assert!(project.path("artifacts/tmp/notes.txt").exists());
}
