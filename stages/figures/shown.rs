//! What a figure shows, as the planner says it: lines or panels, and the runs behind every mark.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::contract::{Artifact, InputDir, Job, Lost, StageError};
use crate::drawing::{Axis, Data, Picture};
use crate::kinds::Figure;

/// What a figure shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Shown {
    /// What goes along x.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub x_title: String,
    /// The values along x.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub x: Vec<String>,
    /// The lines, or the panels.
    pub series: Vec<Series>,
    /// The runs that marks are made of.
    pub runs: Vec<Run>,
    /// What is not there, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A line or a panel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Series {
    /// What it is called.
    pub label: String,
    /// Its marks.
    pub marks: Vec<Mark>,
}

/// A mark: what is shown at one value of x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Mark {
    /// Place of its value in `x`.
    pub x: usize,
    /// Places in `runs` of what is pooled.
    pub runs: Vec<usize>,
}

/// A run, and what stands beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Run {
    /// For every slot, the place of the artifact in it.
    pub at: BTreeMap<String, usize>,
    /// The row that the stage of the run chose, such as a model, for figures that ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// The parameters of that row.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// The other parameters of the stage of the run.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub own: Map<String, Value>,
}

impl Shown {
    /// Returns the runs of all marks of a series, in their order.
    pub fn runs_of<'s>(&'s self, series: &'s Series) -> impl Iterator<Item = &'s Run> {
        series.marks.iter().flat_map(|mark| &mark.runs).filter_map(|run| self.runs.get(*run))
    }

    /// Returns the titles of panels.
    pub fn labels(&self) -> Vec<String> {
        self.series.iter().map(|series| series.label.clone()).collect()
    }

    /// Returns the values along x where all are numbers, with their labels.
    pub fn numbers(&self) -> Option<Vec<(f64, String)>> {
        let number =
            |label: &String| Some((label.trim().parse::<f64>().ok().filter(|x| x.is_finite())?, label.clone()));
        self.x.iter().map(number).collect()
    }

    /// Returns the axis along x, and the place of every value on it.
    pub fn x_axis(&self, title: &str, logarithmic: bool) -> (Axis, Vec<f64>) {
        let title = if title.is_empty() { &self.x_title } else { title };
        match self.numbers() {
            Some(values) if logarithmic && values.iter().all(|(value, _)| *value > 0.0) => {
                let values: Vec<_> = values.into_iter().map(|(value, label)| (value.log10(), label)).collect();
                (Axis::of_logarithms(title, &values), values.into_iter().map(|(value, _)| value).collect())
            }
            Some(values) => (Axis::of_chosen(title, &values), values.into_iter().map(|(value, _)| value).collect()),
            None => {
                let axis = Axis::of_names(title, &self.x);
                let places = axis.ticks.iter().map(|(at, _)| *at).collect();
                (axis, places)
            }
        }
    }

    /// Returns what is shown without some artifacts of the first slot. Nothing if nothing is left.
    pub fn without(mut self, slot: &str, lost: &[Lost]) -> Option<Self> {
        let gone: BTreeSet<usize> = lost.iter().map(|lost| lost.place).collect();
        let is_gone = |run: &Run| run.at.get(slot).is_some_and(|at| gone.contains(at));
        let runs = &self.runs;
        for mark in self.series.iter_mut().flat_map(|series| &mut series.marks) {
            mark.runs.retain(|run| runs.get(*run).is_some_and(|run| !is_gone(run)));
        }
        self.series.iter_mut().for_each(|series| series.marks.retain(|mark| !mark.runs.is_empty()));
        self.series.retain(|series| !series.marks.is_empty());
        // Those that are left move up.
        for at in self.runs.iter_mut().filter_map(|run| run.at.get_mut(slot)) {
            *at -= gone.range(..*at).count();
        }
        let whys: BTreeSet<&String> = lost.iter().map(|lost| &lost.why).collect();
        self.missing.extend(whys.into_iter().cloned());
        (!self.series.is_empty()).then_some(self)
    }

    /// Says below the picture what is missing.
    pub fn note(&self, picture: &mut Picture) {
        if !self.missing.is_empty() {
            picture.note(&format!("Left out: {}.", self.missing.join("; ")));
        }
    }
}

impl Run {
    /// Returns the artifact in a slot, if there is one beside this run.
    pub fn find<'j>(&self, job: &Job<'j>, slot: &'static str) -> Option<&'j InputDir> {
        job.all(slot).nth(*self.at.get(slot)?)
    }

    /// Returns the folder of the artifact in a slot.
    ///
    /// # Errors
    /// [`StageError::MissingInput`] if nothing is there.
    pub fn dir<'j>(&self, job: &Job<'j>, slot: &'static str) -> Result<&'j Path, StageError> {
        Ok(&self.find(job, slot).ok_or(StageError::MissingInput { slot })?.dir)
    }

    /// Loads the artifact in a slot.
    ///
    /// # Errors
    /// [`StageError::MissingInput`] if nothing is there; otherwise what loading reports.
    pub fn load<A: Artifact>(&self, job: &Job, slot: &'static str) -> Result<A, StageError> {
        Ok(A::load(self.dir(job, slot)?)?)
    }
}

/// Puts a picture and its numbers together.
///
/// # Errors
/// Only if a row of the numbers is too short or too long.
pub fn figure(picture: Picture, data: &Data) -> Result<Figure, StageError> {
    let csv = data.csv()?;
    let (svg, pdf) = picture.finish();
    Ok(Figure { svg, pdf, csv })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Shown {
        let run = |at: usize| Run { at: BTreeMap::from([("metrics".to_owned(), at)]), ..Run::default() };
        let mark = |x: usize, runs: &[usize]| Mark { x, runs: runs.to_vec() };
        let series = |label: &str, marks: Vec<Mark>| Series { label: label.into(), marks };
        Shown {
            x: vec!["2".into(), "16".into()],
            series: vec![series("a", vec![mark(0, &[0, 1]), mark(1, &[2])]), series("b", vec![mark(0, &[3])])],
            runs: (0..4).map(run).collect(),
            ..Shown::default()
        }
    }

    #[test]
    fn a_figure_does_without_runs_that_are_lost() {
        let lost = [Lost { place: 1, why: "it failed".into() }, Lost { place: 3, why: "it failed".into() }];
        let rest = shown().without("metrics", &lost).unwrap();
        assert_eq!(rest.labels(), ["a"]);
        let at: Vec<usize> = rest.runs_of(&rest.series[0]).map(|run| run.at["metrics"]).collect();
        assert_eq!((at, &rest.missing[..]), (vec![0, 1], &["it failed".to_owned()][..]));
        let all: Vec<Lost> = (0..4).map(|place| Lost { place, why: String::new() }).collect();
        assert_eq!(shown().without("metrics", &all), None);
    }

    #[test]
    fn numbers_stand_at_their_values_and_names_side_by_side() {
        assert_eq!(shown().x_axis("", false).1, [2.0, 16.0]);
        assert_eq!(shown().x_axis("", true).1, [2f64.log10(), 16f64.log10()]);
        let named = Shown { x: vec!["2".into(), "all".into()], ..shown() };
        assert_eq!(named.x_axis("pairs", true).1, [0.0, 1.0]);
    }
}
