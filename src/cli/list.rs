//! `ppgnn list`: what pipelines can be made of, with parameters, defaults and ranges.

use std::path::PathBuf;

use ppgnn_stages::contract::params::{Variant, expectation};
use ppgnn_stages::contract::{Crate, Registry, Row, StageDef};
use ppgnn_stages::formats::FormatDef;
use ppgnn_stages::models::ModelDef;
use serde_json::{Value, json};

use super::failure::Failure;
use super::{exit, print, print_json};
use crate::pipeline::{Overrides, Pipeline};

/// List stages, models or data sets, with their parameters
#[derive(clap::Args)]
pub struct Args {
    /// What to list
    #[arg(value_enum)]
    what: What,
    /// One of them, or for data sets a pipeline file
    name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Stages, and what they take and produce
    Stages,
    /// Models of `train`
    Models,
    /// Formats and generators of `load`, or the data sets of a pipeline file
    Datasets,
}

/// A thing to list.
struct Item {
    name: String,
    about: String,
    version: u32,
    from: Crate,
    details: Vec<String>,
    schema: Value,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let mut items: Vec<Item> = match (args.what, &args.name) {
        (What::Stages, _) => registry.stages().map(|def| of_stage(def, registry)).collect(),
        (What::Models, _) => registry.rows::<ModelDef>().map(|row| of_row(row.variant())).collect(),
        (What::Datasets, Some(file)) if PathBuf::from(file).is_file() => return of_file(file, args.json, registry),
        (What::Datasets, _) => registry.rows::<FormatDef>().map(|row| of_row(row.variant())).collect(),
    };
    if let Some(name) = &args.name {
        let known: Vec<String> = items.iter().map(|i| i.name.clone()).collect();
        items.retain(|i| i.name == *name);
        if items.is_empty() {
            let mut hint = ppgnn_stages::contract::params::nearest_help(name, known.iter().map(String::as_str));
            if args.what == What::Datasets {
                hint.push_str("; these are formats and generators, `ppgnn data list` lists data sets");
            }
            return Err(Failure::usage(format!("there is no `{name}`"), Some(&hint)));
        }
    }
    let detailed = args.name.is_some();
    if args.json {
        let list: Vec<_> = items
            .iter()
            .map(|i| {
                let from = i.from.added().map(|c| json!({"name": c.name, "version": c.version}));
                let mut item = json!({"name": i.name, "about": i.about, "version": i.version, "params": i.schema});
                from.into_iter().for_each(|from| item["crate"] = from);
                item
            })
            .collect();
        print_json(&json!({"version": 1, "items": list}))?;
    } else {
        print(&items.iter().map(|i| text(i, detailed)).collect::<String>())?;
        if !detailed {
            let what = ["stages", "models", "datasets"][args.what as usize];
            super::note(&format!("`ppgnn list {what} NAME` shows the parameters of one"));
        }
    }
    Ok(exit::DONE)
}

fn of_stage(def: &StageDef, registry: &Registry) -> Item {
    let slots: Vec<String> = def.inputs.iter().map(|s| format!("{}: {}", s.name, s.kind)).collect();
    let takes = if slots.is_empty() { "nothing".to_owned() } else { slots.join(", ") };
    let mut details = vec![format!("takes {takes}; produces {}", def.output)];
    if let Some(choice) = def.choice {
        let names: Vec<_> = def.variants(registry).iter().map(|v| v.name).collect();
        details.push(format!("`{}` is one of {}, each with parameters of its own", choice.param, names.join(", ")));
    }
    if let Some(shared) = def.shared {
        let param = shared.param;
        details.push(format!("of several values of `{param}` the largest is computed, the others are slices of it"));
    }
    if def.on_device {
        details.push("computes on what `--device` names".to_owned());
    }
    Item {
        name: def.name.into(),
        about: def.about.into(),
        version: def.version,
        from: def.from,
        details,
        schema: def.own_schema(registry).into_owned(),
    }
}

fn of_row(row: &Variant) -> Item {
    let needs = row.needs.iter().map(|n| format!("needs input `{n}`"));
    Item {
        name: row.name.into(),
        about: row.about.into(),
        version: row.version,
        from: row.from,
        details: needs.chain((!row.gpu).then(|| "cannot be computed on a GPU".to_owned())).collect(),
        schema: row.schema().clone(),
    }
}

fn of_file(file: &str, as_json: bool, registry: &Registry) -> Result<u8, Failure> {
    let pipeline =
        Pipeline::load(PathBuf::from(file).as_path(), &Overrides::default(), registry, &crate::pipeline::Nothing)?;
    if as_json {
        let list: Vec<_> =
            pipeline.datasets.all.iter().map(|(k, n)| json!({"name": k.name, "params": n.value()})).collect();
        print_json(&json!({"version": 1, "items": list}))?;
    } else {
        let line = |(k, n): &(crate::pipeline::Key, crate::pipeline::Node)| format!("{:<20} {}\n", k.name, n.value());
        print(&pipeline.datasets.all.iter().map(line).collect::<String>())?;
    }
    Ok(exit::DONE)
}

/// Where an added row comes from.
fn of_crate(item: &Item) -> String {
    item.from.added().map_or(String::new(), |from| format!(", crate {from}"))
}

fn text(item: &Item, detailed: bool) -> String {
    if !detailed {
        return format!("{:<20} {}\n", item.name, item.about);
    }
    let mut out = format!("{}: {} (version {}{})\n", item.name, item.about, item.version, of_crate(item));
    for line in &item.details {
        out.push_str(&format!("  {line}\n"));
    }
    for (name, schema) in item.schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let about = schema.get("description").and_then(Value::as_str).unwrap_or("").replace('\n', " ");
        let default = schema.get("default").map_or("required".to_owned(), |d| format!("default {d}"));
        out.push_str(&format!("  {name:<18} {} ({default})\n", expectation(schema)));
        out.push_str(&format!("  {:<18}   {about}\n", ""));
    }
    out
}
