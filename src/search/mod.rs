//! Search: which configurations are tried.
//!
//! A [`Space`] says which values parameters may take, a [`Sampler`] which of them are tried next. What trial i is depends on the
//! space, the seed and the results of earlier rounds alone: no clock, no worker, no order of arrival. Nothing here knows
//! stages, files or the store.

mod grid;
mod importance;
mod race;
mod sampler;
mod space;
mod tpe;

pub use importance::importance;
pub use race::{Race, expected, stopped};
pub use sampler::{Ask, Sampler, Tried, suggest};
pub use space::{Condition, Domain, Fault, Param, Settings, Space};
