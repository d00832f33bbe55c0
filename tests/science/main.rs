//! Numerical checks of whole stages.

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;

mod pins;
mod quickstart;
