//! `ppgnn data list`.

use serde_json::{Value, json};

use super::{DataContext, exit, note, print_as};
use crate::catalogue::{FileState, Manifest};
use crate::cli::failure::Failure;
use crate::report::bytes_text;

const COUNTS: [&str; 4] = ["nodes", "edges-undirected", "features", "classes"];

/// Runs the command.
pub(super) fn run(context: &DataContext) -> Result<u8, Failure> {
    let mut text = format!(
        "{:<20} {:>8} {:>9} {:>9} {:>8} {:>9}  state\n",
        "name", "nodes", "edges", "features", "classes", "size"
    );
    let mut listed = Vec::new();
    let mut code = exit::DONE;
    for (name, manifest) in context.catalogue.all() {
        match manifest {
            Ok(manifest) => {
                let item = item(&manifest, context);
                text.push_str(&line(&item));
                listed.push(item);
            }
            // One bad manifest does not hide the others.
            Err(error) => {
                code = exit::INVALID;
                note(&error.to_string());
                text.push_str(&format!("{name:<20} {:>48}  its manifest is invalid\n", ""));
                listed.push(json!({"name": name, "state": "invalid", "error": error.to_string()}));
            }
        }
    }
    let object =
        json!({"version": 1, "data-dir": context.dir.display().to_string(), "datasets": listed, "exit-code": code});
    print_as(context.json, &object, &text)?;
    Ok(code)
}

fn item(manifest: &Manifest, context: &DataContext) -> Value {
    let states = manifest.state(&context.dir);
    let (mut here, mut changed, mut on_disk) = (0, false, 0);
    for (_, state) in &states {
        match state {
            FileState::Here { bytes } => {
                here += 1;
                on_disk += bytes;
            }
            FileState::WrongSize { found, .. } => {
                changed = true;
                on_disk += found;
            }
            FileState::Absent => {}
        }
    }
    let state = match here {
        _ if changed => "changed".to_owned(),
        0 => "absent".to_owned(),
        all if all == states.len() => "here".to_owned(),
        some => format!("partly ({some} of {} files)", states.len()),
    };
    let whole = manifest.files.iter().map(|f| f.bytes).sum::<Option<u64>>();
    let mut item = json!({
        "name": manifest.name, "title": manifest.title, "about": manifest.about, "licence": manifest.licence,
        "source": manifest.source, "folder": manifest.root(&context.dir).display().to_string(), "files": states.len(),
        "bytes": whole, "bytes-here": on_disk, "state": state,
    });
    for count in COUNTS {
        item[count] = json!(manifest.expected_count(count));
    }
    item
}

fn line(item: &Value) -> String {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let count = |name: &str| item[name].as_u64().map_or("-".to_owned(), |n| n.to_string());
    // The size on disk; if nothing is here, the size of the download.
    let size = item["bytes-here"].as_u64().filter(|n| *n > 0).or(item["bytes"].as_u64());
    let [nodes, edges, features, classes] = COUNTS.map(count);
    let size = size.map_or("-".to_owned(), bytes_text);
    format!("{:<20} {nodes:>8} {edges:>9} {features:>9} {classes:>8} {size:>9}  {}\n", text("name"), text("state"))
}
