//! The model `command`: a program of the user's, in any language, that trains on every split and hands logits back.
//!
//! The program starts in a folder of its own that holds its files and what it learns from (`handed.rs`); it is watched while it
//! runs (`child.rs`); what it leaves there is read as data of a stranger (`taken.rs`). What comes out is an ordinary result of `train`. A
//! program is trusted in two things that nobody can check from outside: that its result follows from what is in the key, and that no
//! split looks at another one's labels.

mod child;
mod group;
mod handed;
mod params;
mod run;
mod taken;
#[cfg(test)]
mod tests;

pub use group::end_all;
pub use handed::{FORMAT, HELPER};
pub use params::{CommandDef, Params, Requirement};
pub use run::{Task, train};

/// The models that are programs: one, which runs any.
pub static COMMANDS: &[CommandDef] = &[CommandDef::ANY];
