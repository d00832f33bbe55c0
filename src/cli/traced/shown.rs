//! A traced cell as text for people, and as JSON.

use std::collections::BTreeSet;

use ppgnn_stages::kinds::Picked;
use serde_json::{Value, json};

use super::Traced;
use crate::cli::evidence::{Input, Run, Setting, Split};
use crate::pipeline::text_of;
use crate::report::{Grid, Section, duration_text};

/// Values that are longer are cut in text.
const LONGEST: usize = 100;

impl Traced<'_> {
    /// Returns all of it.
    pub fn json(&self, code: u8) -> Value {
        let (plan, output) = (self.of.stored.plan, self.of.output);
        let table = plan.node(output.node);
        let reference = table.ingredients.params.get("reference").filter(|reference| !reference.is_null());
        let about = json!({
            "name": output.name, "title": self.of.table.as_ref().map(|table| &table.title), "key": self.of.key,
            "stage": table.stage.name, "version": table.ingredients.version, "reference": reference,
        });
        let commands = &self.commands;
        json!({
            "version": 1, "pipeline": plan.pipeline, "profile": plan.profile, "table": about, "row": self.row,
            "column": self.column, "metric": self.shows(), "shown": self.shown, "cell": self.cell, "absent": self.absent,
            "evidence": self.evidence, "ppgnn": env!("CARGO_PKG_VERSION"), "exit-code": code,
            "commands": {"compute": commands.compute, "export": commands.export, "table": commands.table},
        })
    }

    /// Returns it for people.
    pub fn text(&self) -> String {
        let key = self.of.key.map(|key| format!(" {}", key.short())).unwrap_or_default();
        let mut out = format!("{}, {} of table {}{key}\n", self.row, self.column, self.of.output.name);
        out += &self.headline();
        out += "\n";
        out.extend(self.sections().iter().map(Section::text));
        out
    }

    /// The value, or why there is none.
    pub fn headline(&self) -> String {
        match (self.cell, &self.absent) {
            (Some(cell), _) => {
                let values = if cell.n == 1 { "1 value".to_owned() } else { format!("{} values", cell.n) };
                format!("{}: {}, {values}", self.shows(), self.shown)
            }
            (None, why) => format!("no value: {}", why.as_deref().unwrap_or_default()),
        }
    }

    /// What is behind the value, part by part.
    pub fn sections(&self) -> Vec<Section> {
        let picked = self.cell.and_then(|cell| cell.picked.as_ref()).map(picked);
        let mut all: Vec<Section> = picked.into_iter().collect();
        all.extend(self.evidence.runs.iter().map(|run| self.run(run)));
        let (defaults, set): (Vec<&Setting>, Vec<_>) =
            self.evidence.settings.iter().partition(|setting| setting.default);
        let mut add = |heading, lines: Vec<String>| all.extend(Section::of_lines(heading, lines));
        add("settings that are not the default", set.into_iter().map(one).collect());
        // What is off unless it is set says nothing; JSON has it.
        let on: Vec<&Setting> = defaults.into_iter().filter(|setting| !setting.value.is_null()).collect();
        add("defaults", by_stage(&on));
        let files = self.evidence.data.iter();
        let files =
            files.map(|file| format!("{} {}: {}, BLAKE3 {}", file.node, file.parameter, file.file, file.blake3));
        add("data files", files.collect());
        add("made from", self.evidence.inputs.iter().map(artifact).collect());
        let profiles: BTreeSet<&String> = self.evidence.inputs.iter().map(|input| &input.profile).collect();
        add("numeric profile", profiles.into_iter().cloned().collect());
        let made_by: BTreeSet<&String> = self.evidence.inputs.iter().filter_map(|input| input.ppgnn.as_ref()).collect();
        add("made by", made_by.into_iter().map(|version| format!("ppgnn {version}")).collect());
        add("notes", self.cell.map(|cell| cell.notes.clone()).unwrap_or_default());
        let commands = &self.commands;
        add("commands", [&commands.compute, &commands.export, &commands.table].map(Clone::clone).to_vec());
        all
    }

    fn run(&self, run: &Run) -> Section {
        let state = if run.computed { "" } else { ", not in the store" };
        let about = [("data set", &run.dataset), ("model", &run.model)];
        let mut words: Vec<String> =
            about.iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?))).collect();
        words.extend(run.seeds.iter().map(|(stage, seed)| format!("seed of {stage} {seed}")));
        words.extend(run.seconds.map(|seconds| format!("trained in {}", duration_text(seconds))));
        let default = |setting: &Setting| if setting.default { " (default)" } else { "" };
        let mut lines = vec![words.join(", ")];
        lines.extend(run.settings.iter().map(|setting| format!("{}{}", one(setting), default(setting))));
        for search in &run.searched {
            let score = search.score.map(|score| format!(" {score:.4}")).unwrap_or_default();
            let settings: Vec<String> =
                search.settings.iter().map(|(path, value)| format!("{path}={}", text_of(value))).collect();
            lines.push(format!(
                "searched: trial {} of {} for {} ({}, {}{score}): {}",
                search.trial,
                search.of,
                search.point,
                search.sampler,
                search.objective,
                settings.join(" ")
            ));
        }
        let row = |split: &Split| {
            let value = split.value.map_or_else(|| "–".to_owned(), |value| self.number(value));
            let epoch = split.chosen_epoch.map_or_else(|| "–".to_owned(), |epoch| epoch.to_string());
            vec![split.split.to_string(), value, epoch, split.undefined.clone().unwrap_or_default()]
        };
        let columns = ["split".to_owned(), self.shows(), "chosen epoch".to_owned(), String::new()].to_vec();
        let grid = || Grid { columns, rows: run.splits.iter().map(row).collect() };
        Section {
            heading: format!("run {} {}{state}", run.id, &run.key[..12]),
            lines,
            grid: (!run.splits.is_empty()).then(grid),
        }
    }

    /// What the cell shows.
    fn shows(&self) -> String {
        let of_table = || self.of.table.as_ref().map(|table| table.shows(self.at));
        self.of.planned.metric().as_ref().map(ToString::to_string).or_else(of_table).unwrap_or_default()
    }

    /// A value as the table shows it.
    fn number(&self, value: f64) -> String {
        match &self.of.table {
            Some(table) => table.shown_number(self.at, value),
            None => value.to_string(),
        }
    }
}

fn picked(picked: &Picked) -> Section {
    let mut lines = Vec::new();
    for (at, candidate) in picked.candidates.iter().enumerate() {
        let mark = if at == picked.chosen { "  chosen" } else { "" };
        lines.push(format!("{:.4}  {}{mark}", candidate.pick, candidate.label));
    }
    lines.extend(picked.left_out.iter().map(|left_out| format!("left out  {}: {}", left_out.label, left_out.why)));
    let of = picked.candidates.len() + picked.left_out.len();
    Section { heading: format!("picked by {} out of {of}", picked.metric), lines, grid: None }
}

fn one(setting: &Setting) -> String {
    format!("{}.{}: {}", setting.stage, setting.parameter, short(&setting.value))
}

/// A line per stage.
fn by_stage(settings: &[&Setting]) -> Vec<String> {
    let stages = settings.chunk_by(|a, b| a.stage == b.stage);
    let of_stage = |settings: &[&Setting]| {
        let words: Vec<String> =
            settings.iter().map(|setting| format!("{} {}", setting.parameter, short(&setting.value))).collect();
        format!("{}: {}", settings[0].stage, words.join(", "))
    };
    stages.map(of_stage).collect()
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
