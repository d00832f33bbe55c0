//! The contract between the engine and the science.
//!
//! A stage is a pure function: checked parameters and input artifacts go in, one artifact comes out. Its author
//! writes constants and one function ([`Stage`]); the engine sees a plain row of data and function pointers
//! ([`StageDef`]). A stage cannot read YAML, look at the cache, print, or know its neighbours.
//!
//! ```
//! use ppgnn_stages::contract::{Artifact, ArtifactError, Job, Kind, Slot, Stage, StageDef, StageError};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// A number on disk.
//! struct Count(u64);
//!
//! impl Artifact for Count {
//!     const KIND: Kind = Kind("count");
//!     fn save(&self, dir: &std::path::Path) -> Result<(), ArtifactError> {
//!         let path = dir.join("count");
//!         std::fs::write(&path, self.0.to_string()).map_err(|e| ArtifactError::io(&path, e))
//!     }
//!     fn load(dir: &std::path::Path) -> Result<Self, ArtifactError> {
//!         let path = dir.join("count");
//!         let text = std::fs::read_to_string(&path).map_err(|e| ArtifactError::io(&path, e))?;
//!         text.parse().map(Count).map_err(|_| ArtifactError::malformed(&path, "a number"))
//!     }
//! }
//!
//! /// Parameters of `add`.
//! #[derive(Default, Serialize, Deserialize, JsonSchema)]
//! #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
//! struct Params {
//!     /// How much to add.
//!     by: u64,
//! }
//! impl ppgnn_stages::contract::params::Params for Params {}
//!
//! struct Add;
//! impl Stage for Add {
//!     const NAME: &'static str = "add";
//!     const ABOUT: &'static str = "Adds a number to a count";
//!     const VERSION: u32 = 1;
//!     const INPUTS: &'static [Slot] = &[Slot::one("to", Kind("count"))];
//!     type Params = Params;
//!     type Output = Count;
//!     fn run(params: &Params, job: &Job) -> Result<Count, StageError> {
//!         let Count(to) = job.input("to")?;
//!         Ok(Count(to + params.by))
//!     }
//! }
//! static STAGES: &[StageDef] = &[StageDef::of::<Add>()];
//! assert_eq!(STAGES[0].output, Kind("count"));
//! ```

pub mod again;
mod artifact;
pub mod bounded;
pub mod checkpoint;
pub mod device;
mod error;
mod estimate;
mod job;
pub mod params;
pub mod profile;
mod registry;
mod sizes;
mod stage;

pub use again::Measures;
pub use artifact::{Artifact, Kind};
pub use error::{ArtifactError, LastLines, StageError};
pub use estimate::{Estimate, Held, Known, KnownInput, Memory, Past, Term, Work};
pub use job::{Chosen, EARLIER_SECONDS, InputDir, Job, Progress, ProgressSink, Quiet};
pub use registry::{Crate, Refused, Registry, Row, RowsFn};
pub use sizes::{Size, Sizes, Sureness};
pub use stage::{Arity, Choice, FromDataset, Lost, Shared, Slot, Stage, StageDef, Uses};
