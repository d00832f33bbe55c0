//! What is read is bounded: no device, no pipe, no file of gigabytes, no report without an end, no path that is not text.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use crate::support::{Finished, Project, finish};

/// Runs a command that must refuse something at once.
#[track_caller]
fn at_once(project: &Project, args: &[&str]) -> Finished {
    let begun = Instant::now();
    let finished = project.run(args);
    assert!(begun.elapsed() < Duration::from_secs(10), "{args:?} took {:?}", begun.elapsed());
    finished
}

/// A project with a pipe, a file of 5 MB and one of a terabyte (a hole) in it.
fn odd_files() -> Project {
    let project = Project::tiny();
    assert!(std::process::Command::new("mkfifo").arg(project.path("pipe")).status().unwrap().success());
    project.write("large", "#".repeat(5 << 20));
    std::fs::File::create(project.path("hole")).unwrap().set_len(1 << 40).unwrap();
    std::fs::create_dir(project.path("folder")).unwrap();
    project
}

const ODD: [(&str, &str); 5] = [
    ("/dev/zero", "it is a device"),
    ("pipe", "it is a pipe"),
    ("folder", "it is a folder"),
    ("large", "it has 5 MiB, expected a text of at most 4 MiB"),
    ("hole", "it has 1048576 MiB, expected a text of at most 4 MiB"),
];

#[test]
fn a_pipeline_and_what_it_extends_are_small_files() {
    let project = odd_files();
    for (name, why) in ODD {
        let code = if why.contains("MiB") { 3 } else { 2 };
        at_once(&project, &["check", name]).exit(code).says(why);
        // A word would be a built-in base.
        let path = if name.starts_with('/') { name.to_owned() } else { format!("./{name}") };
        project.write("extends.yaml", format!("ppgnn: 1\nname: x\nextends: {path}\n"));
        at_once(&project, &["plan", "extends.yaml"]).exit(3).says(why).says("extends.yaml:3:10");
    }
}

#[test]
fn a_reference_and_a_manifest_are_small_files() {
    let project = odd_files();
    for (name, why) in ODD {
        let table = format!("tables:\n  accuracy: {{ rows: method, columns: load.dataset, reference: {name} }}\n");
        project.write("reference.yaml", format!("ppgnn: 1\nname: x\nextends: tiny.yaml\n{table}"));
        at_once(&project, &["run", "reference.yaml"]).exit(4).says(why);
        assert!(!project.path("artifacts/objects/train").exists(), "found before anything runs");
    }
    std::fs::create_dir_all(project.path("pipelines/datasets")).unwrap();
    std::fs::copy(project.path("large"), project.path("pipelines/datasets/own.yaml")).unwrap();
    at_once(&project, &["list", "datasets"]).exit(3).says("it has 5 MiB");
}

#[test]
fn data_is_a_file_and_neither_a_device_nor_a_pipe() {
    let project = odd_files();
    for (name, why) in &ODD[..3] {
        project.write(
            "f.yaml",
            format!("{{ppgnn: 1, name: f, stages: {{load: {{params: {{format: heterophilous-npz, path: {name}}}}}}}}}"),
        );
        at_once(&project, &["plan", "f.yaml"]).exit(4).says(why);
    }
}

#[test]
fn a_report_of_many_problems_is_a_screenful_and_a_count() {
    let unknown: String = (0..8000).map(|i| format!("unknown{i}: 1\n")).collect();
    let project = Project::new().file("keys.yaml", &format!("ppgnn: 1\nname: x\nstages: {{}}\n{unknown}"));
    let run = at_once(&project, &["check", "keys.yaml", "--json"]).exit(3).says("… and 7992 more");
    assert!(run.stderr.lines().count() < 100, "{}", run.stderr);
    run.json()["problems"].as_array().unwrap().iter().enumerate().for_each(|(i, p)| assert_eq!(p["line"], i + 4));
    // On one line there is nothing to show but where they are.
    let unknown: Vec<String> = (0..8000).map(|i| format!("unknown{i}: 1")).collect();
    project.write("line.yaml", format!("{{ppgnn: 1, name: x, stages: {{}}, {}}}", unknown.join(", ")));
    let run = at_once(&project, &["check", "line.yaml", "--json"]).exit(3).says("line.yaml:1:33:");
    assert!(run.stderr.len() < 5000, "{}", run.stderr);
    assert_eq!(run.json()["problems"][1]["column"], 33 + "unknown0: 1, ".len());
}

#[test]
fn a_document_that_is_nested_a_million_times_is_refused() {
    for nest in ["[", "{a: ", "- "] {
        let project = Project::new().file("nest.yaml", &format!("ppgnn: 1\nname: {}", nest.repeat(1_000_000)));
        at_once(&project, &["check", "nest.yaml"]).exit(3).says("error: 1 problem");
    }
}

#[test]
fn a_path_that_is_not_utf_8_never_panics() {
    let project = Project::tiny();
    let odd = OsStr::from_bytes(b"odd\xff");
    let inside = project.path(".").join(odd);
    std::fs::create_dir(&inside).unwrap();
    let pipeline = inside.join("tiny.yaml");
    std::fs::copy(project.path("tiny.yaml"), &pipeline).unwrap();
    let run = |args: &[&OsStr]| {
        let finished = finish(project.command(&[]).args(args));
        assert!(!finished.stderr.contains("panicked"), "{args:?}: {}", finished.stderr);
        finished
    };
    let words = |text: &'static str| text.split(' ').map(OsStr::new);
    let store = [OsStr::new("--artifacts"), odd];
    for command in ["run tiny.yaml", "plan tiny.yaml", "show tiny.yaml evd/one", "cache ls", "cache verify", "cache gc"]
    {
        let args: Vec<&OsStr> = words(command).chain(store).chain([OsStr::new("--json")]).collect();
        run(&args).exit(0).json();
    }
    // A damaged artifact is moved, and the log of the run says where to.
    let evd = crate::support::files(&inside.join("objects/evd")).into_iter().find(|f| f.ends_with("facts.json"));
    std::fs::write(evd.unwrap(), "{}").unwrap();
    let args: Vec<&OsStr> = words("run tiny.yaml --force train").chain(store).collect();
    run(&args).exit(0).says("Damaged");
    let logs = crate::support::files(&inside.join("runs")).into_iter().map(|f| std::fs::read_to_string(f).unwrap());
    assert!(logs.filter(|log| log.contains("artifact-damaged") && log.contains("run-finished")).count() == 1);
    // A pipeline in such a folder, with and without files of its own; a data directory.
    run(&[OsStr::new("check"), pipeline.as_os_str()]).exit(0);
    let own = "{ppgnn: 1, name: f, stages: {load: {params: {format: heterophilous-npz, path: a.npz}}}}";
    std::fs::write(&pipeline, own).unwrap();
    run(&[OsStr::new("plan"), pipeline.as_os_str()]).exit(4).says("its path is not UTF-8");
    for command in ["data list", "data verify"] {
        let args: Vec<&OsStr> = words(command).chain([OsStr::new("--data-dir"), odd, OsStr::new("--json")]).collect();
        run(&args).exit(0).json();
    }
    finish(project.command(&["data", "list"]).env("PPGNN_DATA_DIR", odd)).exit(0);
    run(&[OsStr::new("plan"), OsStr::new("tiny.yaml"), odd]).exit(2);
    run(&[OsStr::new("plan"), OsStr::from_bytes(b"gone\xff.yaml")]).exit(2);
    std::fs::write(project.path("bytes.yaml"), b"ppgnn: 1\nname: x\nextends: a\xff.yaml\n").unwrap();
    run(&[OsStr::new("check"), OsStr::new("bytes.yaml")]).exit(3).says("it is not UTF-8 text");
}
