//! Trials of searches in a plan: which stages they need, which nodes say how good they are, and what a space may hold.

use std::collections::{BTreeMap, HashSet};

use super::build::{Builder, NoNode, Planned};
use super::graph::{NodeId, TrialNodes};
use crate::pipeline::{At, Pipeline, Search};

impl Builder<'_> {
    /// Checks the values that searches may try before any is tried: each alone, beside what the pipeline sets.
    pub(super) fn check_spaces(&mut self) {
        let pipeline = self.pipeline;
        let Some(search) = pipeline.search.as_ref().filter(|search| search.groups.iter().all(|g| g.scores.is_empty()))
        else {
            return;
        };
        let mut checked = HashSet::new();
        for point in pipeline.sweep.points.iter().filter(|point| Search::is_choice(point)) {
            let Some(group) = search.group(point).filter(|at| checked.insert(*at)).map(|at| &search.groups[at]) else {
                continue;
            };
            for param in group.space.params() {
                let Some((stage, name)) = param.path.split_once('.') else { continue };
                let Some(at) = pipeline.stages.iter().position(|used| used.name.name == stage) else { continue };
                // A name that stands for a file of the data set is looked up when a trial is planned.
                if pipeline.stages[at].def.from_dataset.is_some_and(|from| from.choice == name) {
                    continue;
                }
                let Ok(written) = self.written(at, point) else { continue };
                let place = group.places.get(&param.path).cloned().unwrap_or_default();
                let fault = param.domain.probes().into_iter().find_map(|value| {
                    let mut written = written.clone();
                    written.insert(name.to_owned(), value);
                    let found = pipeline.stages[at].def.check(self.around.registry, &written).err()?;
                    found.into_iter().find(|problem| problem.param.split('.').next() == Some(name))
                });
                if let Some(problem) = fault {
                    self.problems.add(&place, format!("stage `{stage}`: {}", problem.message), problem.help);
                }
            }
        }
    }

    /// Whether a search decides on a stage or on something above it.
    pub(super) fn is_searched(&self, stage: usize) -> bool {
        self.axes[stage].last() == Some(&(self.pipeline.sweep.axes.len() - 1))
    }
}

/// Why there is no node where a search has not ended: its data may be missing.
pub(super) fn open(upstream: &[Planned], search: usize) -> NoNode {
    let without_data = |planned: &Planned| planned.err().filter(|why| matches!(why, NoNode::DataAbsent(_)));
    upstream.iter().find_map(without_data).unwrap_or(NoNode::Open(search))
}

/// Which stages are wanted at a point: those that a trial is for, and what they need; elsewhere all.
pub(super) fn wanted(pipeline: &Pipeline, at: Option<At>) -> Vec<bool> {
    let Some(At::Trial { up_to, .. }) = at else { return vec![true; pipeline.stages.len()] };
    let mut wanted = vec![false; pipeline.stages.len()];
    wanted[up_to] = true;
    for stage in (0..=up_to).rev() {
        if wanted[stage] {
            pipeline.stages[stage].inputs.iter().flat_map(|(_, from)| from).for_each(|from| wanted[*from] = true);
        }
    }
    wanted
}

/// The nodes whose metrics say how good a trial is. A trial without one is planned in vain: its data is missing.
pub(super) fn trials(pipeline: &Pipeline, of_points: &[Vec<Planned>]) -> Vec<TrialNodes> {
    let Some(search) = &pipeline.search else { return Vec::new() };
    let mut all: BTreeMap<(usize, usize), Vec<Option<NodeId>>> = BTreeMap::new();
    for (point, planned) in pipeline.sweep.points.iter().zip(of_points) {
        if let Some((group, trial)) = search.trial(point) {
            all.entry((group, trial)).or_default().push(planned[search.scored].ok());
        }
    }
    all.into_iter().map(|((search, trial), nodes)| TrialNodes { search, trial, nodes }).collect()
}
