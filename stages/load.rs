//! `load`: reads or makes a graph. What it can read is the table [`FORMATS`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Choice, Job, Slot, Stage, StageError};
use crate::datasets::FORMATS;
use crate::kinds::Graph;
use crate::params;

/// Parameters of `load`; those of the format stand beside them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Where the graph comes from: a file format or a generator.
    pub format: String,
}

impl params::Params for Params {}

/// The stage.
pub struct Load;

impl Stage for Load {
    const NAME: &'static str = "load";
    const ABOUT: &'static str = "Reads a graph from a file, or makes one";
    const VERSION: u32 = 2;
    const INPUTS: &'static [Slot] = &[];
    const CHOICE: Option<Choice> =
        Some(Choice { param: "format", rows: || FORMATS.iter().map(|f| f.variant).collect() });
    type Params = Params;
    type Output = Graph;

    fn run(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let format = FORMATS.iter().find(|f| f.variant.name == params.format).ok_or_else(|| {
            let known = params::nearest_help(&params.format, FORMATS.iter().map(|f| f.variant.name));
            StageError::unusable(format!("unknown format `{}`", params.format), known)
        })?;
        (format.read)(job)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use serde_json::{Value, json};

    use super::*;
    use crate::contract::{Artifact, Quiet, StageDef};

    fn load(written: &Value) -> Graph {
        let stage = StageDef::of::<Load>();
        let checked = stage.check(written.as_object().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let job =
            Job { inputs: &[], threads: 1, progress: &Quiet, cancel: &AtomicBool::new(false), variant: &Value::Null };
        stage.run(&checked, &job, folder.path()).unwrap();
        Graph::load(folder.path()).unwrap()
    }

    #[test]
    fn the_format_names_the_reader_and_its_parameters_stand_beside_it() {
        let graph = load(&json!({"format": "csbm", "nodes": 60, "features": 3, "seed": 4}));
        assert_eq!((graph.nodes(), graph.features.cols(), graph.classes), (60, 3, 2));
    }

    #[test]
    fn an_unknown_format_is_told_the_nearest() {
        let problems = StageDef::of::<Load>().check(json!({"format": "csmb"}).as_object().unwrap()).unwrap_err();
        assert_eq!(problems[0].help.as_deref(), Some("did you mean `csbm`?"));
    }

    #[test]
    fn formats_have_unique_names_and_a_sentence() {
        let mut names: Vec<_> = FORMATS.iter().map(|f| f.variant.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FORMATS.len());
        assert!(FORMATS.iter().all(|f| !f.variant.about.is_empty() && !f.variant.about.ends_with('.')));
    }
}
