//! Trials of searches in a plan: which stages they need, which nodes say how good they are, and what a space may hold.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value};

use super::at_point::set_at;
use super::build::{Builder, NoNode, Planned};
use super::graph::{Edge, Node, NodeId, TrialNodes};
use crate::pipeline::{At, Pipeline, SPLIT_COUNT, Search};

/// The stage that takes the scores of every split from the trial that was chosen for it.
const CHOICE_STAGE: &str = "choose";

impl Node {
    /// Returns the run behind every split, where a search has chosen each apart.
    pub fn of_splits(&self) -> Option<Vec<NodeId>> {
        let take = self.params.all().get("take").filter(|_| self.stage.name == CHOICE_STAGE)?.as_array()?;
        take.iter().map(|run| Some(self.inputs.get(usize::try_from(run.as_u64()?).ok()?)?.node)).collect()
    }
}

impl Builder<'_> {
    /// Checks the values that searches may try before any is tried: each alone, beside what the pipeline sets.
    pub(super) fn check_spaces(&mut self) {
        let pipeline = self.pipeline;
        let Some(search) = pipeline.search.as_ref().filter(|search| search.groups.iter().all(|g| g.scores.is_empty()))
        else {
            return;
        };
        self.check_race(search);
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
                    set_at(&mut written, name, value);
                    let found = pipeline.stages[at].def.check(self.around.registry, &written).err()?;
                    found.into_iter().find(|problem| problem.param.split('.').next() == name.split('.').next())
                });
                if let Some(problem) = fault {
                    self.problems.add(&place, format!("stage `{stage}`: {}", problem.message), problem.help);
                }
            }
        }
    }

    /// A race must leave splits to run for.
    fn check_race(&mut self, search: &Search) {
        let (Some(race), Some((stage, span))) = (search.race, &search.raced) else { return };
        let pipeline = self.pipeline;
        let choices = pipeline.sweep.points.iter().filter(|point| Search::is_choice(point));
        for point in choices {
            let Ok(written) = self.written(*stage, point) else { continue };
            let Ok(checked) = pipeline.stages[*stage].def.check(self.around.registry, &written) else { continue };
            let count = checked.all().get(SPLIT_COUNT).and_then(Value::as_u64);
            if let Some(count) = count.filter(|count| *count <= race.after as u64) {
                let message = format!("a race over the first {} splits, and there are {count}", race.after);
                let help = "lower `after`, or leave the race out";
                self.problems.add(span, message, Some(help.into()));
                return;
            }
        }
    }

    /// The node of a stage at a point where every split has the trial that was chosen for it.
    pub(super) fn per_split(&mut self, stage: usize, point: &[usize], of_splits: &[usize]) -> Planned {
        let pipeline = self.pipeline;
        let (Some(search), Some(def)) = (&pipeline.search, self.around.registry.stage(CHOICE_STAGE)) else {
            return Err(NoNode::NotWanted);
        };
        let trials: Vec<usize> = of_splits.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let mut inputs = Vec::new();
        for trial in &trials {
            let node = self.made_at(stage, &search.best_at(point, *trial)).unwrap_or(Err(NoNode::Reported))?;
            inputs.push(Edge { slot: def.inputs[0].name, node });
        }
        let take: Vec<usize> = of_splits.iter().filter_map(|trial| trials.binary_search(trial).ok()).collect();
        let params = Map::from_iter([("take".to_owned(), Value::from(take))]);
        let span = &search.objective.span;
        let checked = self.checked(def, "the choice of a search", &params, |_, _, _| span.clone());
        let checked = checked.ok_or(NoNode::Reported)?;
        Ok(self.add_at(stage, point, def, checked, params, inputs))
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
    needed(pipeline, up_to)
}

/// Which stages a stage needs, itself among them.
pub(super) fn needed(pipeline: &Pipeline, up_to: usize) -> Vec<bool> {
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
    let mut all: BTreeMap<(usize, usize, bool), Vec<Option<NodeId>>> = BTreeMap::new();
    for (point, planned) in pipeline.sweep.points.iter().zip(of_points) {
        if let Some(trial) = search.trial(point) {
            all.entry(trial).or_default().push(planned[search.scored].ok());
        }
    }
    let nodes = |((search, trial, first), nodes)| TrialNodes { search, trial, first, nodes };
    all.into_iter().map(nodes).collect()
}
