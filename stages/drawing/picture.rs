//! A picture: a title, a legend, panels with charts, and a note, one below the other.

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};

use super::axis::Axis;
use super::canvas::{Canvas, POINT, Shape};
use super::chart::{Chart, SMALL, TEXT, marker};
use super::style::{BLACK, GREY, Ink, Look};
use super::{font, pdf, svg};
use crate::contract::StageError;

/// Units of the canvas in a centimetre.
const CENTIMETRE: f64 = POINT * 72.0 / 2.54;
/// What is left free at the edges, and between panels.
const MARGIN: i32 = 40;
/// Width of the sample of a line in a legend.
const SAMPLE: i32 = 190;
/// Lines of a note at most.
const NOTE_LINES: usize = 3;

/// A part of the picture that a chart can fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    x: i32,
    y: i32,
    width: i32,
    height: i32,
}

/// A line of a legend.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A line, with its marker or without.
    Line(String, Look, bool),
    /// An area or the discs of a group.
    Patch(String, Ink),
}

impl Entry {
    fn label(&self) -> &str {
        match self {
            Self::Line(label, ..) | Self::Patch(label, _) => label,
        }
    }

    fn sample(&self) -> i32 {
        if matches!(self, Self::Line(..)) { SAMPLE } else { 60 }
    }
}

/// A picture that is being drawn.
pub struct Picture {
    canvas: Canvas,
    title: String,
    /// What is left between what stands above and below.
    left: Frame,
}

impl Picture {
    /// A picture of a size in centimetres. It starts with its title, if it has one.
    pub fn new(title: &str, width: f64, height: f64) -> Self {
        let units = |cm: f64| (cm * CENTIMETRE).round().clamp(1.0, 1e6) as u32;
        let size = (units(width), units(height));
        let whole = |units: u32| i32::try_from(units).unwrap_or(i32::MAX) - 2 * MARGIN;
        let left = Frame { x: MARGIN, y: MARGIN, width: whole(size.0), height: whole(size.1) };
        let mut picture = Self { canvas: Canvas::new(size), title: title.to_owned(), left };
        if !title.is_empty() {
            let shown = font::fitted(title, f64::from(left.width) / TEXT * 0.92);
            picture.canvas.text(&shown, (left.x, left.y), (0.0, 0.0), TEXT, BLACK, (false, true));
            picture.take_above(TEXT * 1.5);
        }
        picture
    }

    fn take_above(&mut self, height: f64) {
        let height = height.round() as i32;
        self.left.y += height;
        self.left.height -= height;
    }

    /// Explains lines and colours above the charts, in as many rows as they need. One without a label needs no explanation.
    pub fn legend(&mut self, entries: &[Entry]) {
        let (mut x, mut any) = (self.left.x, false);
        let end = self.left.x + self.left.width;
        for entry in entries.iter().filter(|entry| !entry.label().is_empty()) {
            let label = font::fitted(entry.label(), f64::from(self.left.width - entry.sample()) / TEXT * 0.9);
            let wide = entry.sample() + 30 + (font::width(&label) * TEXT).ceil() as i32;
            if any && x + wide > end {
                x = self.left.x;
                self.take_above(TEXT * 1.35);
            }
            let middle = self.left.y + (TEXT * 0.5) as i32;
            match entry {
                Entry::Line(_, look, marked) => {
                    let places = vec![(x, middle), (x + SAMPLE, middle)];
                    self.canvas.add(Shape::Line { places, ink: look.ink, width: look.width, dash: look.dash });
                    if *marked {
                        marker(&self.canvas, (x + SAMPLE / 2, middle), *look);
                    }
                }
                Entry::Patch(_, ink) => {
                    let (low, high) = (middle - 26, middle + 26);
                    let places = vec![(x, low), (x + 52, low), (x + 52, high), (x, high)];
                    self.canvas.add(Shape::Area { places, ink: *ink });
                }
            }
            self.canvas.text(&label, (x + entry.sample() + 30, middle), (0.0, 0.5), TEXT, BLACK, (false, false));
            (x, any) = (x + wide + 90, true);
        }
        if any {
            self.take_above(TEXT * 1.6);
        }
    }

    /// Writes below the charts what a reader must know. What does not fit into a few lines is cut.
    pub fn note(&mut self, note: &str) {
        let most = f64::from(self.left.width) / SMALL;
        let mut lines: Vec<String> = Vec::new();
        for word in font::shown(note).split_whitespace() {
            match lines.last_mut().filter(|line| font::width(line) + font::width(word) + 0.3 < most) {
                Some(line) => *line = format!("{line} {word}"),
                None => lines.push(font::fitted(word, most)),
            }
        }
        if lines.len() > NOTE_LINES {
            lines.truncate(NOTE_LINES);
            lines
                .last_mut()
                .into_iter()
                .for_each(|line| *line = font::fitted(&format!("{line} …{}", " ".repeat(200)), most));
        }
        for line in lines.iter().rev() {
            let base = self.left.y + self.left.height;
            self.canvas.text(line, (self.left.x, base), (0.0, 1.0), SMALL, GREY, (false, false));
            self.left.height -= (SMALL * 1.25) as i32;
        }
    }

    /// Cuts what is left into panels of one size, with titles; one without a title gets no space for it.
    pub fn panels(&mut self, titles: &[String], columns: usize) -> Vec<Frame> {
        let columns = columns.clamp(1, titles.len().max(1));
        let rows = titles.len().div_ceil(columns).max(1);
        let [of_columns, of_rows] = [columns, rows].map(|n| i32::try_from(n).unwrap_or(1));
        let width = (self.left.width - MARGIN * 2 * (of_columns - 1)) / of_columns;
        let height = (self.left.height - MARGIN * (of_rows - 1)) / of_rows;
        let mut panels = Vec::new();
        for (at, title) in titles.iter().enumerate() {
            let [column, row] = [at % columns, at / columns].map(|n| i32::try_from(n).unwrap_or(0));
            let (x, y) = (self.left.x + column * (width + MARGIN * 2), self.left.y + row * (height + MARGIN));
            let mut frame = Frame { x, y, width, height };
            if !title.is_empty() {
                let shown = font::fitted(title, f64::from(width) / TEXT);
                self.canvas.text(&shown, (x + width / 2, y), (0.5, 0.0), TEXT, BLACK, (false, false));
                let taken = (TEXT * 1.4) as i32;
                frame = Frame { y: y + taken, height: height - taken, ..frame };
            }
            panels.push(frame);
        }
        panels
    }

    /// Returns what is left as one panel.
    pub fn rest(&self) -> Frame {
        self.left
    }

    /// Draws the axes of a chart. `grid` asks for lines at the ticks of y.
    ///
    /// # Errors
    /// Where there is no room for it.
    pub fn chart(&self, frame: Frame, (x, y): (&Axis, &Axis), grid: bool) -> Result<Chart, StageError> {
        Chart::new(&self.canvas, &self.area(frame)?, x, y, grid)
    }

    /// Places a chart without drawing its axes.
    ///
    /// # Errors
    /// Where there is no room for it.
    pub fn frameless(&self, frame: Frame, (x, y): (&Axis, &Axis)) -> Result<Chart, StageError> {
        Chart::frameless(&self.canvas, &self.area(frame)?, x, y)
    }

    fn area(&self, Frame { x, y, width, height }: Frame) -> Result<DrawingArea<Canvas, Shift>, StageError> {
        let size = |length: i32| u32::try_from(length).ok().filter(|length| *length > 200);
        let (Some(wide), Some(high)) = (size(width), size(height)) else {
            return Err(StageError::unusable(
                "the figure has no room for its charts",
                "make `width` or `height` larger",
            ));
        };
        Ok(self.canvas.clone().into_drawing_area().shrink((x, y), (wide, high)))
    }

    /// Returns it as SVG and as PDF.
    pub fn finish(self) -> (String, Vec<u8>) {
        let (size, shapes) = self.canvas.finish();
        (svg::svg(&self.title, size, &shapes), pdf::pdf(size, &shapes))
    }
}
