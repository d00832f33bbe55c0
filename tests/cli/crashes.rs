//! What survives `kill -9`, damage, and many processes at once.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use ppgnn::store::{ArtifactRef, Opened, Store};

use crate::support::{Project, TINY, files};

/// A small generator for delays; the test needs variety, not quality.
struct Delays(u64);

impl Delays {
    fn next_below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Kills runs at random moments until `kills` have landed, then lets one finish. `PPGNN_KILLS` asks for more by hand.
#[test]
fn killed_runs_lose_nothing_and_end_in_the_same_bytes() {
    let kills: u64 = std::env::var("PPGNN_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(50);
    // Long enough training that kills land in the middle of it.
    let project = Project::new().file("tiny.yaml", &TINY.replace("epochs: 5,", "epochs: 100, window: 0,"));
    let run = |store: &str| project.command(&["run", "tiny.yaml", "--artifacts", store]);
    let began = std::time::Instant::now();
    assert!(run("calm").output().unwrap().status.success());
    let whole = u64::try_from(began.elapsed().as_millis()).unwrap().max(50);

    let mut delays = Delays(0x9E37_79B9_7F4A_7C15);
    let (mut landed, mut finished_early, mut store) = (0, 0, 0);
    let mut kept = 0;
    while landed < kills {
        let name = format!("stormy-{store}");
        let mut child = run(&name).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5 + delays.next_below(whole)));
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            finished_early += 1;
        } else {
            landed += 1;
        }
        let artifacts = project.artifact_bytes(&name).len();
        assert!(artifacts >= kept, "a killed run lost finished artifacts: {kept} before, {artifacts} now");
        kept = artifacts;
        // Once everything is there, kills have nothing left to hit: go on with an empty store.
        if project.path(&name).join("results/tiny/accuracy.md").exists() {
            assert_same(&project, "calm", &name);
            store += 1;
            kept = 0;
        }
    }
    let last = format!("stormy-{store}");
    assert!(run(&last).output().unwrap().status.success());
    assert_same(&project, "calm", &last);
    // What a kill leaves behind in the middle of a deletion or of publishing, `cache gc` deletes.
    project.run(&["cache", "gc", "--delete", "--artifacts", &last]).exit(0);
    assert_same(&project, "calm", &last);
    for folder in ["tmp", "resume", "claims"] {
        let left: Vec<_> =
            std::fs::read_dir(project.path(&last).join(folder)).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(left.is_empty(), "`{folder}` is not empty: {left:?}");
    }
    assert!(store > 0, "kills must let runs come to an end now and then");
    eprintln!("{landed} kills, {finished_early} runs that ended first, {store} stores filled, {whole} ms undisturbed");
}

#[test]
fn training_that_was_killed_goes_on_from_its_last_resume_point_with_the_same_bytes() {
    let project = Project::new().file("tiny.yaml", &TINY.replace("epochs: 5,", "epochs: 1500, window: 0,"));
    let run = |store: &str, threads: &str| {
        let mut command = project.command(&["run", "tiny.yaml", "-j", threads, "--artifacts", store]);
        // A minute is too long for a test.
        command.env("PPGNN_CHECKPOINT_SECONDS", "0.02");
        command
    };
    assert!(run("calm", "1").output().unwrap().status.success());
    let points = || {
        let found = files(&project.path("stormy/resume")).into_iter();
        found.filter(|path| path.extension().is_some_and(|ending| ending == "point")).collect::<Vec<_>>()
    };
    // Every kill waits for points that are newer than those of the run before; another number of threads makes other batches.
    let mut newest = None;
    for threads in ["2", "1", "3"] {
        let mut child = run("stormy", threads).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        loop {
            let changed = points().iter().filter_map(|path| path.metadata().ok()?.modified().ok()).max();
            if changed > newest {
                newest = changed;
                break;
            }
            assert!(child.try_wait().unwrap().is_none(), "it was over before there was a resume point");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
    }
    assert!(!points().is_empty());
    assert!(run("stormy", "2").output().unwrap().status.success());
    assert_same(&project, "calm", "stormy");
    let events = project.events("stormy");
    let notes = events.iter().filter_map(|event| event["progress"]["note"].as_str());
    let continued: Vec<&str> = notes.filter(|note| note.starts_with("continues from epoch ")).collect();
    assert!(!continued.is_empty(), "no attempt went on");
    assert!(files(&project.path("stormy/resume")).is_empty(), "finished nodes need no resume points");
}

fn assert_same(project: &Project, calm: &str, stormy: &str) {
    assert_eq!(project.artifact_bytes(calm), project.artifact_bytes(stormy));
    let results = |store: &str| -> BTreeMap<_, _> {
        let root = project.path(store).join("results");
        let tables = files(&root)
            .into_iter()
            .filter(|f| !f.ends_with("published.json") && !f.ends_with("report.html"))
            .filter(|f| !f.to_str().unwrap().contains(".runs."));
        tables.map(|f| (f.strip_prefix(&root).unwrap().to_owned(), std::fs::read(&f).unwrap())).collect()
    };
    assert_eq!(results(calm), results(stormy));
}

#[test]
fn sixteen_processes_on_one_empty_store_produce_each_node_once() {
    let project = Project::tiny();
    let children: Vec<_> =
        (0..16).map(|_| project.command(&["run", "tiny.yaml", "-j", "1"]).spawn().unwrap()).collect();
    let tables: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    assert!(tables.iter().all(|t| *t == tables[0]));
    let mut finished: BTreeMap<String, usize> = BTreeMap::new();
    for event in project.events("artifacts").iter().filter(|e| e["event"] == "node-finished") {
        *finished.entry(event["node"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(finished.len(), 19, "{finished:?}");
    assert!(finished.values().all(|n| *n == 1), "{finished:?}");
}

#[test]
fn a_flipped_bit_in_any_file_of_a_run_is_detected() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let store = Store::open(&project.path("artifacts")).unwrap();
    let mut looked_at = 0;
    for artifact in store.entries(None).unwrap() {
        let dir = project.path("artifacts/objects").join(&artifact.stage).join(artifact.key.to_string());
        for path in files(&dir) {
            let whole = std::fs::read(&path).unwrap();
            // First, last and a spread of bytes between; the engine tests flip every byte of small artifacts.
            let step = (whole.len() / 40).max(1);
            for at in (0..whole.len()).step_by(step).chain([whole.len() - 1]) {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                std::fs::write(&path, &flipped).unwrap();
                let integrity = store.verify(&ArtifactRef::new(&artifact.stage, artifact.key)).unwrap();
                assert!(matches!(integrity, Opened::Damaged { .. }), "byte {at} of {}", path.display());
                looked_at += 1;
            }
            std::fs::write(&path, &whole).unwrap();
        }
        assert!(matches!(store.verify(&artifact).unwrap(), Opened::Hit(_)));
    }
    assert!(looked_at > 1000, "{looked_at}");
}

#[test]
fn damage_is_set_aside_with_a_warning_and_computed_again() {
    let project = Project::tiny();
    let before = project.run(&["run", "tiny.yaml"]).exit(0).stdout;
    let spectrum =
        files(&project.path("artifacts/objects/evd")).into_iter().find(|f| f.ends_with("spectrum.safetensors"));
    let path = spectrum.unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    project.run(&["cache", "verify"]).exit(4).says("damaged: evd");
    // Nothing reads the eigenpairs while the table is there; with another seed they are needed again.
    project.run(&["run", "tiny.yaml"]).exit(0);
    let rerun = project.run(&["run", "tiny.yaml", "--set", "train.seed=1"]).exit(0);
    assert!(rerun.stderr.contains("Damaged"), "{}", rerun.stderr);
    assert_eq!(files(&project.path("artifacts/quarantine")).iter().filter(|f| f.ends_with("manifest.json")).count(), 1);
    project.run(&["cache", "verify"]).exit(0);
    assert_eq!(project.run(&["table", "tiny.yaml"]).exit(0).stdout, before);
}
