//! Publishing: copies of artifacts' files for people under `results/`, and `published.json`, which keeps what they need
//! from being pruned.
//!
//! Every file is replaced as a whole. `published.json` names old and new artifacts while files are being replaced, so that
//! a run that dies in between leaves no file whose artifacts could be pruned.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::ArtifactKey;

use super::clock;
use super::disk::Store;
use super::error::{StoreError, if_there, io_error};
use super::inspect::digest;
use super::layout::{ArtifactRef, RESULTS, ensure_folder, folders, is_plain, plain, sync_folder};

const FORMAT: u32 = 1;
const RECORD: &str = "published.json";
const REPORT: &str = "report.html";

/// What a run has to publish.
#[derive(Clone, Debug, Default)]
pub struct PublishedRun {
    /// The outputs. Those published earlier that are not among them stay as they are.
    pub outputs: Vec<PublishedOutput>,
    /// What was changed on the command line, such as `train.epochs=5`, for the record.
    pub overrides: Vec<String>,
    /// The pipeline file, for the record.
    pub file: Option<String>,
}

/// Something to publish, such as a table.
#[derive(Clone, Debug)]
pub struct PublishedOutput {
    /// Its name.
    pub name: String,
    /// Key of the artifact it comes from.
    pub key: ArtifactKey,
    /// Every artifact behind it, itself among them.
    pub needs: Vec<ArtifactRef>,
    /// Names such as `main.md`, and where their bytes come from.
    pub files: Vec<(String, Source)>,
}

/// Where the bytes of a published file come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file of the artifact, which is copied.
    Artifact(PathBuf),
    /// Made for people, from what is in the store and what was measured.
    Made(Vec<u8>),
}

/// `published.json`: what was published for a pipeline, and every artifact behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Published {
    /// Format of this file.
    pub format: u32,
    /// Name of the pipeline.
    pub pipeline: String,
    /// The folder below the pipeline's own results: profile and overrides, if there are any.
    pub profile: Option<String>,
    /// When it was published, in UTC (RFC 3339).
    pub created: String,
    /// Version of ppgnn that published it.
    pub ppgnn: String,
    /// What was changed on the command line.
    pub overrides: Vec<String>,
    /// The pipeline file; earlier versions did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What was published, by name. The file says `tables`, which were once all there was to publish.
    #[serde(rename = "tables")]
    pub outputs: BTreeMap<String, OutputRecord>,
    /// Artifacts to keep although no output needs them any more: those of the files that are just being replaced.
    pub keys: Vec<ArtifactRef>,
}

/// Something that was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutputRecord {
    /// Key of the artifact it comes from.
    pub key: ArtifactKey,
    /// The files beside `published.json`.
    pub files: Vec<PublishedFile>,
    /// Every artifact behind it.
    pub needs: Vec<ArtifactRef>,
}

/// A published file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedFile {
    /// Its name.
    pub name: String,
    /// Its digest in hex.
    pub blake3: String,
}

impl Published {
    /// Iterates over every artifact that must be kept.
    pub fn roots(&self) -> impl Iterator<Item = &ArtifactRef> {
        self.outputs.values().flat_map(|output| &output.needs).chain(&self.keys)
    }
}

impl Store {
    /// Publishes the outputs of a run. Returns the folder they are in.
    ///
    /// # Errors
    /// When a name would leave its folder, or a file cannot be written. No file is ever half-written.
    pub fn publish(&self, pipeline: &str, profile: Option<&str>, run: PublishedRun) -> Result<PathBuf, StoreError> {
        let _in_use = self.hold()?;
        self.must_write()?;
        check_names(&run)?;
        let folder = self.results_folder(pipeline, profile)?;
        let before = read_record(&folder.join(RECORD))?;
        let mut record = Published {
            format: FORMAT,
            pipeline: pipeline.to_owned(),
            profile: profile.map(str::to_owned),
            created: clock::now(),
            ppgnn: env!("CARGO_PKG_VERSION").to_owned(),
            overrides: run.overrides,
            file: run.file,
            outputs: before.as_ref().map(|b| b.outputs.clone()).unwrap_or_default(),
            keys: Vec::new(),
        };
        let mut staged = Vec::new();
        for output in run.outputs {
            let name = output.name.clone();
            // What cannot be deleted is a leftover for `prune`.
            let discard =
                |staged: &[(PathBuf, String)]| staged.iter().for_each(|(path, _)| drop(fs::remove_file(path)));
            record.outputs.insert(name, self.stage(output, &mut staged).inspect_err(|_| discard(&staged))?);
        }
        let mut in_between = record.clone();
        in_between.keys.extend(before.iter().flat_map(Published::roots).cloned());
        self.write_record(&folder, &in_between)?;
        for (from, name) in staged {
            let to = folder.join(name);
            fs::rename(&from, &to).map_err(io_error("write", &to))?;
        }
        sync_folder(&folder)?;
        self.write_record(&folder, &record)?;
        Ok(folder)
    }

    /// Puts a report beside the published files of a pipeline. Nothing has to be kept for it. Returns where it is.
    ///
    /// # Errors
    /// When a name would leave its folder, or the file cannot be written. It is never half-written.
    pub fn put_report(&self, pipeline: &str, profile: Option<&str>, page: &[u8]) -> Result<PathBuf, StoreError> {
        let _in_use = self.hold()?;
        self.must_write()?;
        let path = self.results_folder(pipeline, profile)?.join(REPORT);
        self.replace_file(&path, page)?;
        Ok(path)
    }

    /// Returns the report of a pipeline, if there is one.
    ///
    /// # Errors
    /// When a name would leave its folder, or the file cannot be read.
    pub fn report_at(&self, pipeline: &str, profile: Option<&str>) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.published_folder(pipeline, profile)?.join(REPORT);
        if_there(fs::read(&path), "read", &path)
    }

    /// Returns whether there is a report of a pipeline.
    pub fn has_report(&self, pipeline: &str, profile: Option<&str>) -> bool {
        self.published_folder(pipeline, profile).is_ok_and(|folder| folder.join(REPORT).is_file())
    }

    /// Returns what was published at a place, if anything was.
    ///
    /// # Errors
    /// When a name would leave its folder, or the record cannot be read.
    pub fn published_at(&self, pipeline: &str, profile: Option<&str>) -> Result<Option<Published>, StoreError> {
        read_record(&self.published_folder(pipeline, profile)?.join(RECORD))
    }

    /// Returns everything that was published.
    ///
    /// # Errors
    /// When a record cannot be read: guessing would let needed artifacts be pruned.
    pub fn published(&self) -> Result<Vec<Published>, StoreError> {
        let results = self.root().join(RESULTS);
        let mut found = Vec::new();
        for pipeline in folders(&results)? {
            let folder = results.join(pipeline);
            found.extend(read_record(&folder.join(RECORD))?);
            for profile in folders(&folder)? {
                found.extend(read_record(&folder.join(profile).join(RECORD))?);
            }
        }
        Ok(found)
    }

    fn published_folder(&self, pipeline: &str, profile: Option<&str>) -> Result<PathBuf, StoreError> {
        let folder = self.root().join(RESULTS).join(plain(pipeline, "pipeline")?);
        profile.map_or(Ok(folder.clone()), |profile| Ok(folder.join(plain(profile, "profile")?)))
    }

    fn results_folder(&self, pipeline: &str, profile: Option<&str>) -> Result<PathBuf, StoreError> {
        let mut folder = self.root().join(RESULTS).join(plain(pipeline, "pipeline")?);
        ensure_folder(&folder)?;
        if let Some(profile) = profile {
            folder.push(plain(profile, "profile")?);
            ensure_folder(&folder)?;
        }
        Ok(folder)
    }

    /// Copies the files of an output aside. All are there before the first one is renamed, so a full disk changes nothing.
    fn stage(&self, output: PublishedOutput, staged: &mut Vec<(PathBuf, String)>) -> Result<OutputRecord, StoreError> {
        let PublishedOutput { key, mut needs, .. } = output;
        needs.sort_unstable();
        needs.dedup();
        let mut files = Vec::new();
        for (name, from) in output.files {
            let path = match from {
                Source::Artifact(file) => self.stage_copy(&file)?,
                Source::Made(bytes) => self.stage_bytes(&bytes)?,
            };
            staged.push((path.clone(), name.clone()));
            files.push(PublishedFile { name, blake3: digest(&path).map_err(io_error("read", &path))?.blake3 });
        }
        Ok(OutputRecord { key, files, needs })
    }

    fn write_record(&self, folder: &Path, record: &Published) -> Result<(), StoreError> {
        let path = folder.join(RECORD);
        let text = serde_json::to_string_pretty(record).map_err(|e| io_error("write", &path)(e.into()))?;
        self.replace_file(&path, (text + "\n").as_bytes())
    }
}

fn check_names(run: &PublishedRun) -> Result<(), StoreError> {
    let mut names = run.outputs.iter().flat_map(|o| &o.files).map(|(name, _)| name);
    match names.find(|name| !is_plain(name) || [RECORD, REPORT].contains(&name.as_str())) {
        Some(name) => Err(StoreError::BadName { name: name.clone(), what: "published file" }),
        None => Ok(()),
    }
}

fn read_record(path: &Path) -> Result<Option<Published>, StoreError> {
    let Some(bytes) = if_there(fs::read(path), "read", path)? else { return Ok(None) };
    let malformed = |expected: String| StoreError::Malformed { path: path.to_owned(), expected };
    let record: Published =
        serde_json::from_slice(&bytes).map_err(|e| malformed(format!("a record of published results ({e})")))?;
    if record.format > FORMAT {
        return Err(malformed(format!("a record of format {FORMAT} but of format {}", record.format)));
    }
    Ok(Some(record))
}
