//! The sweep as meant: axes, and the points that they span.
//!
//! Axes form a grid; axes named together under `zip` advance together. `exclude` drops points of the grid; `include`
//! adds points, where an axis it leaves out takes all its values. `when` sets parameters on some points only.

use std::collections::{HashMap, HashSet};

use ppgnn_stages::contract::params::nearest_help;

use super::document::{Forced, Setting};
use super::file::{AxisEntry, AxisValue, Match, SweepEntry, label};
use super::problem::Problems;
use super::yaml::{Key, Node};

/// More points than this are a mistake in the file, not an experiment.
const MOST_POINTS: usize = 1_000_000;

/// Label of an axis at points that it does not apply to.
pub const ABSENT: &str = "–";

/// An axis as meant.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its name, `stage.param` where it varies one parameter.
    pub name: String,
    /// The last part of the name.
    pub short: String,
    /// The parameter it varies, if it is one.
    pub path: Option<(String, String)>,
    /// Its values: those of the grid, then those that only `include` names.
    pub values: Vec<AxisValue>,
}

impl Axis {
    /// Returns how a value appears in a node's name: `lr=0.1` for numbers, the bare label for words; `None` where the
    /// axis does not apply.
    pub fn tag(&self, value: usize) -> Option<String> {
        let label = &self.values[value].label;
        if label == ABSENT {
            return None;
        }
        let is_word = self.path.is_none() || label.chars().next().is_some_and(char::is_alphabetic);
        let bare = is_word && !["true", "false", "null"].contains(&label.as_str());
        Some(if bare { label.clone() } else { format!("{}={label}", self.short) })
    }
}

/// Settings that apply to the points that match.
#[derive(Clone, Debug)]
pub struct When {
    /// Axis, and the values of it that match.
    pub matches: Vec<(usize, Vec<usize>)>,
    /// What to set there.
    pub settings: Vec<Setting>,
    /// What readers of tables must know of them.
    pub note: Option<String>,
}

/// All points of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// The axes.
    pub axes: Vec<Axis>,
    /// The points: for each axis the position of its value.
    pub points: Vec<Vec<usize>>,
    /// Settings for some points.
    pub when: Vec<When>,
}

impl Sweep {
    /// Expands the sweep. `forced` settings reduce an axis over the same parameter to their one value; those for some points
    /// only would make its labels wrong.
    pub fn expand(entry: SweepEntry, forced: &[Forced], problems: &mut Problems) -> Self {
        let first_axis = entry.axes.first().map(|a| a.name.span.clone()).unwrap_or_default();
        let axes = entry.axes.into_iter().map(|a| axis(a, forced)).collect();
        let mut sweep = Self { axes, ..Self::default() };
        // Axes that apply to some points only come last; at other points they have no value.
        let mut conditional = Vec::new();
        for (at, when) in entry.when.iter().enumerate() {
            for extra in &when.axes {
                conditional.push((at, sweep.axes.len()));
                sweep.axes.push(axis(extra.clone(), forced));
            }
        }
        let by_option = forced.iter().filter(|f| !f.only.is_empty()).map(|f| &f.setting);
        let by_when = entry.when.iter().flat_map(|w| &w.settings);
        sweep.refuse_conflicts(by_when.chain(by_option), problems);
        let Some(groups) = sweep.groups(&entry.zip, problems) else { return sweep };
        let size = groups.iter().map(|g| sweep.axes[g[0]].values.len()).try_fold(1usize, usize::checked_mul);
        if size.is_none_or(|n| n > MOST_POINTS) {
            let help = Some("shorten an axis, or let axes advance together with `zip`".into());
            problems.add(&first_axis, format!("the grid has more than {MOST_POINTS} points"), help);
            return sweep;
        }
        let grid_sizes: Vec<usize> = sweep.axes.iter().map(|a| a.values.len()).collect();
        let exclude: Vec<_> = entry.exclude.iter().map(|e| sweep.matches(e, problems)).collect();
        let mut points = product(&groups, sweep.axes.len(), |axis| (0..grid_sizes[axis]).collect());
        points.retain(|p| !exclude.iter().any(|e| !e.is_empty() && holds(e, p)));
        for include in &entry.include {
            let chosen = sweep.chosen(include, problems);
            // An axis that the entry names steps out of its zip group: its own values decide.
            let free: Vec<Vec<usize>> = groups
                .iter()
                .flat_map(|g| {
                    let named = g.iter().any(|a| chosen.iter().any(|(c, _)| c == a));
                    if named { g.iter().map(|a| vec![*a]).collect() } else { vec![g.clone()] }
                })
                .collect();
            points.extend(product(&free, sweep.axes.len(), |axis| {
                let named = chosen.iter().find(|(a, _)| *a == axis).map(|(_, values)| values.clone());
                named.unwrap_or_else(|| (0..grid_sizes[axis]).collect())
            }));
        }
        sweep.when = entry
            .when
            .into_iter()
            .map(|w| When { matches: sweep.matches(&w.matches, problems), settings: w.settings, note: w.note })
            .collect();
        for (when, at) in conditional {
            let none = sweep.axes[at].values.len();
            let matches = &sweep.when[when].matches;
            points.iter_mut().filter(|p| !holds(matches, p)).for_each(|p| p[at] = none);
            sweep.axes[at].values.push(AxisValue { label: ABSENT.into(), settings: Vec::new() });
        }
        let mut seen = HashSet::new();
        points.retain(|p| seen.insert(p.clone()));
        sweep.points = points;
        sweep
    }

    /// Labels must be correct: no two axes may set one parameter, and what is set at some points may not be a parameter that
    /// an axis varies.
    fn refuse_conflicts<'s>(&self, at_some: impl Iterator<Item = &'s Setting>, problems: &mut Problems) {
        let mut owners: HashMap<(&str, &str), &str> = HashMap::new();
        for axis in &self.axes {
            let mut own: Vec<_> = axis.values.iter().flat_map(|v| &v.settings).collect();
            own.sort_by_key(|s| (&s.stage, &s.param));
            own.dedup_by_key(|s| (&s.stage, &s.param));
            for setting in own {
                if let Some(other) = owners.insert((&setting.stage, &setting.param), &axis.name) {
                    let message =
                        format!("axes `{other}` and `{}` both set `{}.{}`", axis.name, setting.stage, setting.param);
                    problems.add(&setting.span, message, Some("let one axis set it".into()));
                }
            }
        }
        for setting in at_some {
            let swept = |a: &&Axis| a.path.as_ref().is_some_and(|(s, p)| *s == setting.stage && *p == setting.param);
            if let Some(axis) = self.axes.iter().find(swept) {
                let message =
                    format!("`{}.{}` is already varied by axis `{}`", setting.stage, setting.param, axis.name);
                let help = "leave points out with `exclude`, or add them with `include`";
                problems.add(&setting.span, message, Some(help.into()));
            }
        }
    }

    /// Finds an axis by its name or, where no other shares it, by the last part of its name.
    pub fn axis(&self, name: &str) -> Option<usize> {
        let exact = self.axes.iter().position(|a| a.name == name);
        exact.or_else(|| {
            let mut short = self.axes.iter().enumerate().filter(|(_, a)| a.short == name).map(|(i, _)| i);
            short.next().filter(|_| short.next().is_none())
        })
    }

    /// Finds an axis, or reports the nearest name.
    pub fn known_axis(&self, key: &Key, problems: &mut Problems) -> Option<usize> {
        let found = self.axis(&key.name);
        if found.is_none() {
            let help = if self.axes.is_empty() {
                "the pipeline has no `sweep.axes`".to_owned()
            } else {
                nearest_help(&key.name, self.axes.iter().map(|a| a.name.as_str()))
            };
            problems.add(&key.span, format!("unknown axis `{}`", key.name), Some(help));
        }
        found
    }

    /// Turns axes and values as written into positions; reports what is unknown.
    pub fn matches(&self, written: &[Match], problems: &mut Problems) -> Vec<(usize, Vec<usize>)> {
        let mut matches = Vec::new();
        for (key, values) in written {
            let Some(axis) = self.known_axis(key, problems) else { continue };
            let values = values.iter().filter_map(|node| {
                let at = self.axes[axis].values.iter().position(|v| same(v, node));
                if at.is_none() {
                    let known = self.axes[axis].values.iter().map(|v| v.label.as_str());
                    let message = format!("axis `{}` has no value `{}`", self.axes[axis].name, label(node));
                    problems.add(&node.span, message, Some(nearest_help(&label(node), known)));
                }
                at
            });
            matches.push((axis, values.collect()));
        }
        matches
    }

    /// Like [`Sweep::matches`], but an axis over one parameter may get new values.
    fn chosen(&mut self, written: &[Match], problems: &mut Problems) -> Vec<(usize, Vec<usize>)> {
        for (key, values) in written {
            let Some(at) = self.axis(&key.name) else { continue };
            let Some((stage, param)) = self.axes[at].path.clone() else { continue };
            for node in values {
                if !self.axes[at].values.iter().any(|v| same(v, node)) {
                    let (stage, param) = (stage.clone(), param.clone());
                    let setting = Setting { stage, param, span: key.span.clone(), value: node.clone() };
                    self.axes[at].values.push(AxisValue { label: label(node), settings: vec![setting] });
                }
            }
        }
        self.matches(written, problems)
    }

    /// Groups axes that advance together; every axis is in exactly one group.
    fn groups(&self, zip: &[Vec<Key>], problems: &mut Problems) -> Option<Vec<Vec<usize>>> {
        let mut group_of: Vec<Option<usize>> = vec![None; self.axes.len()];
        let mut sound = self.axes.iter().all(|a| !a.values.is_empty());
        for (group, keys) in zip.iter().enumerate() {
            let mut length = None;
            for key in keys {
                let Some(axis) = self.known_axis(key, problems) else {
                    sound = false;
                    continue;
                };
                let here = self.axes[axis].values.len();
                if *length.get_or_insert(here) != here {
                    let first = length.unwrap_or(0);
                    let message = format!("axis `{}` has {here} values, the first of its group {first}", key.name);
                    let help = "axes under one `zip` need the same number of values";
                    problems.add(&key.span, message, Some(help.into()));
                    sound = false;
                }
                if group_of[axis].replace(group).is_some() {
                    problems.add(&key.span, format!("axis `{}` is in `zip` twice", key.name), None);
                    sound = false;
                }
            }
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (axis, group) in group_of.iter().enumerate() {
            match groups.iter_mut().find(|members| group.is_some() && group_of[members[0]] == *group) {
                Some(members) => members.push(axis),
                None => groups.push(vec![axis]),
            }
        }
        sound.then_some(groups)
    }
}

/// Returns whether a point has the given values.
pub fn holds(matches: &[(usize, Vec<usize>)], point: &[usize]) -> bool {
    matches.iter().all(|(axis, values)| values.contains(&point[*axis]))
}

fn axis(entry: AxisEntry, forced: &[Forced]) -> Axis {
    let name = entry.name.name;
    let short = name.rsplit('.').next().unwrap_or(&name).to_owned();
    let everywhere = forced.iter().rev().filter(|f| f.only.is_empty()).map(|f| &f.setting);
    let by_option = entry
        .path
        .as_ref()
        .and_then(|(stage, param)| everywhere.clone().find(|f| f.stage == *stage && f.param == *param));
    let values = match by_option {
        Some(f) => vec![AxisValue { label: label(&f.value), settings: vec![f.clone()] }],
        None => entry.values,
    };
    Axis { name, short, path: entry.path, values }
}

fn same(value: &AxisValue, node: &Node) -> bool {
    same_label(&value.label, &label(node))
}

/// Whether two labels mean the same value: `0.1` and `1e-1` do.
pub fn same_label(one: &str, other: &str) -> bool {
    let number = |label: &str| label.parse::<f64>().ok();
    one == other || number(one).is_some_and(|x| number(other) == Some(x))
}

/// All combinations, the last group fastest.
fn product(groups: &[Vec<usize>], axes: usize, values: impl Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    let mut points = vec![vec![0; axes]];
    for group in groups {
        let columns: Vec<Vec<usize>> = group.iter().map(|a| values(*a)).collect();
        let steps = columns.iter().map(Vec::len).min().unwrap_or(0);
        points = points
            .iter()
            .flat_map(|point| {
                (0..steps).map(|step| {
                    let mut next = point.clone();
                    for (axis, column) in group.iter().zip(&columns) {
                        next[*axis] = column[step];
                    }
                    next
                })
            })
            .collect();
    }
    points
}

#[cfg(test)]
mod tests;
