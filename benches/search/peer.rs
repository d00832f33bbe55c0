//! Optuna as a peer: `benches/peers/search.py` samples, we score. What it found is kept, since it depends on nothing of ours.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ppgnn::search::{Domain, Param, Settings};
use serde_json::{Value, json};

use super::BUDGETS;
use super::compare::Column;
use super::support::{peer, threads};
use super::surfaces::Surface;

const SCRIPT: &str = include_str!("../peers/search.py");

/// A way to use Optuna's sampler.
pub struct Optuna {
    round: usize,
    /// Kernels of all parameters together; alone, as before version 5, otherwise.
    multivariate: bool,
    /// Trials that have not been told count as bad ones.
    liar: bool,
}

impl Optuna {
    /// Returns all ways in rounds of some trials; one by one there is nothing to lie about.
    pub fn of_round(round: usize) -> Vec<Self> {
        let ways = [(true, true), (true, false), (false, true), (false, false)];
        let differs = |way: &(bool, bool)| round > 1 || !way.1;
        ways.into_iter().filter(differs).map(|(multivariate, liar)| Self { round, multivariate, liar }).collect()
    }

    fn name(&self) -> String {
        let kernels = if self.multivariate { "multivariate" } else { "univariate" };
        if self.liar { format!("{kernels}, liar") } else { kernels.into() }
    }

    /// The line that starts a search.
    fn job(&self, surface: &Surface, seed: u64) -> Value {
        let space: Vec<Value> = surface.space.params().iter().map(described).collect();
        json!({
            "space": space, "multivariate": self.multivariate, "liar": self.liar, "seed": seed,
            "round": self.round, "trials": BUDGETS[BUDGETS.len() - 1],
        })
    }
}

fn described(param: &Param) -> Value {
    let when = param.when.as_ref().map(|c| json!({ "path": c.path, "values": c.values }));
    match &param.domain {
        Domain::Choice(values) => {
            let ordered = param.domain.is_ordered();
            json!({ "path": param.path, "when": when, "kind": "choice", "values": values, "ordered": ordered })
        }
        Domain::Int { from, to, log } => {
            json!({ "path": param.path, "when": when, "kind": "int", "from": from, "to": to, "log": log })
        }
        Domain::Float { from, to, log } => {
            json!({ "path": param.path, "when": when, "kind": "float", "from": from, "to": to, "log": log })
        }
    }
}

/// A process of the peer.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts one, which says its version; `None` where it cannot run.
    fn start() -> Option<(Self, String)> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/search.py");
        let mut command = peer(&script)?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let (input, output) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut started = Self { child, input, output };
        let version = started.hear()?.as_str()?.to_owned();
        Some((started, version))
    }

    fn say(&mut self, what: &Value) -> Option<()> {
        writeln!(self.input, "{what}").ok()
    }

    fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Runs one search.
    fn search(&mut self, optuna: &Optuna, surface: &Surface, seed: u64) -> Option<[f64; BUDGETS.len()]> {
        self.say(&optuna.job(surface, seed))?;
        let mut scores: Vec<f64> = Vec::new();
        while scores.len() < BUDGETS[BUDGETS.len() - 1] {
            let asked: Vec<Settings> = serde_json::from_value(self.hear()?).ok()?;
            let told: Vec<f64> = asked.iter().map(|settings| surface.score(settings)).collect();
            self.say(&json!(told))?;
            scores.extend(told);
        }
        Some(surface.regrets(&scores))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing that it still has to say is of use; both calls fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes of the peer, and what was found before.
pub struct Peers {
    version: Option<String>,
    kept: Mutex<BTreeMap<String, [f64; BUDGETS.len()]>>,
}

impl Peers {
    /// Looks whether there is a peer.
    pub fn start() -> Self {
        let version = Peer::start().map(|(_, version)| version);
        let text = std::fs::read_to_string(file()).unwrap_or_default();
        let kept = text.lines().filter_map(|line| serde_json::from_str::<(String, _)>(line).ok()).collect();
        Self { version, kept: Mutex::new(kept) }
    }

    /// Which peer there is.
    pub fn title(&self) -> String {
        match &self.version {
            Some(version) => format!("Optuna {version}"),
            None => "no peer: set PPGNN_PYTHON to a Python with Optuna".into(),
        }
    }

    /// Regrets of a peer on every surface, by seed; `None` without one.
    pub fn column(&self, optuna: &Optuna, surfaces: &[Surface], seeds: u64) -> Option<Column> {
        let version = self.version.as_ref()?;
        let probes: Vec<Vec<f64>> = surfaces.iter().map(Surface::probes).collect();
        let key = |(at, seed): (usize, u64)| digest(version, &optuna.job(&surfaces[at], seed), &probes[at]);
        let open: Vec<(usize, u64)> = {
            let kept = self.kept.lock().expect("a lock");
            let jobs = (0..surfaces.len()).flat_map(|at| (0..seeds).map(move |seed| (at, seed)));
            jobs.filter(|job| !kept.contains_key(&key(*job))).collect()
        };
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads().min(open.len()) {
                scope.spawn(|| {
                    let (mut peer, _) = Peer::start().expect("a peer, as before");
                    while let Some((at, seed)) = open.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                        let found = peer.search(optuna, &surfaces[at], seed).expect("an answer of the peer");
                        self.keep(key((at, seed)), found);
                    }
                });
            }
        });
        let kept = self.kept.lock().expect("a lock");
        let of_surface = |at| (0..seeds).map(|seed| kept[&key((at, seed))]).collect();
        Some(Column { name: optuna.name(), regrets: (0..surfaces.len()).map(of_surface).collect() })
    }

    fn keep(&self, key: String, found: [f64; BUDGETS.len()]) {
        let mut kept = self.kept.lock().expect("a lock");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file()).expect("a file");
        writeln!(file, "{}", json!((&key, found))).expect("a line");
        kept.insert(key, found);
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("search-peers.jsonl")
}

/// What a search of the peer depends on: its version, its script, the job, and the surface, of which some scores tell enough.
fn digest(version: &str, job: &Value, probes: &[f64]) -> String {
    let all = json!([version, SCRIPT, job, probes]);
    blake3::hash(all.to_string().as_bytes()).to_hex().to_string()
}
