//! Searches: declared, planned in rounds, resumed, replayed, shown; settings of models by name.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::Project;

const BASE: &str = "
ppgnn: 1
name: s
datasets: {a: {format: csbm, nodes: 60, features: 6, phi: 0.5}, b: {format: csbm, nodes: 60, features: 6, phi: -0.5, seed: 9}}
stages:
  load: {params: {dataset: a}}
  featurize: { inputs: { graph: load } }
  normalize: {inputs: {graph: load}}
  evd: {inputs: {operator: normalize}, params: {k: 4}}
  split: {inputs: {graph: load}, params: {count: 3}}
  train:
    inputs: {operator: normalize, nodes: featurize, splits: split, spectrum: evd}
    params: {model: mlp, epochs: 10, window: 0, hidden: 4}
  evaluate: {inputs: {trained: train, nodes: featurize, splits: split}}
sweep: {axes: {load.dataset: [a, b], method: {MLP: {train.model: mlp}, PP-GNN: {train.model: pp-gnn}}}}
tables: {t: {rows: method, columns: load.dataset, metric: test-accuracy}}
";

const SEARCH: &str = "
search:
  trials: 6
  round: 3
  params: {train.lr: {from: 0.001, to: 0.1, log: true}, train.dropout: [0.0, 0.5], train.hidden: [4, 8]}
";

fn project(search: &str) -> Project {
    Project::new().file("s.yaml", &format!("{BASE}{search}"))
}

fn shown(project: &Project, store: &str) -> Value {
    project.run(&["search", "show", "s.yaml", "--artifacts", store, "--json"]).exit(0).json()["searches"].clone()
}

#[test]
fn a_search_runs_round_by_round_and_replays_without_computing() {
    let project = project(SEARCH);
    let first = project.run(&["plan", "s.yaml", "--json"]).exit(0).json();
    let state = |plan: &Value| (plan["searches"][0]["known"].clone(), plan["searches"][0]["ended"].clone());
    assert_eq!((first["searches"].as_array().unwrap().len(), state(&first)), (4, (3.into(), false.into())));
    let run = project.run(&["run", "s.yaml"]).exit(0).says("Search: 12 trials of 4 searches");
    assert!(run.stdout.contains("settings chosen among 6 trials (tpe) by the mean of val-accuracy"), "{}", run.stdout);
    let plan = project.run(&["plan", "s.yaml", "--json"]).exit(0).json();
    assert_eq!((plan["misses"].clone(), state(&plan)), (0.into(), (6.into(), true.into())));
    let again = project.run(&["run", "s.yaml"]).exit(0);
    assert!(!again.stderr.contains("Ran ") && again.stdout == run.stdout, "{}", again.stderr);
    // The best validation score was chosen, and the table shows the run that has it.
    for search in shown(&project, "artifacts").as_array().unwrap() {
        let trials = search["trials"].as_array().unwrap();
        let scores: Vec<f64> = trials.iter().map(|trial| trial["score"].as_f64().unwrap()).collect();
        let best = scores.iter().copied().fold(f64::MIN, f64::max);
        assert_eq!(search["chosen"], scores.iter().position(|score| *score == best).unwrap());
    }
}

#[test]
fn test_nodes_of_trials_that_were_not_chosen_are_left_alone() {
    let tested = |search: &str| {
        let project = project(search);
        project.run(&["run", "s.yaml"]).exit(0);
        let scores = crate::support::files(&project.path("artifacts/objects/evaluate"));
        let metrics = scores.iter().filter(|path| path.ends_with("metrics.json"));
        metrics.filter(|path| std::fs::read_to_string(path).unwrap().contains("there are no nodes")).count()
    };
    let lacking = tested(SEARCH);
    assert!(lacking >= 20, "{lacking} of 24 trials have no test scores");
    assert_eq!(tested(&format!("{SEARCH}  test: all\n")), 0);
}

#[test]
fn results_have_the_trials_and_gc_keeps_what_replays_them() {
    let project = project(SEARCH);
    project.run(&["run", "s.yaml", "-q"]).exit(0);
    let trials = std::fs::read_to_string(project.path("artifacts/results/s/t.trials.csv")).unwrap();
    assert_eq!((trials.lines().count(), trials.matches(",true,").count()), (25, 4), "{trials}");
    // Weights of trials that were not chosen may go; their scores may not.
    project.run(&["cache", "gc", "--delete"]).exit(0);
    let trained = crate::support::files(&project.path("artifacts/objects/train"));
    assert_eq!(trained.iter().filter(|path| path.ends_with("manifest.json")).count(), 4);
    let again = project.run(&["run", "s.yaml"]).exit(0);
    assert!(!again.stderr.contains("Ran ") && !again.stderr.contains("Search:"), "{}", again.stderr);
}

#[test]
fn more_trials_reuse_those_that_are_there_and_searches_share_configurations() {
    let project = project(SEARCH);
    project.run(&["run", "s.yaml"]).exit(0);
    project.write("s.yaml", format!("{BASE}{}", SEARCH.replace("trials: 6", "trials: 9")));
    let plan = project.run(&["plan", "s.yaml", "--json"]).exit(0).json();
    assert_eq!(plan["searches"][0]["known"], 9);
    let missing = plan["nodes"].as_array().unwrap().iter();
    assert!(missing.filter(|node| node["stage"] == "train" && node["state"] == "miss").count() <= 12);
    // The same searches in another pipeline compute nothing.
    project.write("other.yaml", format!("{BASE}{SEARCH}").replace("name: s", "name: other"));
    let other = project.run(&["run", "other.yaml"]).exit(0);
    assert!(!other.stderr.contains("train"), "{}", other.stderr);
    // One that calls a model otherwise says where its trials come from.
    let renamed = format!("{BASE}{SEARCH}").replace("name: s", "name: renamed").replace("MLP: {", "Perceptron: {");
    project.write("renamed.yaml", renamed);
    let shown = project.run(&["search", "show", "renamed.yaml", "a/Perceptron"]).exit(0);
    assert!(shown.stdout.contains("(reused: evaluate/a/MLP/t0)"), "{}", shown.stdout);
    let own = project.run(&["search", "show", "s.yaml", "a/MLP"]).exit(0);
    assert!(!own.stdout.contains("reused"), "{}", own.stdout);
}

#[test]
fn workers_and_kills_change_neither_trials_nor_bytes() {
    let kills: usize = std::env::var("PPGNN_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(50);
    let project = project(&SEARCH.replace("round: 3", "round: 2"));
    project.run(&["run", "s.yaml", "-j", "1", "--artifacts", "one"]).exit(0);
    project.run(&["run", "s.yaml", "-j", "2", "--artifacts", "two"]).exit(0);
    let (one, two) = (project.artifact_bytes("one"), project.artifact_bytes("two"));
    assert_eq!(one, two);
    assert_eq!(shown(&project, "one"), shown(&project, "two"));
    let mut store = 0;
    for kill in 0..kills {
        let name = format!("killed-{store}");
        let mut command = project.command(&["run", "s.yaml", "--artifacts", &name]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Delays of all lengths, in an order of no meaning.
        std::thread::sleep(Duration::from_millis(20 + (kill as u64 * 7919) % 400));
        child.kill().unwrap();
        child.wait().unwrap();
        if project.path(&name).join("results/s/t.md").exists() {
            assert_eq!(project.artifact_bytes(&name), one);
            store += 1;
        }
    }
    let last = format!("killed-{store}");
    project.run(&["run", "s.yaml", "--artifacts", &last]).exit(0);
    assert_eq!(project.artifact_bytes(&last), one);
    assert_eq!(shown(&project, &last), shown(&project, "one"));
}

/// A search of one parameter that makes some trials hopeless, on ten splits.
const RACE: &str = "
search:
  trials: 8
  round: 4
  sampler: random
  params: {train.lr: {from: 0.00001, to: 0.1, log: true}}
";

fn raced(search: &str) -> Project {
    let base = BASE.replace("count: 3", "count: 10").replace("epochs: 10", "epochs: 60");
    Project::new().file("s.yaml", &format!("{base}{search}"))
}

#[test]
fn a_race_stops_what_is_behind_and_its_winner_has_the_numbers_of_an_unraced_run() {
    let without = raced(RACE);
    without.run(&["run", "s.yaml", "-q"]).exit(0);
    let project = raced(&format!("{RACE}  race: {{after: 3, margin: 1.0}}\n"));
    let run = project.run(&["run", "s.yaml"]).exit(0).prints("stopped after 3 splits");
    let (all, some) = (shown(&without, "artifacts"), shown(&project, "artifacts"));
    let mut stopped = 0;
    for (all, some) in all.as_array().unwrap().iter().zip(some.as_array().unwrap()) {
        let trials = |search: &Value| search["trials"].as_array().unwrap().clone();
        let of = |trial: &Value, field: &str| trial[field].as_f64();
        for (whole, raced) in trials(all).iter().zip(trials(some)) {
            // A random sample does not depend on results: the same trials in both.
            assert_eq!(whole["settings"], raced["settings"]);
            match of(&raced, "score") {
                Some(_) => assert_eq!(whole["score"], raced["score"]),
                None => stopped += usize::from(of(&raced, "stopped-with").is_some()),
            }
        }
        let chosen = usize::try_from(some["chosen"].as_u64().unwrap()).unwrap();
        assert!(of(&trials(some)[chosen], "score").is_some(), "what is chosen has all splits");
    }
    assert!(stopped > 0, "{some}");
    // What stopped is not trained on the other splits.
    let plan = project.run(&["plan", "s.yaml", "--json"]).exit(0).json();
    let names = plan["nodes"].as_array().unwrap().iter().filter(|node| node["stage"] == "train");
    let whole = names.filter(|node| !node["id"].as_str().unwrap().contains("-first3")).count();
    assert!(whole <= 4 * 8 - stopped, "{whole} nodes with all splits, {stopped} trials stopped");
    // The same on one worker, and a second run computes nothing.
    let one = project.run(&["run", "s.yaml", "-j", "1", "--artifacts", "one"]).exit(0);
    assert_eq!(one.stdout, run.stdout);
    assert_eq!(project.artifact_bytes("one"), project.artifact_bytes("artifacts"));
    let again = project.run(&["run", "s.yaml"]).exit(0);
    assert!(!again.stderr.contains("Ran ") && !again.stderr.contains("Search:"), "{}", again.stderr);
}

/// The runs behind the table, by the names of their columns.
fn run_rows(project: &Project) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read(project.path("artifacts/results/s/t.runs.csv")).unwrap();
    csv::Reader::from_reader(&*text).deserialize().map(Result::unwrap).collect()
}

#[test]
fn every_split_can_have_settings_of_its_own() {
    let project = raced(&format!("{RACE}  choose: per-split\n"));
    let run = project.run(&["run", "s.yaml"]).exit(0);
    assert!(run.stdout.contains("settings chosen for every split apart among 8 trials (random)"), "{}", run.stdout);
    let search = shown(&project, "artifacts")[0].clone();
    let of_splits: Vec<u64> = search["of-splits"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap()).collect();
    assert_eq!(of_splits.len(), 10);
    // A row per cell and split, with the settings that were chosen for the split and its own scores.
    let rows = run_rows(&project);
    assert_eq!(rows.len(), 4 * 10);
    let rates = |trial: u64| search["trials"][usize::try_from(trial).unwrap()]["settings"]["train.lr"].clone();
    for (split, trial) in of_splits.iter().enumerate() {
        let rate: f64 = rows[split]["train.lr"].parse().unwrap();
        assert_eq!(rates(*trial).as_f64(), Some(rate), "split {split}");
    }
    // On no split are validation nodes worse off than with the best mean, and somewhere better.
    let by_mean = raced(RACE);
    by_mean.run(&["run", "s.yaml", "-q"]).exit(0);
    let score = |row: &BTreeMap<String, String>| row["val-accuracy"].parse::<f64>().unwrap();
    let pairs: Vec<(f64, f64)> = rows.iter().map(score).zip(run_rows(&by_mean).iter().map(score)).collect();
    assert!(pairs.iter().all(|(own, of_mean)| own >= of_mean) && pairs.iter().any(|(own, of_mean)| own > of_mean));
    let best = project.run(&["search", "best", "s.yaml", "a/MLP"]).exit(0);
    assert!(best.stdout.contains(" for splits "), "{}", best.stdout);
    let again = project.run(&["run", "s.yaml"]).exit(0);
    assert!(!again.stderr.contains("Ran ") && again.stdout == run.stdout, "{}", again.stderr);
}

#[test]
fn a_search_that_is_out_of_time_ends_after_its_round_and_stays_ended() {
    let project = raced(&format!("{RACE}  time: 1ms\n"));
    let run =
        project.run(&["run", "s.yaml"]).exit(0).prints("among 4 trials (random)").prints("as many as began within 1ms");
    let searches = shown(&project, "artifacts");
    assert!(searches.as_array().unwrap().iter().all(|search| search["out-of-time"] == true), "{searches}");
    // Without the trained weights nobody knows how long they took; that the search has ended is recorded.
    project.run(&["cache", "gc", "--delete"]).exit(0);
    let again = project.run(&["run", "s.yaml"]).exit(0);
    assert!(!again.stderr.contains("Search:") && again.stdout == run.stdout, "{}", again.stderr);
    // With more time it goes on, from the trials that are there.
    let more = raced(&format!("{RACE}  time: 1h\n"));
    let ended = more.run(&["run", "s.yaml"]).exit(0).prints("among 8 trials (random)");
    assert!(!ended.stdout.contains("as many as began"), "{}", ended.stdout);
}

#[test]
fn the_spread_of_test_scores_among_the_best_is_shown_where_they_were_computed() {
    let project = raced(&format!("{RACE}  test: all\n"));
    project.run(&["run", "s.yaml", "-q"]).exit(0);
    for search in shown(&project, "artifacts").as_array().unwrap() {
        let trials = search["trials"].as_array().unwrap();
        let best = &trials[usize::try_from(search["best"].as_u64().unwrap()).unwrap()];
        let (score, error) = (best["score"].as_f64().unwrap(), best["standard-error"].as_f64().unwrap());
        let near: Vec<f64> = trials
            .iter()
            .filter(|trial| (score - trial["score"].as_f64().unwrap()).abs() <= error)
            .map(|trial| trial["test"].as_f64().unwrap())
            .collect();
        assert_eq!(search["within-one-standard-error"], near.len() - 1);
        match near.len() {
            1 => assert!(search["test-spread"].is_null()),
            count => {
                assert_eq!(search["test-spread"]["trials"], count);
                let mean = near.iter().sum::<f64>() / near.len() as f64;
                assert!((search["test-spread"]["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn a_trial_that_fails_is_recorded_and_costs_itself_alone() {
    let search =
        "search: {trials: 2, round: 2, sampler: grid, params: {train.lr: [0.01, 100.0], train.epochs: [300]}}\n";
    let deep = BASE.replace(
        "{train.model: mlp}",
        "{train.model: gcn-ogb, train.batch-norm: false, train.layers: 30, train.hidden: 64}",
    );
    let project = Project::new().file("s.yaml", &format!("{deep}{search}"));
    let run = project.run(&["run", "s.yaml"]);
    assert!(run.code == 0 || run.code == 5, "{}", run.stderr);
    let searches = shown(&project, "artifacts");
    let failed = searches.as_array().unwrap().iter().flat_map(|search| search["trials"].as_array().unwrap());
    let failed = failed.filter(|trial| !trial["failed"].is_null()).count();
    assert!(failed > 0, "a learning rate of 100 must end in a loss that is not finite: {searches}");
    // What failed is not tried again.
    let again = project.run(&["run", "s.yaml"]);
    assert!(!again.stderr.contains("Search:"), "{}", again.stderr);
}

#[test]
fn what_a_point_sets_is_not_searched_there() {
    let search = "search: {trials: 3, params: {train.lr: [0.01, 0.02, 0.03], train.dropout: [0.0, 0.5]}}\n";
    let fixed = BASE.replace("{train.model: mlp}", "{train.model: mlp, train.dropout: 0.2}");
    let project = Project::new().file("s.yaml", &format!("{fixed}{search}"));
    let searches = |args: &[&str]| {
        let all = project.run(&[&["search", "show", "s.yaml", "--json"], args].concat()).exit(0).json();
        let settings = |search: &Value| search["trials"][0]["settings"].as_object().unwrap().len();
        all["searches"].as_array().unwrap().iter().map(settings).collect::<Vec<_>>()
    };
    assert_eq!(searches(&[]), [1, 2, 1, 2], "MLP and PP-GNN on both graphs");
    assert_eq!(searches(&["--set", "train.dropout=0.1"]), [1, 1, 1, 1]);
    // Nor is what depends on another value of it.
    let start = "search: {trials: 3, params: {train.lr: [0.01, 0.02, 0.03], train.alpha: {values: [0.1, 0.5], when: {train.init: ppr}}}}\n";
    let starts = BASE.replace("MLP: {train.model: mlp}", "Random: {train.model: gpr-gnn, train.init: random}");
    let starts = starts.replace("PP-GNN: {train.model: pp-gnn}", "PPR: {train.model: gpr-gnn, train.init: ppr}");
    project.write("s.yaml", format!("{starts}{start}"));
    assert_eq!(searches(&[]), [1, 2, 1, 2], "a random start has no α");
}

#[test]
fn a_search_over_some_axes_averages_over_the_others() {
    let project = project(&format!("{SEARCH}  over: [method]\n"));
    let plan = project.run(&["plan", "s.yaml", "--json"]).exit(0).json();
    let points: Vec<_> = plan["searches"].as_array().unwrap().iter().map(|s| s["point"].clone()).collect();
    assert_eq!(points, ["MLP", "PP-GNN"]);
    project.run(&["run", "s.yaml", "-q"]).exit(0);
    let chosen = shown(&project, "artifacts")[0]["chosen"].as_u64().unwrap();
    let keys = project.run(&["plan", "s.yaml", "--json"]).exit(0).json();
    let of =
        |name: &str| keys["nodes"].as_array().unwrap().iter().find(|n| n["id"] == name).unwrap()["aliases"].to_string();
    for graph in ["a", "b"] {
        let trial = format!("train/{graph}/MLP/t{chosen}");
        let same = of(&format!("train/{graph}/MLP"));
        assert!(same.contains(&trial), "{same} does not name {trial}");
    }
}

#[test]
fn targets_run_the_searches_that_they_need_and_nothing_is_searched_in_vain() {
    let project = project(SEARCH);
    let load = project.run(&["run", "s.yaml", "load"]).exit(0);
    assert!(!load.stderr.contains("Search:"), "{}", load.stderr);
    project.run(&["run", "s.yaml", "evaluate/a/MLP"]).exit(0).says("Search: 3 trials of 1 search");
    let state = project.run(&["plan", "s.yaml", "--json"]).exit(0).json()["searches"].clone();
    let ended: Vec<bool> = state.as_array().unwrap().iter().map(|search| search["ended"].as_bool().unwrap()).collect();
    assert_eq!(ended, [true, false, false, false]);
    // The table of what there is can be looked at, and so can what is behind a cell.
    let table = project.run(&["table", "s.yaml"]).exit(0).says("and what 3 searches that have not ended would choose");
    assert!(
        table.stdout.contains("| MLP | ") && table.stdout.contains("its search has not ended (0 of 6 trials)"),
        "{}",
        table.stdout
    );
    project.run(&["trace", "s.yaml", "MLP", "a"]).exit(0).prints("evaluate/a/MLP");
    // A table that could not be made, or results of another file, are found before the first trial.
    let table = "metric: test-accuracy}";
    project.write(
        "wrong.yaml",
        format!("{BASE}{SEARCH}")
            .replace(table, "metric: test-accuracy, reference: s.yaml}")
            .replace("name: s", "name: w"),
    );
    let wrong = project.run(&["run", "wrong.yaml"]).exit(4);
    assert!(!wrong.stderr.contains("Search:"), "{}", wrong.stderr);
    project.run(&["run", "s.yaml", "-q"]).exit(0);
    project.write("other.yaml", format!("{BASE}{SEARCH}").replace("trials: 6", "trials: 7"));
    let taken = project.run(&["run", "other.yaml"]).exit(2).says("has published results under the same name");
    assert!(!taken.stderr.contains("Search:"), "{}", taken.stderr);
}

#[test]
fn a_stage_behind_what_decides_runs_the_search_that_it_needs() {
    let again = "  evaluate: {inputs: {trained: train, nodes: featurize, splits: split}}\n  \
                 again: {uses: evaluate, inputs: {trained: train, nodes: featurize, splits: split}}\n";
    let base = BASE.replace("  evaluate: {inputs: {trained: train, nodes: featurize, splits: split}}\n", again);
    let base = base.replace("tables: {t: {", "tables: {t: {from: evaluate, ");
    let project = Project::new().file("s.yaml", &format!("{base}{SEARCH}  from: evaluate\n"));
    project.run(&["run", "s.yaml", "again/b/MLP"]).exit(0).says("Search: 3 trials of 1 search");
    let state = project.run(&["plan", "s.yaml", "--json"]).exit(0).json()["searches"].clone();
    let ended: Vec<bool> = state.as_array().unwrap().iter().map(|search| search["ended"].as_bool().unwrap()).collect();
    assert_eq!(ended, [false, false, true, false]);
}

#[test]
fn eigenpairs_are_computed_once_for_all_that_a_search_may_ask_for() {
    let search = "search: {trials: 3, round: 1, params: {evd.k: [4, 6, 8], train.dropout: [0.0, 0.5]}}\n";
    let project = project(search);
    project.run(&["run", "s.yaml"]).exit(0);
    let files = crate::support::files(&project.path("artifacts/objects/evd"));
    let manifests = files.iter().filter(|path| path.ends_with("manifest.json"));
    let whole = manifests.filter(|path| std::fs::read_to_string(path).unwrap().contains("\"slot\": \"operator\""));
    assert_eq!(whole.count(), 2, "one for each graph, all others are slices");
}

#[test]
fn search_show_and_best_say_what_was_tried_and_chosen() {
    let project = project(SEARCH);
    project.run(&["search", "best", "s.yaml", "a/MLP"]).exit(0).prints("nothing is chosen yet, 0 of 6 trials");
    project.run(&["run", "s.yaml", "-q"]).exit(0);
    let show = project.run(&["search", "show", "s.yaml", "MLP"]).exit(0).prints("6 of 6 trials, ended");
    assert_eq!(show.stdout.matches("chosen").count(), 2, "{}", show.stdout);
    assert!(show.stdout.contains("share of the variance of scores: "), "{}", show.stdout);
    let csv = project.run(&["search", "show", "s.yaml", "--csv"]).exit(0).stdout;
    assert!(
        csv.starts_with("point,trial,chosen,score,standard-error,failed,stopped-with,best-so-far,test,reused,scores,train.dropout,train.hidden,train.lr\n"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 25);
    // The whole name of a node means what was chosen, not the trials whose names begin with it.
    project.run(&["show", "s.yaml", "evaluate/a/MLP"]).exit(0).prints("evaluate/a/MLP");
    let best = project.run(&["search", "best", "s.yaml", "b/PP-GNN"]).exit(0).stdout;
    assert!(best.starts_with("# b/PP-GNN: trial ") && best.contains("\ntrain.lr: 0.0"), "{best}");
    project.run(&["search", "show", "s.yaml", "MPL"]).exit(2).says("there is no search `MPL`");
    let none = Project::new().file("s.yaml", BASE);
    none.run(&["search", "show", "s.yaml"]).exit(2).says("the pipeline has no search");
}

#[test]
fn mistakes_are_refused_at_their_place() {
    let params = |params: &str| format!("search: {{trials: 4, params: {params}}}\n");
    for (search, message) in [
        ("search: {trials: 4}\n".to_owned(), "a search has nothing to search"),
        (
            "search: {trials: 0, params: {train.lr: [0.1]}}\n".into(),
            "expected a whole number from 1 to 100000, found `0`",
        ),
        (params("{train.lr: []}"), "`train.lr` has no values"),
        (params("{train.lr: {from: 1.0, to: 0.1}}"), "`train.lr` goes from `1` to `0.1`"),
        (params("{train.lr: [0.1, 1000.0]}"), "stage `train`: "),
        (params("{train.ordr: [1]}"), "`ordr`"),
        (params("{trian.lr: [0.1]}"), "the pipeline has no stage `trian`"),
        (
            params("{train.lr: {values: [0.1], when: {train.init: ppr}}}"),
            "depends on `train.init`, which the space does not have",
        ),
        (
            "search: {trials: 4, params: {train.lr: [0.1]}, objective: test-accuracy}\n".into(),
            "it is no metric of validation nodes",
        ),
        (
            "search: {trials: 4, params: {train.lr: [0.1]}, objective: val-acuracy}\n".into(),
            "there is no metric `val-acuracy`",
        ),
        (
            "search: {trials: 4, sampler: grid, params: {train.epochs: {from: 1, to: 1000000}}}\n".into(),
            "the grid has 1000000 points",
        ),
        (
            "search: {trials: 4, sampler: tep, params: {train.lr: [0.1]}}\n".into(),
            "expected `grid`, `random`, `quasi` or `tpe`",
        ),
        ("search: {trials: 4, space: papr}\n".into(), "`mlp` has no space `papr`"),
        (params("{train.lr: [0.1]}, race: {after: 3}"), "a race over the first 3 splits, and there are 3"),
        (params("{train.lr: [0.1]}, race: {after: 0}"), "expected a whole number from 1 to 100000, found `0`"),
        (params("{train.lr: [0.1]}, race: {margin: -1}"), "a number of standard errors from 0 to 100"),
        (params("{train.lr: [0.1]}, race: {befor: 1}"), "a race has no `befor`"),
        (params("{train.lr: [0.1]}, race: {after: 1}, choose: per-split"), "trials of a race lack splits"),
        (params("{train.lr: [0.1]}, over: [method], choose: per-split"), "needs a search of its own for every point"),
        (params("{train.lr: [0.1]}, choose: best"), "expected `mean` or `per-split`"),
        (params("{train.lr: [0.1]}, time: soon"), "expected a time such as `30m` or `2h`"),
        (params("{train.lr: [0.1]}, time: 0s"), "expected a time such as `30m` or `2h`"),
        (params("{train.seed: [1, 2]}"), "the best of several seeds is luck"),
        (params("{split.train: [0.3, 0.5]}"), "scores on other splits do not compare"),
        (
            "search: {trials: 4, params: {load.dataset: [a]}}\n".into(),
            "`load.dataset` is searched, and axis `load.dataset` varies it",
        ),
    ] {
        let checked = project(&search).run(&["check", "s.yaml"]).exit(3).says(message);
        assert!(checked.stderr.contains("s.yaml:17:"), "the place: {}", checked.stderr);
    }
}

#[test]
fn spaces_and_settings_of_models_come_by_name() {
    let project = project("settings: published\nsearch: {space: reduced, trials: 3}\n");
    let plan = project.run(&["plan", "s.yaml", "--json"]).exit(0).json();
    assert_eq!(plan["searches"][0]["known"], 3);
    // A file of the project's own wins over that of the program.
    project.write(
        "models/mlp.yaml",
        "ppgnn: 1\nabout: mine\nsource: me\nspaces: {reduced: {params: {train.lr: [0.5]}}}\n",
    );
    project.run(&["run", "s.yaml", "-q"]).exit(0).prints("settings chosen among 1 trial (tpe)");
    project.run(&["search", "best", "s.yaml", "a/MLP"]).exit(0).prints("train.lr: 0.5");
    project.write("models/mlp.yaml", "ppgnn: 1\nabout: mine\nspaces: {reduced: {parms: {}}}\n");
    let wrong = project.run(&["check", "s.yaml"]).exit(3).says("missing `source`").says("a space has no `parms`");
    assert!(wrong.stderr.contains("models/mlp.yaml:3:20"), "{}", wrong.stderr);
}

#[test]
fn settings_of_models_are_listed_and_their_files_printed() {
    let project = Project::new();
    let all = project.run(&["list", "settings"]).exit(0).prints("settings `published`: actor, chameleon, ");
    assert!(
        all.stdout.contains("spaces: paper, reduced, authors")
            && !all.stdout.lines().any(|line| line.starts_with("shared")),
        "{}",
        all.stdout
    );
    let one = project.run(&["list", "settings", "gpr-gnn"]).exit(0);
    assert_eq!(one.stdout, include_str!("../../pipelines/models/gpr-gnn.yaml"));
    let json = project.run(&["list", "settings", "gpr-gnn", "--json"]).exit(0).json();
    assert_eq!(json["items"][0]["sets"][0]["datasets"].as_array().unwrap().len(), 10);
    project.run(&["list", "settings", "gpr-gn"]).exit(2).says("did you mean `gpr-gnn`?");
    // A file of the project's own is listed too.
    project.write(
        "pipelines/models/mine.yaml",
        "ppgnn: 1\nabout: Mine.\nsource: me\nspaces: {small: {params: {train.lr: [0.1]}}}\n",
    );
    project.run(&["list", "settings"]).exit(0).prints("mine                 Mine.");
}

#[test]
fn tables_say_which_settings_were_used_where_none_were_published() {
    let project = Project::new().file("s.yaml", &format!("{BASE}settings: published\n"));
    let run = project.run(&["run", "s.yaml"]).exit(0);
    assert!(run.stdout.contains("no published settings: those of the pipeline are used"), "{}", run.stdout);
}
