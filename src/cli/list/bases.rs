//! Bases that pipelines extend: which there are, or the text of one.

use ppgnn_stages::contract::params::nearest_help;
use serde_json::{Value, json};

use crate::catalogue::Catalogue;
use crate::cli::failure::Failure;
use crate::cli::{exit, note, print, print_as, print_json};
use crate::pipeline::base_about;

/// Lists the bases, or prints the text of one.
pub(super) fn run(name: Option<&str>, json: bool, catalogue: &Catalogue) -> Result<u8, Failure> {
    let Some(name) = name else {
        let (mut out, mut items) = (String::new(), Vec::new());
        for (name, source) in catalogue.bases().filter_map(|name| Some((name, catalogue.base(name)?))) {
            let about = base_about(source)?;
            out.push_str(&format!("{name:<20} {about}\n"));
            items.push(json!({"name": name, "about": about}));
        }
        print_as(json, &json!({"version": 1, "items": items}), &out)?;
        if !json {
            note("`extends: NAME` lays a pipeline on one, `ppgnn list bases NAME` prints it");
        }
        return Ok(exit::DONE);
    };
    let Some(source) = catalogue.base(name) else {
        let hint = nearest_help(name, catalogue.bases());
        return Err(Failure::usage(format!("there is no base `{name}`"), Some(&hint)));
    };
    if json {
        let text = Value::from(&*source.text);
        let about = base_about(source)?;
        print_json(&json!({"version": 1, "items": [{"name": name, "about": about, "text": text}]}))?;
    } else {
        print(&source.text)?;
    }
    Ok(exit::DONE)
}
