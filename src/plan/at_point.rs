//! What a pipeline says of a stage at a point, and where it says so: data set, file, axes, `when`, `--set`.

use ppgnn_stages::contract::FromDataset;
use ppgnn_stages::contract::params::nearest_help;
use serde_json::{Map, Value};

use super::build::{Builder, NoNode};
use crate::pipeline::{At, DATASET_PARAM, DATASET_STAGE, Node, Setting, Span, StageUse, holds};

impl<'b> Builder<'b> {
    /// Returns the parameters of a stage at a point, as written.
    pub(super) fn written(&mut self, stage: usize, point: &[usize]) -> Result<Map<String, Value>, NoNode> {
        let used = &self.pipeline.stages[stage];
        let mut written = self.base[stage].clone();
        for setting in self.settings(used, point) {
            set_at(&mut written, &setting.param, setting.value.value());
        }
        if let Some(from) = used.def.from_dataset {
            return self.with_file(used, from, point, written);
        }
        if used.def.name != DATASET_STAGE {
            return Ok(written);
        }
        let Some(name) = written.shift_remove(DATASET_PARAM) else { return Ok(written) };
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
            return Err(NoNode::Reported);
        };
        if let Some(name) = name.as_str() {
            self.used_datasets.insert(name.to_owned());
        }
        let mut all = self.of_load(dataset);
        all.extend(written);
        Ok(all)
    }

    /// Returns the parameters of `load` that a data set has; files for other stages are none of them.
    pub(super) fn of_load(&self, dataset: &Node) -> Map<String, Value> {
        let stages = self.around.registry.stages();
        let fields: Vec<&str> = stages.filter_map(|stage| Some(stage.from_dataset?.field)).collect();
        let own = dataset.entries().iter().filter(|(key, _)| !fields.contains(&key.name.as_str()));
        own.map(|(key, node)| (key.name.clone(), node.value())).collect()
    }

    /// Puts the file that the data set has for a stage in the place of its name.
    fn with_file(
        &mut self,
        used: &'b StageUse,
        from: FromDataset,
        point: &[usize],
        mut written: Map<String, Value>,
    ) -> Result<Map<String, Value>, NoNode> {
        let FromDataset { field, choice, param } = from;
        let Some(name) = written.shift_remove(choice).filter(|name| !name.is_null()) else { return Ok(written) };
        let span = self.span_of(used, point, choice, false);
        if written.contains_key(param) {
            let message = format!("stage `{}` has both `{choice}` and `{param}`", used.name.name);
            self.problems.add(&span, message, Some(format!("`{choice}` names a file of the data set: leave one out")));
            return Err(NoNode::Reported);
        }
        let Some(dataset) = self.dataset(used, point) else {
            let message = format!("`{choice}` names a file of a data set, and stage `{}` has none", used.name.name);
            self.problems.add(&span, message, Some(format!("write `{param}: PATH` instead")));
            return Err(NoNode::Reported);
        };
        let files = self.pipeline.datasets.get(&dataset).and_then(|(_, set)| set.get(field));
        let Some(files) = files.filter(|files| !files.entries().is_empty()) else {
            return Err(self.without_files(used, point, from));
        };
        let named = name.as_str().and_then(|name| files.get(name));
        let Some(file) = named else {
            let shown = name.as_str().map_or(name.to_string(), str::to_owned);
            let help = nearest_help(&shown, files.entries().iter().map(|(key, _)| key.name.as_str()));
            self.problems.add(&span, format!("`{dataset}` has no `{field}` of name `{shown}`"), Some(help));
            return Err(NoNode::Reported);
        };
        written.insert(param.to_owned(), file.value());
        Ok(written)
    }

    /// The file that the data set has for a stage at a point.
    fn file_of_dataset(&self, used: &'b StageUse, point: &[usize], param: &str) -> Option<&'b Node> {
        let from = used.def.from_dataset.filter(|from| from.param == param)?;
        let (_, set) = self.pipeline.datasets.get(&self.dataset(used, point)?)?;
        set.get(from.field)?.get(self.said(used, point, from.choice)?.as_str()?)
    }

    /// Settings that the sweep and the command line make on a stage at a point, the strongest last.
    fn settings(&self, used: &'b StageUse, point: &[usize]) -> impl DoubleEndedIterator<Item = &'b Setting> {
        let mut all = self.of_file(used, point);
        if !self.pipeline.forced.is_empty() {
            let forced = self.forced(used, point, &all);
            all.extend(forced);
        }
        if let Some(At::Trial { cut, .. }) = self.pipeline.search.as_ref().and_then(|search| search.at(point)) {
            all.extend(cut.filter(|setting| setting.stage == used.name.name));
        }
        all.into_iter()
    }

    /// Settings that known settings, the sweep and the search make on a stage at a point, the strongest last.
    pub(super) fn of_file(&self, used: &'b StageUse, point: &[usize]) -> Vec<&'b Setting> {
        let sweep = &self.pipeline.sweep;
        let of_presets = self.pipeline.presets.iter().filter(|p| holds(&p.matches, point)).flat_map(|p| &p.settings);
        let of_axes = sweep.axes.iter().zip(point).flat_map(|(axis, value)| &axis.values[*value].settings);
        let of_when = sweep.when.iter().filter(|w| holds(&w.matches, point)).flat_map(|w| &w.settings);
        let (of_trial, also) = match self.pipeline.search.as_ref().and_then(|search| search.at(point)) {
            Some(At::Trial { settings, also, .. }) => (settings, also),
            Some(At::Chosen(settings)) => (settings, None),
            Some(At::PerSplit(_) | At::Open(_)) | None => (&[][..], None),
        };
        let all = of_presets.chain(of_axes).chain(of_when).chain(of_trial).chain(also);
        all.filter(|s| s.stage == used.name.name).collect()
    }

    /// What is said of a parameter of a stage at a point.
    fn said(&self, used: &'b StageUse, point: &[usize], param: &str) -> Option<Value> {
        let set = self.settings(used, point).rfind(|s| s.param == param).map(|s| s.value.value());
        set.or_else(|| used.params.iter().find(|(k, _)| k.name == param).map(|(_, n)| n.value()))
    }

    /// The name of the data set that a stage reads files of at a point: `load`, or a stage after it that data sets have files for.
    pub(super) fn dataset(&self, used: &'b StageUse, point: &[usize]) -> Option<String> {
        let by_name = |from: FromDataset| self.said(used, point, from.choice).is_some_and(|name| !name.is_null());
        if used.def.from_dataset.is_some_and(|from| !by_name(from)) {
            return None;
        }
        let mut above = vec![used];
        while let Some(stage) = above.pop() {
            if stage.def.name == DATASET_STAGE {
                return self.said(stage, point, DATASET_PARAM)?.as_str().map(str::to_owned);
            }
            if used.def.from_dataset.is_some() {
                above.extend(stage.inputs.iter().flat_map(|(_, from)| from).map(|from| &self.pipeline.stages[*from]));
            }
        }
        None
    }

    /// The known data set that a stage reads files of at a point.
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
        for setting in self.settings(used, point).rev() {
            if setting.param == param {
                return place(&setting.span, &setting.value);
            }
            if setting.param == path {
                return if name { setting.span.clone() } else { setting.value.span.clone() };
            }
        }
        let dataset = |p: &str| {
            if used.def.name != DATASET_STAGE {
                return self.file_of_dataset(used, point, p).map(|file| file.span.clone());
            }
            let (key, set) = self.pipeline.datasets.get(&self.dataset(used, point)?)?;
            let entry = set.entries().iter().find(|(k, _)| k.name == p);
            Some(entry.map_or_else(|| key.span.clone(), |(k, n)| place(&k.span, n)))
        };
        let own = used.params.iter().find(|(k, _)| k.name == param);
        own.map(|(k, n)| place(&k.span, n)).or_else(|| dataset(param)).unwrap_or_else(|| used.name.span.clone())
    }
}

/// Sets a parameter, or with a dot an entry of one that is a mapping: `params.hidden`.
pub(super) fn set_at(written: &mut Map<String, Value>, path: &str, value: Value) {
    if let Some((first, rest)) = path.split_once('.')
        && let Value::Object(inside) = written.entry(first).or_insert_with(|| Map::new().into())
    {
        return set_at(inside, rest, value);
    }
    written.insert(path.to_owned(), value);
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
