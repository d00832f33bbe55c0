//! Runs that have not finished: `unfinished/<name>.json` says what such a run needs, so that it is not deleted before the
//! next run goes on.
//!
//! A run writes its record before it computes anything and removes it when all that it was asked for is there. A record whose
//! pipeline file is gone protects nothing: nobody can go on with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::clock;
use super::disk::Store;
use super::error::{StoreError, if_there, io_error};
use super::layout::{ArtifactRef, UNFINISHED, list};

const FORMAT: u32 = 1;

/// A run that has not finished, and what it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct UnfinishedRun {
    /// Format of this file.
    pub format: u32,
    /// Name of the pipeline.
    pub pipeline: String,
    /// The folder below the pipeline's own results: profile and overrides, if there are any.
    pub profile: Option<String>,
    /// The pipeline file; nothing where its path is no text.
    pub file: Option<String>,
    /// The arguments of the run as a person would type them again.
    pub words: String,
    /// When it began, in UTC (RFC 3339).
    pub created: String,
    /// Every artifact that it needs, whether it is there yet or not.
    pub needs: Vec<ArtifactRef>,
}

impl UnfinishedRun {
    /// Describes a run that begins now.
    pub fn new(
        pipeline: &str,
        profile: Option<&str>,
        file: Option<String>,
        words: String,
        needs: BTreeSet<ArtifactRef>,
    ) -> Self {
        Self {
            format: FORMAT,
            pipeline: pipeline.to_owned(),
            profile: profile.map(str::to_owned),
            file,
            words,
            created: clock::now(),
            needs: needs.into_iter().collect(),
        }
    }

    /// Returns whether somebody can go on with it.
    pub fn is_alive(&self) -> bool {
        self.file.as_ref().is_none_or(|file| Path::new(file).exists())
    }

    /// One name for all runs of a file that publish at one place.
    fn name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let [profile, file] = [&self.profile, &self.file].map(|part| part.as_deref().unwrap_or(""));
        for part in [self.pipeline.as_str(), profile, file] {
            hasher.update(part.as_bytes());
            hasher.update(b"\0");
        }
        format!("{}.json", &hasher.finalize().to_hex()[..16])
    }
}

impl Store {
    /// Records that a run begins. What an earlier run of the same file left to do stays protected as far as it is still
    /// `planned`.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn begin_run(&self, run: &UnfinishedRun, planned: &BTreeSet<ArtifactRef>) -> Result<(), StoreError> {
        self.must_write()?;
        let path = self.root().join(UNFINISHED).join(run.name());
        let mut run = run.clone();
        if let Some(before) = read(&path)? {
            run.needs.extend(before.needs.into_iter().filter(|artifact| planned.contains(artifact)));
            run.needs.sort_unstable();
            run.needs.dedup();
        }
        let text = serde_json::to_string(&run).map_err(|e| io_error("write", &path)(e.into()))?;
        self.replace_file(&path, (text + "\n").as_bytes())
    }

    /// Records that a run has done all that it was asked for. A record that names more than it needed stays.
    ///
    /// # Errors
    /// When the record cannot be read or removed.
    pub fn end_run(&self, run: &UnfinishedRun) -> Result<(), StoreError> {
        let path = self.root().join(UNFINISHED).join(run.name());
        let Some(record) = read(&path)? else { return Ok(()) };
        let done: BTreeSet<&ArtifactRef> = run.needs.iter().collect();
        if record.needs.iter().all(|artifact| done.contains(artifact)) {
            if_there(fs::remove_file(&path), "delete", &path)?;
        }
        Ok(())
    }

    /// Lists the runs that have not finished and that somebody can go on with.
    ///
    /// # Errors
    /// When a record cannot be read: guessing would let needed artifacts be pruned.
    pub fn unfinished(&self) -> Result<Vec<UnfinishedRun>, StoreError> {
        let mut found = Vec::new();
        for (name, kind) in list(&self.root().join(UNFINISHED))? {
            if kind.is_file() && name.ends_with(".json") {
                found.extend(read(&self.root().join(UNFINISHED).join(name))?.filter(UnfinishedRun::is_alive));
            }
        }
        Ok(found)
    }

    /// Removes the records that protect nothing any more, or all of them.
    pub(super) fn forget_unfinished(&self, all: bool) -> Result<(), StoreError> {
        for (name, _) in list(&self.root().join(UNFINISHED))? {
            let path = self.root().join(UNFINISHED).join(&name);
            let dead = || Ok::<_, StoreError>(read(&path)?.is_some_and(|run| !run.is_alive()));
            if name.ends_with(".json") && (all || dead()?) {
                if_there(fs::remove_file(&path), "delete", &path)?;
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Option<UnfinishedRun>, StoreError> {
    let Some(bytes) = if_there(fs::read(path), "read", path)? else { return Ok(None) };
    let malformed = |expected: String| StoreError::Malformed { path: path.to_owned(), expected };
    let run: UnfinishedRun =
        serde_json::from_slice(&bytes).map_err(|e| malformed(format!("a record of an unfinished run ({e})")))?;
    if run.format > FORMAT {
        return Err(malformed(format!("a record of format {FORMAT} but of format {}", run.format)));
    }
    Ok(Some(run))
}
