//! Commands that look: `plan`, `check`, `dag`, `table`, `list`, `schema`, `completions`, and help.

use crate::support::Project;

#[test]
fn plan_lists_nodes_with_id_stage_key_and_state() {
    let project = Project::tiny();
    let plan = project.run(&["plan", "tiny.yaml", "--json"]).exit(0).json();
    let nodes = plan["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 19);
    for node in nodes {
        assert_eq!(node["key"].as_str().unwrap().len(), 64);
        assert_eq!(node["state"], "miss");
        assert!(node["id"].as_str().unwrap().starts_with(node["stage"].as_str().unwrap()));
    }
    project.run(&["run", "tiny.yaml"]).exit(0);
    let plan = project.run(&["plan", "tiny.yaml", "--json"]).exit(0).json();
    assert_eq!(plan["hits"], 19);
    project
        .run(&["plan", "tiny.yaml"])
        .exit(0)
        .prints("19 nodes: 19 hit, 0 miss")
        .prints("sharing: 19 nodes instead of 29");
}

#[test]
fn plan_expects_times_from_earlier_runs() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let plan = project.run(&["plan", "tiny.yaml", "--set", "train.seed=5", "--json"]).exit(0).json();
    assert!(plan["expected-seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn check_touches_neither_store_nor_data() {
    let project = Project::tiny();
    project.run(&["check", "tiny.yaml"]).exit(0).prints("valid; points: 4, nodes: 19, tables: 1");
    assert!(!project.path("artifacts").exists());
    let with_file = "{ppgnn: 1, name: f, stages: {load: {params: {format: heterophilous-npz, path: gone.npz}}}}";
    let project = Project::new().file("f.yaml", with_file);
    project.run(&["check", "f.yaml", "--no-data"]).exit(0);
}

#[test]
fn dag_draws_nodes_or_stages() {
    let project = Project::tiny();
    let mermaid = project.run(&["dag", "tiny.yaml"]).exit(0).stdout;
    assert!(mermaid.starts_with("graph LR\n"), "{mermaid}");
    assert_eq!(mermaid.matches("-->").count(), 2 * (1 + 1 + 1 + 1 + 3 + 4 + 2 * 3) + 4, "{mermaid}");
    let dot = project.run(&["dag", "tiny.yaml", "--format", "dot", "--stages"]).exit(0).stdout;
    assert!(dot.starts_with("digraph") && dot.contains("train (0 of 4 cached)"), "{dot}");
}

#[test]
fn table_prints_any_format_and_computes_nothing() {
    let project = Project::tiny();
    project.run(&["table", "tiny.yaml"]).exit(4).says("has not been computed").says("ppgnn run tiny.yaml");
    project.run(&["run", "tiny.yaml"]).exit(0);
    project.run(&["table", "tiny.yaml"]).exit(0).prints("| MLP");
    project.run(&["table", "tiny.yaml", "accuracy", "--format", "tex"]).exit(0).prints("\\toprule");
    project.run(&["table", "tiny.yaml", "--format", "csv"]).exit(0).prints("MLP,one,test-accuracy,");
    let json: serde_json::Value =
        serde_json::from_str(&project.run(&["table", "tiny.yaml", "--format", "json"]).exit(0).stdout).unwrap();
    // A cell can be traced to the runs behind it.
    let plan = project.run(&["plan", "tiny.yaml", "--json"]).exit(0).json();
    let key = plan["nodes"].as_array().unwrap().iter().find(|n| n["id"] == "evaluate/one/MLP").unwrap()["key"].clone();
    assert!(json.to_string().contains(key.as_str().unwrap()), "{json}");
    project.run(&["table", "tiny.yaml", "acuracy"]).exit(2).says("did you mean `accuracy`?");
}

#[test]
fn list_shows_stages_models_formats_metrics_and_data_sets() {
    let project = Project::tiny();
    for (what, name) in [("stages", "evd"), ("models", "pp-gnn"), ("formats", "csbm")] {
        project.run(&["list", what]).exit(0).prints(name);
        project.run(&["list", what, name]).exit(0).prints("default");
        project.run(&["list", what, "--json"]).exit(0).prints("\"version\":1");
    }
    project.run(&["list", "models", "ppgnn"]).exit(2).says("did you mean `pp-gnn`?");
    let metrics = project.run(&["list", "metrics"]).exit(0).says("such as `test-accuracy`");
    metrics.prints("class (in percent, larger is better)\n").prints("Mean cross-entropy (smaller is better)\n");
    let json = project.run(&["list", "metrics", "loss", "--json"]).exit(0).json();
    assert_eq!((&json["items"][0]["percent"], &json["items"][0]["larger-is-better"]), (&false.into(), &false.into()));

    project.run(&["list", "datasets"]).exit(0).prints("texas                Texas\n").says("`ppgnn data list`");
    project.run(&["list", "datasets", "texas"]).exit(0).prints("  source: https://");
    let json = project.run(&["list", "datasets", "--json"]).exit(0).json();
    assert!(json["items"].as_array().unwrap().iter().any(|i| i["name"] == "texas" && i["title"] == "Texas"), "{json}");
    project.run(&["list", "datasets", "tiny.yaml"]).exit(0).prints("two");
    project.run(&["list", "datasets", "texsa"]).exit(2).says("did you mean `texas`?");
    project.run(&["list", "datasets", "csbm"]).exit(2).says("`ppgnn list formats csbm`");

    project.write("pipelines/datasets/wrong.yaml", "ppgnn: 1\ntitel: Wrong\n");
    project.run(&["list", "datasets"]).exit(3).prints("its manifest is invalid").prints("texas").says("`titel`");
}

#[test]
fn a_model_is_listed_with_formula_source_inputs_device_and_parameters() {
    let project = Project::new();
    let list = project.run(&["list", "models"]).exit(0);
    let list = list.prints("lgc                  Linear layer filtered by a trained polynomial of the operator\n");
    list.prints("\"Linear Graph Convolutional Networks\", ESANN 2020; CPU and GPU\n")
        .prints("; needs input `hops`; CPU");
    let one = project.run(&["list", "models", "tdgnn"]).exit(0).prints("\n  logits = θ₀ H + Σ_l θ_l");
    let one = one.prints("CIKM 2021\n").prints("  computes on: CPU and GPU\n  needs input `hops`\n");
    one.prints("a number at least 0 and below 1 (default 0.5)\n").prints("(default [1,2,3,4])");
    let pp = project.run(&["list", "models", "pp-gnn"]).exit(0).prints("  needs input `spectrum`\n");
    pp.prints("  needs input `projection` with some parameters\n")
        .prints("one of `per-side`, `joint`, `by-nodes` (default");
    let json = project.run(&["list", "models", "--json"]).exit(0).json();
    for item in json["items"].as_array().unwrap() {
        let (name, text) = (&item["name"], |field: &str| item[field].as_str().unwrap_or_default().to_owned());
        assert!(item["gpu"].is_boolean(), "{name}");
        // A program of the user's has a formula of its own, and needs at least to be named.
        if name == "command" {
            continue;
        }
        assert!(!text("equation").is_empty(), "{name}");
        let years = text("reference");
        let has_year = (1900..2100).any(|year: u32| years.contains(&year.to_string()));
        assert!(has_year || ["lr", "mlp"].contains(&name.as_str().unwrap()), "{name}: {years}");
        for (param, schema) in item["params"]["properties"].as_object().unwrap() {
            assert!(schema.get("default").is_some() && schema.get("description").is_some(), "{name}: {param}");
        }
    }
    let find = |name: &str| json["items"].as_array().unwrap().iter().find(|i| i["name"] == name).unwrap();
    assert_eq!(find("adagnn")["needs"], serde_json::json!(["pretrained"]));
    assert_eq!(find("adagnn")["needs-by-default"], serde_json::json!([]));
    assert_eq!(find("pp-gnn")["needs-by-default"], serde_json::json!(["spectrum"]));
}

#[test]
fn the_schema_accepts_what_the_program_accepts_and_refuses_what_it_refuses() {
    let project = Project::new();
    let schema: serde_json::Value = serde_json::from_str(&project.run(&["schema"]).exit(0).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let read = |text: &str| serde_yaml::from_str::<serde_json::Value>(text).unwrap();
    let mut files: Vec<_> =
        crate::support::files(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines")));
    files.retain(|f| f.extension().is_some_and(|e| e == "yaml") && f.parent().unwrap().ends_with("pipelines"));
    assert!(!files.is_empty());
    for file in files {
        let errors: Vec<_> =
            validator.iter_errors(&read(&std::fs::read_to_string(&file).unwrap())).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", file.display());
        project.run(&["check", file.to_str().unwrap()]).exit(0);
    }
    assert!(validator.is_valid(&read(crate::support::TINY)));
    for wrong in [
        "{name: x, stages: {}}",
        "{ppgnn: 1, name: x, stagess: {}}",
        "{ppgnn: 1, name: x, stages: {train: {params: {model: nope}}}}",
        "{ppgnn: 1, name: x, stages: {train: {params: {model: mlp, epochs: -1}}}}",
        "{ppgnn: 1, name: x, stages: {evd: {inputs: {grph: x}}}}",
        "{ppgnn: 1, name: x, stages: {evd: {inputs: {operator: x, larger: y}}}}",
        "{ppgnn: 1, name: x, stages: {other: {uses: evd, params: {kk: 3}}}}",
        "{ppgnn: 1, name: x, stages: {}, tables: {t: {rows: a}}}",
    ] {
        assert!(!validator.is_valid(&read(wrong)), "{wrong}");
    }
}

#[test]
fn completions_exist_for_common_shells() {
    for shell in ["bash", "zsh", "fish"] {
        Project::new().run(&["completions", shell]).exit(0).prints("ppgnn");
    }
}

#[test]
fn wrong_usage_exits_with_two_and_help_with_zero() {
    let project = Project::tiny();
    project.run(&["rnu"]).exit(2);
    project.run(&["run"]).exit(2);
    project.run(&["run", "tiny.yaml", "-j", "0"]).exit(2);
    for command in <ppgnn::cli::Cli as clap::CommandFactory>::command().get_subcommands().map(clap::Command::get_name) {
        let help = project.run(&[command, "--help"]).exit(0).stdout;
        assert!(help.lines().next().is_some_and(|l| !l.ends_with('.')), "{command}: {help}");
    }
    project.run(&["--help"]).exit(0).prints("Exit codes");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let project = Project::tiny();
    let script = format!("{} plan tiny.yaml | head -n 1", env!("CARGO_BIN_EXE_ppgnn"));
    let mut command = std::process::Command::new("bash");
    command.args(["-o", "pipefail", "-c", &script]).current_dir(project.path("."));
    let done = crate::support::finish(&mut command).exit(0);
    assert!(!done.stderr.contains("panic"), "{}", done.stderr);
}

#[test]
fn json_is_one_object_even_if_the_pipeline_is_invalid() {
    let project = Project::tiny().file("bad.yaml", "ppgnn: 1\nname: x\nstagse: {}\nstages: {lod: {}}\n");
    for command in ["run", "plan", "check"] {
        let object = project.run(&[command, "bad.yaml", "--json"]).exit(3).json();
        assert_eq!((object["version"].as_u64(), object["exit-code"].as_u64()), (Some(1), Some(3)));
        assert_eq!(
            (object["problems"][0]["line"].as_u64(), object["problems"][0]["column"].as_u64()),
            (Some(3), Some(1))
        );
    }
    assert_eq!(project.run(&["run", "tiny.yaml", "nope", "--json"]).exit(2).json()["exit-code"], 2);
    assert_eq!(project.run(&["plan", "gone.yaml", "--json"]).exit(2).json()["exit-code"], 2);
}

#[test]
fn check_looks_at_every_profile() {
    let text = crate::support::TINY.replace("epochs: 8", "epochs: eight");
    let project = Project::new().file("tiny.yaml", &text);
    project.run(&["check", "tiny.yaml"]).exit(3).says("eight");
    project.run(&["plan", "tiny.yaml"]).exit(0);
}

#[test]
fn several_tables_are_one_document() {
    let text = crate::support::TINY.replace(
        "tables:\n",
        "tables:\n  loss: { rows: load.dataset, columns: method, metric: test-loss, title: \"a, \\\"b\\\"\" }\n",
    );
    let project = Project::new().file("tiny.yaml", &text);
    project.run(&["run", "tiny.yaml", "-q"]).exit(0);
    let both = project.run(&["table", "tiny.yaml", "--format", "json"]).exit(0).json();
    assert_eq!(
        (both["loss"]["metric"].as_str(), both["accuracy"]["cells"].as_array().unwrap().len()),
        (Some("test-loss"), 4)
    );
    let one = project.run(&["table", "tiny.yaml", "loss", "--format", "json"]).exit(0).json();
    assert_eq!(one, both["loss"]);
    let csv = project.run(&["table", "tiny.yaml", "--format", "csv"]).exit(0).stdout;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(reader.headers().unwrap().iter().take(3).collect::<Vec<_>>(), ["table", "row", "column"]);
    let tables: Vec<String> = reader.records().map(|record| record.unwrap()[0].to_owned()).collect();
    assert_eq!(tables, [["loss"; 4], ["accuracy"; 4]].concat());
    project.run(&["table", "tiny.yaml", "loss", "--format", "csv"]).exit(0).prints("row,column,metric");
}

#[test]
fn json_is_printed_for_wrong_usage_as_well() {
    let project = Project::tiny();
    for wrong in [
        &["run", "--json"][..],
        &["run", "tiny.yaml", "--json", "--nonsense"],
        &["run", "tiny.yaml", "--json", "-j", "0"],
        &["run", "tiny.yaml", "--json", "--set", "nothing"],
        &["run", "tiny.yaml", "nowhere", "--json"],
        &["run", "gone.yaml", "--json"],
        &["plan", "--json"],
        &["cache", "--json"],
    ] {
        let run = project.run(wrong).exit(2);
        let json = run.json();
        assert_eq!((json["version"].as_u64(), json["exit-code"].as_u64()), (Some(1), Some(2)), "{wrong:?}: {json}");
        assert!(json["error"].as_str().unwrap().starts_with("error: "), "{wrong:?}: {json}");
        assert!(!run.stderr.is_empty(), "{wrong:?}");
    }
    let failed = project.run(&["run", "tiny.yaml", "--json", "--profile", "nothing"]).exit(3).json();
    assert_eq!(failed["problems"].as_array().unwrap().len(), 1);
    // Help is a result, and no failure.
    assert!(project.run(&["run", "--json", "--help"]).exit(0).stdout.contains("Usage"));
    assert!(!project.run(&["run", "--nonsense"]).exit(2).stdout.contains('{'));
}
