//! Artifact kinds: what stages hand to each other, one file each.
//!
//! Tensors are stored as safetensors, frames as Parquet, facts for people as JSON; [`files`] does all three.

mod comparison;
mod contents;
mod facts;
mod features;
mod figure;
pub mod files;
mod graph;
mod mapped;
mod metric;
mod metrics;
mod nodes;
mod operator;
mod projection;
mod reference;
mod relations;
mod score;
mod separated;
pub mod size;
mod spectrum;
mod splits;
mod table;
mod table_text;
mod trained;

pub use comparison::{ALPHA, Comparison, Mark, RankTests, Ranking, Test, Untested};
pub use contents::{CONTENTS, EntryDoc, FileDoc, contents_markdown, files_of};
pub use facts::{Fact, Facts};
pub use features::{Features, Matrix};
pub use figure::Figure;
pub use graph::{Counts, Graph, Names};
pub use mapped::Vectors;
pub use metric::{Metric, ValMetric};
pub use metrics::{Metrics, PartScore, SplitScores, in_splits, suspicions};
pub use nodes::Nodes;
pub use operator::Operator;
pub use projection::Projection;
pub use reference::{Reference, Verdict};
pub use relations::Relations;
pub use score::{Predicted, SCORES, Scale, Score, ScoreDef, Undefined};
pub use separated::SeparatedHops;
pub use spectrum::{Side, Spectrum};
pub use splits::{Part, Splits};
pub use table::{Absent, Candidate, Cell, Interval, LeftOut, Picked, ShownFact, Spread, Table};
pub use table_text::plain::{PlainCell, PlainRow, PlainTable};
pub use trained::{Epoch, Trained, TrainedSplit, Weight};
