//! Stores and data that cannot be used: a clear error, a documented code, never a panic.

use crate::support::{Project, finish};

#[test]
fn a_store_of_a_newer_format_is_refused() {
    let project = Project::tiny();
    project.write("artifacts/store.json", "{\"format\": 99}\n");
    project.run(&["run", "tiny.yaml"]).exit(7).says("has format 99");
    project.run(&["plan", "tiny.yaml"]).exit(7).says("has format 99");
}

#[test]
fn a_store_that_cannot_be_written_is_refused_before_anything_runs() {
    let project = Project::tiny();
    project.write("taken", "a file, not a folder");
    project.run(&["run", "tiny.yaml", "--artifacts", "taken"]).exit(7).says("taken");
    project.run(&["run", "tiny.yaml", "--artifacts", "/proc/ppgnn"]).exit(7).says("/proc/ppgnn");
}

#[test]
fn a_store_that_cannot_be_written_serves_what_it_has() {
    let project = Project::tiny();
    let first = project.run(&["run", "tiny.yaml"]).exit(0);
    // A mount that is gone with the process; where the system allows none, the engine's test of the same has to do.
    let script = |args: &str| {
        format!(
            "mount --bind artifacts artifacts 2>/dev/null && mount -o remount,ro,bind artifacts 2>/dev/null || exit 99; \
             exec {} {args}",
            env!("CARGO_BIN_EXE_ppgnn")
        )
    };
    let run = |args: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script(args)]).current_dir(project.path(".")).env("NO_COLOR", "1");
        command.output().ok().filter(|o| !matches!(o.status.code(), Some(1 | 99))).map(|_| finish(&mut command))
    };
    let Some(again) = run("run tiny.yaml") else { return eprintln!("skipped: nothing can be mounted here") };
    let again = again.exit(0).says("19 cached, 0 ran");
    assert_eq!(again.stdout, first.stdout);
    let more = run("run tiny.yaml --set train.seed=9").unwrap().exit(7);
    more.says("Read-only file system").says("choose another folder for the store");
}

#[test]
fn a_full_disk_fails_clearly_and_leaves_nothing_half_written() {
    // A limit on file size stands in for a full disk: writes of larger files fail in the same way.
    let project = Project::tiny();
    let script = format!("trap '' XFSZ; ulimit -f 4; exec {} run tiny.yaml", env!("CARGO_BIN_EXE_ppgnn"));
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]).current_dir(project.path("."));
    let run = finish(&mut command);
    assert!([5, 7].contains(&run.code), "{}: {}", run.code, run.stderr);
    assert!(!run.stderr.contains("panic"), "{}", run.stderr);
    project.run(&["cache", "verify"]).exit(0);
    assert!(crate::support::files(&project.path("artifacts/tmp")).is_empty());
    project.run(&["run", "tiny.yaml"]).exit(0);
}

#[test]
fn absent_data_has_its_own_exit_code() {
    let text = "{ppgnn: 1, name: f, stages: {load: {params: {format: heterophilous-npz, path: gone.npz}}}}";
    let project = Project::new().file("f.yaml", text);
    project.run(&["run", "f.yaml"]).exit(4).says("gone.npz").says("f.yaml:1:");
    project.run(&["plan", "f.yaml"]).exit(4).says("nothing was run");
}

#[test]
fn foreign_data_is_named_with_its_place() {
    let text = "{ppgnn: 1, name: f, stages: {load: {params: {format: heterophilous-npz, path: data/page.npz}}}}";
    let project = Project::new().file("f.yaml", text).file("data/page.npz", "<html>404</html>");
    let run = project.run(&["run", "f.yaml"]).exit(4);
    assert!(run.stderr.contains("page.npz") && !run.stderr.contains("panic"), "{}", run.stderr);
    assert!(crate::support::files(&project.path("artifacts/objects")).is_empty());
}

#[test]
fn a_file_counts_by_its_content_and_not_by_its_path() {
    let valid = include_bytes!("../fixtures/graph.npz");
    let text = "
ppgnn: 1
name: f
stages:
  load: {params: {format: heterophilous-npz, path: data/graph.npz}}
  split: {inputs: {graph: load}, params: {method: file}}
";
    let project = Project::new().file("f.yaml", text);
    project.write("data/graph.npz", valid);
    let first = project.run(&["run", "f.yaml", "--json"]).exit(0).json();
    assert_eq!(first["ran"], 2);
    project.write("elsewhere/renamed.npz", valid);
    project.write("f.yaml", text.replace("data/graph.npz", "elsewhere/renamed.npz"));
    let moved = project.run(&["run", "f.yaml", "--json"]).exit(0).json();
    assert_eq!(moved["cached"], 2);
}

#[test]
fn a_file_that_changes_after_planning_is_refused() {
    use ppgnn::pipeline::{Overrides, Pipeline};
    use ppgnn::plan::{FileDigests, PlanContext, build};
    use ppgnn::run::{FailureKind, RunOptions, execute};
    let text = "{ppgnn: 1, name: f, stages: {load: {params: {format: heterophilous-npz, path: graph.npz}}}}";
    let project = Project::new().file("f.yaml", text);
    let mut bytes = include_bytes!("../fixtures/graph.npz").to_vec();
    project.write("graph.npz", &bytes);
    let registry = ppgnn_stages::built_in();
    let pipeline =
        Pipeline::load(&project.path("f.yaml"), &Overrides::default(), &registry, &ppgnn::pipeline::Nothing).unwrap();
    let digests = FileDigests::default();
    let around = PlanContext {
        registry: &registry,
        profile: "any".into(),
        device_profile: "any".into(),
        machine: String::new(),
        digest: &|p, contents| digests.digest(p, contents),
    };
    let plan = build(&pipeline, &around).unwrap();
    // A comment at the end of a zip file changes its digest and nothing else.
    let end = bytes.len();
    bytes[end - 2] = 1;
    bytes.push(b'!');
    project.write("graph.npz", &bytes);
    let store = ppgnn::store::Store::open(&project.path("artifacts")).unwrap();
    let never = std::sync::atomic::AtomicBool::new(false);
    let options = RunOptions {
        targets: plan.leaves(),
        cores: 1,
        gpus: vec![],
        memory: None,
        fail_fast: false,
        commands: false,
        force: vec![],
        cancel: &never,
    };
    let report = execute(&plan, &store, &options, &ppgnn::report::Tee(vec![])).unwrap();
    assert!(report.failed_by(FailureKind::Data), "{report:?}");
    assert!(store.entries(None).unwrap().is_empty());
}
