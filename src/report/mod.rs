//! Turns the events of a run into lines for people and for programs.

mod follow;
pub mod html;
mod jsonl;
mod lines;
mod live;
mod page;
mod screen;
mod section;
mod table;
mod tee;
mod terminal;
#[cfg(test)]
mod testing;
mod units;

pub use follow::{Ended, Followed, Told, Training};
pub use jsonl::JsonLines;
pub use live::{Failures, Live};
pub use page::Page;
pub use section::{Grid, Section};
pub use table::drawn;
pub use tee::Tee;
pub use terminal::{Style, Terminal};
pub use units::{bytes_text, duration_text, measured_text};
