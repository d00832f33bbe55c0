//! Faults at every call that changes the store: full disks, I/O errors, signals, clocks that jump, too little memory.
//!
//! A library between the program and the C library (`tests/faults/shim.c`) makes the n-th call fail, or sends a signal there.
//! Runs with faults follow each other on one store until one comes to its end; then the store must hold the bytes of an
//! undisturbed run, and the next fault meets an empty one.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::{Project, files};

/// A kind of fault.
struct Kind {
    name: &'static str,
    /// The calls that it meets.
    calls: &'static str,
    /// What the library does there.
    does: Does,
}

#[derive(Clone, Copy)]
enum Does {
    /// The call fails, with the text that people must see. With `true` all later calls that change something do as well.
    Fails(i32, &'static str, bool),
    /// The process gets a signal, before or after the call.
    Signals(i32, bool),
    /// The wall clock jumps by so many seconds.
    Jumps(i64),
    /// There is so little memory to address, whatever the calls.
    Starves,
}

const CHANGES: &str = "create,write,rename,mkdir,unlink";
const ALL: &str = "create,write,fsync,rename,mkdir,unlink,lock";
const KILL: i32 = 9;
const TERM: i32 = 15;
const STOP: i32 = 19;
const EIO: Does = Does::Fails(5, "Input/output error", false);
const READ_ONLY: Does = Does::Fails(30, "Read-only file system", true);

const KINDS: [Kind; 16] = [
    Kind { name: "disk full", calls: "create,write,mkdir", does: Does::Fails(28, "No space left on device", true) },
    Kind { name: "EIO in write", calls: "write", does: EIO },
    Kind { name: "EIO in fsync", calls: "fsync", does: EIO },
    Kind { name: "EIO in rename", calls: "rename", does: EIO },
    Kind { name: "EIO in open", calls: "open,create", does: EIO },
    Kind { name: "EIO in mkdir", calls: "mkdir", does: EIO },
    Kind { name: "EIO in unlink", calls: "unlink", does: EIO },
    Kind { name: "EIO in lock", calls: "lock", does: EIO },
    Kind { name: "turns read-only", calls: CHANGES, does: READ_ONLY },
    Kind { name: "SIGKILL before", calls: ALL, does: Does::Signals(KILL, false) },
    Kind { name: "SIGKILL after", calls: ALL, does: Does::Signals(KILL, true) },
    Kind { name: "SIGSTOP, SIGCONT", calls: ALL, does: Does::Signals(STOP, false) },
    Kind { name: "SIGTERM", calls: ALL, does: Does::Signals(TERM, false) },
    Kind { name: "clock to 2126", calls: ALL, does: Does::Jumps(100 * 31_557_600) },
    Kind { name: "clock to 1926", calls: ALL, does: Does::Jumps(-100 * 31_557_600) },
    Kind { name: "little memory", calls: ALL, does: Does::Starves },
];

/// The program with the library in front, on stores of one project.
struct Campaign {
    project: Project,
    shim: PathBuf,
    /// How many calls an undisturbed run makes, by name.
    calls: BTreeMap<String, u64>,
}

/// One run.
struct Ran {
    output: Output,
    /// The call that the fault met, if it came to that.
    met: Option<String>,
}

impl Ran {
    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

impl Campaign {
    /// Compiles the library and lets a run come to its end, whose calls are counted. Nothing where there is no C compiler.
    fn new() -> Option<Self> {
        let project = Project::tiny();
        let shim = project.path("shim.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/shim.c");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).args([source, "-ldl"]).status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("skipped: faults: there is no C compiler `cc` that makes shared libraries");
            return None;
        }
        let mut campaign = Self { project, shim, calls: BTreeMap::new() };
        let calm = campaign.run(campaign.command("calm"));
        assert!(calm.output.status.success(), "{}", calm.stderr());
        let counts = std::fs::read_to_string(campaign.project.path("met")).unwrap();
        let count = |line: &str| line.split_once(' ').map(|(call, n)| (call.to_owned(), n.parse().unwrap()));
        campaign.calls = counts.lines().filter_map(count).collect();
        Some(campaign)
    }

    /// A run on a store. Training leaves resume points before every epoch, so that faults meet those as well.
    fn command(&self, store: &str) -> Command {
        let root = self.project.path(store);
        let words = ["run", "tiny.yaml", "-j", "2", "--memory", "64GiB", "--artifacts", root.to_str().unwrap()];
        let mut command = self.project.command(&words);
        command.env("PPGNN_CHECKPOINT_SECONDS", "0").env("LD_PRELOAD", &self.shim);
        command.env("FAULT_ROOT", root).env("FAULT_LOG", self.project.path("met"));
        command
    }

    /// The same with a fault at the `at`-th call.
    fn faulty(&self, store: &str, kind: &Kind, at: u64) -> Command {
        let mut command = self.command(store);
        command.env("FAULT_CALLS", kind.calls).env("FAULT_AT", at.to_string());
        match kind.does {
            Does::Fails(errno, _, stays) => {
                command.env("FAULT_ERRNO", errno.to_string()).env("FAULT_STAYS", u8::from(stays).to_string());
            }
            Does::Signals(signal, after) => {
                command.env("FAULT_SIGNAL", signal.to_string()).env("FAULT_AFTER", u8::from(after).to_string());
            }
            Does::Jumps(seconds) => {
                command.env("FAULT_JUMP", seconds.to_string());
            }
            Does::Starves => return starved(&command, at),
        }
        command
    }

    /// Runs to the end; a process that has stopped is woken up.
    fn run(&self, mut command: Command) -> Ran {
        let met = self.project.path("met");
        let _ = std::fs::remove_file(&met);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stops = command.get_envs().any(|(name, value)| name == "FAULT_SIGNAL" && value == Some("19".as_ref()));
        let waker = stops.then(|| wake(child.id(), met.clone()));
        let output = child.wait_with_output().unwrap();
        if let Some((over, waker)) = waker {
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            waker.join().unwrap();
        }
        Ran { output, met: std::fs::read_to_string(met).ok().filter(|text| !text.is_empty()) }
    }

    /// How many calls of a kind an undisturbed run makes.
    fn count(&self, kind: &Kind) -> u64 {
        kind.calls.split(',').map(|call| self.calls.get(call).copied().unwrap_or(0)).sum()
    }

    /// Returns whether a run with a fault has ended well, after checking that it ended as it may.
    fn judge(&self, kind: &Kind, at: u64, ran: &Ran) -> bool {
        let (status, stderr) = (ran.output.status, ran.stderr());
        let what = format!("{} at call {at} ({:?}): {status}\n{stderr}", kind.name, ran.met);
        assert!(!stderr.contains("panicked") && !stderr.contains("bug in"), "{what}");
        let (by_signal, met) = (status.signal(), ran.met.is_some());
        match kind.does {
            _ if status.success() => {}
            Does::Fails(_, text, _) => {
                assert!(met && by_signal.is_none(), "{what}");
                assert!(stderr.contains(text) && stderr.contains("stormy"), "what failed is not named: {what}");
            }
            Does::Signals(KILL, _) => assert!(met && by_signal == Some(KILL), "{what}"),
            Does::Signals(TERM, _) => assert!(met && status.code() == Some(130), "{what}"),
            Does::Signals(..) | Does::Jumps(_) => panic!("it must go on as if nothing were: {what}"),
            // Without memory there is nothing to say but that.
            Does::Starves => assert!(by_signal.is_none_or(|s| s == 6) && !stderr.is_empty(), "{what}"),
        }
        status.success()
    }

    fn assert_same(&self, store: &str) {
        let (calm, stormy) = (self.project.artifact_bytes("calm"), self.project.artifact_bytes(store));
        // Beside them there may be tables without what failed.
        for (path, digest) in &calm {
            assert_eq!(stormy.get(path), Some(digest), "{} of {store}", path.display());
        }
        let results = |store: &str| -> BTreeMap<_, _> {
            let root = self.project.path(store).join("results");
            // Reports and runs say how many seconds it took.
            let changing = ["published.json", "report.html"];
            let kept = |path: &PathBuf| {
                !changing.iter().any(|name| path.ends_with(name)) && !path.to_str().unwrap().contains(".runs.")
            };
            let found = files(&root).into_iter().filter(kept);
            found.map(|f| (f.strip_prefix(&root).unwrap().to_owned(), std::fs::read(&f).unwrap())).collect()
        };
        assert_eq!(results("calm"), results(store), "results of {store}");
    }
}

/// The same command where a process can address so many megabytes.
fn starved(command: &Command, megabytes: u64) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v $0 && exec \"$@\""]).arg((megabytes * 1024).to_string());
    shell.arg(command.get_program()).args(command.get_args()).current_dir(command.get_current_dir().unwrap());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.stdin(Stdio::null());
    shell
}

type Waker = (std::sync::Arc<std::sync::atomic::AtomicBool>, std::thread::JoinHandle<()>);

/// Waits until a process has met its fault, and sends SIGCONT a moment later.
fn wake(process: u32, met: PathBuf) -> Waker {
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = over.clone();
    let waker = std::thread::spawn(move || {
        while !seen.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
            if met.exists() {
                let _ = Command::new("sh").args(["-c", "kill -CONT $0 2>/dev/null"]).arg(process.to_string()).status();
            }
        }
    });
    (over, waker)
}

/// Where the `turn`-th fault of a kind falls, of `count` calls: spread over a run, and on every call once in `count` turns.
fn place(turn: u64, count: u64) -> u64 {
    let shares = |step: u64| (2..=step).any(|d| step.is_multiple_of(d) && count.is_multiple_of(d));
    // Steps by the golden ratio are far from all before.
    let step = (count * 618 / 1000..).find(|step| *step > 0 && !shares(*step)).unwrap_or(1);
    1 + turn * step % count.max(1)
}

#[test]
fn faults_fall_on_every_call_once() {
    for count in [1, 2, 7, 60, 144, 360] {
        let mut places: Vec<u64> = (0..count).map(|turn| place(turn, count)).collect();
        places.sort_unstable();
        assert_eq!(places, (1..=count).collect::<Vec<_>>());
    }
}

/// Every kind in turn, at calls that are spread over a run. `PPGNN_FAULTS` asks for more than fit a test: a number, or `all`, every
/// call of a run for every kind.
#[test]
fn no_fault_costs_more_than_the_run_that_met_it() {
    let asked = std::env::var("PPGNN_FAULTS").unwrap_or_else(|_| "60".into());
    let Some(campaign) = Campaign::new() else { return };
    // As many turns for every kind as the kind with the most calls needs.
    let turns = |kinds: &[Kind]| kinds.iter().map(|kind| campaign.count(kind)).max().unwrap_or(0);
    let wanted = if asked == "all" { turns(&KINDS) * KINDS.len() as u64 } else { asked.parse().unwrap() };
    let mut landed: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut total, mut store, mut on_store) = (0, 0, 0);
    for attempt in 0u64.. {
        let done = if asked == "all" { attempt } else { total };
        if done >= wanted {
            break;
        }
        let kind = &KINDS[usize::try_from(attempt).unwrap() % KINDS.len()];
        let name = format!("stormy-{store}");
        let at = match kind.does {
            // Less does not even load the program.
            Does::Starves => 120 + attempt * 7 % 300,
            _ => place(attempt / KINDS.len() as u64, campaign.count(kind)),
        };
        if asked == "all" && attempt / KINDS.len() as u64 >= campaign.count(kind).max(1) {
            // This kind has met every call.
            continue;
        }
        let ran = campaign.run(campaign.faulty(&name, kind, at));
        let ended_well = campaign.judge(kind, at, &ran);
        if ran.met.is_some() || !ended_well {
            *landed.entry(kind.name).or_default() += 1;
            total += 1;
        }
        on_store += 1;
        if ended_well || on_store == 12 {
            let last = campaign.run(campaign.command(&name));
            assert!(last.output.status.success(), "after {} at {at}: {}", kind.name, last.stderr());
            campaign.assert_same(&name);
            let checked = campaign.project.run(&["cache", "verify", "--artifacts", &name]);
            assert_eq!(checked.code, 0, "{}", checked.stderr);
            std::fs::remove_dir_all(campaign.project.path(&name)).unwrap();
            (store, on_store) = (store + 1, 0);
        }
    }
    eprintln!("{total} faults met by runs on {} stores:", store + 1);
    landed.iter().for_each(|(name, count)| eprintln!("{count:6} {name}"));
}

#[test]
fn a_read_only_store_with_everything_in_it_will_do() {
    let Some(campaign) = Campaign::new() else { return };
    let read_only = Kind { name: "read-only", calls: CHANGES, does: READ_ONLY };
    // From the first call on: whoever runs this, root among them, cannot change anything.
    let ran = campaign.run(campaign.faulty("calm", &read_only, 1));
    assert!(ran.output.status.success() && ran.met.is_some(), "{}", ran.stderr());
    assert!(ran.stderr().contains("everything is there already"), "{}", ran.stderr());
    assert!(String::from_utf8_lossy(&ran.output.stdout).contains("PP-GNN"));
    // Where something must be computed, it says what cannot be written.
    let ran = campaign.run(campaign.faulty("stormy", &read_only, 1));
    assert!(!ran.output.status.success() && ran.stderr().contains("Read-only file system"), "{}", ran.stderr());
}
