//! What a pipeline says of a program.

use std::collections::BTreeSet;
use std::path::{Component, Path};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::handed;
use crate::contract::params::{Bytes, CommandLine, FilePath, Problem, Variant};
use crate::contract::{Crate, Row};

/// A row of [`COMMANDS`](super::COMMANDS).
pub struct CommandDef {
    variant: Variant,
}

impl CommandDef {
    /// The row that runs any program.
    pub(super) const ANY: Self = {
        let about = "A program of your own, in any language";
        Self { variant: Variant::of::<Params>("command", about, 1, Crate::BUILT_IN) }
    };
}

impl Row for CommandDef {
    fn noun(&self) -> &'static str {
        "model"
    }
    fn variant(&self) -> &Variant {
        &self.variant
    }
}

/// Parameters of `command`. Those of `train` are handed to the program beside `params`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The program and its arguments, such as `[python, my_model.py]`.
    pub run: CommandLine,
    /// What the program reads besides the data: scripts, modules, lock files. They count by content, and are in the folder that it
    /// starts in, under the paths that are written here.
    #[serde(default)]
    pub files: Vec<FilePath>,
    /// The paths of the files in that folder, which follow from `files`.
    // Part of the key: which file is which matters to the program.
    #[serde(default)]
    #[schemars(extend("x-planned" = true))]
    pub places: Vec<String>,
    /// Parameters of the program's own, by name.
    #[serde(default)]
    pub params: Map<String, Value>,
    /// What must be installed: commands, and what they must print.
    #[serde(default)]
    pub environment: Vec<Requirement>,
    /// Whether every split gets a process of its own, which is handed nothing of the others.
    #[serde(default)]
    pub apart: bool,
    /// Seconds that a process may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1e9), extend("exclusiveMinimum" = 0.0, "x-limit" = true))]
    pub timeout: Option<f64>,
    /// Memory that a process and what it starts may have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-limit" = true))]
    pub memory: Option<Bytes>,
}

/// Something that must be installed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// A command that says which version there is, such as `[python, --version]`.
    pub run: CommandLine,
    /// What its output must begin with, such as `Python 3.12`.
    pub prints: String,
}

impl Params {
    /// How long a process may take.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

impl crate::contract::params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        let lines = [("run", &self.run)].into_iter();
        let lines = lines.chain(self.environment.iter().map(|required| ("environment", &required.run)));
        let is_none = |line: &CommandLine| line.0.first().is_none_or(String::is_empty);
        let cannot_run = |line: &CommandLine| is_none(line) || line.0.iter().any(|word| word.contains('\0'));
        for (param, _) in lines.filter(|(_, line)| cannot_run(line)) {
            problems.push(Problem::value(param, "expected a program and its arguments"));
        }
        let mut seen = BTreeSet::new();
        for place in self.files.iter().map(|file| place(&file.0)) {
            if handed::is_ours(&place) {
                problems.push(Problem::value("files", format!("`{place}` is the name of a file that ppgnn writes")));
            } else if !seen.insert(place.clone()) {
                let help = "files are copied into one folder: give one of them another name";
                problems.push(Problem::value("files", format!("two files are called `{place}`")).with_help(help));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn complete(mut self) -> Self {
        self.places = self.files.iter().map(|file| place(&file.0)).collect();
        self
    }
}

/// Where a file is in the folder: its path as written, if that leads downward, else its name.
fn place(path: &Path) -> String {
    let inside = |part: &Component| matches!(part, Component::Normal(_) | Component::CurDir);
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let parts = parts.map(|part| part.as_os_str().to_string_lossy().into_owned());
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if path.components().all(|part| inside(&part)) { parts.collect::<Vec<_>>().join("/") } else { name() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_model_can_have_its_name() {
        let mut row = crate::models::MODELS[0];
        (row.variant.name, row.variant.from) = ("command", Crate { name: "mine", version: "0.1.0" });
        let refused = crate::built_in().add_row(&*Box::leak(Box::new(row))).unwrap_err();
        assert!(refused.to_string().starts_with("`command` cannot be the name of a model"), "{refused}");
    }

    #[test]
    fn every_command_is_known_and_none_is_started_unasked() {
        let registry = crate::built_in();
        let train = registry.stage("train").unwrap();
        let written = serde_json::json!({
            "model": "command", "run": ["python", "model.py"], "timeout": 5, "memory": "1GiB",
            "environment": [{"run": ["python", "--version"], "prints": "Python 3"}],
        });
        let checked = train.check(&registry, written.as_object().unwrap()).unwrap();
        let commands: Vec<String> = checked.commands().iter().map(ToString::to_string).collect();
        assert_eq!(commands, ["python model.py", "python --version"]);
        assert_eq!(CommandLine(vec!["sh".into(), "\u{1b}[2K\r".into()]).to_string(), "sh \\u{1b}[2K\\r");
        let decisive = checked.decisive();
        assert!(decisive.contains_key("environment") && checked.all().contains_key("timeout"));
        assert!(!decisive.contains_key("timeout") && !decisive.contains_key("memory"));
        let never = std::sync::atomic::AtomicBool::new(false);
        let error = train.run(&checked, &crate::contract::Job::alone(&never), Path::new("nowhere")).unwrap_err();
        assert_eq!(error.to_string(), "`python model.py` may not be started here");
    }

    #[test]
    fn files_keep_their_paths_below_the_pipeline_and_their_names_elsewhere() {
        for (written, expected) in [
            ("gcn.py", "gcn.py"),
            ("./src/gcn.py", "src/gcn.py"),
            ("../shared/layers.py", "layers.py"),
            ("src/../gcn.py", "gcn.py"),
            ("/opt/lib/layers.py", "layers.py"),
        ] {
            assert_eq!(place(Path::new(written)), expected);
        }
    }
}
