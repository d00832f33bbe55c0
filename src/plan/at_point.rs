//! What a pipeline says of a stage at a point, and where it says so: data set, file, axes, `when`, `--set`.

use ppgnn_stages::contract::params::nearest_help;
use serde_json::{Map, Value};

use super::build::Builder;
use crate::pipeline::{At, DATASET_PARAM, DATASET_STAGE, Node, Setting, Span, StageUse, holds};

impl<'b> Builder<'b> {
    /// Returns the parameters of a stage at a point, as written.
    pub(super) fn written(&mut self, stage: usize, point: &[usize]) -> Option<Map<String, Value>> {
        let used = &self.pipeline.stages[stage];
        let mut written = self.base[stage].clone();
        for setting in self.settings(used, point) {
            written.insert(setting.param.clone(), setting.value.value());
        }
        if used.def.name != DATASET_STAGE {
            return Some(written);
        }
        let Some(name) = written.shift_remove(DATASET_PARAM) else { return Some(written) };
        let datasets = &self.pipeline.datasets;
        let known = || {
            let own = datasets.all.iter().map(|(k, _)| k.name.as_str());
            own.chain(datasets.names.iter().map(String::as_str))
        };
        let found = name.as_str().and_then(|n| datasets.get(n));
        let Some((_, dataset)) = found else {
            let help = if known().next().is_none() {
                "the pipeline has no `datasets`".to_owned()
            } else {
                nearest_help(name.as_str().unwrap_or_default(), known())
            };
            let span = self.span_of(used, point, DATASET_PARAM, false);
            let shown = name.as_str().map_or(name.to_string(), str::to_owned);
            self.problems.add(&span, format!("unknown data set `{shown}`"), Some(help));
            return None;
        };
        if let Some(name) = name.as_str() {
            self.used_datasets.insert(name.to_owned());
        }
        let mut all: Map<_, _> = dataset.entries().iter().map(|(k, n)| (k.name.clone(), n.value())).collect();
        all.extend(written);
        Some(all)
    }

    /// Settings that the sweep and the command line make on a stage at a point, the strongest last.
    fn settings(&self, used: &'b StageUse, point: &[usize]) -> impl DoubleEndedIterator<Item = &'b Setting> {
        let mut all = self.of_file(used, point);
        if !self.pipeline.forced.is_empty() {
            let forced = self.forced(used, point, &all);
            all.extend(forced);
        }
        all.into_iter()
    }

    /// Settings that known settings, the sweep and the search make on a stage at a point, the strongest last.
    pub(super) fn of_file(&self, used: &'b StageUse, point: &[usize]) -> Vec<&'b Setting> {
        let sweep = &self.pipeline.sweep;
        let of_presets = self.pipeline.presets.iter().filter(|p| holds(&p.matches, point)).flat_map(|p| &p.settings);
        let of_axes = sweep.axes.iter().zip(point).flat_map(|(axis, value)| &axis.values[*value].settings);
        let of_when = sweep.when.iter().filter(|w| holds(&w.matches, point)).flat_map(|w| &w.settings);
        let of_trial = match self.pipeline.search.as_ref().and_then(|search| search.at(point)) {
            Some(At::Trial { settings, .. } | At::Chosen(settings)) => settings,
            Some(At::Open(_)) | None => &[],
        };
        let all = of_presets.chain(of_axes).chain(of_when).chain(of_trial);
        all.filter(|s| s.stage == used.name.name).collect()
    }

    /// The name of the data set that `load` reads at a point.
    pub(super) fn dataset(&self, used: &'b StageUse, point: &[usize]) -> Option<String> {
        let set = self.settings(used, point).rfind(|s| s.param == DATASET_PARAM).map(|s| s.value.value());
        let own = || used.params.iter().find(|(k, _)| k.name == DATASET_PARAM).map(|(_, n)| n.value());
        set.or_else(own)?.as_str().map(str::to_owned)
    }

    /// The known data set that `load` starts from at a point.
    pub(super) fn known_dataset(&self, used: &'b StageUse, point: &[usize]) -> Option<String> {
        self.pipeline.datasets.known.get(&self.dataset(used, point)?).cloned()
    }

    /// Finds where a parameter of a stage at a point was written, strongest place first. Inside of a mapping it is the
    /// innermost place of the path that was written.
    pub(super) fn span_of(&self, used: &'b StageUse, point: &[usize], path: &str, name: bool) -> Span {
        let (param, inside) = path.split_once('.').map_or((path, None), |(param, inside)| (param, Some(inside)));
        let place = |key: &Span, node: &Node| match inside {
            Some(inside) => span_inside(node, inside, name),
            None if name => key.clone(),
            None => node.span.clone(),
        };
        if let Some(setting) = self.settings(used, point).rfind(|s| s.param == param) {
            return place(&setting.span, &setting.value);
        }
        let dataset = |p: &str| {
            let (key, set) = self.pipeline.datasets.get(&self.dataset(used, point)?)?;
            let entry = set.entries().iter().find(|(k, _)| k.name == p);
            Some(entry.map_or_else(|| key.span.clone(), |(k, n)| place(&k.span, n)))
        };
        let own = used.params.iter().find(|(k, _)| k.name == param);
        own.map(|(k, n)| place(&k.span, n)).or_else(|| dataset(param)).unwrap_or_else(|| used.name.span.clone())
    }
}

/// Follows a path of names into a mapping, as far as it was written.
pub(super) fn span_inside(node: &Node, path: &str, name: bool) -> Span {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (node.entries().iter().find(|(k, _)| k.name == first), rest) {
        (None, _) => node.span.clone(),
        (Some((_, inner)), Some(rest)) => span_inside(inner, rest, name),
        (Some((key, _)), None) if name => key.span.clone(),
        (Some((_, inner)), None) => inner.span.clone(),
    }
}
