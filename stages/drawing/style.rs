//! Colours, lines and sizes of every figure.
//!
//! Colours are those of Okabe and Ito, which people with any kind of colour vision tell apart; lines differ in dashes and markers as
//! well, so that they survive a grey print.

/// A colour, and how much of what is below it shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ink {
    /// Red, green and blue.
    pub rgb: (u8, u8, u8),
    /// 1 covers what is below, 0 is invisible.
    pub alpha: f64,
}

impl Ink {
    const fn of(r: u8, g: u8, b: u8) -> Self {
        Self { rgb: (r, g, b), alpha: 1.0 }
    }

    /// Returns the colour with another alpha.
    #[must_use]
    pub const fn faint(self, alpha: f64) -> Self {
        Self { alpha, ..self }
    }
}

/// Axes and text.
pub const BLACK: Ink = Ink::of(34, 34, 34);
/// What is there to be compared with.
pub const GREY: Ink = Ink::of(120, 120, 120);
/// Lines of a grid.
pub const LIGHT: Ink = Ink::of(225, 225, 225);
/// Paper.
pub const WHITE: Ink = Ink::of(255, 255, 255);

/// Blue, vermilion, bluish green, reddish purple, orange, sky blue, black. Yellow is left out: it does not show on paper.
const COLOURS: [Ink; 7] = [
    Ink::of(0, 114, 178),
    Ink::of(213, 94, 0),
    Ink::of(0, 158, 115),
    Ink::of(204, 121, 167),
    Ink::of(230, 159, 0),
    Ink::of(86, 180, 233),
    BLACK,
];

/// Lengths of strokes and gaps, in units of the canvas.
const DASHES: [&[u16]; 4] = [&[], &[40, 20], &[12, 16], &[50, 16, 12, 16]];

/// What stands at a value of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    Disc,
    /// A square.
    Square,
    /// A triangle.
    Triangle,
    /// A square on its corner.
    Diamond,
}

const MARKERS: [Marker; 4] = [Marker::Disc, Marker::Square, Marker::Triangle, Marker::Diamond];

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Its colour.
    pub ink: Ink,
    /// Its strokes and gaps; none of a solid line.
    pub dash: &'static [u16],
    /// What stands at its values.
    pub marker: Marker,
    /// Its width.
    pub width: u16,
}

impl Look {
    /// The look of a line by its place. Twenty-eight differ.
    pub fn of(place: usize) -> Self {
        let dash = DASHES[(place % COLOURS.len() + place / COLOURS.len()) % DASHES.len()];
        Self { ink: COLOURS[place % COLOURS.len()], dash, marker: MARKERS[place % MARKERS.len()], width: 11 }
    }

    /// A thin solid line.
    pub fn thin(ink: Ink) -> Self {
        Self { ink, dash: &[], marker: Marker::Disc, width: 5 }
    }
}

/// The colour of a share between 0 and 1: from paper to dark blue, darker at every step in grey as well.
pub fn of_share(share: f64) -> Ink {
    let share = share.clamp(0.0, 1.0);
    let between = |from: f64, to: f64| to_byte(from + (to - from) * share);
    Ink { rgb: (between(255.0, 8.0), between(255.0, 64.0), between(255.0, 129.0)), alpha: 1.0 }
}

fn to_byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_eight_lines_look_different() {
        let looks: Vec<Look> = (0..28).map(Look::of).collect();
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].iter().any(|other| (other.ink, other.dash) == (look.ink, look.dash)), "{at}");
        }
    }

    #[test]
    fn shares_get_darker_in_grey() {
        let grey = |share| {
            let (r, g, b) = of_share(share).rgb;
            0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)
        };
        let greys: Vec<f64> = (0..=10).map(|i| grey(f64::from(i) / 10.0)).collect();
        assert!(greys.is_sorted_by(|a, b| a > b), "{greys:?}");
    }
}
