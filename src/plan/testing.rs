//! Toy stages, and plans of pipelines made of them.

use std::io;
use std::path::Path;

use ppgnn_stages::contract::params::{self, FilePath};
use ppgnn_stages::contract::{Artifact, ArtifactError, Job, Kind, Registry, Slot, Stage, StageDef, StageError};
use ppgnn_stages::tabulate::Tabulate;
use ppgnn_stages::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Node, Plan, PlanContext, build};
use crate::pipeline::{Known, Nothing, Pipeline, PipelineError};

/// An artifact of a kind; nothing is ever made.
struct Toy<const KIND: usize>;

const KINDS: [Kind; 3] = [Kind("graph"), Kind("metrics"), Kind("figure")];

impl<const KIND: usize> Artifact for Toy<KIND> {
    const KIND: Kind = KINDS[KIND];
    fn save(&self, _: &Path) -> Result<(), ArtifactError> {
        Ok(())
    }
    fn load(_: &Path) -> Result<Self, ArtifactError> {
        Ok(Self)
    }
}

/// Parameters of every toy stage.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct Params {
    size: i64,
    #[schemars(range(min = 0))]
    seed: i64,
    path: Option<FilePath>,
}

impl params::Params for Params {}

macro_rules! toy {
    ($stage:ident, $name:literal, $inputs:expr, $kind:literal, $publishes:expr) => {
        struct $stage;
        impl Stage for $stage {
            const NAME: &'static str = $name;
            const ABOUT: &'static str = "A toy";
            const VERSION: u32 = 1;
            const INPUTS: &'static [Slot] = $inputs;
            const PUBLISHES: &'static [&'static str] = $publishes;
            type Params = Params;
            type Output = Toy<$kind>;
            fn run(_: &Params, _: &Job) -> Result<Toy<$kind>, StageError> {
                Ok(Toy)
            }
        }
    };
}

toy!(Load, "load", &[], 0, &[]);
toy!(Train, "train", &[Slot::one("graph", KINDS[0])], 1, &[]);
toy!(Draw, "draw", &[Slot::one("metrics", KINDS[1])], 2, &["figure.svg"]);

static STAGES: &[StageDef] = &[
    StageDef::of::<Load>(),
    StageDef::of::<Train>(),
    StageDef::of::<Draw>(),
    StageDef::of::<Time>(),
    StageDef::of::<Tabulate>(),
];

/// `load` and `train`.
pub(super) const CHAIN: &str = "stages: {load: {}, train: {inputs: {graph: load}}}";

/// The toy stages. Tables show scores, of which there are the built-in ones.
pub(super) fn registry() -> Registry {
    Registry::of_stages(STAGES).with_rows(ppgnn_stages::kinds::SCORES)
}

/// Plans a pipeline of the toy stages. A file's digest is its path, and a path with `missing` in it has no file.
pub(super) fn plan_with(text: &str, known: &dyn Known) -> Result<Plan, PipelineError> {
    plan_on("a machine", text, known)
}

/// The same on another machine.
pub(super) fn plan_on(machine: &str, text: &str, known: &dyn Known) -> Result<Plan, PipelineError> {
    let text = format!("ppgnn: 1\nname: toy\n{text}\n");
    let registry = registry();
    let pipeline = Pipeline::of_text("toy.yaml", &text, &registry, known)?;
    let digest = |path: &Path, _| match path.display().to_string() {
        path if path.contains("missing") => Err(io::ErrorKind::NotFound.into()),
        path => Ok(path),
    };
    let (profile, device_profile) = ("cpu".into(), "cuda".into());
    let around = PlanContext { registry: &registry, profile, device_profile, machine: machine.into(), digest: &digest };
    build(&pipeline, &around)
}

/// The same where no data set is known and nothing goes wrong.
pub(super) fn plan(text: &str) -> Plan {
    plan_with(text, &Nothing).unwrap_or_else(|e| panic!("{e}"))
}

/// Every problem with a pipeline.
pub(super) fn problems(text: &str) -> Vec<String> {
    let error = plan_with(text, &Nothing).map(|_| ()).unwrap_err();
    error.problems.into_iter().map(|p| p.message).collect()
}

/// The names of all nodes.
pub(super) fn names(plan: &Plan) -> Vec<String> {
    plan.nodes.iter().map(|n| n.name.to_string()).collect()
}

/// The node of a name.
pub(super) fn node<'p>(plan: &'p Plan, name: &str) -> &'p Node {
    plan.nodes.iter().find(|n| n.name.to_string() == name).unwrap_or_else(|| panic!("no {name} in {:?}", names(plan)))
}
