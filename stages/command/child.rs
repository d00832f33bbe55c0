//! Runs one command to its end, and watches it: what it says, whether it is to stop, how long it takes and how much memory it has.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::group::Group;
use crate::contract::params::{Bytes, CommandLine};
use crate::contract::{Job, LastLines, StageError};

/// How often to look after a process that says nothing.
const TICK: Duration = Duration::from_millis(25);
/// How often to measure memory.
const MEASURE_EVERY: Duration = Duration::from_millis(200);
/// How long to go on reading when the process has ended: something that it left running may hold its output open.
const REST: Duration = Duration::from_secs(1);
/// Bytes of a line; a longer one counts as several.
const MOST_LINE: u64 = 2000;
/// Bytes of stderr that are kept in a file.
const MOST_KEPT: usize = 16 << 20;
/// Lines of stderr that are kept with a result, and that an error shows.
const LAST: usize = 40;
const SHOWN: usize = 10;

/// Which way something was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Stdout,
    Stderr,
}

/// What to watch for.
pub(super) struct Watch<'w> {
    pub job: &'w Job<'w>,
    pub timeout: Option<Duration>,
    pub memory: Option<Bytes>,
    /// Where stderr is kept.
    pub stderr: Option<&'w Path>,
    /// Takes every line.
    pub hear: &'w mut dyn FnMut(Way, &str),
}

/// What a process that ended well took, besides time, and said.
#[derive(Clone, Debug, Default)]
pub(super) struct Took {
    /// The most bytes that it was seen to have.
    pub memory: Option<u64>,
    /// The last lines of stderr.
    pub last: Vec<String>,
}

/// Runs a command in a folder; one that does not end well is an error with the last that it said.
pub(super) fn run(line: &CommandLine, command: &mut Command, watch: &mut Watch) -> Result<Took, StageError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let cannot = |error: &io::Error| {
        let program = line.0.first().map_or("", String::as_str);
        let hint = "name a program that is installed, by its path if it is not in `PATH`";
        failed(format!("cannot start `{program}`: {error}"), Some(hint.into()), VecDeque::new())
    };
    let mut group = Group::start(command).map_err(|e| cannot(&e))?;
    // Held until the process has ended: one that reads it learns when we are gone.
    let _stdin = group.leader().stdin.take();
    let (send, heard) = sync_channel(64);
    let (stdout, stderr) = (group.leader().stdout.take(), group.leader().stderr.take());
    let stdout = stdout.map_or(Ok(()), |stream| listen(stream, Way::Stdout, send.clone()));
    let stderr = stderr.map_or(Ok(()), |stream| listen(stream, Way::Stderr, send));
    stdout.and(stderr).map_err(|e| cannot(&e))?;
    let mut ears = Ears { last: VecDeque::new(), kept: 0, file: watch.stderr.and_then(|path| File::create(path).ok()) };
    let ended = wait(&mut group, &heard, &mut ears, watch);
    // Nothing that it has started outlives it.
    drop(group);
    let begun = Instant::now();
    while begun.elapsed() < REST
        && let Ok((way, text)) = heard.recv_timeout(REST)
    {
        ears.take(way, &text, watch);
    }
    let (what, hint) = match ended.map_err(|e| cannot(&e))? {
        Ended::Itself(status, memory) if status.success() => return Ok(Took { memory, last: ears.last.into() }),
        Ended::Itself(status, _) => (format!("failed ({status})"), None),
        Ended::Stopped => return Err(StageError::Cancelled),
        Ended::TooLong(after) => {
            (format!("was ended after {} s", after.as_secs_f64()), Some("raise `timeout`, or make it faster"))
        }
        Ended::TooMuch(bytes, most) => (
            format!("was ended: it had {} MiB in memory, and may have {most}", bytes >> 20),
            Some("raise `memory`, or make it need less"),
        ),
    };
    ears.last.drain(..ears.last.len().saturating_sub(SHOWN));
    let last = ears.last.back().map(|line| format!(": {line}")).unwrap_or_default();
    Err(failed(format!("`{line}` {what}{last}"), hint.map(str::to_owned), ears.last))
}

/// A command that failed, with the last that it said.
pub(super) fn failed(what: String, hint: Option<String>, last: VecDeque<String>) -> StageError {
    let said = (!last.is_empty()).then(|| LastLines(last.into()));
    StageError::Command { what, hint, said }
}

/// Why a process ended.
enum Ended {
    Itself(ExitStatus, Option<u64>),
    /// The run was interrupted.
    Stopped,
    TooLong(Duration),
    TooMuch(u64, Bytes),
}

fn wait(group: &mut Group, heard: &Receiver<(Way, String)>, ears: &mut Ears, watch: &mut Watch) -> io::Result<Ended> {
    let (begun, mut measured, mut memory) = (Instant::now(), None, None);
    loop {
        match heard.recv_timeout(TICK) {
            Ok((way, text)) => ears.take(way, &text, watch),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
        }
        if let Some(status) = group.ended()? {
            return Ok(Ended::Itself(status, memory));
        }
        let over = watch.timeout.filter(|most| begun.elapsed() > *most).map(Ended::TooLong);
        let over = over.or_else(|| watch.job.check_cancelled().is_err().then_some(Ended::Stopped));
        let over = over.or_else(|| {
            if measured.is_some_and(|at: Instant| at.elapsed() < MEASURE_EVERY) {
                return None;
            }
            measured = Some(Instant::now());
            let now = group.memory()?;
            memory = memory.max(Some(now));
            watch.memory.filter(|most| now > most.0).map(|most| Ended::TooMuch(now, most))
        });
        if let Some(why) = over {
            group.end();
            return Ok(why);
        }
    }
}

/// Takes what a process says.
struct Ears {
    /// The last lines of stderr.
    last: VecDeque<String>,
    file: Option<File>,
    /// Bytes in the file.
    kept: usize,
}

impl Ears {
    fn take(&mut self, way: Way, text: &str, watch: &mut Watch) {
        (watch.hear)(way, text);
        if way == Way::Stdout || text.is_empty() {
            return;
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(text.to_owned());
        self.kept += text.len() + 1;
        if let Some(file) = self.file.as_mut().filter(|_| self.kept <= MOST_KEPT) {
            // What is kept is for people; a full disk must not cost the result.
            let _ = writeln!(file, "{text}");
        }
    }
}

/// Reads lines in a thread until their end, or until nobody listens.
fn listen(stream: impl Read + Send + 'static, way: Way, send: SyncSender<(Way, String)>) -> io::Result<()> {
    let read = move || {
        let (mut stream, mut line) = (BufReader::new(stream), Vec::new());
        while stream.by_ref().take(MOST_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if send.send((way, shown(&line))).is_err() {
                return;
            }
            line.clear();
        }
    };
    thread::Builder::new().name("command".into()).spawn(read).map(drop)
}

/// A line as it can be shown anywhere: a bar that draws itself again leaves its last state, and nothing steers a terminal.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    let last = text.rsplit('\r').next().unwrap_or(text);
    last.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_steers_no_terminal() {
        assert_eq!(shown(b" 10 %\r 20 %\r\n"), " 20 %");
        assert_eq!(shown(b"\x1b[2Jred\tcell\xff\n"), " [2Jred cell\u{fffd}");
    }
}
