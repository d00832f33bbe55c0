//! What earlier runs tell about a plan: why a node is not one that was computed before.

mod difference;
mod recall;

pub use difference::{Difference, Side, differences};
pub use recall::{Nearest, Recall};
