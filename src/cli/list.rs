//! `ppgnn list`: what pipelines can be made of, with parameters, defaults and ranges, and the data sets, settings and bases that are
//! known.

mod bases;
mod settings;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ppgnn_stages::command::CommandDef;
use ppgnn_stages::contract::params::{Variant, expectation, nearest_help};
use ppgnn_stages::contract::{Crate, Registry, Row, StageDef};
use ppgnn_stages::formats::FormatDef;
use ppgnn_stages::kinds::{Scale, ScoreDef};
use ppgnn_stages::models::ModelDef;
use serde_json::{Value, json};

use super::failure::Failure;
use super::project::DataArgs;
use super::{exit, note, print, print_as, print_json};
use crate::catalogue::{self, Catalogue, DataFolder};
use crate::pipeline::{Overrides, Pipeline, figure_kinds, figure_params, goes_along_x};

/// List stages, models, formats, metrics, figures, data sets, settings of models or bases of pipelines
#[derive(clap::Args)]
pub struct Args {
    /// What to list
    #[arg(value_enum)]
    what: What,
    /// Show one of them in detail; for data sets also a pipeline file, whose data sets are listed
    name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Stages, with their inputs and outputs
    Stages,
    /// Models of `train`
    Models,
    /// File formats and generators of `load`
    Formats,
    /// Scores that `evaluate` computes and tables show
    Metrics,
    /// Kinds of figures
    Figures,
    /// Known data sets, or the data sets of a pipeline file
    Datasets,
    /// Published settings of models and the spaces that are searched, or the file of one model
    Settings,
    /// Bases that a pipeline can extend, or the text of one
    Bases,
}

/// A row to list.
struct Item {
    name: String,
    about: String,
    /// A second line of the list.
    more: Option<String>,
    version: u32,
    from: Crate,
    /// How a metric is shown and compared.
    scale: Option<Scale>,
    details: Vec<String>,
    /// Further fields of the JSON object.
    fields: Vec<(&'static str, Value)>,
    schema: Value,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let mut items: Vec<Item> = match args.what {
        What::Stages => registry.stages().map(|def| of_stage(def, registry)).collect(),
        What::Models => {
            let commands = registry.rows::<CommandDef>().map(|row| of_any_model(row.variant()));
            registry.rows::<ModelDef>().map(of_model).chain(commands).collect()
        }
        What::Formats => registry.rows::<FormatDef>().map(|row| of_row(row.variant())).collect(),
        What::Metrics => {
            let of_score = |row: &ScoreDef| Item { scale: Some(row.scale), ..of_row(row.variant()) };
            registry.rows::<ScoreDef>().map(of_score).collect()
        }
        What::Figures => figure_kinds(registry).map(|(kind, stage)| of_figure(kind, stage, registry)).collect(),
        What::Datasets => return datasets(args, registry),
        What::Settings => return settings::run(args.name.as_deref(), args.json, &catalogue()),
        What::Bases => return bases::run(args.name.as_deref(), args.json, &catalogue()),
    };
    if let Some(name) = &args.name {
        let known: Vec<String> = items.iter().map(|i| i.name.clone()).collect();
        items.retain(|i| i.name == *name);
        if items.is_empty() {
            let hint = nearest_help(name, known.iter().map(String::as_str));
            return Err(Failure::usage(format!("there is no `{name}`"), Some(&hint)));
        }
    }
    let detailed = args.name.is_some();
    if args.json {
        print_json(&json!({"version": 1, "items": items.iter().map(as_json).collect::<Vec<_>>()}))?;
    } else {
        print(&items.iter().map(|i| text(i, detailed)).collect::<String>())?;
        match args.what.to_possible_value() {
            Some(_) if args.what == What::Metrics => {
                note("a metric is a part (`train`, `val`, `test`) and one of these, such as `test-accuracy`");
            }
            Some(what) if !detailed => {
                note(&format!("`ppgnn list {} NAME` shows the parameters of one", what.get_name()));
            }
            _ => {}
        }
    }
    Ok(exit::DONE)
}

/// What is known here without a pipeline.
fn catalogue() -> Catalogue {
    Catalogue::new(&[PathBuf::from(catalogue::FOLDER)])
}

/// Lists the data sets of a pipeline file, or the known ones.
fn datasets(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    if let Some(file) = args.name.as_ref().map(Path::new).filter(|f| f.is_file()) {
        return of_file(file, args.json, registry);
    }
    let catalogue = catalogue();
    let names = catalogue.names();
    if let Some(name) = args.name.as_ref().filter(|name| !names.contains(name)) {
        let hint = match registry.rows::<FormatDef>().any(|row| row.variant().name == name) {
            true => format!("`{name}` is a format: `ppgnn list formats {name}`"),
            false => nearest_help(name, names.iter().map(String::as_str)),
        };
        return Err(Failure::usage(format!("there is no data set `{name}`"), Some(&hint)));
    }
    let (mut out, mut listed, mut code) = (String::new(), Vec::new(), exit::DONE);
    let wanted = |name: &String| args.name.as_ref().is_none_or(|only| only == name);
    for (name, manifest) in catalogue.all().filter(|(name, _)| wanted(name)) {
        match manifest {
            Ok(m) => {
                out.push_str(&format!("{name:<20} {}\n", m.title));
                if args.name.is_some() {
                    out.push_str(&format!("  {}\n  licence: {}\n  source: {}\n", m.about, m.licence, m.source));
                }
                listed.push(json!({
                    "name": name, "title": m.title, "about": m.about, "licence": m.licence, "source": m.source,
                }));
            }
            // One bad manifest does not hide the others.
            Err(error) => {
                code = exit::INVALID;
                note(&error.to_string());
                out.push_str(&format!("{name:<20} its manifest is invalid\n"));
                listed.push(json!({"name": name, "error": error.to_string()}));
            }
        }
    }
    if args.json {
        print_json(&json!({"version": 1, "items": listed, "exit-code": code}))?;
    } else {
        print(&out)?;
        note("`ppgnn data list` shows sizes and which files are here, `ppgnn data describe NAME` the graph");
    }
    Ok(code)
}

fn as_json(item: &Item) -> Value {
    let mut out = json!({"name": item.name, "about": item.about, "version": item.version, "params": item.schema});
    for (name, value) in &item.fields {
        out[*name] = value.clone();
    }
    if let Some(from) = item.from.added() {
        out["crate"] = json!({"name": from.name, "version": from.version});
    }
    if let Some(scale) = item.scale {
        out["percent"] = json!(scale.percent);
        out["larger-is-better"] = json!(scale.larger_is_better);
    }
    out
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
        details.push(format!(
            "for several values of `{param}`, only the largest is computed; the others are slices of it"
        ));
    }
    if let Some(from) = def.from_dataset {
        let (choice, param, field) = (from.choice, from.param, from.field);
        details.push(format!("`{choice}` instead of `{param}` names one of the data set's `{field}`"));
    }
    if def.on_device {
        details.push("computes on the device that `--device` selects".to_owned());
    }
    Item {
        name: def.name.into(),
        about: def.about.into(),
        version: def.version,
        from: def.from,
        more: None,
        scale: None,
        details,
        fields: Vec::new(),
        schema: def.own_schema(registry).into_owned(),
    }
}

/// A kind of figure: what it shows, and what a person writes of it.
fn of_figure(kind: &str, stage: &StageDef, registry: &Registry) -> Item {
    let shows = stage.inputs.first().map_or("nothing that is computed".to_owned(), |slot| format!("`{}`", slot.kind));
    let beside: Vec<String> = stage.inputs.iter().skip(1).map(|slot| format!("`{}`", slot.kind)).collect();
    let beside = if beside.is_empty() { String::new() } else { format!(", and {} beside it", beside.join(", ")) };
    let along = if goes_along_x(stage, registry) { "; `x` is an axis of the sweep" } else { "" };
    let mut item = of_stage(stage, registry);
    item.name = kind.into();
    item.details = vec![format!("shows {shows}{beside}{along}")];
    item.schema["properties"] = figure_params(stage, registry).into();
    item
}

/// A model: its formula, where it comes from, and what it computes on.
fn of_model(row: &ModelDef) -> Item {
    let said = |label: &str, text: &str| (!text.is_empty()).then(|| format!("{label}{text}"));
    let mut item = of_any_model(&row.variant);
    let device = if row.variant.gpu { "CPU and GPU" } else { "CPU" };
    let inputs = row.variant.usual_needs().iter().map(|slot| format!("needs input `{slot}`"));
    let known = said("", row.reference).into_iter().chain(inputs).chain([device.to_owned()]);
    item.more = Some(known.collect::<Vec<_>>().join("; "));
    let own = [said("logits = ", row.equation), said("", row.reference), Some(format!("computes on: {device}"))];
    item.details = own.into_iter().flatten().chain(item.details).collect();
    item.fields.extend([("equation", json!(row.equation)), ("reference", json!(row.reference))]);
    item
}

/// What is known of every model, be it a program.
fn of_any_model(row: &Variant) -> Item {
    let fields = [("needs", json!(row.needs)), ("needs-by-default", json!(row.usual_needs())), ("gpu", json!(row.gpu))];
    Item { fields: fields.into(), ..of_row(row) }
}

fn of_row(row: &Variant) -> Item {
    let usual = row.usual_needs();
    let needs = row.needs.iter().map(|slot| match usual.contains(slot) {
        true => format!("needs input `{slot}`"),
        false => format!("needs input `{slot}` with some parameters"),
    });
    Item {
        name: row.name.into(),
        about: row.about.into(),
        version: row.version,
        from: row.from,
        more: None,
        scale: None,
        details: needs.collect(),
        fields: Vec::new(),
        schema: row.schema().clone(),
    }
}

fn of_file(file: &Path, as_json: bool, registry: &Registry) -> Result<u8, Failure> {
    let data = DataArgs { data_dir: PathBuf::from("data") };
    let known = DataFolder { catalogue: &data.catalogue(Some(file)), data_dir: &data.data_dir };
    let pipeline = Pipeline::load(file, &Overrides::default(), registry, &known)?;
    let (mut out, mut listed) = (String::new(), Vec::new());
    for (key, params) in &pipeline.datasets.all {
        out.push_str(&format!("{:<20} {}\n", key.name, params.value()));
        listed.push(json!({"name": key.name, "params": params.value()}));
    }
    print_as(as_json, &json!({"version": 1, "items": listed}), &out)?;
    Ok(exit::DONE)
}

fn scale_text(scale: Scale) -> String {
    let unit = if scale.percent { "in percent, " } else { "" };
    format!("{unit}{} is better", if scale.larger_is_better { "larger" } else { "smaller" })
}

fn text(item: &Item, detailed: bool) -> String {
    let scale = item.scale.map_or(String::new(), |scale| format!(" ({})", scale_text(scale)));
    if !detailed {
        let more = item.more.as_ref().map(|more| format!("{:<20} {more}\n", "")).unwrap_or_default();
        return format!("{:<20} {}{scale}\n{more}", item.name, item.about);
    }
    let from = item.from.added().map(|from| format!(", crate {from}")).unwrap_or_default();
    let mut out = format!("{}: {}{scale} (version {}{from})\n", item.name, item.about, item.version);
    for line in &item.details {
        out.push_str(&format!("  {line}\n"));
    }
    let params = item.schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, schema) in params.filter(|(_, of)| of.get("x-planned").is_none()) {
        let about = schema.get("description").and_then(Value::as_str).unwrap_or("").replace('\n', " ");
        let is_required = item.schema["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
        let default = match schema.get("default") {
            _ if is_required => "required".to_owned(),
            Some(default) => format!("default {default}"),
            None => "optional".to_owned(),
        };
        out.push_str(&format!("  {name:<18} {} ({default})\n", expectation(schema)));
        out.push_str(&format!("  {:<18}   {about}\n", ""));
    }
    out
}
