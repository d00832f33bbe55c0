//! What a graph is like and what is wrong with it: plain functions that print nothing.
//!
//! [`describe`] measures, [`warnings`] judges, [`twins`] finds duplicate nodes. Everything here is about the graph as
//! stored; what is called a degree or a neighbour is about its undirected edges without loops, which models use.

mod describe;
mod homophily;
mod informativeness;
mod lists;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod twins;
mod warnings;

pub use describe::{
    Bucket, Components, Degrees, Description, FeatureFacts, PartSizes, SplitFacts, TwinFacts, WeightFacts,
    degree_histogram, describe, part_sizes,
};
pub use homophily::Homophily;
pub use informativeness::Informativeness;
pub use twins::{Twins, twins};
pub use warnings::{LEAK, SHARED_LINKS, Warning, constant_answer, warnings};
