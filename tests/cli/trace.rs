//! `ppgnn trace`: everything behind one cell of a table.

use serde_json::Value;

use crate::support::Project;

fn trace(project: &Project, arguments: &[&str]) -> Value {
    project.run(&[&["trace", "tiny.yaml"], arguments, &["--json"]].concat()).exit(0).json()
}

fn find<'v>(list: &'v Value, field: &str, value: &str) -> &'v Value {
    let found = list.as_array().unwrap().iter().find(|item| item[field] == value);
    found.unwrap_or_else(|| panic!("no {field} {value} in {list}"))
}

#[test]
fn a_cell_is_traced_to_runs_splits_settings_and_artifacts() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml", "--set", "train.lr=0.02"]).exit(0);
    let traced = trace(&project, &["PP-GNN", "one", "--set", "train.lr=0.02"]);
    let plan = project.run(&["plan", "tiny.yaml", "--set", "train.lr=0.02", "--json"]).exit(0).json();
    let key = |id: &str| find(&plan["nodes"], "id", id)["key"].clone();
    assert_eq!((&traced["table"]["key"], &traced["absent"]), (&key("tabulate/accuracy"), &Value::Null));

    let evidence = &traced["evidence"];
    let [run] = &evidence["runs"].as_array().unwrap()[..] else { panic!("{evidence}") };
    assert_eq!((&run["id"], &run["key"]), (&"evaluate/one/PP-GNN".into(), &key("evaluate/one/PP-GNN")));
    assert_eq!(run["seeds"], serde_json::json!({"load": 1, "split": 0, "train": 0}));
    assert!(run["seconds"].as_f64().is_some() && run["dataset"] == "one" && run["model"] == "pp-gnn", "{run}");
    // The values are those of the cell and of the artifact itself, and so are the epochs.
    let folder = project.path("artifacts/objects/evaluate").join(run["key"].as_str().unwrap());
    let metrics: Value = serde_json::from_slice(&std::fs::read(folder.join("metrics.json")).unwrap()).unwrap();
    for (split, scores) in metrics["splits"].as_array().unwrap().iter().enumerate() {
        let traced_split = &run["splits"][split];
        assert_eq!(traced_split["value"], scores["test"]["accuracy"]);
        assert_eq!(traced_split["value"], traced["cell"]["values"][split]);
        assert_eq!((&traced_split["chosen-epoch"], &traced_split["split"]), (&scores["best-epoch"], &split.into()));
    }
    assert_eq!(run["splits"].as_array().unwrap().len(), 2);

    let setting = |stage: &str, parameter: &str| {
        let all = evidence["settings"].as_array().unwrap();
        let found = all.iter().find(|s| s["stage"] == stage && s["parameter"] == parameter);
        let found = found.unwrap_or_else(|| panic!("no {stage}.{parameter}: {evidence}"));
        (found["value"].clone(), found["default"].as_bool().unwrap())
    };
    assert_eq!(setting("train", "lr"), (0.02.into(), false));
    assert_eq!(setting("train", "bins"), (2.into(), false));
    assert_eq!(setting("load", "phi"), (0.5.into(), true));
    assert_eq!(setting("normalize", "self-loops"), (true.into(), true));

    let spectrum = find(&evidence["inputs"], "kind", "spectrum");
    assert_eq!(
        (&spectrum["id"], &spectrum["key"], &spectrum["computed"]),
        (&"evd/one".into(), &key("evd/one"), &true.into())
    );
    assert_eq!(spectrum["ppgnn"], env!("CARGO_PKG_VERSION"));
    assert!(spectrum["version"].as_u64().unwrap() > 0 && !spectrum["profile"].as_str().unwrap().is_empty());
    assert!(find(&evidence["inputs"], "stage", "train")["chosen"].as_str().unwrap().starts_with("pp-gnn version "));
    assert!(evidence["inputs"].as_array().unwrap().iter().all(|input| !input["id"].as_str().unwrap().contains("two")));
    // An MLP reads no eigenpairs.
    let mlp = trace(&project, &["MLP", "one", "--set", "train.lr=0.02"]);
    assert!(!mlp["evidence"]["inputs"].to_string().contains("spectrum"), "{mlp}");

    // In words, the same; and the key of the table leads to it.
    let text = project.run(&["trace", "tiny.yaml", "PP-GNN", "one", "--set", "train.lr=0.02"]).exit(0);
    let key = traced["table"]["key"].as_str().unwrap();
    let text = text.prints(&format!("PP-GNN, one of table accuracy {}\n", &key[..12])).prints("\n  train.lr: 0.02\n");
    text.prints("\n  ppgnn run tiny.yaml --set train.lr=0.02 evaluate/one/PP-GNN\n");
    project.run(&["show", &key[..12]]).exit(0).prints("tabulate/accuracy, table");
}

/// The words of a command that was printed, after the name of the program.
fn words(command: &Value) -> Vec<String> {
    let words = command.as_str().unwrap().split(' ').skip(1);
    words.map(|word| word.trim_matches('\'').to_owned()).collect()
}

#[test]
fn the_commands_compute_the_cell_again_and_export_its_runs() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let first = trace(&project, &["MLP", "two"]);
    let run = |command: &Value| {
        let words = words(command);
        project.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let exported = run(&first["commands"]["export"]).exit(0);
    let mut reader = csv::Reader::from_reader(exported.stdout.as_bytes());
    assert_eq!(reader.records().count(), 2);
    std::fs::remove_dir_all(project.path("artifacts")).unwrap();
    run(&first["commands"]["compute"]).exit(0);
    // Of the table only this cell is there, and it is the same.
    let again = trace(&project, &["MLP", "two"]);
    assert_eq!((&again["cell"]["values"], &again["table"]["key"]), (&first["cell"]["values"], &Value::Null));
    run(&again["commands"]["table"]).exit(0).says("lacks 3 of 4 runs").prints("| MLP");
}

#[test]
fn an_unknown_row_or_column_gets_the_nearest_name_and_several_tables_are_told() {
    let project = Project::tiny();
    project
        .run(&["trace", "tiny.yaml", "PPGNN", "one"])
        .exit(2)
        .says("table `accuracy` has no row `PPGNN`")
        .says("did you mean `PP-GNN`");
    project.run(&["trace", "tiny.yaml", "MLP", "tow"]).exit(2).says("has no column `tow`").says("did you mean `two`");
    project.run(&["trace", "tiny.yaml", "MLP"]).exit(2).says("table `accuracy` has 2 columns").says("one, two");
    project.run(&["trace", "tiny.yaml", "MLP", "one", "--table", "acuracy"]).exit(2).says("did you mean `accuracy`");
    let two = crate::support::TINY
        .replace("profiles:", "  loss: { rows: load.dataset, columns: method, metric: test-loss }\nprofiles:");
    project.write("tiny.yaml", two);
    project
        .run(&["trace", "tiny.yaml", "MLP", "one"])
        .exit(2)
        .says("the pipeline has 2 tables")
        .says("--table: accuracy, loss");
    project.run(&["run", "tiny.yaml"]).exit(0);
    let traced = trace(&project, &["one", "MLP", "--table", "loss"]);
    assert_eq!(
        (&traced["metric"], &traced["row"], &traced["column"]),
        (&"test-loss".into(), &"one".into(), &"MLP".into())
    );
    assert_eq!(traced["evidence"]["runs"][0]["splits"][1]["value"], traced["cell"]["values"][1]);
}

#[test]
fn a_cell_without_a_value_says_why() {
    let project = Project::tiny();
    let nothing = project.run(&["trace", "tiny.yaml", "MLP", "one"]).exit(4);
    let nothing =
        nothing.says("error: this cell has no value: not computed yet").says("`ppgnn run tiny.yaml evaluate/one/MLP`");
    nothing.prints("no value: not computed yet\n").prints("run evaluate/one/MLP").prints(", not in the store");
    assert!(!project.path("artifacts").exists(), "nothing is computed or stored by looking");
    project.run(&["run", "tiny.yaml", "evaluate/one/MLP"]).exit(0);
    trace(&project, &["MLP", "one"]);
    let other = project.run(&["trace", "tiny.yaml", "PP-GNN", "one", "--json"]).exit(4).json();
    assert_eq!((&other["absent"], &other["exit-code"]), (&"not computed yet".into(), &4.into()));
    // Data that is missing.
    let absent = crate::support::TINY
        .replace("name: tiny\n", "name: tiny\nabsent-data: skip\n")
        .replace("[one, two]", "[one, texas]");
    project.write("tiny.yaml", absent);
    project
        .run(&["trace", "tiny.yaml", "MLP", "texas"])
        .exit(4)
        .says("texas, its data is missing (ppgnn data fetch texas downloads it)");
}

#[test]
fn what_is_picked_or_pooled_is_told() {
    let project = Project::tiny();
    let text = crate::support::TINY.replace(
        "    load.dataset: [one, two]\n",
        "    load.dataset: [one, two]\n    train.lr: [0.01, 0.1]\n    train.seed: [3, 4]\n",
    );
    let table = "metric: test-accuracy, pool: train.seed, pick: val-accuracy }";
    project.write("tiny.yaml", text.replace("metric: test-accuracy }", table));
    project.run(&["run", "tiny.yaml"]).exit(0);
    let traced = trace(&project, &["MLP", "one"]);
    let picked = &traced["cell"]["picked"];
    assert_eq!(picked["candidates"].as_array().unwrap().len(), 2);
    let runs = traced["evidence"]["runs"].as_array().unwrap();
    // Two seeds are pooled; all else that is chosen is the same.
    assert_eq!(runs.len(), 2);
    let own = |run: usize| runs[run]["settings"].clone();
    assert_eq!(own(0), serde_json::json!([{"stage": "train", "parameter": "seed", "value": 3, "default": false}]));
    assert_eq!(own(1)[0]["value"], 4);
    let values: Vec<&Value> =
        runs.iter().flat_map(|run| run["splits"].as_array().unwrap()).map(|split| &split["value"]).collect();
    assert_eq!(values, traced["cell"]["values"].as_array().unwrap().iter().collect::<Vec<_>>());
    let chosen = picked["chosen"].as_u64().unwrap();
    let label = picked["candidates"][usize::try_from(chosen).unwrap()]["label"].as_str().unwrap();
    let text = project.run(&["trace", "tiny.yaml", "MLP", "one"]).exit(0).prints("picked by val-accuracy out of 2\n");
    text.prints(&format!("  {label}  chosen\n"));
    // To pick again, all four runs are needed.
    let command = words(&traced["commands"]["compute"]);
    assert_eq!(command.iter().filter(|word| word.starts_with("evaluate/one/")).count(), 4, "{command:?}");
}

#[test]
fn a_searched_cell_says_which_trial_was_chosen() {
    let project = Project::tiny();
    let search = "search: { params: { train.lr: [0.001, 0.05, 0.1] }, sampler: grid, trials: 3 }\ntables:";
    project.write("tiny.yaml", crate::support::TINY.replace("tables:", search));
    let open = project.run(&["trace", "tiny.yaml", "MLP", "one"]).exit(4);
    assert!(!open.stderr.contains("not computed yet"), "a search that has not ended says so: {}", open.stderr);
    project.run(&["run", "tiny.yaml"]).exit(0);
    let traced = trace(&project, &["MLP", "one"]);
    let searched = &traced["evidence"]["runs"][0]["searched"];
    let best = project.run(&["search", "best", "tiny.yaml", "one/MLP", "--json"]).exit(0).json();
    let [only] = &searched.as_array().unwrap()[..] else { panic!("{searched}") };
    assert_eq!((&only["trial"], &only["of"]), (&best["searches"][0]["trial"], &3.into()));
    assert_eq!((&only["settings"], &only["objective"]), (&best["searches"][0]["settings"], &"val-accuracy".into()));
}

#[test]
fn files_are_told_with_their_digests() {
    let table = "sweep: { axes: { load.dataset: [mine] } }\ntables: { t: { rows: load.dataset, columns: [] } }\n";
    let project = Project::new().file("mine.yaml", &(crate::export::MINE.to_owned() + table));
    crate::export::write_people(&project);
    project.run(&["run", "mine.yaml"]).exit(0);
    // There is one column only, which has no name.
    let traced = project.run(&["trace", "mine.yaml", "mine", "--json"]).exit(0).json();
    for (parameter, name) in [("nodes", "people.csv"), ("edges", "links.csv")] {
        let file = find(&traced["evidence"]["data"], "parameter", parameter);
        assert!(file["file"].as_str().unwrap().ends_with(name), "{file}");
        let digest = blake3::hash(&std::fs::read(project.path(name)).unwrap()).to_hex().to_string();
        assert_eq!(file["blake3"], digest.as_str());
    }
}

#[test]
fn a_published_table_has_its_key_where_people_see_it() {
    let project = Project::tiny();
    let run = project.run(&["run", "tiny.yaml"]).exit(0);
    let key = trace(&project, &["MLP", "one"])["table"]["key"].as_str().unwrap()[..12].to_owned();
    assert!(run.stdout.ends_with(&format!(" Table `{key}`.\n")), "{}", run.stdout);
    let published = |ending: &str| {
        std::fs::read_to_string(project.path(&format!("artifacts/results/tiny/accuracy.{ending}"))).unwrap()
    };
    assert_eq!(published("md"), run.stdout);
    assert!(published("tex").contains(&format!(" Table \\texttt{{{key}}}.}}\n")), "{}", published("tex"));
    assert!(!published("csv").contains(&key) && !published("json").contains(&key));
    project.run(&["table", "tiny.yaml", "--format", "tex"]).exit(0).prints(&format!("Table \\texttt{{{key}}}"));
    // A table that is not whole is in no store, so there is nothing to find.
    std::fs::remove_dir_all(project.path("artifacts")).unwrap();
    project.run(&["run", "tiny.yaml", "evaluate/one/MLP"]).exit(0);
    let partial = project.run(&["table", "tiny.yaml"]).exit(0);
    assert!(!partial.stdout.contains("Table `"), "{}", partial.stdout);
}
