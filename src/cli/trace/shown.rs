//! A traced cell as text for people, and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ppgnn_stages::kinds::Picked;
use serde_json::{Value, json};

use super::Traced;
use crate::cli::evidence::{Input, Run, Setting};
use crate::pipeline::text_of;
use crate::report::duration_text;

/// Values that are longer are cut in text.
const LONGEST: usize = 100;

impl Traced<'_> {
    /// Returns all of it.
    pub(super) fn json(&self, code: u8) -> Value {
        let table = self.plan.node(self.output.node);
        let reference = table.ingredients.params.get("reference").filter(|reference| !reference.is_null());
        let about = json!({
            "name": self.output.name, "title": self.table.as_ref().map(|table| &table.title), "key": self.key,
            "stage": table.stage.name, "version": table.ingredients.version, "reference": reference,
        });
        let commands = &self.commands;
        json!({
            "version": 1, "pipeline": self.plan.pipeline, "profile": self.plan.profile, "table": about, "row": self.row,
            "column": self.column, "metric": self.shows(), "shown": self.shown, "cell": self.cell, "absent": self.absent,
            "evidence": self.evidence, "ppgnn": env!("CARGO_PKG_VERSION"), "exit-code": code,
            "commands": {"compute": commands.compute, "export": commands.export, "table": commands.table},
        })
    }

    /// Returns it for people.
    pub(super) fn text(&self) -> String {
        let key = self.key.map(|key| format!(" {}", key.short())).unwrap_or_default();
        let mut out = format!("{}, {} of table {}{key}\n", self.row, self.column, self.output.name);
        match (&self.cell, &self.absent) {
            (Some(cell), _) => {
                let values = if cell.n == 1 { "1 value".to_owned() } else { format!("{} values", cell.n) };
                let _ = writeln!(out, "{}: {}, {values}", self.shows(), self.shown);
            }
            (None, why) => {
                let _ = writeln!(out, "no value: {}", why.as_deref().unwrap_or_default());
            }
        }
        if let Some(picked) = self.cell.as_ref().and_then(|cell| cell.picked.as_ref()) {
            push_picked(&mut out, picked);
        }
        for run in &self.evidence.runs {
            self.push_run(&mut out, run);
        }
        let (defaults, set): (Vec<&Setting>, Vec<_>) =
            self.evidence.settings.iter().partition(|setting| setting.default);
        section(&mut out, "settings that are not the default", set.iter().map(|setting| one(setting)));
        // What is off unless it is set says nothing; JSON has it.
        let on: Vec<&Setting> = defaults.into_iter().filter(|setting| !setting.value.is_null()).collect();
        section(&mut out, "defaults", by_stage(&on));
        let files = self.evidence.data.iter();
        let files =
            files.map(|file| format!("{} {}: {}, BLAKE3 {}", file.node, file.parameter, file.file, file.blake3));
        section(&mut out, "data files", files);
        section(&mut out, "made from", self.evidence.inputs.iter().map(artifact));
        let profiles: BTreeSet<&String> = self.evidence.inputs.iter().map(|input| &input.profile).collect();
        section(&mut out, "numeric profile", profiles.into_iter().cloned());
        let made_by: BTreeSet<&String> = self.evidence.inputs.iter().filter_map(|input| input.ppgnn.as_ref()).collect();
        section(&mut out, "made by", made_by.into_iter().map(|version| format!("ppgnn {version}")));
        section(&mut out, "notes", self.cell.iter().flat_map(|cell| cell.notes.iter().cloned()));
        let commands = &self.commands;
        section(&mut out, "commands", [&commands.compute, &commands.export, &commands.table].into_iter().cloned());
        out
    }

    fn push_run(&self, out: &mut String, run: &Run) {
        let state = if run.computed { "" } else { ", not in the store" };
        let _ = writeln!(out, "\nrun {} {}{state}", run.id, &run.key[..12]);
        let about = [("data set", &run.dataset), ("model", &run.model)];
        let mut words: Vec<String> =
            about.iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?))).collect();
        words.extend(run.seeds.iter().map(|(stage, seed)| format!("seed of {stage} {seed}")));
        words.extend(run.seconds.map(|seconds| format!("trained in {}", duration_text(seconds))));
        let _ = writeln!(out, "  {}", words.join(", "));
        for setting in &run.settings {
            let default = if setting.default { " (default)" } else { "" };
            let _ = writeln!(out, "  {}{default}", one(setting));
        }
        for search in &run.searched {
            let score = search.score.map(|score| format!(" {score:.4}")).unwrap_or_default();
            let settings: Vec<String> =
                search.settings.iter().map(|(path, value)| format!("{path}={}", text_of(value))).collect();
            let _ = writeln!(
                out,
                "  searched: trial {} of {} for {} ({}, {}{score}): {}",
                search.trial,
                search.of,
                search.point,
                search.sampler,
                search.objective,
                settings.join(" ")
            );
        }
        if !run.splits.is_empty() {
            let title = self.shows();
            let width = title.chars().count();
            let _ = writeln!(out, "  split  {title}  chosen epoch");
            for split in &run.splits {
                let value = split.value.map_or_else(|| "–".to_owned(), |value| self.number(value));
                let why = split.undefined.as_ref().map(|why| format!("  {why}")).unwrap_or_default();
                let epoch = split.chosen_epoch.map_or_else(|| "–".to_owned(), |epoch| epoch.to_string());
                let _ = writeln!(out, "  {:>5}  {value:>width$}  {epoch:>12}{why}", split.split);
            }
        }
    }

    /// What the cell shows.
    fn shows(&self) -> String {
        let of_table = || self.table.as_ref().map(|table| table.shows(self.at));
        self.metric.as_ref().map(ToString::to_string).or_else(of_table).unwrap_or_default()
    }

    /// A value as the table shows it.
    fn number(&self, value: f64) -> String {
        match &self.table {
            Some(table) => table.shown_number(self.at, value),
            None => value.to_string(),
        }
    }
}

fn push_picked(out: &mut String, picked: &Picked) {
    let _ = writeln!(out, "\npicked by {} out of {}", picked.metric, picked.candidates.len() + picked.left_out.len());
    for (at, candidate) in picked.candidates.iter().enumerate() {
        let mark = if at == picked.chosen { "  chosen" } else { "" };
        let _ = writeln!(out, "  {:.4}  {}{mark}", candidate.pick, candidate.label);
    }
    for left_out in &picked.left_out {
        let _ = writeln!(out, "  left out  {}: {}", left_out.label, left_out.why);
    }
}

/// Lines below a heading; nothing where there are none.
fn section(out: &mut String, heading: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.map(|line| format!("  {line}\n")).collect();
    if !lines.is_empty() {
        let _ = write!(out, "\n{heading}\n{}", lines.concat());
    }
}

fn one(setting: &Setting) -> String {
    format!("{}.{}: {}", setting.stage, setting.parameter, short(&setting.value))
}

/// A line per stage.
fn by_stage(settings: &[&Setting]) -> impl Iterator<Item = String> {
    let stages = settings.chunk_by(|a, b| a.stage == b.stage);
    let of_stage = |settings: &[&Setting]| {
        let words: Vec<String> =
            settings.iter().map(|setting| format!("{} {}", setting.parameter, short(&setting.value))).collect();
        format!("{}: {}", settings[0].stage, words.join(", "))
    };
    stages.map(of_stage).collect::<Vec<_>>().into_iter()
}

fn artifact(input: &Input) -> String {
    let chosen = input.chosen.as_ref().map(|row| format!(", {row}")).unwrap_or_default();
    let state = if input.computed { "" } else { ", not in the store" };
    let (key, id, kind) = (&input.key[..12], &input.id, input.kind);
    format!("{key}  {id}: {kind}, {} version {}{chosen}{state}", input.stage, input.version)
}

fn short(value: &Value) -> String {
    let text = text_of(value);
    if text.chars().count() > LONGEST {
        format!("{}…", text.chars().take(LONGEST - 1).collect::<String>())
    } else {
        text
    }
}
