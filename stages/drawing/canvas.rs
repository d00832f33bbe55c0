//! What is drawn on: a list of shapes in tenths of a point, filled by `plotters` and by [`Chart`](super::Chart).

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontTransform,
};

use super::font;
use super::style::Ink;

/// Units of the canvas in a point.
pub const POINT: f64 = 10.0;

/// A place on the canvas: to the right, and down.
pub type Place = (i32, i32);

/// A shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A line through places.
    Line { places: Vec<Place>, ink: Ink, width: u16, dash: &'static [u16] },
    /// A filled polygon.
    Area { places: Vec<Place>, ink: Ink },
    /// Discs of one size.
    Dots { places: Vec<Place>, ink: Ink, radius: u16 },
    /// A text that begins at a place of its base line.
    Text { text: String, at: Place, size: f64, ink: Ink, upward: bool, bold: bool },
}

/// A picture that is being drawn; clones draw on the same one.
#[derive(Clone)]
pub struct Canvas {
    size: (u32, u32),
    shapes: Rc<RefCell<Vec<Shape>>>,
}

impl Canvas {
    /// An empty picture.
    pub fn new(size: (u32, u32)) -> Self {
        Self { size, shapes: Rc::default() }
    }

    /// Adds a shape.
    pub fn add(&self, shape: Shape) {
        self.shapes.borrow_mut().push(shape);
    }

    /// Adds a text; `across` and `down` say where in it the place is, from 0 (left, top) to 1. A text may go upward.
    pub fn text(
        &self,
        text: &str,
        at: Place,
        (across, down): (f64, f64),
        size: f64,
        ink: Ink,
        (upward, bold): (bool, bool),
    ) {
        let text = font::shown(text);
        let left = -across * font::width(&text) * size;
        let base = font::CAPITAL * size * (1.0 - down) - if down == 1.0 { font::BELOW * size } else { 0.0 };
        let (dx, dy) = if upward { (base, -left) } else { (left, base) };
        let at = (at.0.saturating_add(dx.round() as i32), at.1.saturating_add(dy.round() as i32));
        self.add(Shape::Text { text, at, size, ink, upward, bold });
    }

    /// Returns the size, and the shapes from the lowest to the uppermost.
    pub fn finish(&self) -> ((u32, u32), Vec<Shape>) {
        (self.size, self.shapes.take())
    }
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

fn ink(color: BackendColor) -> Ink {
    Ink { rgb: color.rgb, alpha: color.alpha }
}

fn stroke(style: &impl BackendStyle) -> u16 {
    u16::try_from(style.stroke_width()).unwrap_or(u16::MAX)
}

fn corners((x0, y0): BackendCoord, (x1, y1): BackendCoord) -> Vec<Place> {
    vec![(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
}

impl DrawingBackend for Canvas {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, color: BackendColor) -> Drawn {
        self.add(Shape::Dots { places: vec![at], ink: ink(color), radius: 1 });
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, fill: bool) -> Drawn {
        let places = corners(from, to);
        if fill {
            self.fill_polygon(places, style)
        } else {
            self.draw_path(places.iter().chain(&places[..1]).copied(), style)
        }
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        if style.color().alpha > 0.0 {
            let places = path.into_iter().collect();
            self.add(Shape::Line { places, ink: ink(style.color()), width: stroke(style), dash: &[] });
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, _fill: bool) -> Drawn {
        let radius = u16::try_from(radius).unwrap_or(u16::MAX);
        self.add(Shape::Dots { places: vec![center], ink: ink(style.color()), radius });
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, vert: I, style: &S) -> Drawn {
        self.add(Shape::Area { places: vert.into_iter().collect(), ink: ink(style.color()) });
        Ok(())
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, at: BackendCoord) -> Drawn {
        let across = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => 0.5,
            HPos::Right => 1.0,
        };
        let down = match style.anchor().v_pos {
            VPos::Top => 0.0,
            VPos::Center => 0.5,
            VPos::Bottom => 1.0,
        };
        let upward = matches!(style.transform(), FontTransform::Rotate270);
        self.text(text, at, (across, down), style.size(), ink(style.color()), (upward, false));
        Ok(())
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok(((font::width(&font::shown(text)) * style.size()).ceil() as u32, style.size().ceil() as u32))
    }
}
