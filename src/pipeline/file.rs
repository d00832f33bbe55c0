//! The pipeline file as written: a struct for each part of the format, with places, and no meaning yet.
//!
//! Reading is by hand and not by `serde`, because all mistakes should be reported at once, each at its place.

use std::collections::HashSet;

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::params::list;
use serde_json::Value;

use super::device::DeviceRequest;
use super::document::Setting;
use super::figure::FigureEntry;
use super::problem::Problems;
use super::reader::{Reader, one_or_many};
use super::search::SearchEntry;
use super::yaml::{Data, Key, Node};

/// The stage that makes tables.
pub const TABLE_STAGE: &str = "tabulate";

/// What happens if the data of a known data set is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentData {
    /// Nothing is run.
    #[default]
    Fail,
    /// Everything else is run, and tables say what is missing.
    Skip,
}

/// A pipeline file, as written.
#[derive(Debug, Default)]
pub struct PipelineFile {
    /// Name of the pipeline.
    pub name: String,
    /// What happens if data is missing.
    pub absent: AbsentData,
    /// What stages that compute on a device should use.
    pub device: DeviceRequest,
    /// The set of settings that models start from.
    pub settings: Option<Key>,
    /// Data sets by name: parameters of `load`.
    pub datasets: Vec<(Key, Node)>,
    /// Stages by name.
    pub stages: Vec<StageEntry>,
    /// The sweep.
    pub sweep: SweepEntry,
    /// The search.
    pub search: Option<SearchEntry>,
    /// Tables by name.
    pub tables: Vec<TableEntry>,
    /// Figures by name.
    pub figures: Vec<FigureEntry>,
    /// What readers of any table must know.
    pub notes: Vec<Key>,
}

/// A stage, as written.
#[derive(Debug)]
pub struct StageEntry {
    /// Name in the pipeline.
    pub name: Key,
    /// Name of the stage it uses; its own name unless said otherwise.
    pub uses: Key,
    /// Slot and the stages wired to it.
    pub inputs: Vec<(Key, Vec<Key>)>,
    /// Parameters.
    pub params: Vec<(Key, Node)>,
}

/// A value of an axis.
#[derive(Clone, Debug)]
pub struct AxisValue {
    /// Its label.
    pub label: String,
    /// What it sets.
    pub settings: Vec<Setting>,
}

/// An axis of the sweep.
#[derive(Clone, Debug)]
pub struct AxisEntry {
    /// Its name; `stage.param` where it varies one parameter.
    pub name: Key,
    /// The parameter it varies, if it is one.
    pub path: Option<(String, String)>,
    /// Its values.
    pub values: Vec<AxisValue>,
}

/// An axis and values of it.
pub type Match = (Key, Vec<Node>);

/// The sweep, as written.
#[derive(Debug, Default)]
pub struct SweepEntry {
    /// Axes; without `zip` they form a grid.
    pub axes: Vec<AxisEntry>,
    /// Groups of axes that advance together.
    pub zip: Vec<Vec<Key>>,
    /// Points to add to the grid.
    pub include: Vec<Vec<Match>>,
    /// Points to leave out of the grid.
    pub exclude: Vec<Vec<Match>>,
    /// Parameters and axes that apply only to some points.
    pub when: Vec<WhenEntry>,
}

/// What applies only to some points, as written.
#[derive(Debug, Default)]
pub struct WhenEntry {
    /// The points.
    pub matches: Vec<Match>,
    /// What to set there.
    pub settings: Vec<Setting>,
    /// Axes that only these points have.
    pub axes: Vec<AxisEntry>,
    /// What readers of tables must know of these points.
    pub note: Option<String>,
}

/// What parts of a table, or of a figure, are called in messages.
#[derive(Debug)]
pub struct Words {
    /// The whole.
    pub whole: &'static str,
    /// A part that runs stand in.
    pub part: &'static str,
    /// What an axis that tells parts apart is not.
    pub neither: &'static str,
    /// Where such an axis could be written.
    pub sides: &'static str,
}

const TABLE: Words = Words {
    whole: "table",
    part: "cell",
    neither: "is neither a row nor a column",
    sides: "add it to `rows` or `columns`, fix it under `where`, average over it with `pool`, or let `pick: val-accuracy` choose",
};

/// A table, as written.
#[derive(Debug)]
pub struct TableEntry {
    /// What it is called in messages.
    pub words: &'static Words,
    /// Its name.
    pub name: Key,
    /// Axes down the side.
    pub rows: Vec<Key>,
    /// Axes across the top.
    pub columns: Vec<Key>,
    /// Axes whose runs are pooled into one cell.
    pub pool: Vec<Key>,
    /// The stage whose metrics are shown.
    pub from: Option<Key>,
    /// Points it is limited to.
    pub filter: Vec<Match>,
    /// Parameters of `tabulate` (metric, title, …).
    pub params: Vec<(Key, Node)>,
}

/// Reads the merged document.
pub fn read(root: &Node, registry: &Registry, problems: &mut Problems) -> PipelineFile {
    let known = [
        "ppgnn",
        "name",
        "about",
        "extends",
        "absent-data",
        "device",
        "settings",
        "datasets",
        "stages",
        "sweep",
        "search",
        "tables",
        "figures",
        "notes",
        "profiles",
    ];
    let mut file = PipelineFile::default();
    let table = registry.stage(TABLE_STAGE).map(|stage| stage.written_by_hand(registry)).unwrap_or_default();
    let table_params: Vec<String> = table.into_iter().map(|(name, _)| name).collect();
    let mut reader = Reader { problems };
    reader.only(root, &known, "a pipeline file");
    let name = reader.required(root, "name", Some("add `name: my-experiment`".into()));
    if let Some(name) = name.and_then(|node| reader.text(node)) {
        reader.file_name(&name);
        file.name = name.name;
    }
    if let Some(about) = root.get("about") {
        reader.text(about);
    }
    if let Some(node) = root.get("absent-data") {
        match node.value().as_str() {
            Some("fail") => {}
            Some("skip") => file.absent = AbsentData::Skip,
            _ => reader.expected(node, "`fail` or `skip`"),
        }
    }
    if let Some(device) = root.get("device") {
        file.device = reader.device(device);
    }
    file.settings = root.get("settings").and_then(|node| reader.text(node));
    file.datasets = reader.map(root.get("datasets")).to_vec();
    for (_, node) in &file.datasets {
        reader.map(Some(node));
    }
    let stages = reader.required(root, "stages", None);
    file.stages = reader.map(stages).iter().map(|(k, n)| reader.stage(k, n)).collect();
    if let Some(sweep) = root.get("sweep") {
        file.sweep = reader.sweep(sweep);
    }
    file.search = root.get("search").and_then(|node| reader.search(node));
    file.tables = reader.map(root.get("tables")).iter().map(|(k, n)| reader.table(k, n, &table_params)).collect();
    file.figures = reader.map(root.get("figures")).iter().filter_map(|(k, n)| reader.figure(k, n, registry)).collect();
    file.notes = reader.texts(root.get("notes"));
    file
}

impl Reader<'_> {
    fn device(&mut self, node: &Node) -> DeviceRequest {
        let Value::String(text) = node.value() else {
            self.expected(node, DeviceRequest::EXPECTED);
            return DeviceRequest::default();
        };
        text.parse().unwrap_or_else(|why: String| {
            self.problems.add(&node.span, format!("`{text}` is not a device: {why}"), None);
            DeviceRequest::default()
        })
    }

    /// The name of a pipeline or table becomes a file name.
    pub(super) fn file_name(&mut self, key: &Key) {
        let fine = key.name.chars().all(|c| c.is_alphanumeric() || "-_.+".contains(c));
        if !fine || key.name.is_empty() || key.name.starts_with('.') || key.name.len() > 100 {
            let message = format!("`{}` cannot name a file", key.name);
            self.problems.add(&key.span, message, Some("use letters, digits, `-` and `_`".into()));
        }
    }

    fn stage(&mut self, name: &Key, node: &Node) -> StageEntry {
        self.only(node, &["uses", "inputs", "params"], "a stage");
        if name.name.contains(['.', '/', '*']) || name.name.is_empty() {
            let help = Some("use letters, digits and `-`".into());
            self.problems.add(&name.span, format!("`{}` cannot name a stage", name.name), help);
        }
        self.map(Some(node));
        let uses = node.get("uses").and_then(|n| self.text(n)).unwrap_or_else(|| name.clone());
        let inputs = self.map(node.get("inputs")).iter().map(|(k, n)| (k.clone(), self.texts(Some(n)))).collect();
        let params = self.map(node.get("params")).to_vec();
        StageEntry { name: name.clone(), uses, inputs, params }
    }

    fn sweep(&mut self, node: &Node) -> SweepEntry {
        self.only(node, &["axes", "zip", "include", "exclude", "when"], "a sweep");
        self.map(Some(node));
        let axes = self.map(node.get("axes")).iter().map(|(k, n)| self.axis(k, n)).collect();
        let zip = self.list(node.get("zip")).iter().map(|n| self.zipped(n)).collect();
        let include = self.list(node.get("include")).iter().map(|n| self.matches(Some(n))).collect();
        let exclude = self.list(node.get("exclude")).iter().map(|n| self.matches(Some(n))).collect();
        let when = self.list(node.get("when")).iter().map(|n| self.when(n)).collect();
        SweepEntry { axes, zip, include, exclude, when }
    }

    fn zipped(&mut self, node: &Node) -> Vec<Key> {
        if !matches!(node.data, Data::List(_)) {
            let help = Some("write groups: `zip: [[first.axis, second.axis]]`".into());
            self.problems.add(&node.span, "expected a group of axes that advance together", help);
            return Vec::new();
        }
        self.texts(Some(node))
    }

    fn axis(&mut self, name: &Key, node: &Node) -> AxisEntry {
        let mut axis = AxisEntry { name: name.clone(), path: None, values: Vec::new() };
        match &node.data {
            Data::List(items) => {
                let Some((stage, param)) = split_path(name) else {
                    let help = "name the axis `stage.parameter`, or give it labelled values: `{A: {train.lr: 0.1}, …}`";
                    let message = format!("axis `{}` lists values, but names no parameter to set", name.name);
                    self.problems.add(&name.span, message, Some(help.into()));
                    return axis;
                };
                let setting = |value: &Node| Setting {
                    stage: stage.clone(),
                    param: param.clone(),
                    span: name.span.clone(),
                    value: value.clone(),
                };
                let value = |n: &Node| AxisValue { label: label(n), settings: vec![setting(n)] };
                axis.values = items.iter().map(value).collect();
                axis.path = Some((stage, param));
            }
            Data::Map(entries) => {
                let value =
                    |(k, n): &(Key, Node)| AxisValue { label: k.name.clone(), settings: self.settings(Some(n)) };
                axis.values = entries.iter().map(value).collect();
            }
            Data::Scalar(_) => {
                self.expected(node, "a list of values, or labels with what each one sets");
                return axis;
            }
        }
        if axis.values.is_empty() {
            self.problems.add(&node.span, format!("axis `{}` has no values", name.name), None);
        }
        let mut labels = HashSet::new();
        for value in axis.values.iter().filter(|value| !labels.insert(&value.label)) {
            let message = format!("axis `{}` has the value `{}` twice", name.name, value.label);
            self.problems.add(&node.span, message, None);
        }
        axis
    }

    pub(super) fn settings(&mut self, node: Option<&Node>) -> Vec<Setting> {
        let mut settings = Vec::new();
        for (key, value) in self.map(node) {
            match split_path(key) {
                Some((stage, param)) => {
                    settings.push(Setting { stage, param, span: key.span.clone(), value: value.clone() });
                }
                None => {
                    let help = Some("write `stage.parameter`, for example `train.lr`".into());
                    self.problems.add(&key.span, format!("`{}` does not name a parameter", key.name), help);
                }
            }
        }
        settings
    }

    pub(super) fn matches(&mut self, node: Option<&Node>) -> Vec<Match> {
        self.map(node).iter().map(|(key, value)| (key.clone(), one_or_many(value).to_vec())).collect()
    }

    fn when(&mut self, node: &Node) -> WhenEntry {
        self.only(node, &["match", "set", "axes", "note"], "an entry of `when`");
        let help = || Some("write `{match: {axis: value}, set: {stage.parameter: value}}`".into());
        if node.get("match").is_none() {
            self.problems.add(&node.span, "missing `match`", help());
        }
        if ["set", "axes", "note"].iter().all(|field| node.get(field).is_none()) {
            self.problems.add(&node.span, "missing `set`, `axes` or `note`", help());
        }
        WhenEntry {
            matches: self.matches(node.get("match")),
            settings: self.settings(node.get("set")),
            axes: self.map(node.get("axes")).iter().map(|(k, n)| self.axis(k, n)).collect(),
            note: node.get("note").and_then(|note| self.text(note)).map(|note| note.name),
        }
    }

    /// The name of what is published becomes that of its files.
    pub(super) fn output_name(&mut self, name: &Key) {
        self.file_name(name);
        if name.name == "published" {
            self.problems.add(&name.span, "`published` is the name of the record beside the tables", None);
        }
    }

    /// `passed_on`: parameters of [`TABLE_STAGE`] that a table may have.
    fn table(&mut self, name: &Key, node: &Node, passed_on: &[String]) -> TableEntry {
        self.output_name(name);
        const OWN: [&str; 5] = ["rows", "columns", "pool", "from", "where"];
        let known: Vec<&str> = OWN.into_iter().chain(passed_on.iter().map(String::as_str)).collect();
        self.only(node, &known, "a table");
        let entries = self.map(Some(node));
        for field in ["rows", "columns"] {
            if node.get(field).is_none() {
                let help = Some(format!("a table has {}", list(["rows", "columns", "metric"].into_iter())));
                self.problems.add(&name.span, format!("table `{}` has no `{field}`", name.name), help);
            }
        }
        TableEntry {
            words: &TABLE,
            name: name.clone(),
            rows: self.texts(node.get("rows")),
            columns: self.texts(node.get("columns")),
            pool: self.texts(node.get("pool")),
            from: node.get("from").and_then(|n| self.text(n)),
            filter: self.matches(node.get("where")),
            params: entries.iter().filter(|(k, _)| passed_on.contains(&k.name)).cloned().collect(),
        }
    }
}

impl TableEntry {
    /// Returns what it is called: `table `main``.
    pub fn what(&self) -> String {
        format!("{} `{}`", self.words.whole, self.name.name)
    }
}

fn split_path(key: &Key) -> Option<(String, String)> {
    let (stage, param) = key.name.split_once('.')?;
    (!stage.is_empty() && !param.is_empty()).then(|| (stage.to_owned(), param.to_owned()))
}

/// The label of a value: as it was written.
pub fn label(node: &Node) -> String {
    text_of(&node.value())
}

/// A value as a person writes it: a text without quotes.
pub fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
