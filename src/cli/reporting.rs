//! Gathers a report of a pipeline: from its plan, which knows what there is to be, and from the store as far as it has the results.
//!
//! Nothing is computed but tables of the runs that are there. The same store gives the same report.

use std::collections::{BTreeMap, BTreeSet};

use ppgnn_stages::contract::Registry;
use ppgnn_stages::kinds::{Graph, Splits, Table};

use super::drawing::Drawing;
use super::failure::Failure;
use super::project::{PipelineArgs, shell_word};
use super::stored::Stored;
use super::traced::TracedTable;
use super::{graphs, outputs, tried};
use crate::pipeline::{plural, text_of};
use crate::plan::{Node, NodeId, Output};
use crate::report::html::{Dag, Dataset, Evidence, Figure, NodeRow, Report, ShownCell, ShownTable, StageSettings};
use crate::report::{Section, duration_text};

/// Nodes that are listed.
const MOST_NODES: usize = 2000;
/// Trials that are listed; of more, those that were chosen or the best so far.
const MOST_TRIALS: usize = 1000;
/// Values of a parameter that are listed.
const MOST_VALUES: usize = 12;
/// Letters of evidence: cells beyond them name the command that shows theirs.
const MOST_EVIDENCE: usize = 1_000_000;
/// Bytes of a pipeline file that is shown.
const MOST_SOURCE: usize = 100_000;

/// What a report is gathered from.
pub struct Reporting<'s, 'p> {
    stored: &'s Stored<'p>,
    args: &'s PipelineArgs,
    registry: &'s Registry,
    /// The nodes that what the pipeline is for needs.
    needed: Vec<NodeId>,
    source: Option<String>,
}

impl<'s, 'p> Reporting<'s, 'p> {
    /// A report of a plan.
    pub fn new(stored: &'s Stored<'p>, args: &'s PipelineArgs, registry: &'s Registry) -> Self {
        let needed = stored.plan.needed();
        let needed = stored.plan.iter().map(|(id, _)| id).filter(|id| needed[id.0]).collect();
        let source = std::fs::read(&args.file).ok().filter(|bytes| bytes.len() <= MOST_SOURCE);
        Self { stored, args, registry, needed, source: source.and_then(|bytes| String::from_utf8(bytes).ok()) }
    }

    /// Returns what identifies everything that the report is made of.
    pub fn fingerprint(&self) -> String {
        let Stored { plan, store, words } = self.stored;
        let mut hasher = blake3::Hasher::new();
        let mut add = |text: &str| {
            hasher.update(text.as_bytes()).update(b"\0");
        };
        add(env!("CARGO_PKG_VERSION"));
        add(words);
        add(self.source.as_deref().unwrap_or_default());
        for node in self.needed.iter().map(|id| plan.node(*id)) {
            add(&node.name.to_string());
            add(&node.key.to_string());
            add(&store.manifest(&node.key, node.stage.name).map(|m| m.checksum().to_owned()).unwrap_or_default());
        }
        plan.searches.iter().for_each(|search| add(&format!("{search:?}")));
        plan.outputs.iter().for_each(|output| add(&output.name));
        hasher.finalize().to_hex().to_string()
    }

    /// Gathers it.
    pub fn report(&self) -> Result<Report, Failure> {
        let plan = self.stored.plan;
        let (tables, mut remarks) = self.tables()?;
        remarks.extend(self.failures());
        let left_out = plan.absent.iter().map(|absence| format!("{}: {}", absence.what(), absence.remedy()));
        remarks.extend(Section::of_lines("Left out", left_out));
        let trials: usize = plan.searches.iter().map(|search| search.trials.len()).sum();
        let nodes: Vec<NodeRow> = self.nodes().take(MOST_NODES).map(|node| self.node(node)).collect();
        let drawing = Drawing::of_stages(plan, self.stored.store);
        Ok(Report {
            title: plan.pipeline.clone(),
            about: self.about(),
            remarks,
            tables,
            figures: self.figures()?,
            datasets: self.datasets()?,
            searches: plan.searches.iter().map(|search| tried::section(search, trials <= MOST_TRIALS)).collect(),
            settings: self.settings(),
            source: self.source.clone(),
            dag: Dag { boxes: drawing.boxes, arrows: drawing.arrows },
            more_nodes: self.needed.len() - nodes.len(),
            nodes,
            versions: self.versions(),
            commands: self.commands(),
            fingerprint: self.fingerprint(),
        })
    }

    fn nodes(&self) -> impl Iterator<Item = &'p Node> {
        self.needed.iter().map(|id| self.stored.plan.node(*id))
    }

    fn about(&self) -> Vec<(String, String)> {
        let plan = self.stored.plan;
        let there = self.needed.iter().filter(|id| self.stored.has(**id)).count();
        let file = self.args.file.display().to_string();
        let about = [
            ("file", Some(file)),
            ("profile", plan.profile.clone()),
            ("changed", (!self.args.set.is_empty()).then(|| self.args.set.join(", "))),
            ("nodes in the store", Some(format!("{there} of {}", self.needed.len()))),
        ];
        about.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// The tables, and what is to say of those that have nothing to show.
    fn tables(&self) -> Result<(Vec<ShownTable>, Vec<Section>), Failure> {
        let plan = self.stored.plan;
        let (mut tables, mut nothing, mut left) = (Vec::new(), Vec::new(), MOST_EVIDENCE);
        for output in plan.outputs.iter().filter(|output| outputs::is_table(plan, output)) {
            let traced = TracedTable::of(self.stored, output, &self.args.store, self.registry)?;
            match traced.table() {
                Some((table, _)) => tables.push(self.table(output, &traced, table, &mut left)?),
                None => nothing.push(format!("table {}: {}", output.name, outputs::NOT_YET)),
            }
        }
        Ok((tables, Section::of_lines("Not there", nothing).into_iter().collect()))
    }

    fn table(
        &self,
        output: &Output,
        traced: &TracedTable,
        table: &Table,
        left: &mut usize,
    ) -> Result<ShownTable, Failure> {
        let plain = table.plain("bold", "underlined");
        let mut cells = Vec::new();
        for (row, line) in plain.rows.iter().enumerate() {
            let mut of_row = Vec::new();
            for (column, shown) in line.cells.iter().enumerate() {
                let cell = table.cell(row, column);
                // Average ranks are no cells of the table.
                let is_cell = column < table.columns.len();
                of_row.push(ShownCell {
                    number: cell.map(|cell| cell.mean).or_else(|| shown.value.parse().ok()),
                    verdict: cell.and_then(|cell| cell.verdict),
                    evidence: is_cell.then(|| self.evidence(output, traced, (row, column), left)).transpose()?,
                });
            }
            cells.push(of_row);
        }
        let runs = plural(self.stored.plan.node(output.node).inputs.len(), "run", "runs");
        let lacks = traced.key().is_none().then(|| {
            format!("Not complete: of {runs}, some have failed or have not been computed. The numbers are of those that are there.")
        });
        Ok(ShownTable { name: output.name.clone(), plain, cells, lacks, csv: Some(table.csv()) })
    }

    fn evidence(
        &self,
        output: &Output,
        traced: &TracedTable,
        (row, column): (usize, usize),
        left: &mut usize,
    ) -> Result<Evidence, Failure> {
        if *left == 0 {
            let [row, column] = traced.labels(row, column).map(shell_word);
            let words = &self.stored.words;
            let command = format!("ppgnn trace {words} {row} {column} --table {}", shell_word(&output.name));
            let sections = Section::of_lines("shown by", [command]).into_iter().collect();
            return Ok(Evidence { headline: String::new(), sections });
        }
        let cell = traced.cell(row, column)?;
        let evidence = Evidence { headline: cell.headline(), sections: cell.sections() };
        let letters: usize = evidence.sections.iter().map(|section| section.text().len()).sum();
        *left = left.saturating_sub(letters);
        Ok(evidence)
    }

    /// Every picture that an output publishes, with the numbers beside it.
    fn figures(&self) -> Result<Vec<Figure>, Failure> {
        let Stored { plan, store, .. } = self.stored;
        let mut figures = Vec::new();
        for output in &plan.outputs {
            let files = outputs::files(plan, output, store)?.unwrap_or_default();
            let Some(picture) = files.iter().find(|file| file.ending == "svg") else { continue };
            let numbers = files.iter().find(|file| file.ending == "csv").map(|file| file.text()).transpose()?;
            figures.push(Figure { name: output.name.clone(), svg: picture.text()?.into_bytes(), csv: numbers });
        }
        Ok(figures)
    }

    /// What is known to have failed, where it always will.
    fn failures(&self) -> Option<Section> {
        let failed = self.nodes().filter(|node| !self.stored.store.has(&node.key, node.stage.name));
        let told = failed.filter_map(|node| Some(format!("{}: {}", node.name, self.stored.store.failure(&node.key)?)));
        Section::of_lines("Failed", told)
    }

    fn datasets(&self) -> Result<Vec<Dataset>, Failure> {
        let plan = self.stored.plan;
        let graphs = self.needed.iter().copied().filter(|id| graphs::is_graph(plan.node(*id)));
        graphs.map(|id| self.dataset(id)).collect()
    }

    fn dataset(&self, id: NodeId) -> Result<Dataset, Failure> {
        let node = self.stored.plan.node(id);
        let name = node.dataset.clone().unwrap_or_else(|| node.name.to_string());
        if !self.stored.has(id) {
            return Ok(Dataset { name, counts: Vec::new(), warnings: Vec::new() });
        }
        let graph: Graph = self.stored.load(id)?;
        let splits = graphs::splits_of(self.stored.plan, id).filter(|(split, _)| self.stored.has(*split));
        let splits: Vec<(String, Splits)> =
            splits.map(|(split, name)| Ok((name, self.stored.load(split)?))).collect::<Result<_, Failure>>()?;
        let warnings = graphs::found(node, &graph, &splits, self.registry);
        let counts = graph.counts();
        let numbers = [
            ("nodes", counts.nodes),
            ("undirected edges", counts.edges_undirected),
            ("features", counts.features),
            ("classes", counts.classes),
        ];
        let numbers = numbers.map(|(what, number)| (what, number.to_string()));
        let homophily = ("edge homophily", format!("{:.3}", counts.edge_homophily));
        let unique: BTreeSet<String> = warnings.into_iter().map(|(_, warning)| warning.message).collect();
        Ok(Dataset {
            name,
            counts: numbers.into_iter().chain([homophily]).collect(),
            warnings: unique.into_iter().collect(),
        })
    }

    /// The parameters of every stage, in the order of the plan, each with the values that it has.
    fn settings(&self) -> Vec<StageSettings> {
        let mut stages: Vec<(&str, BTreeMap<&str, Vec<String>>)> = Vec::new();
        // Which cell shows what is no setting, and neither is how a figure is drawn.
        let nodes = self.nodes().filter(|node| node.stage.publishes.is_empty());
        for node in nodes {
            let at = stages.iter().position(|(stage, _)| *stage == node.name.stage).unwrap_or_else(|| {
                stages.push((&node.name.stage, BTreeMap::new()));
                stages.len() - 1
            });
            for (name, value) in node.params.all().iter().filter(|(_, value)| !value.is_null()) {
                let (values, text) = (stages[at].1.entry(name).or_default(), text_of(value));
                if !values.contains(&text) {
                    values.push(text);
                }
            }
        }
        let told = |values: Vec<String>| match values.len() {
            n if n > MOST_VALUES => format!("{} and {} more", values[..MOST_VALUES].join(", "), n - MOST_VALUES),
            _ => values.join(", "),
        };
        let stage = |(stage, parameters): (&str, BTreeMap<&str, Vec<String>>)| StageSettings {
            stage: stage.to_owned(),
            parameters: parameters.into_iter().map(|(name, values)| (name.to_owned(), told(values))).collect(),
        };
        stages.into_iter().map(stage).collect()
    }

    fn node(&self, node: &Node) -> NodeRow {
        let manifest = self.stored.store.manifest(&node.key, node.stage.name);
        let chosen = node.ingredients.variant.as_ref().map(|row| format!(", {row}")).unwrap_or_default();
        NodeRow {
            name: node.name.to_string(),
            key: node.key.short().to_string(),
            stage: format!("{} version {}{chosen}", node.stage.name, node.ingredients.version),
            state: manifest.map_or_else(
                || "not in the store".to_owned(),
                |manifest| format!("made in {}", duration_text(manifest.seconds)),
            ),
        }
    }

    fn versions(&self) -> Vec<String> {
        let manifests = self.nodes().filter_map(|node| self.stored.store.manifest(&node.key, node.stage.name));
        let told = manifests.map(|made| format!("ppgnn {}, numeric profile {}", made.ppgnn, made.ingredients.profile));
        told.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn commands(&self) -> Vec<(String, String)> {
        let words = &self.stored.words;
        let commands = [
            ("compute what is missing, and publish it", format!("ppgnn run {words}")),
            ("say what would be computed, and why", format!("ppgnn plan {words}")),
            ("write this report again", format!("ppgnn report {words}")),
            ("write every run as a table", format!("ppgnn export runs {words}")),
        ];
        commands.into_iter().map(|(what, command)| (what.to_owned(), command)).collect()
    }
}
