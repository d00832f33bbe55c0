//! `tabulate`: a table of one metric from many runs, or of facts (`facts.rs`).
//!
//! A cell pools the splits of its runs into one mean. Where a cell has several candidates (one list of runs each), the
//! one with the best mean of the metric `pick` is shown; ties go to the first. `pick` must be a validation metric:
//! choosing on test nodes would report a biased number. The table says which
//! candidate was chosen and what every candidate had.
//!
//! A table is made of the runs that are there. A cell that lacks some says how many and why; a candidate that lacks some is
//! picked only if every candidate does.
//!
//! `reference` is a CSV file of values published elsewhere, shown next to ours: `row`, `column` (labels of the table),
//! `mean`, `std` (in the unit of the table: shares in percent) and `note` (a mark, or a word instead of a value). Lines
//! that start with `#` are comments; rows that the table does not have are ignored. A note with `*` marks a value that was taken
//! there from another publication.
//!
//! Cells are marked by tests (`compare.rs`), never by the order of their means alone.

mod compare;
mod facts;
mod params;
mod published;
mod sample;

use crate::contract::{Artifact, Estimate, Job, Known, Lost, Memory, Size, Slot, Stage, StageError, Term, Uses, Work};
use crate::kinds::{
    Absent, Candidate, Cell, Facts, Interval, LeftOut, Metric, Metrics, Picked, ScoreDef, SplitScores, Spread, Table,
    Undefined, in_splits, suspicions,
};
use crate::math::inference::mean_interval;
use crate::math::stats::{self, Divisor};
use compare::Samples;
use params::reasons;
pub use params::{AbsentSpec, CellSpec, FactSpec, MissingSpec, Params};
use published::{Published, references};
use sample::Sample;

/// The stage.
pub struct Tabulate;

impl Stage for Tabulate {
    const NAME: &'static str = "tabulate";
    const ABOUT: &'static str = "Makes a table of one metric, or of facts, from many runs";
    const VERSION: u32 = 6;
    const INPUTS: &'static [Slot] = &[Slot::many("metrics", Metrics::KIND), Slot::many(facts::SLOT, Facts::KIND)];
    const PUBLISHES: &'static [&'static str] = &["table.md", "table.tex", "table.csv", "table.json"];
    const USES: Option<Uses> = Some(Uses::of::<ScoreDef>(Metric::complete_schema_of));
    const TERMS: &'static [Term] = &[Term::alone("runs", 4e-5)];
    type Params = Params;
    type Output = Table;

    fn estimate(_: &Params, known: &Known) -> Estimate {
        let runs = Size::exact(known.count("metrics") + known.count(facts::SLOT));
        let work = Work::default().and("runs", runs).shared_by(1);
        Estimate { work, memory: Memory::default().and(runs * 20_000), ..Estimate::default() }
    }

    fn run(params: &Params, job: &Job) -> Result<Table, StageError> {
        if !params.facts.is_empty() {
            return facts::table(params, job);
        }
        let mut runs = Vec::new();
        for input in job.all("metrics") {
            runs.push(Run { key: &input.key, metrics: Metrics::load(&input.dir)?, remarks: &input.remarks });
            job.check_cancelled()?;
        }
        let scores = job.used();
        table(params, &runs, &references(params, &scores)?, &scores)
    }

    fn precheck(params: &Params, job: &Job) -> Result<(), StageError> {
        references(params, &job.used()).map(drop)
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(params.without(lost))
    }
}

/// The scores there are.
type Scores<'a> = &'a [&'static ScoreDef];

/// A run.
struct Run<'j> {
    key: &'j str,
    metrics: Metrics,
    /// What was remarked on it and on what it was made from.
    remarks: &'j [String],
}

fn table(params: &Params, runs: &[Run], published: &Published, scores: Scores) -> Result<Table, StageError> {
    let (mut cells, mut absent, mut samples) = (Vec::new(), Vec::new(), Samples::new());
    for spec in &params.cells {
        match cell(params, spec, runs, scores)? {
            Ok((cell, sample)) => {
                samples.insert((cell.row, cell.column), sample);
                cells.push(cell);
            }
            Err(none) => absent.push(none),
        }
    }
    absent.extend(params.absent.iter().map(|a| Absent {
        row: a.row,
        column: a.column,
        why: a.why.clone(),
        reference: None,
    }));
    cells.sort_by_key(|c| (c.row, c.column));
    absent.sort_by_key(|a| (a.row, a.column));
    let mut table = Table {
        title: params.title.clone(),
        metric: Some(params.metric.clone()),
        scale: scores
            .iter()
            .find(|row| row.variant.name == params.metric.score && row.variant.from.added().is_some())
            .map(|row| row.scale),
        std: params.std,
        interval: params.interval,
        digits: params.digits,
        row_title: params.row_title.clone(),
        column_title: params.column_title.clone(),
        rows: params.rows.clone(),
        columns: params.columns.clone(),
        reference_title: params.reference_title.clone(),
        notes: params.notes.clone(),
        pooled: params.pooled.clone(),
        picked_from: params.picked_from.clone(),
        absent,
        cells,
        ..Table::default()
    };
    table.set_references(|row, column| published.get(&(row, column)).cloned());
    compare::compare(&mut table, &samples);
    table.ranking = params.ranks.then(|| compare::ranking(&table));
    Ok(table)
}

/// Makes a cell and what of it is compared with others, or says why there is none.
fn cell(
    params: &Params,
    spec: &CellSpec,
    runs: &[Run],
    scores: Scores,
) -> Result<Result<(Cell, Sample), Absent>, StageError> {
    let (row, column) = (spec.row, spec.column);
    let absent = |why: String| Ok(Err(Absent { row, column, why, reference: None }));
    let mut notes = Vec::new();
    let (chosen, picked) = match &params.pick {
        Some(pick) if spec.candidates.len() > 1 => match picked(pick.metric(), spec, runs, scores, &mut notes)? {
            Some((chosen, picked)) => (chosen, Some(picked)),
            None => return absent(format!("nothing can be picked: {}", notes.join("; "))),
        },
        _ => (0, None),
    };
    let candidate = spec.candidates.get(chosen).map_or(&[][..], Vec::as_slice);
    let pool = Pool::new(&params.metric, spec, candidate, runs)?;
    let divisor = match params.std {
        Spread::Population => Divisor::Population,
        Spread::Sample => Divisor::Sample,
    };
    let Some(mean) = stats::mean(&pool.values) else {
        let whys: Vec<String> = pool.undefined.iter().map(|why| why.to_string()).collect();
        return absent(format!(
            "{} is undefined: {}",
            params.metric,
            whys.first().map_or("there are no splits", |why| why)
        ));
    };
    notes.extend(pool.notes(params, mean, scores));
    let missing: Vec<String> = spec.whys(chosen).map(str::to_owned).collect();
    if !missing.is_empty() {
        let of = missing.len() + candidate.len();
        notes.push(format!("{} of {of} runs missing: {}", missing.len(), reasons(missing.iter().map(String::as_str))));
    }
    let sample = pool.sample(&params.metric);
    let interval = match params.interval {
        Interval::None => None,
        // Where the metric is undefined in some splits, those that are left.
        Interval::Bootstrap if sample.values().is_empty() => mean_interval(&pool.values),
        Interval::Bootstrap => mean_interval(sample.values()),
    };
    let cell = Cell {
        row,
        column,
        mean,
        std: stats::std(&pool.values, divisor),
        n: pool.values.len(),
        values: pool.values,
        runs: pool.keys,
        interval,
        picked,
        notes: [&spec.notes[..], &notes].concat(),
        missing,
        ..Cell::default()
    };
    Ok(Ok((cell, sample)))
}

/// Picks one of the candidates and returns its place, or none if the metric is undefined for all. Notes say which
/// candidates were left out.
fn picked(
    metric: &Metric,
    spec: &CellSpec,
    runs: &[Run],
    scores: Scores,
    notes: &mut Vec<String>,
) -> Result<Option<(usize, Picked)>, StageError> {
    let able = spec.able();
    let label = |i: usize| spec.labels.get(i).cloned().unwrap_or_default();
    let lacking = (0..spec.candidates.len()).filter(|i| !able.contains(i));
    let mut left_out: Vec<LeftOut> = lacking.map(|i| LeftOut { label: label(i), why: reasons(spec.whys(i)) }).collect();
    say_left_out(notes, &left_out, spec);
    let (mut candidates, mut undefined) = (Vec::new(), Vec::new());
    let mut best: Option<(usize, usize, f64)> = None;
    for i in able {
        let pool = Pool::new(metric, spec, &spec.candidates[i], runs)?;
        let Some(mean) = stats::mean(&pool.values) else {
            let why = pool.undefined.first().map_or_else(String::new, |why| format!(" ({why})"));
            let label = label(i);
            undefined.push(LeftOut { why: format!("`{metric}` of `{label}` is undefined{why}"), label });
            continue;
        };
        let worth = metric.scale(scores).worth(mean);
        if best.is_none_or(|(.., most)| worth > most) {
            best = Some((i, candidates.len(), worth));
        }
        candidates.push(Candidate { label: label(i), runs: pool.keys, pick: mean });
    }
    say_left_out(notes, &undefined, spec);
    left_out.extend(undefined);
    Ok(best.map(|(i, chosen, _)| (i, Picked { metric: metric.clone(), chosen, candidates, left_out })))
}

/// Notes which candidates could not be picked, and why.
fn say_left_out(notes: &mut Vec<String>, left_out: &[LeftOut], spec: &CellSpec) {
    if !left_out.is_empty() {
        let (count, of) = (left_out.len(), spec.candidates.len());
        let why = reasons(left_out.iter().map(|one| one.why.as_str()));
        notes.push(format!("{count} of {of} configurations left out: {why}"));
    }
}

/// The splits of a candidate's runs.
#[derive(Default)]
struct Pool<'r> {
    /// Keys of the runs.
    keys: Vec<String>,
    splits: Vec<&'r SplitScores>,
    /// The same, run by run.
    runs: Vec<&'r [SplitScores]>,
    /// What was remarked on the runs, each once.
    remarks: Vec<&'r String>,
    /// The metric, where it is defined.
    values: Vec<f64>,
    /// Why it is not, elsewhere.
    undefined: Vec<&'r Undefined>,
}

impl<'r> Pool<'r> {
    fn new(metric: &Metric, spec: &CellSpec, candidate: &[usize], runs: &'r [Run]) -> Result<Self, StageError> {
        let mut pool = Pool::default();
        for at in candidate {
            let run = runs.get(*at).ok_or_else(|| {
                let what = format!("the cell of row {} and column {} wants run {at}", spec.row, spec.column);
                StageError::unusable(what, format!("`metrics` has {} runs, counted from 0", runs.len()))
            })?;
            pool.keys.push(run.key.to_owned());
            pool.runs.push(&run.metrics.splits);
            for remark in run.remarks {
                if !pool.remarks.contains(&remark) {
                    pool.remarks.push(remark);
                }
            }
            for split in &run.metrics.splits {
                pool.splits.push(split);
                match metric.of(split) {
                    Some(Ok(value)) => pool.values.push(*value),
                    Some(Err(why)) => pool.undefined.push(why),
                    None => {
                        let hint = "a stage that produces metrics must score with every metric of the program";
                        return Err(StageError::unusable(format!("run {at} has no `{metric}`"), hint));
                    }
                }
            }
        }
        Ok(pool)
    }

    /// What of it is compared with other cells.
    fn sample(&self, metric: &Metric) -> Sample {
        Sample::new(metric, &self.runs)
    }

    /// What a reader of the number must know.
    fn notes(&self, params: &Params, mean: f64, scores: Scores) -> Vec<String> {
        let mut notes: Vec<String> = self.remarks.iter().map(|remark| (*remark).clone()).collect();
        notes.extend(suspicions(&self.splits));
        if let Some(why) = self.undefined.first() {
            notes.push(format!(
                "undefined in {}, which do not count: {why}",
                in_splits(self.undefined.len(), self.splits.len())
            ));
        }
        let constant: Option<Vec<f64>> = self.splits.iter().map(|split| split.constant_accuracy()).collect();
        if params.metric == Metric::default()
            && let Some(constant) = constant.and_then(|shares| stats::mean(&shares))
            && mean <= constant
        {
            let shown = Table::number(params.metric.scale(scores), params.digits, constant);
            notes.push(format!("not above {shown}, the share of the largest class among the test nodes"));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
