//! The logs of runs as far as they were read: each is read once, and on from there when it is asked for again.

use std::collections::HashMap;

use crate::report::Followed;
use crate::report::html::live::{RunRow, State};
use crate::store::{Store, StoreError};

/// What is read of a log at a time: of a longer one the rest comes with the next requests.
const AT_A_TIME: u64 = 8 << 20;
/// What a list needs of a log that has ended: its beginning and its end.
const BOTH_ENDS: u64 = 256 << 10;
/// Runs that are followed at a time.
const MOST_FOLLOWED: usize = 16;

/// Logs that were read.
#[derive(Default)]
pub struct Logs {
    followed: HashMap<String, Followed>,
    /// By name, with the length that they had.
    rows: HashMap<String, (u64, RunRow)>,
}

impl Logs {
    /// Reads on in a log. Returns what it tells and how long it is; nothing if there is no such log.
    pub fn follow(&mut self, store: &Store, log: &str) -> Result<Option<(&Followed, u64)>, StoreError> {
        if !self.followed.contains_key(log) && self.followed.len() >= MOST_FOLLOWED {
            self.followed.clear();
        }
        let next = self.followed.get(log).map_or(0, Followed::next);
        let Some(mut part) = store.read_log(log, next, AT_A_TIME)? else { return Ok(None) };
        if part.length < next {
            // Another file of the same name.
            self.followed.remove(log);
            part = store.read_log(log, 0, AT_A_TIME)?.unwrap_or_default();
        }
        let followed = self.followed.entry(log.to_owned()).or_default();
        followed.take(&part.bytes);
        Ok(Some((&*followed, part.length)))
    }

    /// Returns what a list shows of a run.
    pub fn row(&mut self, store: &Store, log: &str) -> Result<Option<RunRow>, StoreError> {
        if store.is_running(log)? {
            return Ok(self.follow(store, log)?.map(|(run, _)| row(log, run, true)));
        }
        let Some(mut part) = store.read_log(log, 0, BOTH_ENDS)? else { return Ok(None) };
        if let Some((_, known)) = self.rows.get(log).filter(|(length, _)| *length == part.length) {
            return Ok(Some(known.clone()));
        }
        let mut run = Followed::default();
        run.take(&part.bytes);
        let read = part.bytes.len() as u64;
        if read < part.length {
            let from = read.max(part.length.saturating_sub(BOTH_ENDS));
            part = store.read_log(log, from, BOTH_ENDS)?.unwrap_or_default();
            // Half a line, then whole ones.
            run.take(b"\n");
            run.take(&part.bytes);
        }
        let told = row(log, &run, false);
        self.rows.insert(log.to_owned(), (part.length, told.clone()));
        Ok(Some(told))
    }

    /// Forgets what is in no list any more.
    pub fn keep(&mut self, logs: &[String]) {
        self.rows.retain(|name, _| logs.contains(name));
    }
}

/// Returns what a list shows of a run.
pub fn row(log: &str, run: &Followed, is_running: bool) -> RunRow {
    let state = match (run.ended, is_running) {
        // Tables without what failed are made after the end of the run itself.
        (Some(ended), _) if ended.interrupted => State::Interrupted,
        (Some(ended), false) => State::Ended(ended.seconds),
        (_, true) => State::Running(run.left.map(|[seconds, _, _, share]| (share, seconds))),
        (None, false) => State::Died,
    };
    let (begun, pipeline) = in_name(log);
    RunRow {
        log: log.to_owned(),
        pipeline: if run.pipeline.is_empty() { pipeline } else { run.pipeline.clone() },
        begun,
        state,
        nodes: (run.done(), run.needed),
        failed: run.failed,
        words: run.asked.words.clone(),
    }
}

/// When a run began and of what, by the name of its log: `20260301T120005Z-<pipeline>-<pid>.jsonl`.
fn in_name(log: &str) -> (String, String) {
    let (stamp, rest) = log.split_once('-').unwrap_or((log, ""));
    let pipeline = rest.rsplit_once('-').map_or(rest, |(pipeline, _)| pipeline);
    let part = |range: std::ops::Range<usize>| stamp.get(range).unwrap_or_default();
    let begun = match stamp.len() {
        16 => format!(
            "{}-{}-{} {}:{}:{} UTC",
            part(0..4),
            part(4..6),
            part(6..8),
            part(9..11),
            part(11..13),
            part(13..15)
        ),
        _ => stamp.to_owned(),
    };
    (begun, pipeline.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_log_is_read_on_and_the_ends_of_a_long_one_are_enough_for_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (path, mut file) = store.create_run_log("my-p").unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        writeln!(file, r#"{{"event":"run-started","pipeline":"my-p","misses":2,"hits":1}}"#).unwrap();
        let mut logs = Logs::default();
        let running = logs.row(&store, name).unwrap().unwrap();
        assert_eq!((running.nodes, &running.pipeline[..]), ((0, 3), "my-p"));
        assert!(matches!(running.state, State::Running(_)));
        for _ in 0..100_000 {
            writeln!(file, r#"{{"event":"node-progress","node":"train/a","key":"k","progress":{{"done":1}}}}"#)
                .unwrap();
        }
        writeln!(file, r#"{{"event":"node-finished","key":"k"}}"#).unwrap();
        assert_eq!(logs.row(&store, name).unwrap().unwrap().nodes, (1, 3));
        let report = r#"{"seconds":3.5,"interrupted":false,"cached":1,"ran":2,"failed":0,"skipped":0}"#;
        writeln!(file, r#"{{"event":"run-finished","report":{report}}}"#).unwrap();
        drop(file);
        let begun = std::time::Instant::now();
        let mut fresh = Logs::default();
        let ended = fresh.row(&store, name).unwrap().unwrap();
        assert_eq!((ended.state, ended.nodes), (State::Ended(3.5), (3, 3)));
        // A tenth of a second would be slow for half a megabyte.
        assert!(begun.elapsed().as_secs_f64() < 2.0, "{:?}", begun.elapsed());
        assert_eq!(
            logs.follow(&store, name).unwrap().unwrap().0.ended,
            fresh.follow(&store, name).unwrap().unwrap().0.ended
        );
        assert!(logs.row(&store, "none.jsonl").unwrap().is_none());
    }

    #[test]
    fn a_name_tells_when_and_of_what() {
        let told = in_name("20260301T120005Z-my-pipeline-77.jsonl");
        assert_eq!(told, ("2026-03-01 12:00:05 UTC".into(), "my-pipeline".into()));
        in_name("");
        in_name("ööööööööööööööööö-é.jsonl");
    }
}
