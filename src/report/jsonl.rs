//! `JsonLines`: each event as one line of JSON, for the log of a run.
//!
//! ```text
//! {"elapsed":0.012,"event":"node-cached","node":"evd/cora","key":"3f9a…","saved-seconds":41.2}
//! ```
//!
//! Progress of a node is written at most once per second: it may come thousands of times.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::plan::ArtifactKey;
use crate::run::{Event, EventSink};

const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// A sink that writes each event as one line of JSON.
pub struct JsonLines<W> {
    begun: Instant,
    inner: Mutex<Inner<W>>,
}

struct Inner<W> {
    writer: W,
    told: HashMap<ArtifactKey, Instant>,
    broken: bool,
}

#[derive(Serialize)]
struct Line<'e> {
    elapsed: f64,
    #[serde(flatten)]
    event: &'e Event,
}

impl<W: Write + Send> JsonLines<W> {
    /// Writes to `writer`, one call per line.
    pub fn new(writer: W) -> Self {
        let inner = Inner { writer, told: HashMap::new(), broken: false };
        Self { begun: Instant::now(), inner: Mutex::new(inner) }
    }

    /// Gives the writer back.
    pub fn into_inner(self) -> W {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner).writer
    }
}

impl<W: Write + Send> EventSink for JsonLines<W> {
    fn event(&self, event: &Event) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = self.begun.elapsed();
        if let Event::NodeProgress { key, .. } = event {
            let now = Instant::now();
            if inner.told.get(key).is_some_and(|told| now - *told < PROGRESS_EVERY) {
                return;
            }
            inner.told.insert(*key, now);
        }
        if inner.broken {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run are far below 2^53")]
        let elapsed = elapsed.as_millis() as f64 / 1000.0;
        let written =
            serde_json::to_vec(&Line { elapsed, event }).map_err(std::io::Error::from).and_then(|mut line| {
                line.push(b'\n');
                inner.writer.write_all(&line)?;
                inner.writer.flush()
            });
        // A log that cannot be written is no reason to abort the run. It is reported once.
        if let Err(error) = written {
            inner.broken = true;
            if error.kind() != std::io::ErrorKind::BrokenPipe {
                tracing::warn!(%error, "cannot write the log of the run; it ends here");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::NodeName;
    use ppgnn_stages::contract::Progress;
    use serde_json::Value;

    fn key() -> ArtifactKey {
        "ab".repeat(32).parse().unwrap()
    }

    #[test]
    fn each_event_is_one_line_with_its_name_and_the_time() {
        let sink = JsonLines::new(Vec::new());
        sink.event(&Event::NodeWaiting { node: NodeName::new("evd", ["a\\nb"]), key: key(), holder: None });
        sink.event(&Event::NodeCached { node: NodeName::new("evd", ["cora"]), key: key(), saved_seconds: 1.5 });
        let text = String::from_utf8(sink.into_inner()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["event"], "node-waiting");
        assert_eq!(lines[1]["saved-seconds"], 1.5);
        assert!(lines[1]["elapsed"].as_f64().unwrap() >= 0.0);
        assert_eq!(lines[1]["key"], key().to_string());
    }

    #[test]
    fn progress_is_thinned_out() {
        let sink = JsonLines::new(Vec::new());
        for done in 0..100 {
            let progress = Progress { done, total: 100, note: String::new() };
            sink.event(&Event::NodeProgress { node: NodeName::new("train", ["x"]), key: key(), progress });
        }
        // A second may pass between two calls on a busy machine, but not a hundred times.
        let lines = sink.into_inner().iter().filter(|b| **b == b'\n').count();
        assert!((1..50).contains(&lines), "{lines} lines");
    }

    #[test]
    fn a_writer_that_fails_does_not_fail_the_run() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let sink = JsonLines::new(Broken);
        sink.event(&Event::Interrupted { running: 0 });
        sink.event(&Event::Interrupted { running: 0 });
    }
}
