//! Pins the bytes of every stage, model and format on a fixture, together with their versions.
//!
//! A change that moves a byte fails here. Then either undo it, or raise the version of the stage, model or format, list
//! it under **Recomputed** in the changelog, and write the pins anew: `UPDATE_GOLDEN=1 cargo test --test science pins`.
//! Writing refuses a new digest where no version rose, of the node or of one before it.
//!
//! Bytes depend on the instruction set, so there is a file of pins for each numeric profile that was seen. Not every
//! machine has every profile: a version that rose on one has no pin in the files of the others until somebody writes it
//! there. Every version is pinned in one file at least, and losses are compared on every machine, to three digits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Project, files};

const ADVICE: &str = "raise `VERSION` (of the stage, or of the model or format) or undo the change";

struct Pinned {
    project: Project,
    plan: Value,
}

fn run() -> Pinned {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let project = Project::new();
    let formats = files(&fixtures.join("formats"));
    for path in
        formats.into_iter().chain(["pins.yaml", "graph.npz", "neighbourhoods.txt"].map(|name| fixtures.join(name)))
    {
        let name = path.strip_prefix(&fixtures).unwrap().to_str().unwrap().to_owned();
        project.write(&name, std::fs::read(&path).unwrap());
    }
    project.run(&["run", "pins.yaml"]).exit(0);
    let plan = project.run(&["plan", "pins.yaml", "--json"]).exit(0).json();
    Pinned { project, plan }
}

impl Pinned {
    fn dir(&self, node: &Value) -> PathBuf {
        let word = |field: &str| node[field].as_str().unwrap();
        self.project.path("artifacts/objects").join(word("stage")).join(word("key"))
    }

    fn manifest(&self, node: &Value) -> Value {
        serde_json::from_slice(&std::fs::read(self.dir(node).join("manifest.json")).unwrap()).unwrap()
    }

    /// Every node that the pipeline is for or needs, inputs first.
    fn nodes(&self) -> impl Iterator<Item = &Value> {
        self.plan["nodes"].as_array().unwrap().iter().filter(|node| self.dir(node).exists())
    }

    /// The name of a pin: the node and its versions.
    fn name(&self, node: &Value) -> String {
        let ingredients = &self.manifest(node)["ingredients"];
        let mut name = format!(
            "{} {}@{}",
            node["id"].as_str().unwrap(),
            ingredients["stage"].as_str().unwrap(),
            ingredients["version"]
        );
        if let Some(variant) = ingredients["variant"].as_object() {
            write!(name, " {}@{}", variant["name"].as_str().unwrap(), variant["version"]).unwrap();
        }
        name
    }

    /// Panics if a node has other bytes than it had, though no version rose, neither its own nor one before it.
    fn refuse_silent_changes(&self, old: &BTreeMap<String, String>, now: &BTreeMap<String, String>) {
        let mut risen = BTreeSet::new();
        for node in self.nodes() {
            let (id, name) = (node["id"].as_str().unwrap(), self.name(node));
            let before = |input: &Value| risen.contains(input["id"].as_str().unwrap());
            if !old.contains_key(&name) || node["inputs"].as_array().unwrap().iter().any(before) {
                risen.insert(id);
            } else {
                assert_eq!(old.get(&name), now.get(&name), "{name}: {ADVICE}");
            }
        }
    }

    /// The digest of every artifact's files by the name of its pin.
    fn digests(&self) -> BTreeMap<String, String> {
        let mut pins = BTreeMap::new();
        for node in self.nodes() {
            let mut hasher = blake3::Hasher::new();
            let mut parts = files(&self.dir(node));
            parts.sort();
            for file in parts.iter().filter(|f| !f.ends_with("manifest.json")) {
                hasher.update(file.file_name().unwrap().as_encoded_bytes());
                let bytes = std::fs::read(file).unwrap();
                // A table names the keys behind it, and keys name the profile.
                let text = if node["stage"] == "tabulate" { without_keys(&bytes) } else { bytes };
                hasher.update(&text);
            }
            pins.insert(self.name(node), hasher.finalize().to_hex()[..32].to_owned());
        }
        pins
    }

    /// Test losses to three digits, for machines whose bytes were never seen.
    fn losses(&self) -> BTreeMap<String, String> {
        let nodes = self.plan["nodes"].as_array().unwrap();
        let metrics = nodes.iter().filter(|n| n["stage"] == "evaluate");
        metrics
            .map(|node| {
                let text = std::fs::read(self.dir(node).join("metrics.json")).unwrap();
                let metrics: Value = serde_json::from_slice(&text).unwrap();
                let losses = metrics["splits"].as_array().unwrap().iter().map(|s| s["test"]["loss"].as_f64().unwrap());
                let words: Vec<String> = losses.map(|l| format!("{l:.3}")).collect();
                (node["id"].as_str().unwrap().to_owned(), words.join(" "))
            })
            .collect()
    }
}

fn without_keys(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split('"').filter(|w| !(w.len() == 64 && w.bytes().all(|b| b.is_ascii_hexdigit())));
    words.collect::<Vec<_>>().join("\"").into_bytes()
}

fn read(path: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|l| l.split_once("  ")).map(|(digest, name)| (name.to_owned(), digest.to_owned())).collect()
}

fn write(path: &Path, pins: &BTreeMap<String, String>) {
    let text: String = pins.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    std::fs::write(path, text).unwrap();
}

#[test]
fn every_stage_model_and_format_gives_its_pinned_bytes() {
    let pinned = run();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pins");
    let exact = golden.join(format!("{}.txt", ppgnn_stages::contract::profile::numeric_profile()));
    let rounded = golden.join("losses.txt");
    let (digests, losses) = (pinned.digests(), pinned.losses());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        pinned.refuse_silent_changes(&read(&exact), &digests);
        write(&exact, &digests);
        write(&rounded, &losses);
    }
    let expected = read(&exact);
    let (known, unknown): (Vec<_>, Vec<_>) = digests.iter().partition(|(name, _)| expected.contains_key(*name));
    for (name, digest) in known {
        assert_eq!(digest, &expected[name], "{name} gives other bytes: {ADVICE}");
    }
    if !unknown.is_empty() {
        let (count, file) = (unknown.len(), exact.display());
        eprintln!("{count} artifacts have no pin in {file}: UPDATE_GOLDEN=1 writes them; their losses are compared");
    }
    let node = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
    let there: BTreeSet<String> = digests.keys().map(|name| node(name)).collect();
    let gone: Vec<&String> = expected.keys().filter(|name| !there.contains(&node(name))).collect();
    assert!(gone.is_empty(), "pinned nodes are gone, UPDATE_GOLDEN=1 takes their pins away: {gone:?}");
    assert_eq!(losses, read(&rounded), "{ADVICE}");
}

#[test]
fn one_graph_is_the_same_in_every_format() {
    use ppgnn_stages::contract::Artifact;
    use ppgnn_stages::kinds::Graph;
    let pinned = run();
    let nodes = pinned.plan["nodes"].as_array().unwrap();
    let graph = |name: &str| {
        let node = nodes.iter().find(|n| n["id"] == format!("load/{name}")).unwrap();
        Graph::load(&pinned.dir(node)).unwrap()
    };
    let first = graph("heterophilous");
    for name in ["geom-gcn", "graphsaint", "ogb", "planetoid", "sparse-npz", "tables", "wiki-cs"] {
        let other = graph(name);
        assert_eq!((&other.edges, &other.labels, other.classes), (&first.edges, &first.labels, 3), "{name}");
        assert_eq!(other.features.to_dense(), first.features.to_dense(), "{name}");
        if name != "sparse-npz" {
            assert_eq!(other.masks, first.masks, "{name}");
        }
    }
}

/// The stages, models and formats that have no pin of their present version, as a pin's name has them.
fn unpinned<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    // `load/ogb load@1 ogb@1`: the node, then the stage and its model or format with their versions.
    let pinned: BTreeSet<&str> = names.filter_map(|name| name.split_once(' ')).map(|(_, versions)| versions).collect();
    let registry = ppgnn_stages::built_in();
    // What is measured differs from run to run.
    let rows = ppgnn_stages::STAGES.iter().filter(|stage| stage.measures.is_none()).flat_map(|stage| {
        let own = format!("{}@{}", stage.name, stage.version);
        // Neither are the bytes of a program of the user's ours.
        let variants = stage.variants(&registry);
        let ours = variants.iter().filter(|v| v.schema()["properties"]["run"]["x-command"].is_null());
        let rows: Vec<_> = ours.map(|v| format!("{own} {}@{}", v.name, v.version)).collect();
        if rows.is_empty() { vec![own] } else { rows }
    });
    rows.filter(|row| !pinned.contains(row.as_str())).collect()
}

#[test]
fn no_stage_model_or_format_is_without_a_pin() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return eprintln!("skipped: pins are being written");
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pins");
    // One profile is enough: nobody has a machine of each.
    let profiles = files(&golden).into_iter().filter(|path| !path.ends_with("losses.txt"));
    let pins: BTreeMap<_, _> = profiles.flat_map(|path| read(&path)).collect();
    let advice = "use it in tests/fixtures/pins.yaml, then UPDATE_GOLDEN=1 cargo test --test science pins";
    assert_eq!(unpinned(pins.keys().map(String::as_str)), [""; 0], "no pin (left): {advice}");
    // A model is not found in a name that it is a part of: without its own pins GCN is missed beside `geom-gcn`.
    let without_gcn = pins.keys().map(String::as_str).filter(|name| !name.contains(" gcn@"));
    let missed = unpinned(without_gcn);
    assert!(missed.len() == 1 && missed[0].contains(" gcn@"), "{missed:?}");
}

#[test]
fn every_row_has_a_name_a_sentence_and_parameters_that_survive_a_round_trip() {
    let is_name = |n: &str| n.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let registry = ppgnn_stages::built_in();
    let mut names = Vec::new();
    for stage in ppgnn_stages::STAGES {
        names.push(stage.name);
        assert!(is_name(stage.name) && !stage.about.is_empty() && !stage.about.ends_with('.'), "{}", stage.name);
        let schemas = stage.variants(&registry).into_iter().map(|v| (v.name, v.about, v.schema()));
        for (name, about, schema) in schemas.chain([(stage.name, stage.about, &*stage.own_schema(&registry))]) {
            assert!(is_name(name) && !about.is_empty() && !about.ends_with('.'), "{name}");
            for (param, property) in schema["properties"].as_object().into_iter().flatten() {
                assert!(is_name(param), "{name}.{param}");
                assert!(property["description"].is_string(), "{name}.{param} has no documentation");
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ppgnn_stages::STAGES.len());
    // Checked parameters, written out and checked again, are the same.
    let stage = |name: &str| ppgnn_stages::STAGES.iter().find(|s| s.name == name).unwrap();
    for model in stage("train").variants(&registry) {
        let mut written = serde_json::json!({"model": model.name});
        if model.name == "command" {
            written["run"] = serde_json::json!(["true"]);
            written["files"] = serde_json::json!(["./src/model.py"]);
        }
        let first = stage("train").check(&registry, written.as_object().unwrap()).unwrap();
        let again = stage("train").check(&registry, first.all()).unwrap();
        assert_eq!(first.all(), again.all(), "{}", model.name);
    }
}
