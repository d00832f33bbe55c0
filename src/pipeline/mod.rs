//! Pipeline files: from YAML text to a pipeline as meant. Nothing outside this module knows YAML.

mod axes;
mod datasets;
mod device;
mod document;
mod figure;
mod file;
mod json_schema;
mod known;
mod model_file;
mod problem;
mod reader;
mod resolve;
mod search;
mod set_option;
mod settings;
mod source;
mod space;
mod yaml;

pub use axes::{Axis, Sweep, holds, same_label};
pub use datasets::{DATASET_PARAM, DATASET_STAGE, Datasets};
pub use device::DeviceRequest;
pub use document::{FORMAT, Forced, Overrides, Setting, base_about, check_format};
pub use figure::{FigureEntry, SHOWN, figure_kinds, figure_params, goes_along_x};
pub use file::{AbsentData, AxisValue, TABLE_STAGE, TableEntry, label, text_of};
pub use json_schema::json_schema;
pub use known::{FoundText, Known, KnownDataset, Nothing};
pub use model_file::{ModelSummary, summary};
pub use problem::{PipelineError, Problem, ProblemKind, ProblemReport, Problems};
pub use reader::{Reader, one_or_many};
pub use resolve::{Only, Pipeline, StageUse};
pub use search::{At, Choose, Group, SPLIT_COUNT, Search, Standing, TRIAL_AXIS, plural};
pub use set_option::{EXPECTED as SET_EXPECTED, SetOption, canonical as canonical_settings};
pub use settings::Preset;
pub use source::{Position, Source, Sources, Span};
pub use yaml::{Data, Key, Node, read as read_yaml};
