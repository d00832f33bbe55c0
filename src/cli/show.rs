//! `ppgnn show`: what an artifact holds, how it was made, and what depends on it.

use ppgnn_stages::contract::{Kind, Registry};
use ppgnn_stages::export::{Held, held};
use ppgnn_stages::kinds::{FileDoc, files_of};
use serde_json::{Value, json};

use super::failure::Failure;
use super::project::PipelineArgs;
use super::stored::Stored;
use super::{exit, print, print_json, targets};
use crate::report::{bytes_text, duration_text, measured_text};
use crate::store::{ArtifactRef, Entry, Manifest, Opened, Store};

/// Show what an artifact holds, how it was made and what depends on it
///
/// An artifact is named by the first six or more digits of its key, as `cache ls`, tables and `export runs` show them, or as
/// a node of a pipeline: its name, or the first parts of it if they mean one node only. Lists every file with its tensors, columns
/// or fields: type, shape, meaning and first values; then parameters, inputs, versions and time; then the artifacts in the
/// store that were made from it.
#[derive(clap::Args)]
#[command(override_usage = "ppgnn show [OPTIONS] KEY\n       ppgnn show [OPTIONS] FILE NODE")]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Node of the pipeline; without it, what stands in place of the file is a key
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let store = args.pipeline.store.look()?;
    let artifact = match &args.node {
        Some(node) => of_node(args, node, &store, registry)?,
        None => of_key(&args.pipeline.file.display().to_string(), &store)?,
    };
    let entry = match store.open_artifact(&artifact.key, &artifact.stage)? {
        Opened::Hit(entry) => entry,
        Opened::Miss => return Err(Failure::new(exit::DATA, format!("no artifact {artifact} is in the store"), None)),
        Opened::Damaged { what, .. } => {
            let hint = "a run that needs it sets it aside and computes it again";
            return Err(Failure::new(exit::DATA, format!("artifact {artifact} is damaged: {what}"), Some(hint)));
        }
    };
    let kind = registry.stage(&entry.manifest.ingredients.stage).map(|stage| stage.output);
    let files = files(&entry, kind)?;
    let around = Around::new(&entry, &store)?;
    if args.json {
        print_json(&as_json(&entry, kind, &files, &around))?;
    } else {
        print(&as_text(&entry, kind, &files, &around))?;
    }
    Ok(exit::DONE)
}

/// The artifact of a node, which must be one alone.
fn of_node(args: &Args, node: &str, store: &Store, registry: &Registry) -> Result<ArtifactRef, Failure> {
    let words = [node.to_owned()];
    let plan = args.pipeline.plan_for(&args.pipeline.catalogue(), registry, &|plan| targets::asked(plan, &words))?;
    let found = targets::find(&plan, &words)?;
    let [only] = found[..] else {
        let names: Vec<String> = found.iter().take(5).map(|id| plan.node(*id).name.to_string()).collect();
        let message = format!("`{node}` means {} nodes", found.len());
        return Err(Failure::usage(message, Some(&format!("name one of them, such as {}", names.join(", ")))));
    };
    Stored { plan: &plan, store, words: args.pipeline.words() }.all_there([only])?;
    Ok(ArtifactRef::new(plan.node(only).stage.name, plan.node(only).key))
}

/// The artifact whose key starts so.
fn of_key(word: &str, store: &Store) -> Result<ArtifactRef, Failure> {
    let is_key = word.len() >= 6 && word.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_key {
        let message = format!("`{word}` is not a key: expected six or more of its hex digits");
        return Err(Failure::usage(message, Some("`ppgnn show FILE NODE` shows a node of a pipeline")));
    }
    let mut found = store.entries(None)?;
    found.retain(|artifact| artifact.key.to_string().starts_with(&word.to_lowercase()));
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => {
            let message = format!("no artifact whose key starts with `{word}` is in the store");
            Err(Failure::new(exit::DATA, message, Some("`ppgnn cache ls` lists what is there")))
        }
        several => {
            let names: Vec<String> = several.iter().take(5).map(ToString::to_string).collect();
            Err(Failure::usage(format!("`{word}` is the start of several keys: {}", names.join(", ")), None))
        }
    }
}

/// A file of the artifact, with what is known of it.
struct Shown {
    name: String,
    bytes: u64,
    doc: Option<&'static FileDoc>,
    held: Vec<Held>,
}

impl Shown {
    fn meaning(&self, held: &Held) -> &'static str {
        let entries = self.doc.map_or(&[][..], |doc| doc.entries);
        entries.iter().find(|entry| entry.is_about(&held.name)).map_or("", |entry| entry.about)
    }
}

fn files(entry: &Entry, kind: Option<Kind>) -> Result<Vec<Shown>, Failure> {
    let of_file = |name: &str, bytes: u64| {
        let held = held(&entry.dir.join(name)).map_err(|e| Failure::unexpected(e.to_string()))?;
        let doc = kind.and_then(|kind| files_of(kind).find(|file| file.name == name));
        Ok(Shown { name: name.to_owned(), bytes, doc, held })
    };
    entry.manifest.files.iter().map(|file| of_file(&file.name, file.size)).collect()
}

/// The artifacts before and after.
struct Around {
    /// Slots, and what is in them if it is still there.
    inputs: Vec<(String, String, Option<Manifest>)>,
    /// What was made from it.
    used_by: Vec<Manifest>,
}

impl Around {
    fn new(entry: &Entry, store: &Store) -> Result<Self, Failure> {
        let all: Vec<Manifest> = store.entries(None)?.iter().filter_map(|a| store.manifest(&a.key, &a.stage)).collect();
        let inputs = entry.manifest.ingredients.inputs.iter().map(|input| {
            let there = all.iter().find(|manifest| manifest.key == input.key).cloned();
            (input.slot.clone(), input.key.to_string(), there)
        });
        let inputs = inputs.collect();
        let reads =
            |manifest: &Manifest| manifest.ingredients.inputs.iter().any(|input| input.key == entry.manifest.key);
        Ok(Self { inputs, used_by: all.into_iter().filter(reads).collect() })
    }
}

fn as_text(entry: &Entry, kind: Option<Kind>, files: &[Shown], around: &Around) -> String {
    let manifest = &entry.manifest;
    let kind = kind.map_or(String::new(), |kind| format!(", {kind}"));
    let mut out = format!("{}{kind}, {}\n", manifest.node, bytes_text(manifest.bytes()));
    out.push_str(&format!("key     {}\nfolder  {}\n", entry.manifest.key, entry.dir.display()));
    for file in files {
        let about = file.doc.map_or(String::new(), |doc| format!(": {}", doc.about));
        out.push_str(&format!("\n{} ({}){about}\n", file.name, bytes_text(file.bytes)));
        let width =
            |of: fn(&Held) -> &String| file.held.iter().map(|h| of(h).chars().count()).max().unwrap_or(0).min(30);
        let (name, form) = (width(|h| &h.name), width(|h| &h.form));
        for held in file.held.iter().take(MOST_SHOWN) {
            let meaning = file.meaning(held);
            let line = format!("  {:name$}  {:form$}  {meaning}", held.name, held.form);
            out.push_str(&format!("{}\n", line.trim_end()));
            if !held.first.is_empty() {
                out.push_str(&format!("  {:name$}  {}\n", "", held.first));
            }
        }
        if file.held.len() > MOST_SHOWN {
            out.push_str(&format!("  … and {} more\n", file.held.len() - MOST_SHOWN));
        }
    }
    out.push_str(&format!("\nmade by {} version {}", manifest.ingredients.stage, manifest.ingredients.version));
    if let Some(row) = &manifest.ingredients.variant {
        out.push_str(&format!(", {row}"));
    }
    let took = duration_text(manifest.seconds);
    out.push_str(&format!(
        ", ppgnn {}, {}: {took} on {} threads\n",
        manifest.ppgnn, manifest.created, manifest.threads
    ));
    for (name, value) in &manifest.measured {
        out.push_str(&format!("  measured {}\n", measured_text(name, *value)));
    }
    for line in &manifest.said {
        out.push_str(&format!("  stderr  {line}\n"));
    }
    out.push_str(&format!("  profile {}\n", manifest.ingredients.profile));
    for (name, value) in &manifest.ingredients.params {
        out.push_str(&format!("  {name}: {}\n", short(value)));
    }
    out.push_str("\nfrom\n");
    for (slot, key, there) in &around.inputs {
        let name = there.as_ref().map_or("not in the store any more", |m| m.node.as_str());
        out.push_str(&format!("  {slot}  {}  {name}\n", &key[..12]));
    }
    if around.inputs.is_empty() {
        out.push_str("  no other artifact\n");
    }
    out.push_str("\nused by\n");
    for manifest in &around.used_by {
        out.push_str(&format!("  {}  {}\n", manifest.key.short(), manifest.node));
    }
    if around.used_by.is_empty() {
        out.push_str("  no artifact in the store\n");
    }
    out
}

/// How many tensors of a file are listed.
const MOST_SHOWN: usize = 24;

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 100 { format!("{}…", text.chars().take(99).collect::<String>()) } else { text }
}

fn as_json(entry: &Entry, kind: Option<Kind>, files: &[Shown], around: &Around) -> Value {
    let manifest = &entry.manifest;
    let file = |file: &Shown| {
        let held = file
            .held
            .iter()
            .map(|h| json!({"name": h.name, "form": h.form, "first": h.first, "meaning": file.meaning(h)}));
        json!({"name": file.name, "bytes": file.bytes, "about": file.doc.map(|doc| doc.about), "holds": held.collect::<Vec<_>>()})
    };
    let input = |(slot, key, there): &(String, String, Option<Manifest>)| json!({"slot": slot, "key": key, "id": there.as_ref().map(|m| &m.node)});
    let user =
        |manifest: &Manifest| json!({"stage": manifest.ingredients.stage, "key": manifest.key, "id": manifest.node});
    json!({
        "version": 1, "id": manifest.node, "stage": entry.manifest.ingredients.stage, "kind": kind.map(|kind| kind.0), "key": entry.manifest.key,
        "folder": entry.dir.display().to_string(), "files": files.iter().map(file).collect::<Vec<_>>(),
        "ingredients": manifest.ingredients, "seconds": manifest.seconds, "threads": manifest.threads,
        "created": manifest.created, "ppgnn": manifest.ppgnn, "measured": manifest.measured, "stderr": manifest.said,
        "inputs": around.inputs.iter().map(input).collect::<Vec<_>>(),
        "used-by": around.used_by.iter().map(user).collect::<Vec<_>>(),
    })
}
