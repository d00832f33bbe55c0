//! `Terminal`: the events of a run as lines for people, one for each node that ended.
//!
//! ```text
//!       Cached [        ] evd        cora                     3f9ac2e81b07  (saved 41.2 s)
//!          Ran [  12.8s ] train      cora/PP-GNN              a41d09cc5e12
//!       Failed [   0.3s ] train      texas/PP-GNN             77e0b1f2c9aa
//!      Summary 58 nodes: 41 cached, 16 ran, 1 failed; 3 not started; 9 m 02 s saved
//! ```
//!
//! A long node says every five seconds how far it is. Below a [live view](super::Live), which says what runs and what ran, only
//! what stays important is told.
//! Colour repeats what the words say. What cannot be written is dropped: a broken pipe is not an error.

use std::collections::{BTreeMap, HashMap};
// Writing to a text cannot fail, so the results of these writes are dropped.
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ppgnn_stages::contract::Progress;

use crate::plan::{ArtifactKey, NodeName};
use crate::run::{Event, EventSink};

use super::lines::{columns, explanation, held_by, node_columns, summary};
use super::page::Page;
use super::units::duration_text;

/// A run of fewer seconds does not say beforehand how long it will take.
const WORTH_TELLING: f64 = 10.0;
const SAY_EVERY: Duration = Duration::from_secs(5);

/// How to show a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// A line for every node that was cached or not started, not one for each stage.
    pub verbose: bool,
    /// Nothing but failures and damage.
    pub quiet: bool,
    /// Lines stand above a live view.
    pub live: bool,
    /// Colour.
    pub colour: bool,
}

impl Style {
    /// The style that suits stderr and the environment (`NO_COLOR`, `TERM`).
    pub fn for_stderr(verbose: bool, quiet: bool) -> Self {
        Self { verbose, quiet, live: false, colour: Page::stderr().is_some_and(|page| page.colour) }
    }
}

impl Style {
    /// Returns whether an event is worth a line: a live view shows the others itself, a quiet run does not.
    fn tells(self, event: &Event) -> bool {
        use Event::{ArtifactDamaged, Interrupted, NodeCached, NodeFailed, NodeFinished, NodeProgress, NodeStarted};
        match event {
            NodeFailed { .. } | ArtifactDamaged { .. } | Interrupted { .. } => true,
            _ if self.quiet => false,
            NodeProgress { .. } | Event::NodeWaiting { .. } | Event::RunStarted { .. } => !self.live,
            NodeFinished { bytes_same: Some(false), .. } => true,
            NodeCached { .. } | NodeStarted { .. } | NodeFinished { .. } => !self.live || self.verbose,
            _ => true,
        }
    }
}

/// A sink that shows a run to people.
pub struct Terminal {
    style: Style,
    inner: Mutex<Inner>,
}

struct Inner {
    writer: Box<dyn Write + Send>,
    running: HashMap<ArtifactKey, Running>,
    /// Cached nodes not shown yet, by stage.
    cached: BTreeMap<String, Cached>,
    /// Skipped nodes not shown yet, by the node that failed.
    skipped: BTreeMap<NodeName, usize>,
    /// How long the rest will take, in words.
    left: Option<String>,
}

struct Running {
    begun: Instant,
    said: Instant,
}

#[derive(Default)]
struct Cached {
    count: usize,
    saved_seconds: f64,
    /// Name and key of the last one, which is shown if it is the only one.
    last: Option<(NodeName, ArtifactKey)>,
}

/// The word at the start of a line, with its colour.
#[derive(Clone, Copy)]
struct Word(&'static str, &'static str);

const EXPECTED: Word = Word("Expected", "36");
const CACHED: Word = Word("Cached", "36");
const RAN: Word = Word("Ran", "32");
const RUNNING: Word = Word("Running", "36");
const WAITING: Word = Word("Waiting", "33");
const FAILED: Word = Word("Failed", "31");
const SKIPPED: Word = Word("Not started", "33");
const WARNED: Word = Word("Warning", "33");
const DAMAGED: Word = Word("Damaged", "33");
const INTERRUPTED: Word = Word("Interrupted", "33");
const SUMMARY: Word = Word("Summary", "1");

/// Where a line goes on that is broken: behind its first word.
const INDENT: usize = 13;

impl Terminal {
    /// Shows a run on stderr.
    pub fn stderr(style: Style) -> Self {
        Self::new(Box::new(io::stderr()), style)
    }

    /// Shows a run on `writer`.
    pub fn new(writer: Box<dyn Write + Send>, style: Style) -> Self {
        let (running, cached, skipped) = Default::default();
        let inner = Inner { writer, running, cached, skipped, left: None };
        Self { style, inner: Mutex::new(inner) }
    }

    fn word(&self, word: Word) -> String {
        let padded = format!("{:>12}", word.0);
        if self.style.colour { format!("\x1b[1;{}m{padded}\x1b[0m", word.1) } else { padded }
    }

    fn line(&self, word: Word, seconds: Option<f64>, node: &NodeName, key: ArtifactKey, note: &str) -> String {
        let time = seconds.map_or(" ".repeat(8), |s| format!("{s:>6.1}s "));
        let mut line = format!("{} [{time}] {}", self.word(word), node_columns(node, &key.short()));
        if !note.is_empty() {
            let _ = write!(line, "  ({note})");
        }
        line + "\n"
    }

    /// What was collected: cached nodes by stage, skipped nodes by the node that failed.
    fn gathered(&self, inner: &mut Inner) -> String {
        let mut lines = String::new();
        for (stage, cached) in std::mem::take(&mut inner.cached) {
            let note = format!("saved {}", duration_text(cached.saved_seconds));
            match cached.last {
                Some((node, key)) if cached.count == 1 => lines += &self.line(CACHED, None, &node, key, &note),
                _ => {
                    let many = columns(&stage, &format!("{} nodes", cached.count), &" ".repeat(12));
                    let _ = writeln!(lines, "{} [        ] {many}  ({note})", self.word(CACHED));
                }
            }
        }
        for (because, count) in std::mem::take(&mut inner.skipped) {
            let (nodes, verb) = if count == 1 { ("node", "needs") } else { ("nodes", "need") };
            let _ = writeln!(lines, "{} {count} {nodes} that {verb} {because}, which failed", self.word(SKIPPED));
        }
        lines
    }

    fn progress(&self, inner: &mut Inner, node: &NodeName, key: ArtifactKey, progress: &Progress) -> String {
        let Some(running) = inner.running.get_mut(&key).filter(|running| running.said.elapsed() >= SAY_EVERY) else {
            return String::new();
        };
        running.said = Instant::now();
        let seconds = running.begun.elapsed().as_secs_f64();
        let left = inner.left.as_ref().map(|left| format!("; all done in {left}")).unwrap_or_default();
        let note = format!("{}/{} {}{left}", progress.done, progress.total, progress.note);
        self.line(RUNNING, Some(seconds), node, key, note.trim_end())
    }

    /// Takes an event, and returns the lines to show now.
    fn lines(&self, inner: &mut Inner, event: &Event) -> String {
        match event {
            Event::RunStarted { misses, expected_seconds, least_seconds, most_seconds, guess, .. } => {
                let [expected, least, most] =
                    [expected_seconds, least_seconds, most_seconds].map(|s| duration_text(*s));
                let mark = if *guess { ", a guess" } else { "" };
                let text = format!("{misses} nodes to compute, about {expected} ({least} to {most}{mark})");
                if *expected_seconds < WORTH_TELLING {
                    String::new()
                } else {
                    format!("{} {text}\n", self.word(EXPECTED))
                }
            }
            Event::TimeLeft { seconds, least, most, .. } => {
                let [seconds, least, most] = [seconds, least, most].map(|s| duration_text(*s));
                inner.left = Some(format!("about {seconds} ({least} to {most})"));
                String::new()
            }
            Event::NodeCached { node, key, saved_seconds } if self.style.verbose => {
                self.line(CACHED, None, node, *key, &format!("saved {}", duration_text(*saved_seconds)))
            }
            Event::NodeCached { node, key, saved_seconds } => {
                let of_stage = inner.cached.entry(node.stage.clone()).or_default();
                of_stage.count += 1;
                of_stage.saved_seconds += saved_seconds;
                of_stage.last = Some((node.clone(), *key));
                String::new()
            }
            Event::NodeStarted { key, .. } => {
                let now = Instant::now();
                inner.running.insert(*key, Running { begun: now, said: now });
                self.gathered(inner)
            }
            Event::NodeProgress { node, key, progress } => self.progress(inner, node, *key, progress),
            Event::NodeWaiting { node, key, holder } => self.line(WAITING, None, node, *key, &held_by(holder.as_ref())),
            Event::RunAsked { .. } | Event::NodeReleased { .. } => String::new(),
            Event::NodeFinished { node, key, seconds, bytes_same, .. } => {
                inner.running.remove(key);
                let note = match bytes_same {
                    Some(true) => "the same bytes as before",
                    Some(false) => "different bytes than before; the old artifact is in quarantine",
                    None => "",
                };
                self.line(RAN, Some(*seconds), node, *key, note)
            }
            Event::NodeFailed { node, key, seconds, failure } => {
                inner.running.remove(key);
                self.line(FAILED, Some(*seconds), node, *key, "") + &explanation(failure)
            }
            Event::NodeSkipped { node, key, because } if self.style.verbose => {
                self.line(SKIPPED, None, node, *key, &format!("needs {because}, which failed"))
            }
            Event::NodeSkipped { because, .. } => {
                *inner.skipped.entry(because.clone()).or_default() += 1;
                String::new()
            }
            Event::NodeWarned { node, key, message } => self.line(WARNED, None, node, *key, message),
            Event::ArtifactDamaged { node, key, what, moved_to } => {
                let moved = moved_to.as_ref().map(|to| format!("; moved to {}", to.display())).unwrap_or_default();
                self.line(DAMAGED, None, node, *key, &format!("{what}{moved}"))
            }
            Event::Interrupted { running } => format!("{} stopping, {running} running\n", self.word(INTERRUPTED)),
            Event::RunFinished { report } => {
                format!("{}{} {}\n", self.gathered(inner), self.word(SUMMARY), summary(report))
            }
        }
    }
}

impl EventSink for Terminal {
    fn event(&self, event: &Event) {
        if !self.style.tells(event) {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = self.lines(&mut inner, event);
        let lines = Page::stderr().map_or(lines.clone(), |page| page.folded(&lines, INDENT));
        if !lines.is_empty() {
            // The reader may have closed the pipe; the run continues.
            let _ = inner.writer.write_all(lines.as_bytes()).and_then(|()| inner.writer.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::Shared;
    use crate::run::{FailureKind, NodeFailure, RunReport};

    fn shown(style: Style, events: &[Event]) -> String {
        let out = Shared::default();
        let terminal = Terminal::new(Box::new(out.clone()), style);
        for event in events {
            terminal.event(event);
        }
        out.text()
    }

    fn key(digit: &str) -> ArtifactKey {
        digit.repeat(64).parse().unwrap()
    }

    fn events() -> Vec<Event> {
        let failure = NodeFailure {
            kind: FailureKind::Stage,
            errors: vec!["loss is not a number".into(), "division by zero".into()],
            hint: Some("lower `lr`".into()),
        };
        let report = RunReport {
            nodes: 6,
            cached: 3,
            ran: 1,
            failed: 1,
            skipped: 1,
            saved_seconds: 542.0,
            ..RunReport::default()
        };
        vec![
            Event::NodeCached { node: NodeName::new("evd", ["cora"]), key: key("3"), saved_seconds: 41.2 },
            Event::NodeCached { node: NodeName::new("split", ["cora"]), key: key("4"), saved_seconds: 0.1 },
            Event::NodeCached { node: NodeName::new("split", ["texas"]), key: key("5"), saved_seconds: 0.1 },
            Event::NodeStarted {
                node: NodeName::new("train", ["cora", "PP-GNN"]),
                key: key("a"),
                threads: 1,
                device: ppgnn_stages::contract::device::Device::Cpu,
            },
            Event::NodeFinished {
                node: NodeName::new("train", ["cora", "PP-GNN"]),
                key: key("a"),
                seconds: 12.84,
                bytes: 10,
                bytes_same: None,
            },
            Event::NodeFailed {
                node: NodeName::new("train", ["texas", "PP-GNN"]),
                key: key("7"),
                seconds: 0.3,
                failure,
            },
            Event::NodeSkipped {
                node: NodeName::new("evaluate", ["texas"]),
                key: key("8"),
                because: NodeName::new("train", ["texas", "PP-GNN"]),
            },
            Event::RunFinished { report },
        ]
    }

    const PLAIN: Style = Style { verbose: false, quiet: false, live: false, colour: false };

    #[test]
    fn a_run_is_told_in_columns() {
        let expected = "      Cached [        ] evd        cora                     333333333333  (saved 41.2 s)
      Cached [        ] split      2 nodes                                (saved 0.2 s)
         Ran [  12.8s ] train      cora/PP-GNN              aaaaaaaaaaaa
      Failed [   0.3s ] train      texas/PP-GNN             777777777777
             error: loss is not a number
             cause: division by zero
              hint: lower `lr`
 Not started 1 node that needs train/texas/PP-GNN, which failed
     Summary 6 nodes: 3 cached, 1 ran, 1 failed; 1 not started; 9 m 02 s saved
";
        assert_eq!(shown(PLAIN, &events()), expected);
    }

    #[test]
    fn a_verbose_run_has_a_line_for_every_node() {
        let text = shown(Style { verbose: true, ..PLAIN }, &events());
        assert_eq!(text.matches("Cached [").count(), 3);
        assert!(text.contains("Not started [        ] evaluate   texas"));
    }

    #[test]
    fn above_a_live_view_only_failures_and_warnings_scroll() {
        let mut events = events();
        let (node, key) = (NodeName::new("train", ["cora"]), key("a"));
        events.insert(0, Event::NodeWarned { node: node.clone(), key, message: "odd labels".into() });
        events.insert(0, Event::NodeWaiting { node, key, holder: None });
        let live = Style { live: true, ..PLAIN };
        let text = shown(live, &events);
        let words: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(words, ["Warning", "Failed", "error:", "cause:", "hint:", "Not", "Summary"], "{text}");
        let verbose = shown(Style { verbose: true, ..live }, &events);
        assert_eq!((verbose.matches("Cached [").count(), verbose.matches(" Ran [").count()), (3, 1), "{verbose}");
    }

    #[test]
    fn a_wait_says_for_whom_and_since_when() {
        let holder = |host: Option<&str>| {
            Some(crate::run::Holder { pid: 77, host: host.map(str::to_owned), since: "2026-03-01T12:00:05Z".into() })
        };
        let wait = |holder| Event::NodeWaiting { node: NodeName::new("evd", ["cora"]), key: key("3"), holder };
        let text = shown(PLAIN, &[wait(holder(Some("box"))), wait(holder(None)), wait(None)]);
        let notes: Vec<&str> = text.lines().map(|line| line.split_once("  (").unwrap().1).collect();
        assert_eq!(
            notes,
            [
                "process 77 on box has been computing it since 2026-03-01 12:00:05 UTC)",
                "process 77 has been computing it since 2026-03-01 12:00:05 UTC)",
                "another process is computing it)",
            ]
        );
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let coloured = shown(Style { colour: true, ..PLAIN }, &events());
        assert!(coloured.contains("\x1b["));
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once("\x1b[") {
            plain += before;
            rest = after.split_once('m').unwrap().1;
        }
        assert_eq!(plain + rest, shown(PLAIN, &events()));
    }
}
