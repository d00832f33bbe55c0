//! Where the results of a run go, and putting them there.
//!
//! The folder is named by what the command line changes, so that results of a changed run never replace those of the file, and
//! the same change has one folder however it was written. Results of another file of the same name are not overwritten.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::device::cuda;

use super::failure::Failure;
use super::project::PipelineArgs;
use super::reporting::Reporting;
use super::stored::Stored;
use super::{device, outputs, runs, trials};
use crate::pipeline::canonical_settings;
use crate::plan::{NodeId, Plan, file_name};
use crate::report::html;
use crate::store::{ArtifactRef, PublishedOutput, PublishedRun, Source, Store};

/// Where the results of a run go.
pub struct Place {
    /// The folder below those of the pipeline; none for the unchanged file.
    pub folder: Option<String>,
    /// The pipeline file; none if its path is no text.
    pub file: Option<String>,
    /// What the command line changes.
    overrides: Vec<String>,
}

impl Place {
    /// Finds the place of a run.
    pub fn of(plan: &Plan, args: &PipelineArgs) -> Self {
        let [asked, of_file] = [args.device_request(&plan.device), &plan.device].map(|d| device::backend(d, cuda()));
        let device = (asked != of_file).then(|| format!("device={asked}"));
        let overrides: Vec<String> = device.into_iter().chain(canonical_settings(&args.set)).collect();
        let file = std::fs::canonicalize(&args.file).ok().and_then(|path| path.to_str().map(str::to_owned));
        Self { folder: folder(plan.profile.as_deref(), &overrides), file, overrides }
    }

    /// Refuses a place where another file has published its results.
    pub fn must_be_ours(&self, store: &Store, plan: &Plan) -> Result<(), Failure> {
        let record = store.published_at(&plan.pipeline, self.folder.as_deref())?;
        let other = record.and_then(|record| record.file).filter(|other| Some(other) != self.file.as_ref());
        let text = |file: &String| std::fs::read(file).ok();
        // A copy of the file, or one that has moved, is the same experiment.
        match other.filter(|other| Path::new(other).exists() && text(other) != self.file.as_ref().and_then(text)) {
            None => Ok(()),
            Some(other) => {
                let message = format!("`{other}` has published results under the same name, `{}`", plan.pipeline);
                let hint = "give one of the two files another `name`, or overwrite those results with --replace";
                Err(Failure::usage(message, Some(hint)))
            }
        }
    }

    /// Publishes every requested output that is in the store. Returns the folder and the names of the files; nothing if
    /// there is nothing to publish.
    pub fn publish(&self, stored: &Stored, wanted: &[NodeId]) -> Result<Option<(PathBuf, Vec<String>)>, Failure> {
        let Stored { plan, store, .. } = stored;
        let mut run = PublishedRun { overrides: self.overrides.clone(), file: self.file.clone(), outputs: Vec::new() };
        for output in plan.outputs.iter().filter(|o| wanted.contains(&o.node)) {
            let Some(files) = outputs::files(plan, output, store)? else { continue };
            let files = files.into_iter().map(|file| Ok((file.ending, file.source()?)));
            let files = files.collect::<Result<Vec<_>, Failure>>()?.into_iter();
            let tried = if outputs::is_table(plan, output) { tried(plan)? } else { None };
            let files = files.chain(runs::files(stored, output.node)?).chain(tried);
            let files = files.map(|(ending, source)| (format!("{}.{ending}", output.name), source)).collect();
            let needs = needs(plan, &[output.node]).into_iter().chain(scores(plan)).collect();
            let key = plan.node(output.node).key;
            run.outputs.push(PublishedOutput { name: output.name.clone(), key, needs, files });
        }
        if run.outputs.is_empty() {
            return Ok(None);
        }
        let names = run.outputs.iter().flat_map(|o| o.files.iter().map(|(name, _)| name.clone())).collect();
        let folder = store.publish(&plan.pipeline, self.folder.as_deref(), run)?;
        Ok(Some((folder, names)))
    }
}

impl Place {
    /// Puts a report beside the results. Returns where it is.
    pub fn put_report(&self, store: &Store, plan: &Plan, html: String) -> Result<PathBuf, Failure> {
        Ok(store.put_report(&plan.pipeline, self.folder.as_deref(), html.as_bytes())?)
    }

    /// Writes the report of a run, unless the one that is there was made of the same.
    pub fn renew_report(&self, stored: &Stored, args: &PipelineArgs, registry: &Registry) -> Result<(), Failure> {
        let Stored { plan, store, .. } = stored;
        let reporting = Reporting::new(stored, args, registry);
        let before = store.report_at(&plan.pipeline, self.folder.as_deref())?;
        if before.is_none_or(|page| !html::is_of(&page, &reporting.fingerprint())) {
            self.put_report(store, plan, reporting.report()?.html())?;
        }
        Ok(())
    }
}

/// What searches tried, if there are any.
fn tried(plan: &Plan) -> Result<Option<(&'static str, Source)>, Failure> {
    if plan.searches.is_empty() {
        return Ok(None);
    }
    Ok(Some(("trials.csv", Source::Made(trials::csv(&plan.searches)?.into_bytes()))))
}

/// The scores of all trials, without which what was chosen could not be told again. What was trained for them is not needed.
fn scores(plan: &Plan) -> BTreeSet<ArtifactRef> {
    let nodes = plan.trials.iter().flat_map(|trial| trial.nodes.iter().flatten()).map(|id| plan.node(*id));
    nodes.map(|node| ArtifactRef::new(node.stage.name, node.key)).collect()
}

/// Every artifact behind some nodes, themselves among them.
pub fn needs(plan: &Plan, of: &[NodeId]) -> BTreeSet<ArtifactRef> {
    let behind = plan.ancestors(of);
    plan.iter().filter(|(id, _)| behind[id.0]).map(|(_, n)| ArtifactRef::new(n.stage.name, n.key)).collect()
}

/// Names the folder of a profile and what the command line changes. Two that differ have different names: where the name
/// alone would not tell them apart, it ends in a digest.
fn folder(profile: Option<&str>, overrides: &[String]) -> Option<String> {
    let words: Vec<&str> = profile.into_iter().chain(overrides.iter().map(String::as_str)).collect();
    let name = file_name(words.iter().copied(), ",");
    let tells_all = name == words.join(",")
        && words.iter().all(|word| !word.contains(','))
        && profile.is_none_or(|profile| !profile.contains('='));
    match words.is_empty() {
        true => None,
        false if tells_all => Some(name),
        false => {
            let mut hasher = blake3::Hasher::new();
            hasher.update(profile.map_or(&b"\0"[..], str::as_bytes));
            for word in overrides {
                hasher.update(b"\0").update(word.as_bytes());
            }
            let short: String = name.chars().take(60).collect();
            Some(format!("{short}-{}", &hasher.finalize().to_hex()[..8]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(profile: Option<&str>, set: &[&str]) -> Option<String> {
        folder(profile, &canonical_settings(&set.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()))
    }

    #[test]
    fn the_same_settings_have_one_folder_however_they_are_written() {
        assert_eq!(named(None, &[]), None);
        assert_eq!(named(Some("quick"), &[]).as_deref(), Some("quick"));
        let one = named(None, &["train.lr=0.5", "train.epochs=9"]);
        assert_eq!(one.as_deref(), Some("train.epochs=9,train.lr=0.5"));
        assert_eq!(one, named(None, &["train.epochs=9", "train.lr=5e-1"]));
        assert_eq!(one, named(None, &["train.lr=0.1", "train.epochs=9", "train.lr=0.5"]));
    }

    #[test]
    fn no_two_settings_share_a_folder() {
        let long = format!("train.name={}", "x".repeat(200));
        let longer = format!("{long}y");
        let different = [
            named(None, &["a.b=x/y"]),
            named(None, &["a.b=x_y"]),
            named(None, &["a.b=x y"]),
            named(None, &["a.b=1,c.d=2"]),
            named(None, &["a.b=1", "c.d=2"]),
            named(Some("a.b=1"), &[]),
            named(None, &["a.b=1"]),
            named(Some("quick"), &["a.b=1"]),
            named(None, &["train[a=x].b=1"]),
            named(None, &["train[a=y].b=1"]),
            named(None, &[&long]),
            named(None, &[&longer]),
        ];
        let names: BTreeSet<_> = different.iter().flatten().collect();
        assert_eq!(names.len(), different.len(), "{different:?}");
        assert!(names.iter().all(|name| name.len() < 90 && !name.contains('/')), "{names:?}");
    }
}
