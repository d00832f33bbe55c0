//! `ppgnn data verify`.

use std::rc::Rc;

use serde_json::{Value, json};

use super::{DataContext, exit, files_text, note, print, print_json, title};
use crate::catalogue::{FileState, Manifest, Misfit, SharedFile, Verified, shared_files};
use crate::cli::failure::Failure;

/// Read every file that is here and compare it with its digest
///
/// A data set whose files all match is one line; every other file has its own line with the actual and the expected
/// digest. Exit code 4 if a file is missing or does not match. A file that another known data set has as well, byte for byte
/// by the digests of both, is a warning: the two are not as different as their names.
#[derive(clap::Args)]
pub struct Args {
    /// Data sets to verify (default: all that have a file here)
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &DataContext) -> Result<u8, Failure> {
    let any_here = |m: &Manifest| m.state(&context.dir).iter().any(|(_, state)| *state != FileState::Absent);
    let manifests = context.chosen(&args.names, any_here)?;
    let (mut listed, mut bad) = (Vec::new(), 0);
    for manifest in &manifests {
        let (mut text, mut right) = (String::new(), 0);
        for (file, state) in manifest.state(&context.dir) {
            let outcome = (state != FileState::Absent).then(|| file.verify(&context.path(manifest, file)));
            let (word, detail, digest) = match outcome {
                None => ("missing", String::new(), None),
                Some(Ok(Verified::Digest)) => ("ok", String::new(), None),
                Some(Ok(Verified::Arrays)) => ("ok", "packed differently, but the arrays match".to_owned(), None),
                Some(Ok(Verified::NoDigestKnown { sha256 })) => {
                    ("no digest known", format!("it has SHA-256 {sha256}"), Some(sha256))
                }
                Some(Err(error)) => {
                    let (word, digest) = match &error.misfit {
                        Misfit::Digest { found, .. } => ("wrong digest", Some(found.clone())),
                        Misfit::Size { .. } => ("wrong size", None),
                        Misfit::Unreadable(_) => ("unreadable", None),
                        Misfit::Foreign(_) => ("not the data", None),
                    };
                    (word, error.misfit.to_string(), digest)
                }
            };
            if word == "ok" {
                right += 1;
            } else {
                bad += usize::from(word != "no digest known");
                text.push_str(format!("{word:<16} {}  {detail}", title(manifest, file)).trim_end());
                text.push('\n');
            }
            listed.push(json!({
                "dataset": manifest.name, "file": file.path, "state": word, "detail": detail, "sha256": digest,
                "expected": file.sha256,
            }));
        }
        if right > 0 && !context.json {
            print(&format!("{:<16} {} ({})\n", "ok", manifest.name, files_text(right)))?;
        }
        if !context.json {
            print(&text)?;
        }
    }
    let shared = shared(&manifests, context);
    let code = if bad == 0 { exit::DONE } else { exit::DATA };
    if context.json {
        print_json(
            &json!({"version": 1, "files": listed, "shared": shared.iter().map(as_json).collect::<Vec<_>>(), "exit-code": code}),
        )?;
    } else if listed.is_empty() {
        note(&format!("no data in {}; `ppgnn data fetch NAME` fetches a data set", context.dir.display()));
    } else if bad > 0 {
        note(&format!("error: {} missing or wrong", files_text(bad)));
        note("hint: `ppgnn data fetch NAME` fetches missing files and replaces wrong ones");
    }
    if !context.json {
        shared.iter().for_each(|file| note(&warning(file)));
    }
    Ok(code)
}

/// The files of these data sets that another known one has as well.
fn shared(manifests: &[Rc<Manifest>], context: &DataContext) -> Vec<SharedFile> {
    // What is wrong with the manifest of another data set is told where that one is asked for.
    let others: Vec<Rc<Manifest>> = context.catalogue.all().filter_map(|(_, found)| found.ok()).collect();
    let is_asked = |(name, _): &(String, _)| manifests.iter().any(|manifest| manifest.name == *name);
    let found = shared_files(others.iter().map(|manifest| &**manifest));
    found.into_iter().filter(|file| file.places.iter().any(is_asked)).collect()
}

fn places(file: &SharedFile) -> Vec<String> {
    file.places.iter().map(|(dataset, path)| format!("{dataset}/{}", path.display())).collect()
}

fn warning(file: &SharedFile) -> String {
    format!(
        "warning: {} are one file, byte for byte (SHA-256 {}): these data sets share what is in it",
        places(file).join(" and "),
        &file.sha256[..12]
    )
}

fn as_json(file: &SharedFile) -> Value {
    json!({"sha256": file.sha256, "files": places(file)})
}
