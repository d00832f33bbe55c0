//! Settings of the command line at a point: which of them are for it, and which it has no use for.
//!
//! A setting without conditions is for every point. Where the chosen row (a model) has no such parameter but others have, the
//! node is planned without it; whether that is a mistake depends on what was asked for, which is known when all nodes are there.

use std::collections::{BTreeMap, BTreeSet};

use ppgnn_stages::contract::params::{Variant, list};
use serde_json::Value;

use super::build::Builder;
use super::graph::{NodeId, Plan};
use crate::pipeline::{Only, Pipeline, PipelineError, Problems, Setting, StageUse, label, same_label, text_of};

/// A node that was planned without a setting, because its row has no such parameter.
pub(super) struct Unset {
    /// The node.
    pub(super) node: NodeId,
    /// Position of the setting.
    pub(super) setting: usize,
    /// The row.
    row: &'static str,
}

impl<'b> Builder<'b> {
    /// The settings of the command line that are for a point and that its row knows, given those of the file.
    pub(super) fn forced(&self, used: &'b StageUse, point: &[usize], of_file: &[&Setting]) -> Vec<&'b Setting> {
        let row = self.row(used, of_file);
        let here = self.forced_here(used, point, of_file).filter(|at| !self.is_of_other_rows(used, row, *at));
        here.map(|at| &self.pipeline.forced[at].0).collect()
    }

    /// Notes the settings that a node was planned without.
    pub(super) fn note_unset(&mut self, used: &'b StageUse, point: &[usize], node: NodeId) {
        if self.pipeline.forced.is_empty() {
            return;
        }
        let of_file = self.of_file(used, point);
        let Some(row) = self.row(used, &of_file) else { return };
        let left_out = self.forced_here(used, point, &of_file).filter(|at| self.is_of_other_rows(used, Some(row), *at));
        let unset: Vec<Unset> = left_out.map(|setting| Unset { node, setting, row: row.name }).collect();
        self.unset.extend(unset);
    }

    /// The positions of the settings that are for a stage at a point.
    fn forced_here(&self, used: &'b StageUse, point: &[usize], of_file: &[&Setting]) -> impl Iterator<Item = usize> {
        let forced = self.pipeline.forced.iter().enumerate();
        forced.filter_map(move |(at, (setting, only))| {
            let is_here = setting.stage == used.name.name && only.iter().all(|o| self.holds(o, used, point, of_file));
            is_here.then_some(at)
        })
    }

    fn holds(&self, only: &Only, used: &StageUse, point: &[usize], of_file: &[&Setting]) -> bool {
        match only {
            Only::Axis(axis, values) => values.contains(&point[*axis]),
            Only::Param(name, values) => {
                let text = self.value_of(used, name, of_file).map(|value| text_of(&value));
                text.is_some_and(|text| values.iter().any(|value| same_label(value, &text)))
            }
        }
    }

    /// The value of a parameter as the file has it at a point, or its default.
    fn value_of(&self, used: &StageUse, name: &str, of_file: &[&Setting]) -> Option<Value> {
        let set = of_file.iter().rev().find(|s| s.param == name).map(|s| s.value.value());
        let own = || used.params.iter().find(|(k, _)| k.name == name).map(|(_, n)| n.value());
        let default =
            || used.def.own_schema(self.around.registry).get("properties")?.get(name)?.get("default").cloned();
        set.or_else(own).or_else(default)
    }

    /// The row that a stage chooses at a point, settings of the command line included.
    fn row(&self, used: &StageUse, of_file: &[&Setting]) -> Option<&'static Variant> {
        let param = used.def.choice?.param;
        let chosen = |(setting, only): &&(Setting, Vec<Only>)| {
            only.is_empty() && setting.stage == used.name.name && setting.param == param
        };
        let forced = self.pipeline.forced.iter().rev().find(chosen).map(|(s, _)| label(&s.value));
        let name = forced.or_else(|| self.value_of(used, param, of_file)?.as_str().map(str::to_owned))?;
        used.def.variants(self.around.registry).into_iter().find(|row| row.name == name)
    }

    /// Whether a setting for all points is of a parameter that belongs to other rows of the stage's choice. With conditions it
    /// is meant for the very points that match, and then it is a mistake that the check reports.
    fn is_of_other_rows(&self, used: &StageUse, row: Option<&'static Variant>, setting: usize) -> bool {
        let (Some(row), (setting, only)) = (row, &self.pipeline.forced[setting]) else { return false };
        let name = setting.param.split('.').next().unwrap_or(&setting.param);
        let has = |schema: &Value| schema.get("properties").is_some_and(|of| of.get(name).is_some());
        only.is_empty()
            && !has(row.schema())
            && !has(&used.def.own_schema(self.around.registry))
            && used.def.variants(self.around.registry).into_iter().any(|other| has(other.schema()))
    }
}

/// Refuses settings that nodes which are asked for have no use for: names the rows without the parameter, and how to say
/// which are meant. `moved` says where a node is now.
pub(super) fn check(
    plan: &Plan,
    pipeline: &Pipeline,
    unset: &[Unset],
    moved: &dyn Fn(NodeId) -> NodeId,
    asked: &dyn Fn(&Plan) -> Vec<NodeId>,
) -> Result<(), PipelineError> {
    if unset.is_empty() {
        return Ok(());
    }
    let needed = plan.ancestors(&asked(plan));
    let mut lacking: BTreeMap<usize, BTreeSet<&'static str>> = BTreeMap::new();
    for one in unset.iter().filter(|one| needed[moved(one.node).0]) {
        lacking.entry(one.setting).or_default().insert(one.row);
    }
    let mut problems = Problems::default();
    for (at, names) in lacking {
        let Setting { stage, param, span, value } = &pipeline.forced[at].0;
        let without: BTreeSet<&str> = unset.iter().filter(|one| one.setting == at).map(|one| one.row).collect();
        let of_stage = plan.nodes.iter().filter(|node| node.name.stage == *stage);
        let rows: BTreeSet<&str> = of_stage.filter_map(|node| node.params.variant()).map(|row| row.name).collect();
        let able = rows.difference(&without).copied().collect::<Vec<_>>().join("|");
        let (has, choice) = (if names.len() == 1 { "has" } else { "have" }, choice(pipeline, stage));
        let help = if able.is_empty() {
            format!("no `{choice}` of the pipeline has it")
        } else {
            let value = label(value);
            format!(
                "`--set '{stage}[{choice}={able}].{param}={value}'` sets it where there is one; so does naming targets that have it"
            )
        };
        problems.add(span, format!("{} {has} no parameter `{param}`", list(names.into_iter())), Some(help));
    }
    problems.finish(&pipeline.sources)
}

/// The parameter that a stage chooses its row with.
fn choice(pipeline: &Pipeline, stage: &str) -> &'static str {
    let used = pipeline.stages.iter().find(|used| used.name.name == stage);
    used.and_then(|used| used.def.choice).map_or("row", |choice| choice.param)
}
