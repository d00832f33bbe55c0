//! How figures look: one style for all, and the files that hold it.
//!
//! A [`Picture`] is what is drawn on: a title, a legend, charts in panels. `plotters` lays out axes and knows where a value
//! stands; what is drawn is kept as shapes (`canvas.rs`) that become SVG (`svg.rs`) and PDF (`pdf.rs`) with the same geometry and the
//! same bytes on every machine: no font of the system is asked for anything. This module knows neither runs nor models.

mod axis;
mod canvas;
mod chart;
mod data;
mod font;
mod pdf;
mod picture;
mod style;
mod svg;

pub use axis::Axis;
pub use chart::{Align, Chart};
pub use data::{Data, number};
pub use picture::{Entry, Frame, Picture};
pub use style::{BLACK, GREY, Ink, LIGHT, Look, Marker, WHITE, of_share};
