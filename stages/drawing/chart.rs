//! A chart: axes that `plotters` lays out, and lines, bands, dots, bars and words between them.

use std::convert::Infallible;
use std::ops::Range;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::axis::Axis;
use super::canvas::{Canvas, Place, Shape};
use super::font;
use super::style::{BLACK, Ink, LIGHT, Look, Marker, WHITE};
use crate::contract::StageError;

/// Size of the text.
pub const TEXT: f64 = 70.0;
/// Size of smaller text.
pub const SMALL: f64 = 60.0;
/// Length of a tick.
const TICK: i32 = 18;
/// Radius of a marker.
const MARKER: u16 = 17;

/// An axis as `plotters` sees it: linear, with the ticks that it was given.
struct Scale {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Scale {
    fn of(axis: &Axis) -> Self {
        Self { range: axis.from..axis.to, ticks: axis.ticks.iter().map(|(at, _)| *at).collect() }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        (f64::from(from) + share * f64::from(to - from)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Where in a text a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At its left end, halfway up.
    Left,
    /// In its middle.
    Middle,
    /// At its right end, halfway up.
    Right,
    /// Below its middle.
    Above,
}

/// A chart on a canvas.
pub struct Chart {
    canvas: Canvas,
    context: ChartContext<'static, Canvas, Cartesian2d<Scale, Scale>>,
}

fn failed(error: DrawingAreaErrorKind<Infallible>) -> StageError {
    StageError::Unusable { what: format!("the figure cannot be drawn: {error}"), hint: None }
}

fn rgb(Ink { rgb: (r, g, b), .. }: Ink) -> RGBColor {
    RGBColor(r, g, b)
}

fn text(size: f64) -> TextStyle<'static> {
    ("Helvetica", size).into_font().color(&rgb(BLACK))
}

/// The space that the ticks of an axis and its title need beside or below the chart.
fn space(axis: &Axis, along_y: bool) -> u32 {
    let widest = axis.ticks.iter().map(|(_, label)| font::width(&font::shown(label))).fold(0.0, f64::max);
    let labels = match (axis.ticks.is_empty(), along_y) {
        (true, _) => 0.0,
        (false, true) => widest * TEXT + 2.0 * f64::from(TICK),
        (false, false) => TEXT + 2.0 * f64::from(TICK),
    };
    let title = if axis.title.is_empty() { 0.0 } else { TEXT * 1.25 };
    (labels + title + 8.0) as u32
}

/// How far the label of the last tick of an axis along x reaches beyond its end.
fn beyond(axis: &Axis) -> u32 {
    let Some((at, label)) = axis.ticks.last() else { return 0 };
    // The chart is some hundred points wide; what the label lacks is made up for a little more than needed.
    let inside = (axis.to - at) / (axis.to - axis.from) * 1500.0;
    (font::width(&font::shown(label)) * TEXT / 2.0 - inside).max(0.0) as u32
}

impl Chart {
    /// Draws the axes. `grid` asks for lines at the ticks of y.
    pub(super) fn new(
        canvas: &Canvas,
        area: &DrawingArea<Canvas, Shift>,
        x: &Axis,
        y: &Axis,
        grid: bool,
    ) -> Result<Self, StageError> {
        let mut builder = ChartBuilder::on(area);
        builder.margin_right(beyond(x));
        builder.x_label_area_size(space(x, false)).y_label_area_size(space(y, true));
        let mut context = builder.build_cartesian_2d(Scale::of(x), Scale::of(y)).map_err(failed)?;
        let label = |axis: &Axis, value: f64| {
            let near = axis.ticks.iter().min_by(|a, b| (a.0 - value).abs().total_cmp(&(b.0 - value).abs()));
            near.map(|(_, label)| font::shown(label)).unwrap_or_default()
        };
        let (of_x, of_y) = (|value: &f64| label(x, *value), |value: &f64| label(y, *value));
        let mut mesh = context.configure_mesh();
        mesh.disable_x_mesh().x_labels(x.ticks.len()).y_labels(y.ticks.len());
        mesh.x_label_formatter(&of_x).y_label_formatter(&of_y);
        if !grid {
            mesh.disable_y_mesh();
        }
        let line = |ink: Ink, width: u32| ShapeStyle { color: rgb(ink).to_rgba(), filled: false, stroke_width: width };
        mesh.bold_line_style(line(LIGHT, 4)).light_line_style(rgb(LIGHT).mix(0.0));
        mesh.axis_style(line(BLACK, 5)).set_all_tick_mark_size(TICK);
        mesh.label_style(text(TEXT)).axis_desc_style(text(TEXT));
        if !x.title.is_empty() {
            mesh.x_desc(font::shown(&x.title));
        }
        if !y.title.is_empty() {
            mesh.y_desc(font::shown(&y.title));
        }
        mesh.draw().map_err(failed)?;
        Ok(Self { canvas: canvas.clone(), context })
    }

    /// Draws no axes.
    pub(super) fn frameless(
        canvas: &Canvas,
        area: &DrawingArea<Canvas, Shift>,
        x: &Axis,
        y: &Axis,
    ) -> Result<Self, StageError> {
        let context = ChartBuilder::on(area).build_cartesian_2d(Scale::of(x), Scale::of(y)).map_err(failed)?;
        Ok(Self { canvas: canvas.clone(), context })
    }

    /// Where a value stands.
    fn place(&self, at: (f64, f64)) -> Place {
        self.context.backend_coord(&at)
    }

    /// Draws a line through points; it is broken where one is not finite.
    pub fn line(&self, points: &[(f64, f64)], look: Look) {
        for piece in points.split(|(x, y)| !x.is_finite() || !y.is_finite()).filter(|piece| piece.len() > 1) {
            let places = piece.iter().map(|point| self.place(*point)).collect();
            self.canvas.add(Shape::Line { places, ink: look.ink, width: look.width, dash: look.dash });
        }
    }

    /// Fills what is between two curves, given as x, lower and upper value.
    pub fn band(&self, points: &[(f64, f64, f64)], ink: Ink) {
        let finite = |(x, low, high): &(f64, f64, f64)| x.is_finite() && low.is_finite() && high.is_finite();
        for piece in points.split(|point| !finite(point)).filter(|piece| piece.len() > 1) {
            let upper = piece.iter().map(|(x, _, high)| (*x, *high));
            let lower = piece.iter().rev().map(|(x, low, _)| (*x, *low));
            self.canvas.add(Shape::Area { places: upper.chain(lower).map(|at| self.place(at)).collect(), ink });
        }
    }

    /// Draws discs of a radius in tenths of a point.
    pub fn dots(&self, points: &[(f64, f64)], ink: Ink, radius: u16) {
        let finite = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let places: Vec<Place> = finite.map(|point| self.place(*point)).collect();
        if !places.is_empty() {
            self.canvas.add(Shape::Dots { places, ink, radius });
        }
    }

    /// Draws the marker of a line at points.
    pub fn markers(&self, points: &[(f64, f64)], look: Look) {
        for point in points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
            marker(&self.canvas, self.place(*point), look);
        }
    }

    /// Fills a rectangle between two corners.
    pub fn bar(&self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        let ((x0, y0), (x1, y1)) = (self.place(from), self.place(to));
        self.canvas.add(Shape::Area { places: vec![(x0, y0), (x1, y0), (x1, y1), (x0, y1)], ink });
    }

    /// Writes in a box around a point.
    pub fn boxed(&self, at: (f64, f64), words: &str, ink: Ink) {
        let (x, y) = self.place(at);
        let (wide, high) = ((font::width(&font::shown(words)) * TEXT / 2.0) as i32 + 50, 65);
        let places = vec![(x - wide, y - high), (x + wide, y - high), (x + wide, y + high), (x - wide, y + high)];
        self.canvas.add(Shape::Area { places, ink });
        self.canvas.text(words, (x, y), (0.5, 0.5), TEXT, BLACK, (false, false));
    }

    /// Writes small words beside a point, on paper of their own, so that lines behind them do not matter.
    pub fn tag(&self, at: (f64, f64), words: &str, ink: Ink) {
        let ((x, y), size) = (self.place(at), SMALL * 0.9);
        let (left, wide, high) = (x + 18, (font::width(&font::shown(words)) * size) as i32 + 12, 32);
        let places = vec![(left, y - high), (left + wide, y - high), (left + wide, y + high), (left, y + high)];
        self.canvas.add(Shape::Area { places, ink: WHITE.faint(0.85) });
        self.canvas.text(words, (left + 6, y), (0.0, 0.5), size, ink, (false, false));
    }

    /// Writes at a point, a little larger or smaller than small text.
    pub fn words(&self, at: (f64, f64), words: &str, size: f64, ink: Ink, align: Align) {
        let (x, y) = self.place(at);
        let (place, anchor) = match align {
            Align::Left => ((x + 24, y), (0.0, 0.5)),
            Align::Middle => ((x, y), (0.5, 0.5)),
            Align::Right => ((x - 24, y), (1.0, 0.5)),
            Align::Above => ((x, y - 24), (0.5, 1.0)),
        };
        self.canvas.text(words, place, anchor, size * SMALL, ink, (false, false));
    }
}

/// Draws the marker of a look.
pub fn marker(canvas: &Canvas, (x, y): Place, look: Look) {
    let r = i32::from(MARKER);
    let places = match look.marker {
        Marker::Disc => return canvas.add(Shape::Dots { places: vec![(x, y)], ink: look.ink, radius: MARKER }),
        Marker::Square => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        Marker::Triangle => vec![(x, y - r - 4), (x + r + 3, y + r), (x - r - 3, y + r)],
        Marker::Diamond => vec![(x, y - r - 6), (x + r + 6, y), (x, y + r + 6), (x - r - 6, y)],
    };
    canvas.add(Shape::Area { places, ink: look.ink });
}
