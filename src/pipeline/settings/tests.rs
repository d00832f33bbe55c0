use ppgnn_stages::built_in;
use serde_json::json;

use super::super::known::{FoundText, KnownDataset};
use super::super::problem::PipelineError;
use super::super::resolve::Pipeline;
use super::super::source::Source;
use super::*;

/// Settings of one model.
struct Models(&'static str);

impl Known for Models {
    fn datasets(&self) -> Vec<String> {
        Vec::new()
    }
    fn dataset(&self, _: &str) -> Option<Result<KnownDataset, PipelineError>> {
        None
    }
    fn model(&self, name: &str) -> Option<FoundText> {
        let text = format!("ppgnn: 1\nabout: a\nsource: b\n{}", self.0).into();
        (name == "gpr-gnn").then(|| Ok(Source { name: "gpr-gnn.yaml".into(), folder: "models".into(), text }))
    }
    fn bases(&self) -> Vec<String> {
        Vec::new()
    }
    fn base(&self, _: &str) -> Option<Source> {
        None
    }
}

const SET: &str = "settings:
  published:
    - tuned-for: c
      when: { train.init: random }
      otherwise: { from: those of others are used, train.lr: 0.3 }
    - tuned-for: c
      everywhere: { train.hidden: 8, evd.k: 9 }
      datasets:
        one: { train.lr: 0.1 }
        two: { like: one, train.alpha: 0.4 }
        three: { from: a guess is used, train.lr: 0.2 }
";

fn pipeline(settings: &str, more: &str, known: &dyn Known) -> Result<Pipeline, PipelineError> {
    let text = format!(
        "ppgnn: 1
name: p
{settings}
datasets: {{one: &d {{format: csbm}}, two: *d, three: *d, four: *d}}
stages:
  load: {{params: {{dataset: one}}}}
  normalize: {{inputs: {{graph: load}}}}
  train: {{inputs: {{operator: normalize, nodes: featurize, splits: split}}, params: {{model: mlp}}}}
  featurize: {{inputs: {{graph: load}}}}
  split: {{inputs: {{graph: load}}}}
{more}
"
    );
    Pipeline::of_text("p.yaml", &text, &built_in(), known)
}

const SWEEP: &str = "sweep: {axes: {load.dataset: [one, two, three, four], method: {M: {train.model: mlp}, G: {train.model: gpr-gnn}, R: {train.model: gpr-gnn, train.init: random}}}}";

/// What is set at every point, and the note.
fn presets(pipeline: &Pipeline) -> Vec<(String, Value, Option<&str>)> {
    let axes = &pipeline.sweep.axes;
    let one = |preset: &'_ Preset| {
        let at = preset.matches.iter().map(|(axis, at)| axes[*axis].values[at[0]].label.clone());
        let set = preset.settings.iter().map(|s| (format!("{}.{}", s.stage, s.param), s.value.value()));
        (at.collect::<Vec<_>>().join("/"), set.collect::<serde_json::Map<_, _>>().into())
    };
    pipeline.presets.iter().map(|p| (one(p).0, one(p).1, p.instead.as_deref())).collect()
}

#[test]
fn a_point_gets_the_settings_of_its_model_and_data_set_and_says_where_it_has_none() {
    let pipeline = pipeline("settings: published", SWEEP, &Models(SET)).unwrap_or_else(|e| panic!("{e}"));
    let found = presets(&pipeline);
    let at =
        |point: &str| found.iter().find(|(at, ..)| at == point).map(|(_, set, note)| (set.clone(), *note)).unwrap();
    assert_eq!(found.len(), 12);
    assert_eq!(at("one/G"), (json!({"train.hidden": 8, "train.lr": 0.1}), None));
    let both = json!({"train.hidden": 8, "train.lr": 0.1, "train.alpha": 0.4});
    assert_eq!(at("two/G"), (both, Some("no published settings: those for one are used")));
    let guess = json!({"train.hidden": 8, "train.lr": 0.2});
    assert_eq!(at("three/G"), (guess, Some("no published settings: a guess is used")));
    let none = Some("no published settings: those of the pipeline are used");
    assert_eq!(at("four/G"), (json!({"train.hidden": 8}), none));
    assert_eq!(at("one/M"), (json!({}), none));
    assert_eq!(at("one/R"), (json!({"train.lr": 0.3}), Some("no published settings: those of others are used")));
}

#[test]
fn the_sweep_and_the_command_line_decide_on_the_model() {
    let more =
        "sweep: {axes: {load.dataset: [one, two]}, when: [{match: {load.dataset: two}, set: {train.model: gpr-gnn}}]}";
    let pipeline = pipeline("settings: published", more, &Models(SET)).unwrap();
    let found = presets(&pipeline);
    assert_eq!(found[0].1, json!({}), "an MLP");
    assert_eq!(found[1].1, json!({"train.hidden": 8, "train.lr": 0.1, "train.alpha": 0.4}));
}

#[test]
fn nothing_is_set_unless_the_pipeline_asks_for_it() {
    assert!(pipeline("", SWEEP, &Models(SET)).unwrap().presets.is_empty());
}

fn problems(settings: &str, set: &'static str) -> String {
    let error = pipeline(settings, SWEEP, &Models(set)).map(|_| ()).unwrap_err();
    let lines = error.problems.iter().map(|p| format!("{}; {}", p.message, p.help.as_deref().unwrap_or("")));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn mistakes_are_reported() {
    assert_eq!(
        problems("settings: publishd", SET),
        "no model of the pipeline has settings `publishd`; did you mean `published`?"
    );
    assert!(problems("settings: published", "").contains("leave `settings` out"));
    let wrong = "settings: {published: {tuned-for: c, datasets: {one: {like: two}, two: {like: one}, three: {lr: 0.1}}, others: {}}}";
    let found = problems("settings: published", wrong);
    for part in
        ["a set of settings has no `others`", "no settings for `two` stand beside it", "`lr` does not name a parameter"]
    {
        assert!(found.contains(part), "{found}");
    }
    let untold = problems("settings: published", "settings: {published: {otherwise: {train.lr: 1}}}");
    assert!(untold.contains("missing `tuned-for`") && untold.contains("missing `from`"), "{untold}");
}
