//! A figure as written: its kind, what varies, and what is shown.
//!
//! A kind is a stage that draws: one whose name starts with [`PREFIX`] and that produces [`KIND`].

use ppgnn_stages::contract::params::{list, nearest_help};
use ppgnn_stages::contract::{Kind, Registry, StageDef};

use super::file::{TableEntry, Words};
use super::reader::Reader;
use super::yaml::{Key, Node};

/// What the names of stages that draw start with; the rest is the kind of figure.
pub const PREFIX: &str = "draw-";
/// What such stages produce.
pub const KIND: Kind = Kind("figure");
/// The parameter in which the planner says what is shown.
pub const SHOWN: &str = "shown";

/// A figure, as written.
#[derive(Debug)]
pub struct FigureEntry {
    /// Name of the stage that draws it.
    pub stage: &'static str,
    /// What it shows: its lines or panels are rows, and what goes along x are columns.
    pub shown: TableEntry,
}

const FIGURE: Words = Words {
    whole: "figure",
    part: "mark",
    neither: "is neither `x` nor in `each`",
    sides: "add it to `each`, give it as `x`, fix it under `where`, or average over it with `pool`",
};

/// Lists the stages that draw, with the kinds of figures that they are for.
pub fn figure_kinds(registry: &Registry) -> impl Iterator<Item = (&'static str, &'static StageDef)> {
    let drawing = registry.stages().filter(|stage| stage.output == KIND);
    drawing.filter_map(|stage| Some((stage.name.strip_prefix(PREFIX)?, stage)))
}

/// Returns the parameters of a kind of figure that a person writes.
pub fn figure_params(stage: &StageDef, registry: &Registry) -> serde_json::Map<String, serde_json::Value> {
    stage.written_by_hand(registry)
}

/// Whether a kind of figure has an axis of the sweep along x: it marks the parameter in which the planner says what is shown.
pub fn goes_along_x(stage: &StageDef, registry: &Registry) -> bool {
    stage.own_schema(registry)["properties"][SHOWN].get("x-along").is_some()
}

impl Reader<'_> {
    pub(super) fn figure(&mut self, name: &Key, node: &Node, registry: &Registry) -> Option<FigureEntry> {
        self.output_name(name);
        let kinds: Vec<(&str, &'static StageDef)> = figure_kinds(registry).collect();
        let names = || kinds.iter().map(|(kind, _)| *kind);
        let entries = self.map(Some(node));
        let Some(kind) = node.get("kind").and_then(|kind| self.text(kind)) else {
            let help = format!("a figure has a `kind`: {}", list(names()));
            return self.problems.refuse(&name.span, format!("figure `{}` has no `kind`", name.name), Some(help));
        };
        let Some((_, stage)) = kinds.iter().find(|(known, _)| *known == kind.name) else {
            let help = nearest_help(&kind.name, names());
            return self.problems.refuse(&kind.span, format!("there is no figure `{}`", kind.name), Some(help));
        };
        let params = figure_params(stage, registry);
        let of_sweep: &[&str] = match (stage.inputs.is_empty(), goes_along_x(stage, registry)) {
            (true, _) => &["kind"],
            (false, false) => &["kind", "each", "pool", "from", "where"],
            (false, true) => &["kind", "x", "each", "pool", "from", "where"],
        };
        let known: Vec<&str> = of_sweep.iter().copied().chain(params.keys().map(String::as_str)).collect();
        self.only(node, &known, &format!("a figure of kind `{}`", kind.name));
        let x = self.texts(node.get("x"));
        if of_sweep.contains(&"x") && x.len() != 1 {
            let message =
                format!("figure `{}` has {} axes along x", name.name, if x.is_empty() { "no" } else { "several" });
            let help = "name one axis of the sweep: `x: train.order`; others go into `each`";
            self.problems.add(&name.span, message, Some(help.into()));
        }
        let shown = TableEntry {
            words: &FIGURE,
            name: name.clone(),
            rows: self.texts(node.get("each")),
            columns: x,
            pool: self.texts(node.get("pool")),
            from: node.get("from").and_then(|from| self.text(from)),
            filter: self.matches(node.get("where")),
            params: entries.iter().filter(|(key, _)| params.contains_key(&key.name)).cloned().collect(),
        };
        Some(FigureEntry { stage: stage.name, shown })
    }
}
