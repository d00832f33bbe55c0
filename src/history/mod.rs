//! What earlier runs tell about a plan: how long a node will take, and why it is not the one computed before.

mod difference;
mod expect;
mod recall;

pub use difference::{Difference, Side, differences};
pub use recall::{Nearest, Recall};
