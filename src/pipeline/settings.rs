//! Settings of models that are known without the pipeline, such as those that their authors published, for the points of a sweep.
//!
//! Settings name the usual stages (`load`, `featurize`, `normalize`, `evd`, `train`, …); those of a stage that the pipeline does not
//! have are left out. They are weaker than everything that the sweep of the pipeline sets, and stronger than the parameters of its
//! stages. What the files of models look like stands in `model_file.rs`.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ppgnn_stages::contract::params::nearest_help;
use serde_json::Value;

use super::axes::{Sweep, holds};
use super::datasets::{DATASET_PARAM, DATASET_STAGE};
use super::document::{Forced, Setting};
use super::file::text_of;
use super::known::Known;
use super::model_file::{self, Block, ModelFile, OF_PIPELINE, Path};
use super::problem::Problems;
use super::resolve::StageUse;
use super::source::Sources;
use super::yaml::Key;

/// The stage whose model settings are for.
const MODEL_STAGE: &str = "train";
/// The parameter that names it.
const MODEL_PARAM: &str = "model";

/// What a set of settings says for some points.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Axis, and the value of it at these points.
    pub matches: Vec<(usize, Vec<usize>)>,
    /// What to set there.
    pub settings: Vec<Setting>,
    /// What is set instead, if the set has nothing for the data set.
    pub instead: Option<String>,
}

/// What settings are looked up for.
pub(super) struct Lookup<'l> {
    pub stages: &'l [StageUse],
    pub sweep: &'l Sweep,
    pub forced: &'l [Forced],
}

impl Lookup<'_> {
    /// Returns what the set `name` says for every point; the strongest setting of a point stands last.
    pub fn presets(
        &self,
        name: &Key,
        known: &dyn Known,
        sources: &mut Sources,
        problems: &mut Problems,
    ) -> Vec<Preset> {
        let model = (MODEL_STAGE.to_owned(), MODEL_PARAM.to_owned());
        let dataset = (DATASET_STAGE.to_owned(), DATASET_PARAM.to_owned());
        if !self.stages.iter().any(|used| used.name.name == MODEL_STAGE) {
            let message = format!("`settings` are for the stage `{MODEL_STAGE}`, which the pipeline does not have");
            problems.add(&name.span, message, Some(format!("call the stage that trains `{MODEL_STAGE}`")));
            return Vec::new();
        }
        let mut files: BTreeMap<String, ModelFile> = BTreeMap::new();
        for model in self.values(&model) {
            let read = known.model(&model).map(|found| model_file::read(found, sources, problems));
            files.insert(model, read.unwrap_or_default());
        }
        let sets: BTreeSet<&str> = files.values().flat_map(ModelFile::sets).collect();
        if !sets.contains(name.name.as_str()) {
            let help = match sets.is_empty() {
                true => "no model of the pipeline has settings; leave `settings` out".to_owned(),
                false => nearest_help(&name.name, sets.iter().copied()),
            };
            problems.add(&name.span, format!("no model of the pipeline has settings `{}`", name.name), Some(help));
            return Vec::new();
        }
        let blocks: BTreeMap<&String, &[Block]> =
            files.iter().map(|(model, file)| (model, file.blocks(&name.name))).collect();
        let conditions = blocks.values().flat_map(|of| of.iter()).flat_map(|block| &block.when).map(|(path, _)| path);
        let axes: BTreeSet<usize> =
            [&model, &dataset].into_iter().chain(conditions).flat_map(|path| self.axes(path)).collect();
        let mut seen = HashSet::new();
        let mut presets = Vec::new();
        for point in &self.sweep.points {
            let matches: Vec<(usize, Vec<usize>)> = axes.iter().map(|axis| (*axis, vec![point[*axis]])).collect();
            if !seen.insert(matches.clone()) {
                continue;
            }
            let Some(model) = self.value(&model, point) else { continue };
            let dataset = self.value(&dataset, point).map(|name| text_of(&name));
            let blocks = blocks.get(&text_of(&model)).copied().unwrap_or_default();
            let holding = |block: &&Block| block.when.iter().all(|(path, values)| self.is_one_of(path, values, point));
            let found = blocks.iter().find(holding).map(|block| block.at(dataset.as_deref()));
            let (settings, instead) = found.unwrap_or_else(|| (Vec::new(), Some(OF_PIPELINE.into())));
            let instead = instead.map(|instead| format!("no {} settings: {instead}", name.name));
            let here = |setting: &Setting| self.stages.iter().any(|used| used.name.name == setting.stage);
            presets.push(Preset { matches, settings: settings.into_iter().filter(here).collect(), instead });
        }
        presets
    }

    /// Whether axes, `when` or the command line set a parameter at a point.
    pub fn is_set(&self, path: &Path, point: &[usize]) -> bool {
        self.setting(path, point).is_some()
    }

    /// What axes, `when` or the command line set a parameter to at a point.
    pub fn set(&self, path: &Path, point: &[usize]) -> Option<Value> {
        self.setting(path, point).map(|setting| setting.value.value())
    }

    /// The model at a point, if one is named.
    pub fn model(&self, point: &[usize]) -> Option<String> {
        self.value(&(MODEL_STAGE.to_owned(), MODEL_PARAM.to_owned()), point).map(|model| text_of(&model))
    }

    /// Every value that a parameter has somewhere.
    fn values(&self, path: &Path) -> BTreeSet<String> {
        self.sweep.points.iter().filter_map(|point| self.value(path, point)).map(|value| text_of(&value)).collect()
    }

    /// What axes, `when` and the command line set a parameter to at a point.
    fn setting(&self, (stage, param): &Path, point: &[usize]) -> Option<&Setting> {
        let is_it = |setting: &&Setting| setting.stage == *stage && setting.param == *param;
        let forced = self.forced.iter().filter(|forced| forced.only.is_empty()).map(|forced| &forced.setting);
        let of_when = self.sweep.when.iter().filter(|when| holds(&when.matches, point)).flat_map(|when| &when.settings);
        let of_axes = self.sweep.axes.iter().zip(point).flat_map(|(axis, at)| &axis.values[*at].settings);
        of_axes.chain(of_when).chain(forced).rfind(is_it)
    }

    /// The value of a parameter at a point, as written in the pipeline.
    fn value(&self, path: &Path, point: &[usize]) -> Option<Value> {
        let own = || {
            let used = self.stages.iter().find(|used| used.name.name == path.0)?;
            used.params.iter().find(|(key, _)| key.name == path.1).map(|(_, node)| node.value())
        };
        self.setting(path, point).map(|setting| setting.value.value()).or_else(own)
    }

    fn is_one_of(&self, path: &Path, values: &[Value], point: &[usize]) -> bool {
        self.value(path, point).is_some_and(|value| values.iter().any(|one| text_of(one) == text_of(&value)))
    }

    /// The axes that decide on a parameter.
    fn axes(&self, (stage, param): &Path) -> Vec<usize> {
        let sets = |settings: &[Setting]| settings.iter().any(|s| s.stage == *stage && s.param == *param);
        let axes = self.sweep.axes.iter().enumerate();
        let direct = axes.filter(|(_, axis)| axis.values.iter().any(|value| sets(&value.settings))).map(|(at, _)| at);
        let of_when = self.sweep.when.iter().filter(|when| sets(&when.settings));
        direct.chain(of_when.flat_map(|when| when.matches.iter().map(|(axis, _)| *axis))).collect()
    }
}

#[cfg(test)]
mod tests;
