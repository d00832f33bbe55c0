//! `Holder`: which process computes a node, for people to read. The lock decides who may compute, never this.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::clock;

/// A file of a claim is shorter; whatever is longer was not written by us.
const MOST_BYTES: u64 = 4096;

/// A process that computes a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// The machine that it runs on, if that is known.
    pub host: Option<String>,
    /// Since when, in UTC (RFC 3339).
    pub since: String,
}

impl Holder {
    /// Says in a claim that has just been locked that it is ours. What cannot be said is left out: it is nobody's duty to read it.
    pub(super) fn sign(mut claim: &File) {
        let ours = Self { pid: std::process::id(), host: host(), since: clock::now() };
        let text = serde_json::to_vec(&ours).unwrap_or_default();
        // A process that was killed may have left a longer text.
        if let Err(error) = claim.set_len(0).and_then(|()| claim.write_all(&text)) {
            tracing::debug!(%error, "a claim does not say who holds it");
        }
    }

    /// Reads who holds a claim, if it says so.
    pub(super) fn read(claim: &Path) -> Option<Self> {
        let mut text = Vec::new();
        File::open(claim).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Returns how long it has been computing, by the clock of this machine.
    pub fn held_for(&self) -> Option<Duration> {
        let since = humantime::parse_rfc3339(&self.since).ok()?;
        SystemTime::now().duration_since(since).ok()
    }
}

/// The name of this machine.
fn host() -> Option<String> {
    let name =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    name.ok().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_says_who_holds_it_and_garbage_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("claim");
        assert_eq!(Holder::read(&path), None);
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        assert_eq!(Holder::read(&path), None);
        Holder::sign(&File::options().write(true).open(&path).unwrap());
        let holder = Holder::read(&path).unwrap();
        assert_eq!(holder.pid, std::process::id());
        assert!(holder.held_for().unwrap() < Duration::from_secs(60), "{holder:?}");
    }
}
