//! Turns the events of a run into lines for people and for programs.

mod jsonl;
mod lines;
mod tee;
mod terminal;
mod units;

pub use jsonl::JsonLines;
pub use tee::Tee;
pub use terminal::{Style, Terminal};
pub use units::{bytes_text, duration_text, measured_text};
