//! What most commands start with: the pipeline file, its plan, and the store.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use ppgnn_stages::contract::device::cuda;
use ppgnn_stages::contract::{Registry, bounded, profile};

use crate::catalogue::{self, Catalogue, DataFolder};
use crate::forecast::machine_id;
use crate::pipeline::{DeviceRequest, Overrides, Pipeline, PipelineError, SET_EXPECTED, SetOption};
use crate::plan::{self, FileDigests, NodeId, Plan, PlanContext};
use crate::store::Store;
use crate::study;

use super::device;
use super::failure::Failure;

/// Options about data sets.
#[derive(clap::Args, Clone)]
pub struct DataArgs {
    /// Folder with the data sets
    #[arg(long, value_name = "DIR", env = "PPGNN_DATA_DIR", default_value = "data", global = true, value_parser = OsStringValueParser::new().map(data_dir))]
    pub data_dir: PathBuf,
}

impl DataArgs {
    /// The data sets and settings that are known without a pipeline, and those of the project: in `datasets` and `models` beside the
    /// pipeline file, or in `pipelines` there, and in `pipelines` of the current folder.
    pub fn catalogue(&self, pipeline: Option<&Path>) -> Catalogue {
        let beside = pipeline.and_then(Path::parent);
        let beside = beside.into_iter().flat_map(|f| [f.to_owned(), f.join(catalogue::FOLDER)]);
        Catalogue::new(&beside.chain([PathBuf::from(catalogue::FOLDER)]).collect::<Vec<_>>())
    }
}

/// The pipeline, what to change in it, and where its artifacts are kept.
#[derive(clap::Args, Clone)]
pub struct PipelineArgs {
    /// Pipeline file
    pub file: PathBuf,
    /// Profile of the file to apply
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Set a value, such as `train.lr=0.05` or `datasets.mine.nodes=500`; at some points only, such as
    /// `train[model=gcn|appnp].hidden=32` or `train[load.dataset=texas].lr=0.02`; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = setting)]
    pub set: Vec<String>,
    /// What `train` computes on: `cpu`, `cuda:N`, several such as `cuda:0,cuda:1`, `cuda` for all GPUs, or `auto` for all
    /// GPUs if there are any, else the CPU (default: `device` of the file, else `cpu`, so that keys do not depend on the
    /// machine)
    #[arg(long, value_name = "DEVICE", value_parser = str::parse::<DeviceRequest>)]
    pub device: Option<DeviceRequest>,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub store: StoreArgs,
}

impl PipelineArgs {
    /// The data sets that the pipeline may name.
    pub fn catalogue(&self) -> Catalogue {
        self.data.catalogue(Some(&self.file))
    }

    /// Reads the pipeline.
    pub fn pipeline(&self, catalogue: &Catalogue, registry: &Registry) -> Result<Pipeline, Failure> {
        if let Err(error) = bounded::regular(&self.file).and_then(|_| std::fs::File::open(&self.file)) {
            return Err(Failure::usage(format!("cannot read `{}`: {error}", self.file.display()), None));
        }
        let known = DataFolder { catalogue, data_dir: &self.data.data_dir };
        let overrides = Overrides { profile: self.profile.clone(), set: self.set.clone() };
        Ok(Pipeline::load(&self.file, &overrides, registry, &known)?)
    }

    /// Reads the pipeline and plans it.
    pub fn plan(&self, registry: &Registry) -> Result<Plan, Failure> {
        self.plan_for(&self.catalogue(), registry, &every_node)
    }

    /// Does the same for a command that is asked for some nodes alone: `--set` need not fit the others.
    pub fn plan_for(
        &self,
        catalogue: &Catalogue,
        registry: &Registry,
        asked: &dyn Fn(&Plan) -> Vec<NodeId>,
    ) -> Result<Plan, Failure> {
        let mut pipeline =
            tracing::info_span!("read", file = %self.file.display()).in_scope(|| self.pipeline(catalogue, registry))?;
        let plan = |pipeline: &Pipeline| plan_here(pipeline, registry, self.device_request(&pipeline.device), asked);
        if pipeline.search.is_none() {
            return Ok(plan(&pipeline)?);
        }
        Ok(study::unroll(&mut pipeline, registry, &self.store.look()?, &plan)?)
    }

    /// The requested device: the command line overrides the file.
    pub fn device_request<'r>(&'r self, of_file: &'r DeviceRequest) -> &'r DeviceRequest {
        self.device.as_ref().unwrap_or(of_file)
    }

    /// The arguments as a person would type them again, for hints.
    pub fn words(&self) -> String {
        let mut words = shell_word(&self.file.display().to_string());
        if let Some(profile) = &self.profile {
            words.push_str(&format!(" --profile {profile}"));
        }
        if let Some(device) = &self.device {
            words.push_str(&format!(" --device {device}"));
        }
        for set in &self.set {
            words.push_str(&format!(" --set {}", shell_word(set)));
        }
        for (option, path, usual) in
            [("artifacts", &self.store.artifacts, "artifacts"), ("data-dir", &self.data.data_dir, "data")]
        {
            if path != Path::new(usual) {
                words.push_str(&format!(" --{option} {}", shell_word(&path.display().to_string())));
            }
        }
        words
    }
}

/// A name as a shell takes it for one word.
pub fn shell_word(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/-_.=+,:@%".contains(c);
    if name.chars().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', "'\\''")) }
}

/// Where artifacts are kept.
#[derive(clap::Args, Clone)]
pub struct StoreArgs {
    /// Folder of the artifact store
    #[arg(long, value_name = "DIR", env = "PPGNN_ARTIFACTS", default_value = "artifacts", global = true)]
    pub artifacts: PathBuf,
}

impl StoreArgs {
    /// Opens the store for reading and writing.
    pub fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.artifacts)?)
    }

    /// Opens the store read-only; a missing store counts as empty.
    pub fn look(&self) -> Result<Store, Failure> {
        Ok(Store::open_existing_read_only(&self.artifacts)?)
    }
}

/// Every node of a plan: what is asked for where nothing else is said.
pub fn every_node(plan: &Plan) -> Vec<NodeId> {
    plan.iter().map(|(id, _)| id).collect()
}

/// Plans a pipeline on this machine, of which some nodes are asked for.
pub fn plan_here(
    pipeline: &Pipeline,
    registry: &Registry,
    device: &DeviceRequest,
    asked: &dyn Fn(&Plan) -> Vec<NodeId>,
) -> Result<Plan, PipelineError> {
    let digests = FileDigests::default();
    let around = PlanContext {
        registry,
        profile: profile::numeric_profile(),
        device_profile: profile::numeric_profile_on(device::backend(device, cuda())),
        machine: machine_id(),
        digest: &|path, contents| digests.digest(path, contents),
    };
    let points = pipeline.sweep.points.len();
    let plan = tracing::info_span!("plan", points).in_scope(|| plan::build_for(pipeline, &around, asked))?;
    tracing::debug!(nodes = plan.nodes.len(), profile = around.profile, device = around.device_profile, "planned");
    Ok(plan)
}

/// An empty variable is one that is not set.
fn data_dir(text: OsString) -> PathBuf {
    PathBuf::from(if text.is_empty() { OsString::from("data") } else { text })
}

fn setting(text: &str) -> Result<String, String> {
    SetOption::parse(text).map(|_| text.to_owned()).ok_or_else(|| SET_EXPECTED.to_owned())
}
