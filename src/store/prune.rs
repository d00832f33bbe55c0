//! Chooses what could be deleted, and deletes a chosen list. Choosing never deletes.
//!
//! An artifact that a published result needs is never offered, and neither is what a run that has not finished needs, unless
//! that is asked for. Deleting takes the store for itself, so that no run
//! loses artifacts that it is using, and looks again at what is published before it starts. A resume point is minutes or
//! hours of work that the next run could continue from: it is offered by age like an artifact, unless its artifact is there.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::plan::ArtifactKey;

use super::disk::Store;
use super::error::StoreError;
use super::layout::{
    ArtifactRef, CLAIMS, MANIFEST, OBJECTS, QUARANTINE, TMP, folders, is_plain, key_of_temporary, list, size_of,
};

/// Something that could be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prunable {
    /// What it is.
    pub what: Leftover,
    /// The bytes it takes.
    pub bytes: u64,
}

/// The kinds of things that could be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// An artifact that no published result needs.
    Artifact(ArtifactRef),
    /// What a stage left for its next attempt at a node that is not being computed.
    ResumePoint(ArtifactKey),
    /// A file or folder in `tmp` that is not being written.
    Unfinished(String),
    /// A folder in `quarantine`.
    Quarantined(String),
}

/// What to offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Only artifacts, resume points and quarantine that have been there so long.
    pub older_than: Option<Duration>,
    /// Also what runs that have not finished need.
    pub unfinished: bool,
}

/// What a deletion achieved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Things deleted.
    pub count: usize,
    /// Bytes freed.
    pub bytes: u64,
}

/// Chooses what could be deleted.
///
/// # Errors
/// When the store cannot be listed or a record of published results or of an unfinished run cannot be read.
pub fn choose(store: &Store, limits: &Limits) -> Result<Vec<Prunable>, StoreError> {
    let kept = Kept::new(store, limits)?;
    let is_old = |time: Option<SystemTime>| {
        let age = time.and_then(|time| SystemTime::now().duration_since(time).ok());
        limits.older_than.is_none_or(|limit| age.is_some_and(|age| age >= limit))
    };
    let old = |path: &Path| is_old(fs::symlink_metadata(path).and_then(|m| m.modified()).ok());
    let mut chosen = Vec::new();
    let mut offer = |what: Leftover| {
        let bytes = size_of(&path_of(store, &what));
        chosen.push(Prunable { what, bytes });
    };
    for artifact in store.entries(None)? {
        let dir = store.object(&artifact.key, &artifact.stage)?;
        if !kept.artifacts.contains(&artifact) && (old(&dir.join(MANIFEST)) || !dir.join(MANIFEST).exists()) {
            offer(Leftover::Artifact(artifact));
        }
    }
    for point in store.resume_points()? {
        let is_offered = kept.done.contains(&point.key) || is_old(point.changed) && !kept.awaits(&point.key);
        if is_offered && !store.is_claimed(&point.key)? {
            offer(Leftover::ResumePoint(point.key));
        }
    }
    for (name, _) in list(&store.root().join(TMP))? {
        if is_ours(&name) && is_abandoned(store, &name)? {
            offer(Leftover::Unfinished(name));
        }
    }
    for name in folders(&store.root().join(QUARANTINE))? {
        if old(&store.root().join(QUARANTINE).join(&name)) {
            offer(Leftover::Quarantined(name));
        }
    }
    Ok(chosen)
}

/// Deletes what was chosen within the same limits, except what has been published or claimed since.
///
/// # Errors
/// [`StoreError::InUse`] while a run holds the store; otherwise what the operating system reports.
pub fn delete(store: &Store, chosen: &[Prunable], limits: &Limits) -> Result<Pruned, StoreError> {
    let _alone = store.hold_alone()?;
    let kept = Kept::new(store, limits)?;
    store.forget_unfinished(limits.unfinished)?;
    let mut pruned = Pruned::default();
    for item in chosen {
        let keep = match &item.what {
            Leftover::Artifact(artifact) => !is_plain(&artifact.stage) || kept.artifacts.contains(artifact),
            Leftover::ResumePoint(key) => kept.awaits(key) || store.is_claimed(key)?,
            Leftover::Unfinished(name) => !is_ours(name) || !is_abandoned(store, name)?,
            Leftover::Quarantined(name) => !is_plain(name),
        };
        if !keep && store.discard(&path_of(store, &item.what))? {
            pruned.count += 1;
            pruned.bytes += item.bytes;
        }
    }
    release_dead_claims(store)?;
    Ok(pruned)
}

/// What published results and unfinished runs need.
struct Kept {
    artifacts: HashSet<ArtifactRef>,
    keys: HashSet<ArtifactKey>,
    /// Keys of the artifacts that are there.
    done: HashSet<ArtifactKey>,
}

impl Kept {
    fn new(store: &Store, limits: &Limits) -> Result<Self, StoreError> {
        let mut artifacts: HashSet<ArtifactRef> =
            store.published()?.iter().flat_map(|published| published.roots().cloned()).collect();
        if !limits.unfinished {
            artifacts.extend(store.unfinished()?.into_iter().flat_map(|run| run.needs));
        }
        let keys = artifacts.iter().map(|artifact| artifact.key).collect();
        let there = store.entries(None)?.into_iter().filter(|a| store.has(&a.key, &a.stage));
        Ok(Self { artifacts, keys, done: there.map(|a| a.key).collect() })
    }

    /// Whether an artifact is needed that is not there yet.
    fn awaits(&self, key: &ArtifactKey) -> bool {
        self.keys.contains(key) && !self.done.contains(key)
    }
}

fn path_of(store: &Store, what: &Leftover) -> PathBuf {
    match what {
        Leftover::Artifact(artifact) => store.root().join(OBJECTS).join(&artifact.stage).join(artifact.key.to_string()),
        Leftover::ResumePoint(key) => store.resume_folder(key),
        Leftover::Unfinished(name) => store.root().join(TMP).join(name),
        Leftover::Quarantined(name) => store.root().join(QUARANTINE).join(name),
    }
}

/// Returns whether a name in `tmp` is one that a store gives: what it is, process, number.
fn is_ours(name: &str) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let [what, process, count] = parts[..] else { return false };
    (["file", "trash"].contains(&what) || key_of_temporary(name).is_some()) && number(process) && number(count)
}

/// Returns whether an entry of `tmp` is not being written. What has no key belongs to a publication, which holds the
/// store, so that nothing can be deleted meanwhile.
fn is_abandoned(store: &Store, name: &str) -> Result<bool, StoreError> {
    key_of_temporary(name).map_or(Ok(true), |key| store.is_claimed(&key).map(|claimed| !claimed))
}

/// Removes the files of claims whose owner was killed. They do no harm, but they add up.
fn release_dead_claims(store: &Store) -> Result<(), StoreError> {
    for (name, _) in list(&store.root().join(CLAIMS))? {
        if let Ok(key) = name.parse() {
            // A claim that is held removes its file when it is dropped.
            store.claim(&key)?;
        }
    }
    Ok(())
}
