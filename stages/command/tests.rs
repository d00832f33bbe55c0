//! Tests of `command` with programs of the shell: they copy a result that was made before, or do what a program should not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::contract::params::{CommandLine, FilePath};
use crate::contract::{Job, Progress, ProgressSink, StageError};
use crate::kinds::files::{TensorFile, TensorsRead, read_json};
use crate::kinds::{Features, Nodes, Operator, Part, Splits, Trained};
use crate::models::testing;

/// A folder for a run, with a result that a program may copy.
struct Place {
    dir: tempfile::TempDir,
    operator: Operator,
    nodes: Nodes,
    splits: Splits,
}

impl Place {
    fn new() -> Self {
        let (operator, nodes, _) = testing::artifacts();
        let row = |shift: usize| {
            let part = |i: usize| [Part::Train, Part::Val, Part::Test, Part::None][(i + shift) % 4];
            (0..nodes.len()).map(part).collect()
        };
        let splits = Splits { parts: (0..2).map(row).collect() };
        let place = Self { dir: tempfile::tempdir().unwrap(), operator, nodes, splits };
        fs::create_dir(place.scratch()).unwrap();
        place
    }

    fn scratch(&self) -> PathBuf {
        self.dir.path().join("scratch")
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn logits(&self) -> Vec<f32> {
        (0..2 * self.nodes.len() * self.nodes.classes).map(|i| i as f32 / 8.0).collect()
    }

    /// Makes a result, and returns parameters of a program of the shell that has it as `made`.
    fn made(&self, add: impl FnOnce(&mut TensorFile<'_>), script: &str) -> Params {
        let mut file = TensorFile::default();
        let shape = [2, self.nodes.len(), self.nodes.classes];
        file.add_copy("logits", &shape, &self.logits());
        add(&mut file);
        let path = self.path("made");
        file.write(Path::new(&path)).unwrap();
        Params { files: vec![FilePath(path.into())], places: vec!["made".into()], ..sh(script) }
    }

    fn run(&self, params: &Params) -> Result<Trained, StageError> {
        let cancel = AtomicBool::new(false);
        self.run_on(params, &Job::alone(&cancel))
    }

    fn run_on(&self, params: &Params, job: &Job) -> Result<Trained, StageError> {
        let scratch = self.scratch();
        let training = json!({"lr": 0.1});
        let Self { operator, nodes, splits, .. } = self;
        let task = Task { operator, nodes, splits, seed: 7, training: &training };
        train(&task, params, &Job { scratch: Some(&scratch), ..*job })
    }

    fn error(&self, params: &Params) -> String {
        self.run(params).unwrap_err().to_string()
    }
}

/// A program of the shell.
fn sh(script: &str) -> Params {
    serde_json::from_value(json!({"run": ["sh", "-c", script]})).unwrap()
}

const COPY: &str = "cp made result.safetensors";

/// Whether a process that wrote its number into a file is still there.
fn lives(file: &str) -> bool {
    let id = fs::read_to_string(file).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", id.trim())).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

#[test]
fn a_result_is_taken_as_it_was_written() {
    let place = Place::new();
    let params = place.made(
        |file| {
            file.add_copy("best-epoch", &[2], &[0i64, 1]);
            file.add_copy("history/1", &[2, 3], &[1.0f32, 0.5, 0.25, 0.75, 0.5, 1.0]);
            file.add_copy("weights/0/lin.weight", &[1, 2], &[1.5f32, -1.5]);
        },
        COPY,
    );
    let trained = place.run(&params).unwrap();
    assert_eq!(place.run(&place.made(|_| {}, COPY)).unwrap().splits[0].best_epoch, None);
    let logits: Vec<f32> = trained.splits.iter().flat_map(|split| split.logits.clone()).collect();
    assert_eq!(logits, place.logits());
    let [first, second] = &trained.splits[..] else { panic!("{trained:?}") };
    assert_eq!((first.best_epoch, second.best_epoch), (Some(0), Some(1)));
    assert_eq!((first.history.len(), second.history.len()), (0, 2));
    assert_eq!((second.history[1].train_loss, second.history[1].val_accuracy), (0.75, 1.0));
    assert_eq!(first.weights["lin.weight"], (vec![1, 2], vec![1.5, -1.5]));
    assert_eq!(fs::read_dir(place.scratch()).unwrap().count(), 1, "only stderr is left");
}

#[test]
fn labels_of_test_nodes_are_not_handed_over() {
    let place = Place::new();
    let (data, asked) = (place.path("data"), place.path("asked"));
    let mut params = place.made(|_| {}, &format!("cp data.safetensors {data}; cp job.json {asked}; {COPY}"));
    params.params.insert("hidden".into(), json!(8));
    place.run(&params).unwrap();
    let asked: Value = read_json(Path::new(&asked)).unwrap();
    assert_eq!(
        (&asked["params"], &asked["training"], &asked["seed"]),
        (&json!({"hidden": 8}), &json!({"lr": 0.1}), &json!(7))
    );
    assert_eq!((&asked["splits"], &asked["format"]), (&json!([0, 1]), &json!(FORMAT)));
    assert_ne!(asked["seeds"][0], asked["seeds"][1]);
    let file = TensorsRead::open(Path::new(&data)).unwrap();
    let (shape, labels) = file.get::<i64>("labels").unwrap();
    assert_eq!(shape, [2, place.nodes.len()]);
    for (split, row) in place.splits.parts.iter().enumerate() {
        for (node, part) in row.iter().enumerate() {
            let known = matches!(part, Part::Train | Part::Val);
            let expected = if known { i64::from(place.nodes.labels[node]) } else { -1 };
            assert_eq!(labels[split * place.nodes.len() + node], expected, "{split} {node}");
        }
    }
    let (_, edges) = file.get::<i64>("edges").unwrap();
    let (_, weights) = file.get::<f32>("weights").unwrap();
    let matrix = &place.operator.matrix;
    let count = matrix.indices.len();
    let row = usize::try_from(edges[count - 1]).unwrap();
    assert_eq!((row, edges[2 * count - 1]), (place.nodes.len() - 1, i64::from(matrix.indices[count - 1])));
    assert_eq!(weights[count - 1], matrix.values[count - 1] as f32);
    // Dense or sparse, the features are those of the models.
    let dense = place.nodes.features.to_dense().data;
    match &place.nodes.features {
        Features::Dense(_) => assert_eq!(file.get::<f32>("features").unwrap().1, dense),
        Features::Sparse(_) => {
            let ((_, places), (_, values)) =
                (file.get::<i64>("feature-places").unwrap(), file.get::<f32>("feature-values").unwrap());
            let columns = place.nodes.features.cols();
            let at = |i: usize| (places[i] * columns as i64 + places[values.len() + i]) as usize;
            assert!((0..values.len()).all(|i| dense[at(i)] == values[i]));
        }
    }
}

#[test]
fn apart_every_process_is_handed_its_own_split_alone() {
    let place = Place::new();
    let seen = place.path("seen");
    fs::create_dir(&seen).unwrap();
    let mut params = place.made(|_| {}, &format!("cp job.json {seen}/$$; cp data.safetensors {seen}/$$.data; {COPY}"));
    params.apart = true;
    // What was made is of two splits.
    assert!(place.error(&params).contains("expected `logits` as f32 of 1 × "), "{}", place.error(&params));
    let first = fs::read_dir(&seen).unwrap().flatten().find(|file| file.path().extension().is_none()).unwrap().path();
    let asked: Value = read_json(&first).unwrap();
    assert_eq!(asked["splits"], json!([0]));
    let data = TensorsRead::open(&first.with_extension("data")).unwrap();
    assert_eq!(data.shape_of("labels").unwrap(), [1, place.nodes.len()]);
}

#[test]
fn a_program_that_fails_is_told_with_its_last_lines() {
    let place = Place::new();
    let error = place.run(&sh("seq 1 20 >&2; echo 'no module named torch' >&2; exit 3")).unwrap_err();
    assert!(error.to_string().ends_with("failed (exit status: 3): no module named torch"), "{error}");
    let said = std::error::Error::source(&error).unwrap().to_string();
    assert!(said.contains("\n12\n") && !said.contains("\n11\n") && said.ends_with("torch"), "{said}");
    let kept = fs::read_to_string(place.scratch().join("stderr.txt")).unwrap();
    assert!(kept.starts_with("1\n2\n"), "{kept}");
    let missing = serde_json::from_value(json!({"run": ["no-such-program-here"]})).unwrap();
    assert!(place.error(&missing).starts_with("cannot start `no-such-program-here`: "));
    let killed = place.error(&sh("kill -9 $$"));
    assert!(killed.contains("failed (signal: 9"), "{killed}");
}

#[test]
fn what_is_no_whole_result_is_refused() {
    let place = Place::new();
    let nodes = place.nodes.len();
    let wrong = |params: &Params, what: &str| {
        let error = place.error(params);
        assert!(error.contains(what), "`{what}` is not in {error}");
    };
    wrong(&sh("true"), "ended well, and wrote no `result.safetensors`");
    wrong(&place.made(|_| {}, "head -c 300 made > result.safetensors"), "it is no whole safetensors file");
    wrong(&sh("echo hello > result.safetensors"), "it is no whole safetensors file");
    wrong(&sh("mkdir result.safetensors"), "it is no regular file");
    wrong(&sh("mkfifo result.safetensors"), "it is no regular file");
    wrong(
        &sh("dd if=/dev/zero of=result.safetensors bs=1 count=0 seek=3000000000"),
        "it has 2861 MiB, and 1024 at most",
    );
    // A header that claims more than there is.
    wrong(&sh("printf '\\377\\377\\377\\377\\377\\377\\377\\177{}' > result.safetensors"), "no whole safetensors");
    wrong(&place.made(|file| file.add_copy("logits", &[2, nodes], &vec![0f32; 2 * nodes]), COPY), "expected `logits`");
    wrong(&place.made(|file| file.add_copy("logits", &[1], &[0f64]), COPY), "found f64 of 1");
    wrong(&place.made(|file| file.add_copy("logit", &[1], &[0f32]), COPY), "it has a tensor `logit`; `logits`");
    wrong(&place.made(|file| file.add_copy("history/2", &[1, 3], &[0f32; 3]), COPY), "of no split: they are 0 to 1");
    wrong(&place.made(|file| file.add_copy("weights/0/w", &[1], &[f32::NAN]), COPY), "is not finite");
    wrong(&place.made(|file| file.add_copy("best-epoch", &[2], &[0i64, -1]), COPY), "epochs count from 0");
    let late = place.made(
        |file| {
            file.add_copy("best-epoch", &[2], &[0i64, 5]);
            file.add_copy("history/1", &[1, 3], &[0f32; 3]);
        },
        COPY,
    );
    wrong(&late, "`best-epoch` of split `1` is `5`, and `history` has 1 epochs");
    let mut logits = place.logits();
    logits[nodes * place.nodes.classes + place.nodes.classes] = f32::NAN;
    let nan = place.made(|file| file.add_copy("logits", &[2, nodes, place.nodes.classes], &logits), COPY);
    let error = place.run(&nan).unwrap_err();
    assert!(matches!(error, StageError::Numeric { .. }), "a search may go on: {error:?}");
    assert!(error.to_string().contains("a logit of node `1` is `NaN` in split `1`"), "{error}");
}

#[test]
fn a_program_that_hangs_is_ended_with_all_that_it_started() {
    let place = Place::new();
    let (leader, child) = (place.path("leader"), place.path("child"));
    let script = format!("echo $$ > {leader}; sleep 300 & echo $! > {child}; wait");
    let begun = Instant::now();
    let error = place.error(&Params { timeout: Some(0.5), ..sh(&script) });
    assert!(error.contains("was ended after 0.5 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!lives(&leader) && !lives(&child));

    // One that does not listen is not asked twice.
    let deaf = format!("trap '' TERM; echo $$ > {leader}; while true; do sleep 0.1; done");
    place.error(&Params { timeout: Some(0.3), ..sh(&deaf) });
    assert!(!lives(&leader));
}

#[test]
fn an_interruption_ends_the_program() {
    let place = Place::new();
    let leader = place.path("leader");
    let cancel = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !Path::new(&leader).is_file() {
                std::thread::sleep(Duration::from_millis(10));
            }
            cancel.store(true, Ordering::Relaxed);
        });
        place.run_on(
            &sh(&format!("echo $$ > {leader}.part; mv {leader}.part {leader}; sleep 300")),
            &Job::alone(&cancel),
        )
    });
    assert!(matches!(error, Err(StageError::Cancelled)), "{error:?}");
    assert!(!lives(&leader));
}

#[test]
fn what_a_program_leaves_running_neither_delays_nor_outlives_it() {
    let place = Place::new();
    let child = place.path("child");
    let begun = Instant::now();
    place.run(&place.made(|_| {}, &format!("sleep 300 & echo $! > {child}; {COPY}"))).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!lives(&child));
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_that_takes_too_much_memory_is_ended() {
    let place = Place::new();
    let script = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); sleep 300";
    let params = Params { memory: Some(crate::contract::params::Bytes(64 << 20)), ..sh(script) };
    let error = place.error(&params);
    assert!(error.contains("in memory, and may have 64MiB"), "{error}");
}

#[test]
fn an_environment_that_is_another_one_is_told_before_anything_runs() {
    let place = Place::new();
    let ran = place.path("ran");
    let mut params = place.made(|_| {}, &format!("touch {ran}; {COPY}"));
    let version = |prints: &str| Requirement {
        run: CommandLine(["sh", "-c", "echo Python 3.12.4 >&2"].map(str::to_owned).to_vec()),
        prints: prints.into(),
    };
    params.environment = vec![version("Python 3.13")];
    assert!(place.error(&params).contains("prints `Python 3.12.4`, and `environment` wants `Python 3.13`"));
    assert!(!Path::new(&ran).exists());
    params.environment = vec![version("Python 3.12")];
    place.run(&params).unwrap();
}

#[test]
fn lines_on_stdout_are_progress() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<Progress>>);
    impl ProgressSink for Heard {
        fn progress(&self, progress: &Progress) {
            self.0.lock().unwrap().push(progress.clone());
        }
    }
    let place = Place::new();
    let (heard, cancel) = (Heard::default(), AtomicBool::new(false));
    let script = format!("echo '3/10 loss 0.5'; sleep 0.2; echo hello; sleep 0.2; echo 12/0; {COPY}");
    place.run_on(&place.made(|_| {}, &script), &Job { progress: &heard, ..Job::alone(&cancel) }).unwrap();
    let all = heard.0.into_inner().unwrap();
    let steps: Vec<_> = all.iter().map(|p| (p.done, p.total, p.note.as_str())).collect();
    assert_eq!(steps, [(3, 10, "3/10 loss 0.5"), (0, 1, "hello"), (0, 1, "12/0")]);
}

#[test]
fn what_a_killed_attempt_left_is_deleted_and_never_read() {
    let place = Place::new();
    let left = place.scratch().join("command-left");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("result.safetensors"), "half").unwrap();
    place.run(&place.made(|_| {}, COPY)).unwrap();
    assert!(!left.exists());
}
