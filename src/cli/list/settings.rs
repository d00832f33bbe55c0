//! Settings and spaces of models: which there are, or the file of one.

use ppgnn_stages::contract::params::nearest_help;
use serde_json::{Value, json};

use crate::catalogue::Catalogue;
use crate::cli::failure::Failure;
use crate::cli::{exit, note, print, print_as, print_json};
use crate::pipeline::{ModelSummary, summary};

/// Lists the models that have a file, or prints the file of one.
pub(super) fn run(name: Option<&str>, json: bool, catalogue: &Catalogue) -> Result<u8, Failure> {
    let names = catalogue.models();
    let Some(name) = name else {
        let all = names.iter().filter_map(|name| Some((name, summary(catalogue.model(name)?))));
        let (mut out, mut items) = (String::new(), Vec::new());
        for (name, found) in all {
            let found = found?;
            items.push(as_json(name, &found));
            out.push_str(&format!("{name:<20} {}\n", found.about));
            for (set, datasets) in &found.sets {
                let of = if datasets.is_empty() { "for any data set".to_owned() } else { datasets.join(", ") };
                out.push_str(&format!("{:<20} settings `{set}`: {of}\n", ""));
            }
            if !found.spaces.is_empty() {
                out.push_str(&format!("{:<20} spaces: {}\n", "", found.spaces.join(", ")));
            }
        }
        print_as(json, &json!({"version": 1, "items": items}), &out)?;
        if !json {
            note(
                "`ppgnn list settings NAME` prints the file of one; a copy in `models` beside your pipeline wins over it",
            );
        }
        return Ok(exit::DONE);
    };
    let Some(text) = catalogue.model(name) else {
        let hint = nearest_help(name, names.iter().map(String::as_str));
        return Err(Failure::usage(format!("there are no settings of `{name}`"), Some(&hint)));
    };
    let text = text?;
    if json {
        let found = summary(Ok(text.clone()))?;
        let mut item = as_json(name, &found);
        item["text"] = Value::from(&*text.text);
        print_json(&json!({"version": 1, "items": [item]}))?;
    } else {
        print(&text.text)?;
    }
    Ok(exit::DONE)
}

fn as_json(name: &str, found: &ModelSummary) -> Value {
    let sets = found.sets.iter().map(|(name, datasets)| json!({"name": name, "datasets": datasets}));
    json!({
        "name": name, "about": found.about, "source": found.source, "sets": sets.collect::<Vec<_>>(),
        "spaces": found.spaces,
    })
}
