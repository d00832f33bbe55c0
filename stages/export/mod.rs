//! What people take out of the store: predictions, histories, weights, filters, spectra and graphs, as tables and as arrays.
//!
//! An export is a [`Frame`] of named columns or a set of named [`Arrays`]. Both know how to write themselves; which
//! artifacts are exported, and to which file, is up to the caller. Nothing is computed here that training has not decided.

mod arrays;
mod filter;
mod frame;
mod graph;
mod held;
mod history;
mod operator;
mod predictions;
mod spectrum;
mod weights;

pub use arrays::{Arrays, Data};
pub use filter::filter;
pub use frame::{Frame, Values};
pub use graph::{add_splits, feature_arrays, graph_arrays, graph_edges, graph_nodes};
pub use held::{Held, held};
pub use history::history;
pub use operator::{operator_arrays, operator_entries};
pub use predictions::Predictions;
pub use spectrum::{spectrum_arrays, spectrum_values};
pub use weights::weights;
