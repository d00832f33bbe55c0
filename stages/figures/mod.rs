//! Stages that draw, one file each. A figure of a pipeline (`figures:`) is a node of one of them.
//!
//! A kind of figure is a stage whose name starts with `draw-` and whose output is a [`Figure`](crate::kinds::Figure); the rest of the
//! name is its kind in a pipeline. Its first slot takes what it shows, for every point of the sweep; the planner finds what goes into the
//! others beside it. Which input is drawn where the planner says in the parameter `shown` ([`Shown`]).

mod bars;
mod confusion;
mod dag;
mod degrees;
mod distances;
mod learning;
mod metric;
mod ranks;
mod responses;
mod search;
mod shown;
mod spectrum;
mod tsne;
mod waveform;

pub use confusion::DrawConfusion;
pub use dag::DrawDag;
pub use degrees::DrawDegrees;
pub use distances::DrawDistances;
pub use learning::DrawLearning;
pub use metric::DrawMetric;
pub use ranks::DrawRanks;
pub use responses::DrawResponses;
pub use search::DrawSearch;
pub use shown::{Mark, Run, Series, Shown, figure};
pub use spectrum::DrawSpectrum;
pub use tsne::DrawTsne;
pub use waveform::DrawWaveform;
