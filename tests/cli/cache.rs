//! `cache ls|verify|gc`.

use crate::support::Project;

#[test]
fn ls_lists_what_is_there() {
    let project = Project::tiny();
    project.run(&["cache", "ls"]).exit(0).prints("0 artifacts");
    project.run(&["run", "tiny.yaml"]).exit(0);
    project.run(&["cache", "ls"]).exit(0).prints("17 artifacts").prints("train/one/PP-GNN");
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
    project.run(&["cache", "ls"]).exit(0).prints("18 artifacts");
    project.run(&["cache", "gc", "--older-than", "1d"]).exit(0).prints("nothing to delete");
    project.run(&["cache", "gc", "--delete"]).exit(0).prints("deleted 1 of 1");
    project.run(&["cache", "ls"]).exit(0).prints("17 artifacts");
    let again = project.run(&["run", "tiny.yaml", "--json"]).exit(0).json();
    assert_eq!(again["ran"], 0);
    project.run(&["cache", "gc", "--older-than", "soon"]).exit(2).says("30d");
}
