//! `Followed`: a run as its log tells it, read line by line while it is written.
//!
//! What is kept is bounded, however long the log is: counts, what runs now with a curve for each, the first failures, the last lines.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

/// Points of a curve that are kept; of more, every second one is left out.
const MOST_POINTS: usize = 400;
/// Failures and warnings that are kept, each.
const MOST_TOLD: usize = 200;
/// Last lines that are kept.
const LAST_LINES: usize = 100;
/// A longer line is cut.
const MOST_LETTERS: usize = 2000;
/// A line that is longer than this was not written by a run.
const LONGEST_LINE: usize = 64 << 20;

/// Where a run stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Followed {
    /// What was asked for.
    pub asked: Asked,
    /// Name of the pipeline; empty until it has begun.
    pub pipeline: String,
    /// Nodes that must be in the store in the end.
    pub needed: u64,
    /// Nodes that were there.
    pub hits: u64,
    /// Nodes that were computed.
    pub ran: u64,
    /// Nodes that failed.
    pub failed: u64,
    /// Nodes that were not started because of it.
    pub skipped: u64,
    /// How long the rest will take: expected, least, most; and the share of the work that is done.
    pub left: Option<[f64; 4]>,
    /// Seconds since the beginning, when the last line was written.
    pub elapsed: f64,
    /// What is being computed, in the order of its start.
    pub running: Vec<Training>,
    /// What failed, and why.
    pub failures: Vec<Told>,
    /// What was warned of.
    pub warnings: Vec<Told>,
    /// How it ended, if it has.
    pub ended: Option<Ended>,
    /// The last lines.
    pub last: VecDeque<String>,
    /// Changes whenever a table may have changed.
    pub version: u64,
    /// Bytes of the log that were read, of whole lines.
    pub read: u64,
    /// What is there of a line that has not ended.
    rest: Vec<u8>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Asked {
    /// The pipeline file.
    pub file: Option<String>,
    /// Name of the profile.
    pub profile: Option<String>,
    /// What the command line changes.
    pub set: Vec<String>,
    /// The device that it names.
    pub device: Option<String>,
    /// The command as a person would type it again.
    pub words: String,
}

/// A node that is being computed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Training {
    /// Its key.
    pub key: String,
    /// Its name.
    pub node: String,
    /// When it began, in seconds since the beginning.
    pub since: f64,
    /// Steps done.
    pub done: f64,
    /// Steps there will be at most.
    pub total: f64,
    /// What it said last.
    pub said: String,
    /// Steps, loss and validation score in percent, as far as it told them.
    pub curve: Vec<[f64; 3]>,
}

/// What a node had to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Its key.
    pub key: String,
    /// Its name.
    pub node: String,
    /// What it said: the message, then causes and a hint.
    pub lines: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ended {
    /// Whether it was asked to stop.
    pub interrupted: bool,
    /// How long it took.
    pub seconds: f64,
}

impl Followed {
    /// Takes what follows in the log. Lines that say nothing are left out.
    pub fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(whole);
        let lines = std::mem::replace(&mut self.rest, rest);
        self.read += lines.len() as u64;
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.line(line);
        }
        if self.rest.len() > LONGEST_LINE {
            self.read += self.rest.len() as u64;
            self.rest.clear();
        }
    }

    /// Returns where the next part begins.
    pub fn next(&self) -> u64 {
        self.read + self.rest.len() as u64
    }

    /// Counts the nodes that are done with.
    pub fn done(&self) -> u64 {
        self.hits + self.ran + self.failed + self.skipped
    }

    fn line(&mut self, line: &[u8]) {
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(String::from_utf8_lossy(line).chars().take(MOST_LETTERS).collect());
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
        let number = |name: &str| event[name].as_f64().unwrap_or_default();
        let count = |name: &str| event[name].as_u64().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.elapsed = number("elapsed").max(self.elapsed);
        let key = text(&event["key"]);
        let kind = event["event"].as_str().unwrap_or_default();
        // After the end, tables without what failed may be made, which is a run of its own in the same log.
        if self.ended.is_some() && kind != "node-warned" {
            return;
        }
        match kind {
            "run-asked" => self.asked = Asked::deserialize(&event).unwrap_or_default(),
            "run-started" => {
                self.pipeline = text(&event["pipeline"]);
                (self.needed, self.hits, self.ran, self.failed, self.skipped) =
                    (count("misses") + count("hits"), 0, 0, 0, 0);
                self.left = Some([number("expected-seconds"), number("least-seconds"), number("most-seconds"), 0.0]);
            }
            "time-left" => self.left = Some(["seconds", "least", "most", "share"].map(number)),
            "node-cached" => self.end(&key, |all| &mut all.hits),
            "node-finished" => self.end(&key, |all| &mut all.ran),
            "node-skipped" => self.end(&key, |all| &mut all.skipped),
            "node-failed" => {
                let failure = &event["failure"];
                let errors = failure["errors"].as_array().into_iter().flatten().map(text);
                let hint = failure["hint"].as_str().map(|hint| format!("hint: {hint}"));
                let lines = errors.chain(hint).collect();
                tell(&mut self.failures, Told { key: key.clone(), node: text(&event["node"]), lines });
                self.end(&key, |all| &mut all.failed);
            }
            "node-warned" => {
                let lines = vec![text(&event["message"])];
                tell(&mut self.warnings, Told { key, node: text(&event["node"]), lines });
            }
            "node-started" => {
                self.running.retain(|running| running.key != key);
                let (node, since) = (text(&event["node"]), self.elapsed);
                self.running.push(Training { key, node, since, ..Training::default() });
            }
            "node-progress" => {
                if let Some(running) = self.running.iter_mut().find(|running| running.key == key) {
                    running.take(&event["progress"]);
                }
            }
            "run-finished" => {
                let report = &event["report"];
                self.running.clear();
                self.version += 1;
                self.left = None;
                // Of a long log only the ends may have been read.
                let counts = ["cached", "ran", "failed", "skipped"].map(|name| report[name].as_u64());
                if let [Some(hits), Some(ran), Some(failed), Some(skipped)] = counts {
                    (self.hits, self.ran, self.failed, self.skipped) = (hits, ran, failed, skipped);
                }
                let seconds = report["seconds"].as_f64().unwrap_or(self.elapsed);
                self.ended = Some(Ended { interrupted: report["interrupted"] == true, seconds });
            }
            _ => {}
        }
    }

    fn end(&mut self, key: &str, count: fn(&mut Self) -> &mut u64) {
        self.running.retain(|running| running.key != key);
        *count(self) += 1;
        self.version += 1;
    }
}

fn tell(all: &mut Vec<Told>, told: Told) {
    if all.len() < MOST_TOLD {
        all.push(told);
    }
}

impl Training {
    fn take(&mut self, progress: &Value) {
        self.done = progress["done"].as_f64().unwrap_or_default();
        self.total = progress["total"].as_f64().unwrap_or_default();
        self.said = progress["note"].as_str().unwrap_or_default().to_owned();
        if let (Some(loss), Some(score)) = (number_after(&self.said, "loss "), number_after(&self.said, "val ")) {
            self.curve.push([self.done, loss, score]);
        }
        if self.curve.len() > MOST_POINTS {
            let mut at = 0;
            self.curve.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
    }
}

/// The number that follows a word, if one does.
fn number_after(text: &str, word: &str) -> Option<f64> {
    let rest = &text[text.find(word)? + word.len()..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".-e".contains(c))).unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"elapsed":0.0,"event":"run-asked","file":"/p/x.yaml","profile":null,"set":["a.b=1"],"device":null,"words":"x.yaml"}
{"elapsed":0.1,"event":"run-started","pipeline":"x","misses":3,"hits":1,"expected-seconds":9.0,"least-seconds":8.0,"most-seconds":10.0}
{"elapsed":0.2,"event":"node-cached","node":"load/a","key":"k0"}
{"elapsed":0.3,"event":"node-started","node":"train/a","key":"k1"}
{"elapsed":1.3,"event":"node-progress","node":"train/a","key":"k1","progress":{"done":20,"total":100,"note":"epoch 10, 2 splits: loss 0.693, val 51.5 %"}}
{"elapsed":1.4,"event":"time-left","seconds":5.0,"least":4.0,"most":6.0,"share":0.5}
"#;

    #[test]
    fn a_log_tells_the_same_however_it_is_cut() {
        let mut whole = Followed::default();
        whole.take(LOG.as_bytes());
        assert_eq!((whole.needed, whole.done(), whole.left), (4, 1, Some([5.0, 4.0, 6.0, 0.5])));
        assert_eq!(whole.running[0].curve, [[20.0, 0.693, 51.5]]);
        assert_eq!((whole.asked.set.as_slice(), whole.next()), (&["a.b=1".to_owned()][..], LOG.len() as u64));
        for length in [1, 7, 100, 333] {
            let mut cut = Followed::default();
            LOG.as_bytes().chunks(length).for_each(|part| cut.take(part));
            assert_eq!(cut, whole);
        }
    }

    #[test]
    fn what_failed_and_how_it_ended_is_kept() {
        let mut run = Followed::default();
        run.take(LOG.as_bytes());
        run.take(br#"{"elapsed":2.0,"event":"node-failed","node":"train/a","key":"k1","failure":{"kind":"stage","errors":["no"],"hint":"yes"}}
{"elapsed":2.1,"event":"run-finished","report":{"seconds":2.1,"interrupted":true}}
"#);
        assert_eq!(
            run.failures,
            [Told { key: "k1".into(), node: "train/a".into(), lines: vec!["no".into(), "hint: yes".into()] }]
        );
        assert_eq!(run.ended, Some(Ended { interrupted: true, seconds: 2.1 }));
        assert!(run.running.is_empty() && run.left.is_none());
        let before = (run.ended, run.needed, run.failed);
        run.take(b"{\"event\":\"run-started\",\"misses\":1}\n{\"event\":\"run-finished\",\"report\":{}}\n");
        assert_eq!((run.ended, run.needed, run.failed), before);
    }

    #[test]
    fn any_bytes_are_taken_and_little_is_kept_of_many() {
        let mut run = Followed::default();
        for line in [
            "{",
            "[]",
            "null",
            "{\"event\":5}",
            "{\"event\":\"node-failed\"}",
            "\u{0}\n\n",
            "{\"event\":\"run-started\",\"misses\":-1}",
        ] {
            run.take(line.as_bytes());
            run.take(&[0xff, b'\n']);
            run.take(line.as_bytes());
            run.take(b"\n");
        }
        run.take(b"{\"event\":\"node-started\",\"key\":\"k\"}\n");
        for step in 0..20_000 {
            let line = format!(
                "{{\"event\":\"node-progress\",\"key\":\"k\",\"progress\":{{\"done\":{step},\"total\":9,\"note\":\"loss 1.5, val 2.5 %\"}}}}\n"
            );
            run.take(line.as_bytes());
        }
        assert!(run.running[0].curve.len() <= MOST_POINTS && run.running[0].curve.len() > MOST_POINTS / 3);
        assert_eq!(run.last.len(), LAST_LINES);
    }
}
