//! The JSON Schema of pipeline files, put together from the parameters that stages, models and formats declare.

use ppgnn_stages::contract::{Registry, StageDef};
use serde_json::{Map, Value, json};

use super::device::DeviceRequest;
use super::document::FORMAT;
use super::figure::{figure_kinds, figure_params, goes_along_x};
use super::file::TABLE_STAGE;

/// Returns the schema of a pipeline file that uses what a registry knows.
pub fn json_schema(registry: &Registry) -> Value {
    let drawing: Vec<&str> = figure_kinds(registry).map(|(_, stage)| stage.name).collect();
    let stages = || registry.stages().filter(|d| d.name != TABLE_STAGE && !drawing.contains(&d.name));
    let by_name: Map<String, Value> = stages().map(|d| (d.name.to_owned(), stage(registry, d, false))).collect();
    let named_otherwise: Vec<Value> = stages()
        .map(|d| {
            json!({
                "if": {"properties": {"uses": {"const": d.name}}, "required": ["uses"]},
                "then": stage(registry, d, true),
            })
        })
        .collect();
    let mut dataset = registry.stage("load").map_or(json!({"type": "object"}), |d| params(registry, d));
    for from in stages().filter_map(|d| d.from_dataset) {
        let about = format!("Files by name, for `{}` of a stage", from.choice);
        dataset["properties"][from.field] =
            json!({"type": "object", "additionalProperties": {"type": "string"}, "description": about});
    }
    let words = json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]});
    let settings = json!({
        "type": "object",
        "description": "Values for parameters, named `stage.parameter`",
        "propertyNames": {"pattern": "^[^.]+\\..+$"},
    });
    let settings_or_none = json!({"oneOf": [settings, {"type": "null", "description": "Drops what is extended"}]});
    let axes = json!({
        "type": "object",
        "description": "`stage.parameter: [values]`, or a name with labelled settings",
        "additionalProperties": {"oneOf": [{"type": "array"}, {"type": "object", "additionalProperties": settings_or_none}]},
    });
    let matches = json!({"type": ["object", "null"], "description": "Axis, and the value or values of it that match"});
    let mut table = json!({
        "rows": words, "columns": words, "pool": words,
        "from": {"type": "string", "description": "Stage whose metrics are shown"},
        "where": matches,
    });
    for (name, schema) in registry.stage(TABLE_STAGE).map(|d| d.written_by_hand(registry)).unwrap_or_default() {
        table[name] = schema;
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ppgnn pipeline",
        "type": "object",
        "required": ["ppgnn"],
        "additionalProperties": false,
        "properties": {
            "ppgnn": {"const": FORMAT, "description": "Version of the file format"},
            "name": {"type": "string", "description": "Name of the pipeline; results are published under it"},
            "about": {"type": "string", "description": "What the pipeline is for"},
            "absent-data": {
                "enum": ["fail", "skip"],
                "description": "If the data of a known data set is missing: run nothing, or run the rest and mark it in the tables",
            },
            "device": {
                "type": "string",
                "pattern": DeviceRequest::PATTERN,
                "description": "What `train` computes on: cpu (the default), cuda:N, several such as cuda:0,cuda:1, cuda for all GPUs, or auto",
            },
            "settings": {
                "type": "string",
                "description": "The set of settings that models start from, such as `published`: those of their files in `pipelines/models`",
            },
            "extends": {"type": "string", "description": "What this file is laid on: a built-in base by name, such as `standard`, or the path of one other file"},
            "datasets": {
                "type": "object",
                "description": "Data sets by name: parameters of `load`",
                "additionalProperties": dataset,
            },
            "stages": {
                "type": "object",
                "description": "Stages by name, wired by named inputs",
                "properties": by_name,
                "additionalProperties": {"type": "object", "allOf": named_otherwise},
            },
            "search": search(&words),
            "sweep": {
                "type": "object",
                "description": "Axes and the points they span",
                "additionalProperties": false,
                "properties": {
                    "axes": axes,
                    "zip": {
                        "type": "array",
                        "items": {"type": "array", "items": {"type": "string"}},
                        "description": "Groups of axes that advance together",
                    },
                    "include": {"type": "array", "items": matches, "description": "Points to add to the grid"},
                    "exclude": {"type": "array", "items": matches, "description": "Points to leave out of the grid"},
                    "when": {
                        "type": "array",
                        "description": "Parameters and axes that apply only to some points",
                        "items": {
                            "type": "object",
                            "required": ["match"],
                            "additionalProperties": false,
                            "properties": {
                                "match": matches,
                                "set": settings,
                                "axes": axes,
                                "note": {"type": "string", "description": "A footnote of the cells that match"},
                            },
                        },
                    },
                },
            },
            "tables": {
                "type": "object",
                "description": "Tables by name",
                "additionalProperties": {
                    "type": ["object", "null"],
                    "additionalProperties": false,
                    "properties": table,
                },
            },
            "figures": {
                "type": "object",
                "description": "Figures by name",
                "additionalProperties": {"oneOf": [{"type": "null"}, figure(registry, &words, &matches)]},
            },
            "notes": {"oneOf": [{"type": "null"}, words], "description": "What readers of all tables must know: the ends of their captions"},
            "profiles": {
                "type": "object",
                "description": "Named changes to the file, chosen with --profile; null removes one of the file that is extended",
                "additionalProperties": {"type": ["object", "null"]},
            },
        },
        // A file that extends another may have the rest of a table from there.
        "if": {"required": ["extends"]},
        "else": {"properties": {"tables": {"additionalProperties": {"required": ["rows", "columns"]}}}},
    })
}

/// The schema of a figure: what every kind has, and for each kind its own.
fn figure(registry: &Registry, words: &Value, matches: &Value) -> Value {
    let (mut names, mut kinds, mut properties) = (Vec::new(), Vec::new(), Map::new());
    for (kind, stage) in figure_kinds(registry) {
        names.push(json!({"const": kind, "description": stage.about}));
        let mut own = figure_params(stage, registry);
        if !stage.inputs.is_empty() {
            own.insert("each".into(), words.clone());
            own.insert("pool".into(), words.clone());
            own.insert("from".into(), json!({"type": "string", "description": "Stage whose results are drawn"}));
            own.insert("where".into(), matches.clone());
        }
        if goes_along_x(stage, registry) {
            own.insert("x".into(), json!({"type": "string", "description": "Axis of the sweep along x"}));
        }
        properties.extend(own.keys().map(|name| (name.clone(), json!({}))));
        let is_kind = json!({"properties": {"kind": {"const": kind}}, "required": ["kind"]});
        kinds.push(json!({"if": is_kind, "then": {"properties": own}}));
    }
    properties.insert("kind".into(), json!({"description": "What is drawn", "oneOf": names}));
    json!({"type": "object", "additionalProperties": false, "properties": properties, "allOf": kinds})
}

/// The schema of a search.
fn search(words: &Value) -> Value {
    json!({
        "type": "object",
        "description": "Settings that do best on validation nodes, out of so many that are tried, for every point of the sweep",
        "additionalProperties": false,
        "properties": {
            "space": {"type": "string", "description": "Name of a space in the files of the models, such as `paper`"},
            "params": {
                "type": "object",
                "description": "Parameters, named `stage.parameter`: a list of values, {from, to, log}, or {values, when}; null leaves one out",
                "propertyNames": {"pattern": "^[^.]+\\..+$"},
            },
            "sampler": {"enum": ["grid", "random", "quasi", "tpe"], "description": "How settings are chosen (default: tpe)"},
            "trials": {"type": "integer", "minimum": 1, "description": "Trials of every search (default: 20)"},
            "round": {"type": "integer", "minimum": 1, "description": "Trials that are sampled at a time (default: 10)"},
            "seed": {"type": "integer", "minimum": 0},
            "objective": {"type": "string", "pattern": "^val-", "description": "The validation metric whose mean over splits decides"},
            "over": words,
            "from": {"type": "string", "description": "Stage whose metrics decide"},
            "test": {"enum": ["chosen", "all"], "description": "What is evaluated on test nodes"},
            "choose": {"enum": ["mean", "per-split"], "description": "The best mean over splits, or for every split its own (default: mean)"},
            "race": {
                "description": "Trials that are clearly behind after some splits stop there (default: false)",
                "oneOf": [{"type": "boolean"}, {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "after": {"type": "integer", "minimum": 1, "description": "Splits that every trial gets (default: 3)"},
                        "margin": {"type": "number", "minimum": 0, "maximum": 100, "description": "Standard errors that a trial may be behind the best (default: 2)"},
                    },
                }],
            },
            "time": {"type": "string", "description": "No round begins when the trials of a search have taken so long, such as `2h`"},
        },
    })
}

fn stage(registry: &Registry, def: &StageDef, named_otherwise: bool) -> Value {
    let slots: Map<String, Value> = def
        .inputs
        .iter()
        .map(|s| {
            let stage = json!({
                "description": format!("A stage that produces `{}`", s.kind),
                "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            });
            (s.name.to_owned(), stage)
        })
        .collect();
    let uses = if named_otherwise { json!({"const": def.name}) } else { json!({"type": "string"}) };
    json!({
        "type": ["object", "null"],
        "description": def.about,
        "additionalProperties": false,
        "properties": {
            "uses": uses,
            "inputs": {"type": "object", "properties": slots, "additionalProperties": false},
            "params": params(registry, def),
        },
    })
}

/// Parameters of a stage, with those of every row it can choose.
fn params(registry: &Registry, def: &StageDef) -> Value {
    let mut properties = def.own_schema(registry)["properties"].as_object().cloned().unwrap_or_default();
    if def.name == "load" {
        properties.insert("dataset".into(), json!({"type": "string", "description": "Name of one of the data sets"}));
    }
    if let Some(from) = def.from_dataset {
        let about = format!("Instead of `{}`: a file of the data set, by its name under `{}`", from.param, from.field);
        properties.insert(from.choice.into(), json!({"type": "string", "description": about}));
    }
    let Some(choice) = def.choice else {
        return json!({"type": "object", "additionalProperties": false, "properties": properties});
    };
    let rows = def.variants(registry);
    let names: Vec<Value> = rows.iter().map(|r| json!({"const": r.name, "description": r.about})).collect();
    let mut chooser = properties.get(choice.param).cloned().unwrap_or_else(|| json!({}));
    chooser["oneOf"] = names.into();
    properties.insert(choice.param.into(), chooser);
    let mut foreign: Vec<Value> = Vec::new();
    for row in &rows {
        let own = row.schema()["properties"].as_object().cloned().unwrap_or_default();
        foreign.push(json!({
            "if": {"properties": {choice.param: {"const": row.name}}, "required": [choice.param]},
            "then": {"properties": own},
        }));
        for name in own.keys() {
            properties.entry(name.clone()).or_insert_with(|| json!({}));
        }
    }
    json!({"type": "object", "additionalProperties": false, "properties": properties, "allOf": foreign})
}
