//! Toy stages, hand-made plans and a sink that remembers: what the engine tests stand on.
//!
//! Every toy stage has the same parameters. `log`, `sleep` and `stop` are deliberately left out of the key: they say how
//! a test watches a stage, not what it computes.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ppgnn::pipeline::DeviceRequest;
use ppgnn::plan::{Edge, KeyInput, KeyInputs, Node, NodeId, NodeName, Plan};
use ppgnn::run::{Event, EventSink, RunOptions, RunReport, execute};
use ppgnn::store::Store;
use ppgnn_stages::contract::checkpoint::Log;
use ppgnn_stages::contract::device::Device;
use ppgnn_stages::contract::{
    Artifact, ArtifactError, Job, Kind, Progress, Registry, Slot, Stage, StageDef, StageError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A number on disk, in two files so that there is something to tell apart.
pub struct Number(pub i64);

impl Artifact for Number {
    const KIND: Kind = Kind("number");
    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        for (name, text) in [("number", self.0.to_string()), ("twice", (2 * self.0).to_string())] {
            let path = dir.join(name);
            fs::write(&path, text).map_err(|e| ArtifactError::io(&path, e))?;
        }
        Ok(())
    }
    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let path = dir.join("number");
        let text = fs::read_to_string(&path).map_err(|e| ArtifactError::io(&path, e))?;
        text.parse().map(Number).map_err(|_| ArtifactError::malformed(&path, "a number"))
    }
}

/// Parameters of every toy stage.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Added to the sum of the inputs.
    pub add: i64,
    /// What `trouble` does, and `gpu` for the first: `fail`, `data`, `panic`, `full`, `drift`, `folder`.
    pub mode: String,
    /// Folder that records executions; not in the key.
    pub log: PathBuf,
    /// Milliseconds to take; not in the key.
    pub sleep: u64,
    /// How `steps` ends half-way: `fail`, `panic`, `wait` until it is cancelled or killed, `full`; not in the key.
    pub stop: String,
}

impl ppgnn_stages::contract::params::Params for Params {}

fn record(params: &Params, what: &str) {
    let path = params.log.join(what);
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(b"x").unwrap();
}

fn sum(params: &Params, job: &Job) -> Result<i64, StageError> {
    let mut total = params.add;
    for input in job.all("of") {
        total += Number::load(&input.dir)?.0;
    }
    Ok(total)
}

const MANY: &[Slot] = &[Slot::many("of", Kind("number"))];

/// Adds its inputs and a number.
struct Add;
impl Stage for Add {
    const NAME: &'static str = "add";
    const ABOUT: &'static str = "Adds numbers";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = MANY;
    type Params = Params;
    type Output = Number;
    fn run(params: &Params, job: &Job) -> Result<Number, StageError> {
        record(params, &format!("add{}", params.add));
        Ok(Number(sum(params, job)?))
    }
}

/// Threads in use by `slow` and `gpu` stages now and at most, by log folder (tests run side by side), and by device.
static IN_USE: Mutex<Option<HashMap<PathBuf, (usize, usize)>>> = Mutex::new(None);

fn count_threads(log: &Path, change: impl Fn(&mut (usize, usize))) {
    change(IN_USE.lock().unwrap().get_or_insert_default().entry(log.to_owned()).or_default());
}

/// Returns the most threads that `slow` and `gpu` stages had at one time; on one device, for `log.join(device)`.
pub fn most_threads(log: &Path) -> usize {
    IN_USE.lock().unwrap().as_ref().and_then(|m| m.get(log)).map_or(0, |(_, most)| *most)
}

/// Adds, but takes its time, reports progress, and gives up when told to.
struct Slow;
impl Stage for Slow {
    const NAME: &'static str = "slow";
    const ABOUT: &'static str = "Adds numbers slowly";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = MANY;
    type Params = Params;
    type Output = Number;
    fn run(params: &Params, job: &Job) -> Result<Number, StageError> {
        record(params, &format!("slow{}", params.add));
        slowly(params, job)
    }
}

/// The same on a device.
struct Card;
impl Stage for Card {
    const NAME: &'static str = "gpu";
    const ABOUT: &'static str = "Adds numbers on a device";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = MANY;
    const ON_DEVICE: bool = true;
    type Params = Params;
    type Output = Number;
    fn run(params: &Params, job: &Job) -> Result<Number, StageError> {
        if let (true, Device::Cuda(gpu)) = (params.mode == "lose", job.device) {
            let what = format!("card {gpu} fell off the bus");
            return Err(StageError::Card { what, hint: None, lost: true, source: None });
        }
        if params.mode == "lose-first" && job.device == Device::Cuda(0) {
            let what = "the first card fell off the bus".to_owned();
            return Err(StageError::Card { what, hint: None, lost: true, source: None });
        }
        if params.mode == "fail" {
            return Err(StageError::numeric("the GPU failed", "cheer it up"));
        }
        slowly(params, job)
    }
}

fn slowly(params: &Params, job: &Job) -> Result<Number, StageError> {
    let counters = [params.log.clone(), params.log.join(job.device.to_string())];
    for counter in &counters {
        count_threads(counter, |(now, most)| {
            *now += job.threads;
            *most = (*most).max(*now);
        });
    }
    assert_eq!(rayon::current_num_threads(), job.threads);
    let steps = params.sleep.div_ceil(5);
    let mut result = Ok(());
    for done in 0..steps {
        std::thread::sleep(Duration::from_millis(5));
        job.progress(&Progress { done, total: steps, note: String::new() });
        result = job.check_cancelled();
        if result.is_err() {
            break;
        }
    }
    for counter in &counters {
        count_threads(counter, |(now, _)| *now -= job.threads);
    }
    result?;
    Ok(Number(sum(params, job)?))
}

/// Counts to `add` and leaves a record of every step in its resume point, where the next attempt goes on.
struct Steps;
impl Stage for Steps {
    const NAME: &'static str = "steps";
    const ABOUT: &'static str = "Counts step by step";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = MANY;
    type Params = Params;
    type Output = Number;
    fn run(params: &Params, job: &Job) -> Result<Number, StageError> {
        let path = job.scratch.unwrap().join("steps");
        let mut log = Log::open(&path)?;
        let found = log.by_ref().count() as i64;
        record(params, &format!("found{found}"));
        for step in found..params.add {
            if step == params.add / 2 {
                match params.stop.as_str() {
                    "fail" => return Err(StageError::numeric("half-way is enough", "go on")),
                    "panic" => panic!("half-way is enough"),
                    "full" => return Err(ArtifactError::io(&path, std::io::Error::from_raw_os_error(28)).into()),
                    "wait" => {
                        record(params, "half");
                        while job.check_cancelled().is_ok() {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                        return Err(StageError::Cancelled);
                    }
                    _ => {}
                }
            }
            log.append(&step.to_le_bytes())?;
            job.measured("steps", (step + 1) as f64);
        }
        job.measured("memory", 4096.0);
        job.measured("nothing", f64::NAN);
        Ok(Number(sum(params, job)?))
    }
}

/// Goes wrong as its mode says.
struct Trouble;
impl Stage for Trouble {
    const NAME: &'static str = "trouble";
    const ABOUT: &'static str = "Goes wrong";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = MANY;
    type Params = Params;
    type Output = TroubleMade;
    fn run(params: &Params, job: &Job) -> Result<TroubleMade, StageError> {
        record(params, &format!("trouble{}", params.add));
        let total = sum(params, job)?;
        match params.mode.as_str() {
            "fail" => Err(StageError::numeric("the numbers are unhappy", "cheer them up")),
            "data" => Err(StageError::data("numbers.csv:3", "expected a number")),
            "panic" => panic!("index out of luck"),
            mode => Ok(TroubleMade { number: Number(total), mode: mode.to_owned(), log: params.log.clone() }),
        }
    }
}

/// What `trouble` makes when it gets that far.
struct TroubleMade {
    number: Number,
    mode: String,
    log: PathBuf,
}

impl Artifact for TroubleMade {
    const KIND: Kind = Kind("number");
    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        self.number.save(dir)?;
        let path = dir.join("extra");
        match self.mode.as_str() {
            // What a full disk answers: errno 28 is ENOSPC.
            "full" => return Err(ArtifactError::io(&path, std::io::Error::from_raw_os_error(28))),
            "folder" => fs::create_dir(&path).unwrap(),
            // Other bytes each time: the number of executions so far.
            "drift" => fs::write(&path, executions(&self.log).to_string()).unwrap(),
            _ => {}
        }
        Ok(())
    }
    fn load(_: &Path) -> Result<Self, ArtifactError> {
        Err(ArtifactError::malformed(std::path::Path::new("toy"), "a number"))
    }
}

static STAGES: &[StageDef] = &[
    StageDef::of::<Add>(),
    StageDef::of::<Slow>(),
    StageDef::of::<Card>(),
    StageDef::of::<Steps>(),
    StageDef::of::<Trouble>(),
];

/// Returns how many stages ran with this log folder.
pub fn executions(log: &Path) -> u64 {
    let files = fs::read_dir(log).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    files.sum()
}

/// Waits for something that another thread or process will bring about.
pub fn wait_until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing happened in 30 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A store, a log folder and a plan in the making.
pub struct World {
    pub root: PathBuf,
    pub log: PathBuf,
    pub plan: Plan,
    /// Deleted with the world.
    _dir: Option<TempDir>,
}

impl World {
    /// A world in a folder of its own.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let world = Self::at(dir.path());
        Self { _dir: Some(dir), ..world }
    }

    /// A world in a folder that another process may share.
    pub fn at(dir: &Path) -> Self {
        let log = dir.join("log");
        fs::create_dir_all(&log).unwrap();
        let plan = Plan {
            pipeline: "toy".into(),
            profile: None,
            device: DeviceRequest::Cpu,
            nodes: vec![],
            outputs: vec![],
            absent: vec![],
            known_data: vec![],
            trials: Vec::new(),
            searches: Vec::new(),
            wired: Default::default(),
            unshared: 0,
        };
        Self { root: dir.join("store"), log, plan, _dir: None }
    }

    /// Adds a node `<stage>/<add>` with the given inputs.
    pub fn node(&mut self, stage: &str, add: i64, of: &[NodeId]) -> NodeId {
        self.node_with(stage, json!({"add": add}), of)
    }

    pub fn node_with(&mut self, stage: &str, params: Value, of: &[NodeId]) -> NodeId {
        let def = STAGES.iter().find(|s| s.name == stage).unwrap();
        let mut params = params.as_object().cloned().unwrap();
        let mut in_key = params.clone();
        in_key.retain(|name, _| name != "sleep" && name != "stop");
        let mode = params.get("mode").and_then(Value::as_str).unwrap_or("");
        let name = NodeName::new(stage, [format!("{}{mode}", params["add"])]);
        params.insert("log".into(), json!(self.log));
        let inputs = of.iter().map(|id| KeyInput { slot: "of".into(), key: self.plan.node(*id).key }).collect();
        let ingredients = KeyInputs {
            stage: stage.into(),
            version: def.version,
            from: None,
            variant: None,
            added: vec![],
            params: in_key,
            inputs,
            profile: "cpu".into(),
        };
        self.plan.nodes.push(Node {
            name,
            aliases: vec![],
            axes: vec![],
            dataset: None,
            stage: def,
            params: def.check(&Registry::of_stages(STAGES), &params).unwrap(),
            inputs: of.iter().map(|node| Edge { slot: "of", node: *node }).collect(),
            key: ingredients.key(),
            ingredients,
        });
        NodeId(self.plan.nodes.len() - 1)
    }

    pub fn store(&self) -> Store {
        Store::open(&self.root).unwrap()
    }

    /// Runs to the given targets on two cores with a fresh store handle, as a new process would.
    pub fn run(&self, targets: &[NodeId]) -> (RunReport, Seen) {
        self.run_with(targets, |_| {})
    }

    pub fn run_with(&self, targets: &[NodeId], change: impl FnOnce(&mut RunOptions<'_>)) -> (RunReport, Seen) {
        let never = AtomicBool::new(false);
        let mut options = RunOptions {
            targets: targets.to_vec(),
            cores: 2,
            gpus: vec![],
            memory: None,
            fail_fast: false,
            commands: false,
            force: vec![],
            cancel: &never,
        };
        change(&mut options);
        let seen = Seen::default();
        let report = execute(&self.plan, &self.store(), &options, &seen).unwrap();
        let told = report.cached + report.ran + report.failed + report.skipped + report.absent;
        assert_eq!(report.nodes, told, "every node is told of once");
        (report, seen)
    }

    /// Returns the folder of a node's artifact.
    pub fn artifact(&self, id: NodeId) -> PathBuf {
        let node = self.plan.node(id);
        self.root.join("objects").join(node.stage.name).join(node.key.to_string())
    }

    /// Returns the number that a node computed.
    pub fn number(&self, id: NodeId) -> i64 {
        Number::load(&self.artifact(id)).unwrap().0
    }

    pub fn executions(&self) -> u64 {
        executions(&self.log)
    }

    /// Lists a folder of the store.
    pub fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A sink that remembers every event but progress.
#[derive(Default)]
pub struct Seen(Mutex<Vec<Event>>);

impl EventSink for Seen {
    fn event(&self, event: &Event) {
        if !matches!(event, Event::NodeProgress { .. }) {
            self.0.lock().unwrap().push(event.clone());
        }
    }
}

impl Seen {
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    /// Returns what was picked from the events, in order.
    pub fn pick<T>(&self, pick: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.0.lock().unwrap().iter().filter_map(pick).collect()
    }

    /// Returns the names of the nodes that were started, in order.
    pub fn started(&self) -> Vec<String> {
        self.pick(|e| if let Event::NodeStarted { node, .. } = e { Some(node.to_string()) } else { None })
    }

    /// Returns what was said about damaged artifacts.
    pub fn damage(&self) -> Vec<(String, String)> {
        self.pick(|e| match e {
            Event::ArtifactDamaged { node, what, .. } => Some((node.to_string(), what.clone())),
            _ => None,
        })
    }
}
