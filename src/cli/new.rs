//! `ppgnn new`: writes a crate of one's own. The files are those of `examples/own-model/`, which the tests build and run, with
//! another name.

use std::path::{Path, PathBuf};

use ppgnn_stages::contract::{Registry, Row};
use ppgnn_stages::models::ModelDef;

use super::failure::Failure;
use super::{exit, print};

/// Start something of your own
///
/// `new model NAME` writes a crate into the folder NAME: a program that has all commands of ppgnn and a model in plain form, a
/// test, and a pipeline that compares the model with three baselines on generated graphs.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Model(ModelArgs),
}

/// Write a crate with a model of your own
#[derive(clap::Args)]
struct ModelArgs {
    /// Name of the model, the crate and the folder, in kebab-case
    name: String,
    /// Folder with the source of ppgnn, which the crate depends on [default: the one that this program was built from]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// The name that the files are written with.
const NAME: &str = "own-model";
/// Files by their path in the crate.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../examples/own-model/Cargo.toml")),
    ("compare.yaml", include_str!("../../examples/own-model/compare.yaml")),
    ("src/main.rs", include_str!("../../examples/own-model/src/main.rs")),
    ("src/model.rs", include_str!("../../examples/own-model/src/model.rs")),
    (".gitignore", "/target\n/artifacts\n"),
];
/// Where the profiles of `ppgnn` are: which crates are optimised, so that the first build is short.
const PROFILES: &str = include_str!("../../Cargo.toml");
/// Names that cannot be those of a crate beside its dependencies.
const TAKEN: &[&str] = &["ppgnn", "ppgnn-stages", "schemars", "serde", "tempfile", "test", "core", "std"];

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let What::Model(args) = &args.what;
    must_be_name(&args.name, registry)?;
    let source = source(args.path.as_deref())?;
    let folder = Path::new(&args.name);
    if folder.exists() {
        let hint = "choose another name, or start in another folder";
        return Err(Failure::usage(format!("`{}` is there already", folder.display()), Some(hint)));
    }
    for (path, text) in FILES {
        let mut text = renamed(text, &args.name);
        if *path == "Cargo.toml" {
            text = standing_alone(&text, &source);
        }
        write(&folder.join(path), &text)?;
    }
    // The versions that ppgnn was tried with.
    let _ = std::fs::copy(source.join("Cargo.lock"), folder.join("Cargo.lock"));
    let name = &args.name;
    print(&format!(
        "Wrote {name}/: the model is in src/model.rs. Next:\n\n  cd {name}\n  cargo run --release -- run compare.yaml\n  cargo test\n"
    ))?;
    Ok(exit::DONE)
}

/// A name that a crate, a model and a Rust type can have.
fn must_be_name(name: &str, registry: &Registry) -> Result<(), Failure> {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    if !name.split('-').all(is_word) {
        let expected = "expected words of lower-case letters and digits, joined by hyphens, such as `my-gcn`";
        return Err(Failure::usage(format!("`{name}` cannot be the name of a model: {expected}"), None));
    }
    if let Some(row) = registry.rows::<ModelDef>().find(|row| row.variant().name == name) {
        let what = format!("there is a model `{name}` already: {}", row.variant().about);
        return Err(Failure::usage(what, Some("choose another name")));
    }
    if TAKEN.contains(&name) {
        let what = format!("a crate `{name}` could not stand beside the crates that it depends on");
        return Err(Failure::usage(what, Some("choose another name")));
    }
    Ok(())
}

/// The folder with the source of ppgnn, as an absolute path.
fn source(asked: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = asked.unwrap_or(Path::new(env!("CARGO_MANIFEST_DIR")));
    let is_source = |folder: &PathBuf| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml"));
        manifest.is_ok_and(|text| text.contains("name = \"ppgnn\""))
    };
    folder.canonicalize().ok().filter(is_source).ok_or_else(|| {
        let what = format!("there is no source of ppgnn in `{}`", folder.display());
        Failure::usage(what, Some("say where it is, with its Cargo.toml: `--path DIR`"))
    })
}

/// A file with another name in place of that of the example.
fn renamed(text: &str, name: &str) -> String {
    let camel: String = name.split('-').map(capitalised).collect();
    let own: String = NAME.split('-').map(capitalised).collect();
    text.replace(NAME, name).replace(&own, &camel)
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    first.to_ascii_uppercase() + rest
}

/// The manifest of a crate that is in no workspace, depends on the source in a folder, and optimises what ppgnn optimises:
/// `cargo run` as `dev` there, `cargo run --release` as `quick` there.
fn standing_alone(manifest: &str, source: &Path) -> String {
    let path = format!("path = {}", serde_json::Value::from(source.to_string_lossy()));
    let list = PROFILES.split_once("[profile.dev.package]\n").map_or("", |(_, rest)| rest);
    let list = list.split_once("\n\n").map_or(list, |(list, _)| list);
    let quick = list.replace("opt-level = 2", "opt-level = 3");
    format!(
        "{}
[workspace]

# Most of what is below handles small frames and text: optimising all of it takes three times as long and saves nothing.
[profile.dev]
debug = 0
opt-level = 1

[profile.dev.package]
ppgnn = {{ opt-level = 1 }}
{list}

[profile.release]
codegen-units = 16

[profile.release.package]
ppgnn = {{ opt-level = 3 }}
{quick}
",
        manifest.replace("path = \"../..\"", &path)
    )
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, text)).map_err(|error| {
        Failure::usage(
            format!("cannot write `{}`: {error}", path.display()),
            Some("start in a folder that can be written"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_stands_alone_optimises_what_computes() {
        let manifest = standing_alone(FILES[0].1, Path::new("/a \"folder\""));
        assert!(manifest.contains(r#"ppgnn = { path = "/a \"folder\"" }"#), "{manifest}");
        let (dev, release) = manifest.split_once("[profile.release.package]").unwrap();
        assert!(
            dev.contains("ppgnn-stages = { opt-level = 2 }") && release.contains("ppgnn-stages = { opt-level = 3 }")
        );
        assert!(release.contains("\"*\" = { opt-level = 0 }") && release.contains("candle-core = { opt-level = 3 }"));
        assert!(!manifest.contains("[profile.quick") && manifest.contains("\n[workspace]\n"));
    }

    #[test]
    fn nothing_of_the_example_is_left_in_a_renamed_file() {
        for (path, text) in FILES {
            let text = renamed(text, "two-words").to_lowercase();
            assert!(!text.contains("own-model") && !text.contains("ownmodel") && !text.contains("own_model"), "{path}");
        }
        assert!(renamed(FILES[3].1, "two-words").contains("pub struct TwoWords {"));
    }
}
