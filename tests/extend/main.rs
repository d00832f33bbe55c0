//! Programs of a user's own: rows that are added to the built-in ones, through the public door alone.
//!
//! The test binary starts itself again with [`own_program`] as its program, so that what it prints can be read.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests fail by panicking")]

mod plain;

use std::path::Path;
use std::process::{Command, Output};

use ppgnn::Program;
use ppgnn::pipeline::{Nothing, Pipeline, json_schema};
use ppgnn::plan::{Plan, PlanContext, build};
use ppgnn::stages::candle_core::Result;
use ppgnn::stages::contract::params::Params;
use ppgnn::stages::contract::{Artifact, ArtifactError, Crate, Job, Kind, Refused, Slot, Stage, StageError};
use ppgnn::stages::formats::Format;
use ppgnn::stages::kinds::{Features, Graph, Matrix, Predicted, Score, Undefined};
use ppgnn::stages::models::blocks::{Linear, Names};
use ppgnn::stages::models::{self, Build, GraphView, Input, Model, Pass, Weights};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct Nodes {
    /// How many nodes the ring has.
    nodes: u32,
}
impl Params for Nodes {}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct Drop {
    /// Share of features that are dropped.
    drop: f64,
}
impl Params for Drop {}

const MINE: Crate = Crate { name: "mine", version: "0.1.0" };

/// A linear layer, in the crate `mine` of version `0.1.MINOR`.
struct Layer<const MINOR: u32>(Linear, f64);

impl<const MINOR: u32> Build for Layer<MINOR> {
    const NAME: &'static str = "layer";
    const ABOUT: &'static str = "A linear layer";
    const VERSION: u32 = 1;
    const CRATE: Crate = if MINOR == 0 { MINE } else { Crate { version: "0.1.1", ..MINE } };
    const GPU: bool = false;
    type Params = Drop;
    fn build(params: &Drop, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let names = Names::new("lin.weight", "lin.bias", "init/lin");
        Ok(Self(Linear::new(names, graph.features.columns(), graph.classes, weights)?, params.drop))
    }
    fn widest(_: &Drop, graph: &GraphView) -> usize {
        graph.nodes * graph.classes
    }
}

impl<const MINOR: u32> Model for Layer<MINOR> {
    fn forward(&self, _: &GraphView, x: &Input, pass: &mut Pass) -> Result<models::Output> {
        Ok(x.layer(&self.0, pass.dropout(self.1, "dropout/features"))?.into())
    }
}

/// A ring of two classes; the name and the crate are what a test wants.
struct Ring<const CASE: u8>;

impl<const CASE: u8> Format for Ring<CASE> {
    const NAME: &'static str = ["ring", "Ring_2", "csbm", "ring"][CASE as usize];
    const ABOUT: &'static str = "A ring";
    const VERSION: u32 = 1;
    const CRATE: Crate = if CASE == 3 { Crate::BUILT_IN } else { MINE };
    type Params = Nodes;
    fn read(params: &Nodes, _: &Job) -> std::result::Result<Graph, StageError> {
        let n = params.nodes;
        let data = (0..n).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        Ok(Graph {
            edges: (0..n).map(|i| (i, (i + 1) % n)).collect(),
            features: Features::Dense(Matrix { rows: n as usize, cols: 1, data }),
            labels: (0..n).map(|i| i % 2).collect(),
            classes: 2,
            ..Graph::default()
        })
    }
}

/// Hands a graph on.
struct Same;

impl Stage for Same {
    const NAME: &'static str = "same";
    const ABOUT: &'static str = "Hands a graph on";
    const VERSION: u32 = 1;
    const CRATE: Crate = MINE;
    const INPUTS: &'static [Slot] = &[Slot::one("graph", Kind("graph"))];
    type Params = Nodes;
    type Output = Graph;
    fn run(_: &Nodes, job: &Job) -> std::result::Result<Graph, StageError> {
        job.input("graph")
    }
}

/// A figure; the case says which files it publishes.
struct Picture<const CASE: u8>;

struct Drawn;

impl Artifact for Drawn {
    const KIND: Kind = Kind("drawn");
    fn save(&self, dir: &Path) -> std::result::Result<(), ArtifactError> {
        let path = dir.join("figure.svg");
        std::fs::write(&path, "<svg/>").map_err(|e| ArtifactError::io(&path, e))
    }
    fn load(_: &Path) -> std::result::Result<Self, ArtifactError> {
        Ok(Self)
    }
}

impl<const CASE: u8> Stage for Picture<CASE> {
    const NAME: &'static str = "picture";
    const ABOUT: &'static str = "Draws a graph";
    const VERSION: u32 = 1;
    const CRATE: Crate = MINE;
    const INPUTS: &'static [Slot] = &[Slot::one("graph", Kind("graph"))];
    const PUBLISHES: &'static [&'static str] =
        [&["figure.svg"] as &[&str], &["a.svg", "b.svg"], &["figure.svg", "figure.csv"]][CASE as usize];
    type Params = Nodes;
    type Output = Drawn;
    fn run(_: &Nodes, _: &Job) -> std::result::Result<Drawn, StageError> {
        Ok(Drawn)
    }
}

/// A model whose parameter stands in the way of one of `train`.
struct Clash;

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Seeded {
    /// A name that `train` has.
    seed: u64,
}
impl Params for Seeded {}

impl Model for Clash {
    fn forward(&self, _: &GraphView, x: &Input, _: &mut Pass) -> Result<models::Output> {
        Ok(x.times(&self.weight())?.into())
    }
}

impl Clash {
    fn weight(&self) -> ppgnn::stages::candle_core::Tensor {
        unreachable!("it is never built")
    }
}

impl Build for Clash {
    const NAME: &'static str = "clash";
    const ABOUT: &'static str = "Never built";
    const VERSION: u32 = 1;
    const CRATE: Crate = MINE;
    type Params = Seeded;
    fn build(_: &Seeded, _: &GraphView, _: &mut Weights) -> std::result::Result<Self, StageError> {
        Ok(Self)
    }
    fn widest(_: &Seeded, _: &GraphView) -> usize {
        1
    }
}

/// The largest share of nodes that one class was predicted for: smaller is better, and no percentage.
struct Skew;

impl Score for Skew {
    const NAME: &'static str = "skew";
    const ABOUT: &'static str = "Largest share of the predictions that one class has";
    const VERSION: u32 = 1;
    const CRATE: Crate = MINE;
    const PERCENT: bool = false;
    const LARGER_IS_BETTER: bool = false;
    fn of(part: &Predicted) -> std::result::Result<f64, Undefined> {
        let predicted = |class: usize| part.confusion.iter().map(|row| row[class]).sum::<u32>();
        let most = (0..part.confusion.len()).map(predicted).max().unwrap_or(0);
        Ok(f64::from(most) / part.nodes.len() as f64)
    }
}

const PIPELINE: &str = "
ppgnn: 1
name: mine
datasets: { ring: { format: ring, nodes: 60 } }
stages:
  load: { params: { dataset: ring } }
  same: { inputs: { graph: load } }
  featurize: { inputs: { graph: same } }
  normalize: { inputs: { graph: same } }
  split: { inputs: { graph: same }, params: { count: 2 } }
  train:
    inputs: { operator: normalize, nodes: featurize, splits: split }
    params: { model: layer, epochs: 40, lr: 0.1, drop: 0.25 }
  evaluate: { inputs: { trained: train, nodes: featurize, splits: split } }
tables:
  accuracy: { rows: [], columns: [] }
  skew: { rows: [], columns: [], metric: test-skew, digits: 1 }
";

fn program() -> Program {
    let program = Program::new().model::<Layer<0>>().format::<Ring<0>>().stage::<Same>().metric::<Skew>();
    program.plain_model::<plain::gcn::Gcn>().plain_model::<plain::gpr_gnn::GprGnn>().plain_model::<plain::gat::Gat>()
}

const ARGS: &str = "PPGNN_TEST_ARGS";

#[test]
fn what_cannot_stand_side_by_side_is_refused() {
    let refused = |program: Program| program.registry().err().unwrap()[0].to_string();
    let clash = refused(Program::new().model::<Clash>());
    assert_eq!(clash, "model `clash` has a parameter `seed`, which `train` has itself: give yours another name");
    let endings = refused(Program::new().stage::<Picture<1>>());
    assert_eq!(endings, "stage `picture` publishes two files that end in `.svg`: they would have one name");
    assert!(ppgnn::stages::built_in().disjoint().is_ok());
}

#[test]
fn a_stage_of_a_users_own_publishes_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("figure.yaml");
    let text = "
ppgnn: 1
name: figure
datasets: { small: { format: csbm, nodes: 40, features: 2 } }
stages:
  load: { params: { dataset: small } }
  picture: { inputs: { graph: load } }
";
    std::fs::write(&file, text).unwrap();
    let artifacts = dir.path().join("artifacts");
    let args = ["run".as_ref(), file.as_os_str(), "--artifacts".as_ref(), artifacts.as_os_str()];
    assert_eq!(Program::new().stage::<Picture<0>>().run_with(args), 0);
    assert_eq!(std::fs::read_to_string(artifacts.join("results/figure/picture.svg")).unwrap(), "<svg/>");
    let args = ["table".as_ref(), file.as_os_str(), "--artifacts".as_ref(), artifacts.as_os_str()];
    assert_eq!(Program::new().stage::<Picture<0>>().run_with(args), 2, "a figure is no table");
    // A file that the output does not have fails the stage, not the publishing after it.
    let other = dir.path().join("other");
    let args = ["run".as_ref(), file.as_os_str(), "--artifacts".as_ref(), other.as_os_str()];
    assert_eq!(Program::new().stage::<Picture<2>>().run_with(args), 5);
}

#[test]
#[ignore = "the program that other tests start"]
fn own_program() {
    let Ok(args) = std::env::var(ARGS) else { return };
    std::process::exit(program().run_with(args.split(' ')).into());
}

/// Runs the program in a folder that has the pipeline as `mine.yaml`.
fn run(dir: &Path, args: &str) -> Output {
    run_as(dir, args, &[])
}

/// The same with variables of the environment.
fn run_as(dir: &Path, args: &str, variables: &[(&str, &str)]) -> Output {
    std::fs::write(dir.join("mine.yaml"), PIPELINE).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "own_program", "--ignored", "--nocapture"]).env(ARGS, args).current_dir(dir);
    command.envs(variables.iter().copied());
    command.env("NO_COLOR", "1").env_remove("PPGNN_ARTIFACTS").output().unwrap()
}

fn printed(dir: &Path, args: &str) -> String {
    let output = run(dir, args);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    shown
}

fn plan(program: &Program, backend: &str) -> std::result::Result<Plan, ppgnn::pipeline::PipelineError> {
    let registry = program.registry().unwrap();
    let around = PlanContext {
        registry,
        profile: "cpu-f32".into(),
        device_profile: format!("{backend}-f32"),
        machine: String::new(),
        digest: &|_, _| Ok(String::new()),
    };
    build(&Pipeline::of_text("mine.yaml", PIPELINE, registry, &Nothing)?, &around)
}

#[test]
fn a_pipeline_of_own_rows_runs_to_its_table() {
    let dir = tempfile::tempdir().unwrap();
    let shown = printed(dir.path(), "run mine.yaml");
    assert!(shown.contains("100.00"), "{shown}");
    // Half of the nodes of a ring have either class, and all are predicted right.
    let table = std::fs::read_to_string(dir.path().join("artifacts/results/mine/skew.md")).unwrap();
    assert!(table.contains("0.5 ± 0.0") && table.contains("Test skew: mean"), "{table}");
    let again = printed(dir.path(), "run mine.yaml --json");
    assert!(again.contains("\"ran\":0,"), "{again}");
    let why = printed(dir.path(), "why mine.yaml train");
    assert!(why.contains("hit"), "{why}");
}

#[test]
fn own_rows_are_listed_with_their_crate() {
    let dir = tempfile::tempdir().unwrap();
    for (what, name) in [("models", "layer"), ("formats", "ring"), ("stages", "same")] {
        assert!(printed(dir.path(), &format!("list {what}")).contains(name));
        let detailed = printed(dir.path(), &format!("list {what} {name}"));
        assert!(detailed.contains("(version 1, crate mine 0.1.0)"), "{detailed}");
        let json = printed(dir.path(), &format!("list {what} {name} --json"));
        assert!(json.contains(r#""crate":{"name":"mine","version":"0.1.0"}"#), "{json}");
    }
}

#[test]
fn own_rows_are_in_the_schema() {
    let schema = json_schema(program().registry().unwrap()).to_string();
    let train = r#"{"const":"layer","description":"A linear layer"}"#;
    assert!(schema.contains(train) && schema.contains("Hands a graph on") && schema.contains(r#""const":"ring""#));
    assert!(schema.contains(r#""const":"val-skew""#));
    assert!(!json_schema(Program::new().registry().unwrap()).to_string().contains(train));
}

#[test]
fn a_parameter_of_an_own_row_is_checked() {
    let own = program();
    let train = own.registry().unwrap().stage("train").unwrap();
    let written = serde_json::json!({"model": "layer", "dorp": 0.1});
    let problems = train.check(own.registry().unwrap(), written.as_object().unwrap()).unwrap_err();
    assert_eq!(problems[0].help.as_deref(), Some("did you mean `drop`?"));
}

#[test]
fn an_own_metric_is_known_to_tables_and_refused_elsewhere() {
    let table = |metric: &str| serde_json::json!({"rows": ["r"], "columns": ["c"], "metric": metric});
    let check = |program: &Program, metric: &str| {
        let registry = program.registry().unwrap();
        let checked = registry.stage("tabulate").unwrap().check(registry, table(metric).as_object().unwrap());
        checked.map(drop).map_err(|problems| problems[0].message.clone())
    };
    assert_eq!(check(&program(), "test-skew"), Ok(()));
    assert!(check(&program(), "test-skwe").unwrap_err().ends_with("did you mean `test-skew`?"));
    assert!(check(&Program::new(), "test-skew").is_err());
    let evaluate = |program: &Program| {
        let plan = plan(program, "cpu").unwrap();
        plan.nodes.into_iter().find(|n| n.stage.name == "evaluate").unwrap().ingredients.added
    };
    assert_eq!(evaluate(&program())[0].to_string(), "skew version 1 of crate mine 0.1.0");
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let twice = program().model::<Layer<1>>().format::<Ring<2>>().stage::<Same>().metric::<Skew>();
    let messages: Vec<String> = twice.registry().err().unwrap().iter().map(Refused::to_string).collect();
    assert_eq!(
        messages,
        [
            "there is a model `layer` already, of crate mine 0.1.0: give yours another name",
            "there is a format `csbm` already, built in: give yours another name",
            "there is a stage `same` already, of crate mine 0.1.0: give yours another name",
            "there is a metric `skew` already, of crate mine 0.1.0: give yours another name",
        ]
    );
    assert_eq!(twice.run_with(["list", "models"]), 2);
}

#[test]
fn a_name_that_no_pipeline_could_write_and_a_row_without_a_crate_are_refused() {
    let named = Program::new().format::<Ring<1>>();
    let said = named.registry().err().unwrap()[0].to_string();
    assert!(said.starts_with("`Ring_2` cannot be the name of a format"), "{said}");
    let nameless = Program::new().format::<Ring<3>>();
    let said = nameless.registry().err().unwrap()[0].to_string();
    assert!(said.starts_with("format `ring` does not name its crate: give it `const CRATE"), "{said}");
    assert_eq!((named.run_with(["list", "models"]), nameless.run_with(["list", "models"])), (2, 2));
}

#[test]
fn a_key_holds_the_version_of_the_crate_and_built_in_nodes_know_nothing_of_it() {
    let key = |plan: &Plan, stage: &str| plan.nodes.iter().find(|n| n.stage.name == stage).unwrap().key;
    let (before, after) = (
        plan(&program(), "cpu").unwrap(),
        plan(&Program::new().model::<Layer<1>>().format::<Ring<0>>().stage::<Same>().metric::<Skew>(), "cpu").unwrap(),
    );
    assert_ne!(key(&before, "train"), key(&after, "train"));
    assert_eq!(key(&before, "split"), key(&after, "split"));
    let train = before.nodes.iter().find(|n| n.stage.name == "train").unwrap();
    let text = serde_json::to_string(&train.ingredients).unwrap();
    assert!(text.contains(r#""crate":{"name":"mine","version":"0.1.0"}"#), "{text}");
    let split = before.nodes.iter().find(|n| n.stage.name == "split").unwrap();
    assert!(!serde_json::to_string(&split.ingredients).unwrap().contains("crate"));
}

#[test]
fn a_model_that_cannot_use_a_gpu_is_refused_by_the_plan() {
    let error = plan(&program(), "cuda").err().unwrap();
    let problem = &error.problems[0];
    assert_eq!(problem.message, "stage `train`: `layer` cannot be computed on a GPU");
    assert_eq!(problem.help.as_deref(), Some("use `--device cpu`"));
    let (_, line, _) = error.sources.position(&problem.span);
    assert_eq!(
        PIPELINE.lines().nth(line - 1).unwrap().trim(),
        "params: { model: layer, epochs: 40, lr: 0.1, drop: 0.25 }"
    );
}
