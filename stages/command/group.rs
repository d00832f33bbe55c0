//! A process and everything that it starts: they end together, and are measured together.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a process may take to end by itself when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How often to look whether it has.
const TICK: Duration = Duration::from_millis(10);

/// Whether the memory of a group can be measured here.
pub(super) const MEASURES: bool = cfg!(target_os = "linux");

/// The groups that run, by the numbers of their first processes.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all groups at once, for a program that is about to exit without dropping anything.
pub fn end_all() {
    running().iter().for_each(|leader| tell(*leader, Told::Die));
}

/// A process group; nothing of it is left when this is dropped.
pub(super) struct Group {
    leader: Child,
}

impl Group {
    /// Starts a process in a group of its own, so that a Ctrl-C in the terminal reaches us alone, and we end it.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let leader = command.spawn()?;
        running().insert(leader.id());
        Ok(Self { leader })
    }

    /// The process that was started.
    pub fn leader(&mut self) -> &mut Child {
        &mut self.leader
    }

    /// Returns how the process ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.leader.try_wait()
    }

    /// Asks all to end, waits a little, and ends them.
    pub fn end(&mut self) {
        tell(self.leader.id(), Told::End);
        let begun = Instant::now();
        while matches!(self.ended(), Ok(None)) && begun.elapsed() < GRACE {
            thread::sleep(TICK);
        }
        self.kill();
    }

    /// Ends all at once.
    fn kill(&mut self) {
        tell(self.leader.id(), Told::Die);
        // It is gone, or nothing can be done about it.
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }

    /// Returns the bytes that the group has in memory now, as far as the system tells.
    pub fn memory(&self) -> Option<u64> {
        let of = |entry: io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(entry.ok()?.path().join("status")).ok()?;
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next();
            let group: u32 = field("NSpgid:")?.parse().ok()?;
            let kilobytes: u64 = field("VmRSS:")?.parse().ok()?;
            (group == self.leader.id()).then_some(kilobytes * 1024)
        };
        if MEASURES { Some(std::fs::read_dir("/proc").ok()?.filter_map(of).sum()) } else { None }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        running().remove(&self.leader.id());
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    End,
    Die,
}

/// Sends a signal to all of a group.
#[cfg(unix)]
fn tell(leader: u32, what: Told) {
    use nix::sys::signal::{Signal, killpg};
    let signal = if what == Told::End { Signal::SIGTERM } else { Signal::SIGKILL };
    if let Ok(id) = i32::try_from(leader) {
        // Nobody is there any more, or nothing can be done about it.
        let _ = killpg(nix::unistd::Pid::from_raw(id), signal);
    }
}

#[cfg(not(unix))]
fn tell(_: u32, _: Told) {}
