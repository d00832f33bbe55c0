//! `ppgnn table`: prints tables of what is in the store.

use clap::ValueEnum;
use ppgnn_stages::contract::Registry;

use super::artifacts::Artifacts;
use super::failure::Failure;
use super::outputs::{self, OutputFile};
use super::project::{PipelineArgs, every_node};
use super::tolerance::ToleranceArgs;
use super::{exit, note, print, targets};
use crate::pipeline::plural;
use crate::plan::{Output, Plan};
use crate::report::Page;

/// Print a table of a pipeline from the store, without running anything
///
/// A table whose runs are not all there yet is made of those that are, and says what it lacks. Several tables are one document:
/// as JSON an object with a table per name, as CSV with a column `table` in front.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Table (default: all)
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Format to print (default: aligned columns on a terminal, Markdown elsewhere)
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    tolerance: ToleranceArgs,
}

/// A format that tables are printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Markdown
    Md,
    /// LaTeX with booktabs
    Tex,
    /// Comma-separated values, one line per cell
    Csv,
    /// JSON with all runs of each cell
    Json,
}

impl Format {
    /// What the names of files in the format end in.
    fn ending(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let asked = |plan: &Plan| {
        args.name.as_ref().map_or_else(|| every_node(plan), |name| targets::asked(plan, std::slice::from_ref(name)))
    };
    let plan = args.pipeline.plan_for(&args.pipeline.catalogue(), registry, &asked)?;
    let store = args.pipeline.store.look()?;
    let format = args.format.unwrap_or(Format::Md);
    let page = if args.format.is_none() { Page::stdout() } else { None };
    // Other outputs, such as figures, have no file of the format.
    let tables: Vec<&Output> = plan.outputs.iter().filter(|o| has_format(&plan, o, format)).collect();
    let wanted = match &args.name {
        None => tables,
        Some(name) => vec![outputs::named(&tables, name)?],
    };
    if wanted.is_empty() {
        return Err(Failure::usage("the pipeline has no tables", Some("add `tables:` to the file")));
    }
    let rest = plan.without(registry, &outputs::not_there(&plan, &store));
    let made = Artifacts::new(&rest, args.pipeline.store.look()?)?;
    let (mut parts, mut tables) = (Vec::new(), Vec::new());
    for output in wanted {
        let files = match outputs::files(&plan, output, &store)? {
            None if !rest.node(output.node).inputs.is_empty() => {
                let runs = |plan: &Plan| plan.node(output.node).inputs.len();
                let (lacks, open) = (runs(&plan) - runs(&rest), plan.searches.iter().filter(|s| !s.ended).count());
                let searches = plural(open, "search that has", "searches that have");
                let open =
                    if open > 0 { format!(", and what {searches} not ended would choose") } else { String::new() };
                let hint = format!("`ppgnn run {}` completes it", args.pipeline.words());
                note(&format!("note: table `{}` lacks {lacks} of {} runs{open}; {hint}", output.name, runs(&plan)));
                made.compute(output.node)?;
                let files = outputs::files(&rest, output, made.store())?;
                files.map(|files| files.into_iter().map(OutputFile::of_no_artifact).collect())
            }
            whole => whole,
        };
        let Some(files) = files else {
            let message = format!("table `{}` has not been computed", output.name);
            let hint = format!("run `ppgnn run {}`", args.pipeline.words());
            return Err(Failure::new(exit::DATA, message, Some(&hint)));
        };
        let text = match page {
            Some(_) => outputs::for_people(&plan, output, &files, page)?,
            None => files.iter().find(|f| f.ending == format.ending()).map(OutputFile::text).transpose()?,
        };
        parts.extend(text.map(|text| (output.name.as_str(), text)));
        if args.tolerance.is_given() {
            tables.extend(outputs::table(&plan, output, &files)?.map(|table| (output.name.clone(), table)));
        }
    }
    print(&together(&parts, format)?)?;
    match args.tolerance.failure(&args.tolerance.outside(&tables)) {
        Some(failure) => Err(failure),
        None => Ok(exit::DONE),
    }
}

/// Several tables as one document: a JSON object by name, CSV with a column for the name; text for people one after the other.
fn together(parts: &[(&str, String)], format: Format) -> Result<String, Failure> {
    let unreadable = |name: &str, why: &dyn std::fmt::Display| Failure::unexpected(format!("table `{name}`: {why}"));
    match (parts, format) {
        ([(_, only)], _) => Ok(only.clone()),
        (_, Format::Md | Format::Tex) => Ok(parts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n")),
        (_, Format::Json) => {
            let mut all = serde_json::Map::new();
            for (name, text) in parts {
                let table = serde_json::from_str(text).map_err(|e| unreadable(name, &e))?;
                all.insert((*name).to_owned(), table);
            }
            Ok(format!("{:#}\n", serde_json::Value::Object(all)))
        }
        (_, Format::Csv) => {
            let mut writer = csv::Writer::from_writer(Vec::new());
            let mut columns: Option<csv::StringRecord> = None;
            let with = |name: &str, record: &csv::StringRecord| {
                std::iter::once(name).chain(record).map(str::to_owned).collect::<Vec<String>>()
            };
            for (name, text) in parts {
                let mut reader = csv::Reader::from_reader(text.as_bytes());
                let own = reader.headers().map_err(|e| unreadable(name, &e))?.clone();
                if columns.as_ref().is_some_and(|columns| *columns != own) {
                    let message = format!("table `{name}` has other columns than the tables before it");
                    return Err(Failure::usage(message, Some("name one table")));
                }
                // Writing to memory cannot fail.
                if columns.is_none() {
                    drop(writer.write_record(with("table", &own)));
                }
                for record in reader.records() {
                    drop(writer.write_record(with(name, &record.map_err(|e| unreadable(name, &e))?)));
                }
                columns = Some(own);
            }
            Ok(String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned())
        }
    }
}

fn has_format(plan: &Plan, output: &Output, format: Format) -> bool {
    let ending = format!(".{}", format.ending());
    plan.node(output.node).stage.publishes.iter().any(|file| file.ends_with(&ending))
}
