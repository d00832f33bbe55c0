//! The pages that follow runs: all pipelines of a folder, and one run. Both are asked for again while they are looked at, so what
//! changes is a part of its own.

use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ppgnn_stages::kinds::PlainTable;

pub use super::page::live_policy;
use super::page::{self, visible};
use super::table::plain_table;
use crate::report::follow::{Followed, Told, Training};
use crate::report::units::{bytes_text, duration_text};

/// Width and height of a curve.
const CURVE: (f64, f64) = (320.0, 90.0);

/// What need not be encoded in an address.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the address of what some words name.
pub fn address(words: &[&str]) -> String {
    words.iter().map(|word| format!("/{}", utf8_percent_encode(word, PLAIN))).collect()
}

/// All pipelines of a folder.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The folder.
    pub folder: String,
    /// The pipelines.
    pub pipelines: Vec<PipelineRow>,
    /// Runs, the latest first.
    pub runs: Vec<RunRow>,
    /// Earlier runs that are not listed.
    pub more_runs: usize,
}

/// A pipeline.
#[derive(Clone, Debug)]
pub struct PipelineRow {
    /// Its name; that of its file, if it is not valid.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Why it is not valid.
    pub problem: Option<String>,
    /// Its reports: what they are called, and where they are.
    pub reports: Vec<(String, String)>,
    /// Its latest run.
    pub latest: Option<RunRow>,
}

/// A run in a list.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// Name of its log, which its page is called by.
    pub log: String,
    /// The pipeline.
    pub pipeline: String,
    /// When it began.
    pub begun: String,
    /// Where it stands.
    pub state: State,
    /// Nodes done, and nodes needed.
    pub nodes: (u64, u64),
    /// How many failed.
    pub failed: u64,
    /// What was asked for.
    pub words: String,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// It goes on: share of the work that is done, and the seconds that are left.
    Running(Option<(f64, f64)>),
    /// It has ended after so many seconds.
    Ended(f64),
    /// It was asked to stop.
    Interrupted,
    /// It ended without a word.
    Died,
}

/// One run.
#[derive(Clone, Debug)]
pub struct RunPage<'r> {
    /// The run in a list.
    pub row: RunRow,
    /// What its log tells.
    pub run: &'r Followed,
    /// Bytes of the log.
    pub bytes: u64,
    /// The tables as far as they are there.
    pub tables: &'r [PlainTable],
    /// Why there are none.
    pub no_tables: Option<&'r str>,
    /// Where its report is.
    pub report: Option<String>,
}

impl Overview {
    /// Returns the whole page.
    pub fn html(&self) -> String {
        page::live("ppgnn", &frame(&html! { h1 { "Pipelines" } p { (self.folder) } }, &self.part()))
    }

    /// Returns the part of it that changes.
    pub fn part_html(&self) -> String {
        visible(&self.part().into_string())
    }

    fn part(&self) -> Markup {
        html! {
            section aria-label="Pipelines" {
                @if self.pipelines.is_empty() { p { "There is no pipeline file in this folder." } }
                @for pipeline in &self.pipelines { (card(pipeline)) }
            }
            section aria-labelledby="h-runs" {
                h2 id="h-runs" { "Runs" }
                @if self.runs.is_empty() { p { "No run has left a log in the store." } } @else { (runs(&self.runs)) }
                @if self.more_runs > 0 { p.hint { "and " (self.more_runs) " earlier ones" } }
            }
        }
    }
}

impl RunPage<'_> {
    /// Returns the whole page.
    pub fn html(&self) -> String {
        let heading = html! {
            p { a href="/" { "All pipelines" } }
            h1 { (self.row.pipeline) }
            p { "run of " (self.row.begun) @if !self.row.words.is_empty() { ": " code { "ppgnn run " (self.row.words) } } }
        };
        page::live(&self.row.pipeline, &frame(&heading, &self.part()))
    }

    /// Returns the part of it that changes.
    pub fn part_html(&self) -> String {
        visible(&self.part().into_string())
    }

    fn part(&self) -> Markup {
        let run = self.run;
        html! {
            section aria-label="Progress" {
                (progress(&self.row))
                dl.about {
                    @for (what, count) in [("in the store", run.hits), ("computed", run.ran), ("failed", run.failed), ("not started", run.skipped)] {
                        div { dt { (what) } dd { (count) } }
                    }
                    @if let (State::Running(_), Some([_, least, most, _])) = (self.row.state, run.left) {
                        div { dt { "left" } dd { (duration_text(least)) " to " (duration_text(most)) } }
                    }
                    div { dt { "log" } dd { a href=(address(&["log", &self.row.log])) { (bytes_text(self.bytes)) } } }
                    @if let Some(report) = &self.report { div { dt { "results" } dd { a href=(report) { "Report" } } } }
                }
            }
            @if !run.failures.is_empty() { (told("failures", "Failures", &run.failures, true)) }
            @if !run.running.is_empty() {
                section aria-labelledby="h-now" {
                    h2 id="h-now" { "Running now" }
                    div.cards { @for one in &run.running { (training(one, run.elapsed)) } }
                }
            }
            section aria-labelledby="h-tables" {
                h2 id="h-tables" { @if run.ended.is_some() { "Tables" } @else { "Tables so far" } }
                @if let Some(why) = self.no_tables { p { (why) } }
                @for (at, table) in self.tables.iter().enumerate() { (plain_table(at, table)) }
            }
            @if !run.warnings.is_empty() { (told("warnings", "Warnings", &run.warnings, false)) }
            details id="last-lines" {
                summary { "The last lines of the log" }
                pre id="log" tabindex="0" { @for line in &run.last { (line) "\n" } }
            }
        }
    }
}

fn frame(heading: &Markup, part: &Markup) -> Markup {
    html! {
        a.skip href="#main" { "Skip to the results" }
        header { (heading) p id="said" role="status" aria-live="polite" {} }
        main id="main" { (part) }
    }
}

fn card(pipeline: &PipelineRow) -> Markup {
    html! {
        div.card {
            h2 { (pipeline.name) }
            p.hint { (pipeline.file) }
            @if let Some(problem) = &pipeline.problem { p.lacks { (problem) } }
            @if let Some(run) = &pipeline.latest {
                p { a href=(address(&["run", &run.log])) { "Run of " (run.begun) } }
                (progress(run))
            } @else { p { "No run yet." } }
            @if !pipeline.reports.is_empty() {
                p { "Reports: " @for (name, link) in &pipeline.reports { a href=(link) { (name) } " " } }
            }
        }
    }
}

fn progress(run: &RunRow) -> Markup {
    let (done, needed) = (run.nodes.0, run.nodes.1.max(run.nodes.0));
    let share = match run.state {
        State::Running(Some((share, _))) => share,
        #[expect(clippy::cast_precision_loss, reason = "counts of nodes are far below 2^53")]
        _ if needed > 0 => done as f64 / needed as f64,
        _ => 0.0,
    };
    html! {
        p.state { (state(run)) ": " (done) " of " (needed) " nodes" @if run.failed > 0 { ", " strong { (run.failed) " failed" } } }
        progress max="1" value=(format!("{:.4}", share.clamp(0.0, 1.0))) aria-label="Share of the work that is done" {}
    }
}

fn state(run: &RunRow) -> String {
    match run.state {
        State::Running(None) => "running".into(),
        State::Running(Some((share, left))) => {
            format!("running, {:.0} % of the work, about {} left", 100.0 * share, duration_text(left))
        }
        State::Ended(seconds) => format!("ended after {}", duration_text(seconds)),
        State::Interrupted => "interrupted; the next run goes on".into(),
        State::Died => "ended without a word: killed, or the machine stopped; the next run goes on".into(),
    }
}

fn runs(runs: &[RunRow]) -> Markup {
    html! {
        div.scroll id="all-runs" tabindex="0" role="region" aria-labelledby="h-runs" {
            table.left {
                thead { tr { @for title in ["begun", "pipeline", "state", "nodes", "failed", "command"] { th scope="col" { (title) } } } }
                tbody {
                    @for run in runs {
                        tr {
                            th scope="row" { a id={ "run-" (run.log) } href=(address(&["run", &run.log])) { (run.begun) } }
                            td { (run.pipeline) }
                            td { (state(run).split(';').next().unwrap_or_default()) }
                            td { (run.nodes.0) " of " (run.nodes.1) }
                            td { (run.failed) }
                            td { code { (run.words) } }
                        }
                    }
                }
            }
        }
    }
}

fn told(id: &str, title: &str, all: &[Told], open: bool) -> Markup {
    html! {
        section aria-labelledby={ "h-" (id) } {
            h2 id={ "h-" (id) } { (title) }
            details id={ "d-" (id) } open[open] {
                summary { "all " (all.len()) }
                @for one in all {
                    div.lacks { h4 { (one.node) } ul { @for line in &one.lines { li { (line) } } } }
                }
            }
        }
    }
}

fn training(one: &Training, now: f64) -> Markup {
    let share = if one.total > 0.0 { (one.done / one.total).clamp(0.0, 1.0) } else { 0.0 };
    html! {
        div.card {
            h3 { (one.node) }
            p { (duration_text((now - one.since).max(0.0))) @if one.total > 0.0 { ", " (format!("{:.0} %", 100.0 * share)) } }
            p.hint { (one.said) }
            @if one.curve.len() > 1 {
                (curve("training loss", "loss", &one.curve, |point| point[1]))
                (curve("validation score, %", "score", &one.curve, |point| point[2]))
            }
        }
    }
}

/// A line over the steps, between the least and the most value, which are written beside it.
fn curve(title: &str, class: &str, points: &[[f64; 3]], value: impl Fn(&[f64; 3]) -> f64) -> Markup {
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)))
    };
    let (from, to) = range(&mut points.iter().map(|point| point[0]));
    let (least, most) = range(&mut points.iter().map(&value));
    let at = |x: f64, (least, most): (f64, f64)| if most > least { (x - least) / (most - least) } else { 0.5 };
    let place = |point: &[f64; 3]| {
        let x = at(point[0], (from, to)) * CURVE.0;
        let y = (1.0 - at(value(point), (least, most))) * (CURVE.1 - 6.0) + 3.0;
        format!("{x:.1},{y:.1}")
    };
    let line = points.iter().map(place).collect::<Vec<_>>().join(" ");
    let words =
        format!("{title}: from {least:.3} to {most:.3}, now {:.3}", points.last().map(&value).unwrap_or_default());
    html! {
        figure.curve {
            svg viewBox=(format!("0 0 {} {}", CURVE.0, CURVE.1)) role="img" aria-label=(words) preserveAspectRatio="none" {
                polyline class=(class) points=(line) {}
            }
            figcaption { (words) }
        }
    }
}
