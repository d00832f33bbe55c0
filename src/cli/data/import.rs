//! `ppgnn data import`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{DataContext, exit, files_text, note, print, print_json, title};
use crate::catalogue::{self, DataFile, Manifest};
use crate::cli::failure::Failure;

/// Copy data sets from a folder, such as another data directory
///
/// Files are looked up as DIR/<folder of the data set>/<file>; if exactly one data set is named, also as DIR/<file> and by
/// their bare file name in DIR. A file is copied only if its digest matches; a file that is already here and matches is
/// left alone. Exit code 4 if something is missing or refused.
#[derive(clap::Args)]
pub struct Args {
    /// Folder to copy from
    dir: PathBuf,
    /// Data sets to import (default: all that are found)
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &DataContext) -> Result<u8, Failure> {
    if !args.dir.is_dir() {
        return Err(Failure::usage(format!("`{}` is not a folder", args.dir.display()), None));
    }
    let lone = args.names.len() == 1;
    let find = |manifest: &Manifest, file: &DataFile| {
        let mut places = vec![args.dir.join(&manifest.folder).join(&file.path)];
        if lone {
            places.push(args.dir.join(&file.path));
            places.extend(file.path.file_name().map(|name| args.dir.join(name)));
        }
        places.into_iter().find(|path| path.is_file())
    };
    let manifests = context.chosen(&args.names, |m| m.files.iter().any(|f| find(m, f).is_some()))?;
    if manifests.is_empty() {
        let hint = "give the folder that contains the data set folders, or add the name of one data set";
        let message = format!("no file of a known data set is in `{}`", args.dir.display());
        return Err(Failure::new(exit::DATA, message, Some(hint)));
    }
    let _hold = context.hold()?;
    let (mut listed, mut bad) = (Vec::new(), 0);
    for manifest in &manifests {
        let (mut copied, mut here, mut text) = (0, 0, String::new());
        for file in &manifest.files {
            let (word, detail) = one(context, manifest, file, find(manifest, file).as_deref());
            match word {
                "copied" => copied += 1,
                "here" => here += 1,
                _ => {
                    bad += 1;
                    text.push_str(format!("{word:<8} {}  {detail}", title(manifest, file)).trim_end());
                    text.push('\n');
                }
            }
            listed.push(json!({"dataset": manifest.name, "file": file.path, "state": word, "detail": detail}));
        }
        if !context.json {
            let missing = manifest.files.len() - copied - here;
            let mut summary = format!("{:<20} {} copied", manifest.name, files_text(copied));
            for (count, what) in [(here, "here already"), (missing, "missing or refused")] {
                if count > 0 {
                    summary.push_str(&format!(", {count} {what}"));
                }
            }
            print(&format!("{summary}\n{text}"))?;
        }
    }
    let code = if bad == 0 { exit::DONE } else { exit::DATA };
    if context.json {
        print_json(&json!({"version": 1, "files": listed, "exit-code": code}))?;
    } else if bad > 0 {
        note(&format!("error: {} missing or refused", files_text(bad)));
    }
    Ok(code)
}

/// Copies one file; says what became of it, and why.
fn one(context: &DataContext, manifest: &Manifest, file: &DataFile, from: Option<&Path>) -> (&'static str, String) {
    let target = context.path(manifest, file);
    if file.verify(&target).is_ok() {
        return ("here", String::new());
    }
    if target.is_dir() {
        return ("refused", format!("`{}` is a folder, where a file belongs: remove it", target.display()));
    }
    let Some(from) = from else { return ("missing", String::new()) };
    match catalogue::import(file, from, &target) {
        Ok(_) => ("copied", String::new()),
        Err(misfit) => ("refused", format!("`{}` {misfit}", from.display())),
    }
}
