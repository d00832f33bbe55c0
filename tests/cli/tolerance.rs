//! `--fail-outside`: an exit code of its own where results are far from published ones.

use crate::support::Project;

/// The tiny pipeline with published values: one that no accuracy reaches, one that none misses, one without a spread.
fn project() -> Project {
    let table = "tables:\n  accuracy: { rows: method, columns: load.dataset, reference: paper.csv }\n";
    Project::tiny()
        .file("near.yaml", &format!("ppgnn: 1\nname: near\nextends: tiny.yaml\n{table}"))
        .file("paper.csv", "row,column,mean,std,note\nMLP,one,0,0.01,\nPP-GNN,one,50,50,*\nMLP,two,1,,\n")
}

#[test]
fn a_cell_that_is_too_far_away_is_listed_and_has_an_exit_code() {
    let project = project();
    project.run(&["run", "near.yaml"]).exit(0).prints("1 cell is not comparable, without a printed spread or value.");
    let run = project.run(&["run", "near.yaml", "--fail-outside", "2"]).exit(6);
    let run = run
        .prints("| MLP |")
        .says("error: 1 cell is further than 2 published standard deviations from the published value");
    run.says("\n  accuracy: MLP, one: ").says(" against 0.00 ± 0.01, ").says("deviations away");
    let table = project.run(&["table", "near.yaml", "--fail-outside", "0.5"]).exit(6);
    table.prints("| MLP |").says("accuracy: MLP, one: ");
    let far = project.run(&["run", "near.yaml", "--fail-outside", "2", "--json"]).exit(6).json();
    assert_eq!(far["exit-code"], 6);
    assert_eq!((far["outside"].as_array().unwrap().len(), &far["outside"][0]["row"]), (1, &"MLP".into()));
    let csv = project.run(&["table", "near.yaml", "--format", "csv"]).exit(0);
    csv.prints(",0,0.0001,false,outside,")
        .prints(",0.5,0.5,true,within-one,")
        .prints(",0.01,,false,no-printed-spread,");
}

#[test]
fn what_is_near_enough_is_a_success() {
    let project = project();
    project.write("paper.csv", "row,column,mean,std,note\nMLP,one,50,50,\n");
    for command in ["run", "table"] {
        project.run(&[command, "near.yaml", "--fail-outside", "1"]).exit(0);
        project.run(&[command, "near.yaml", "--fail-outside", "-1"]).exit(2);
        project
            .run(&[command, "near.yaml", "--fail-outside=much"])
            .exit(2)
            .says("a number of standard deviations, such as 2");
    }
    project.run(&["run", "tiny.yaml", "--fail-outside", "1"]).exit(0).says("--fail-outside has nothing to compare");
    project.run(&["run", "tiny.yaml", "-n", "--fail-outside", "1"]).exit(2).says("cannot be used with");
}
