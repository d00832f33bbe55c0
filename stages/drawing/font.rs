//! Widths of Helvetica, and texts as they can be shown.
//!
//! Helvetica is one of the fonts that every PDF reader has; Arial and Liberation Sans have its widths, so an SVG is laid out for what a
//! browser will use.

/// Widths of the characters from space to tilde, in thousandths of the size.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
];

/// Height of a capital letter, as a share of the size.
pub const CAPITAL: f64 = 0.72;
/// How far letters reach below the line, as a share of the size.
pub const BELOW: f64 = 0.21;

/// Returns the width of a text in units of its size.
pub fn width(text: &str) -> f64 {
    let of = |c: char| {
        let at = u32::from(c).checked_sub(32).and_then(|at| usize::try_from(at).ok());
        // Letters of other alphabets are about as wide as digits, those of East Asia twice that.
        f64::from(at.and_then(|at| WIDTHS.get(at).copied()).unwrap_or(if u32::from(c) < 0x1100 { 556 } else { 1000 }))
            / 1000.0
    };
    text.chars().map(of).sum()
}

/// Returns a text without what cannot be shown or changes how its surroundings are shown: control characters, marks of direction,
/// and what XML cannot hold.
pub fn shown(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{061c}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    text.chars().filter(|c| !hidden(*c)).collect()
}

/// Returns a text that is no wider than so many times its size; what is cut ends in `…`.
pub fn fitted(text: &str, most: f64) -> String {
    let text = shown(text);
    if width(&text) <= most {
        return text;
    }
    let mut cut: Vec<char> = text.chars().collect();
    while !cut.is_empty() && width(&cut.iter().collect::<String>()) + 1.0 > most {
        cut.pop();
    }
    cut.into_iter().chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_font() {
        // Published widths: i 222, W 944, digits 556.
        assert!((width("iW5") - (0.222 + 0.944 + 0.556)).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_shown_is_left_out_and_long_texts_are_cut() {
        assert_eq!(shown("a\u{202e}b\u{0}\u{7}\u{feff}λ<"), "abλ<");
        assert_eq!(fitted("short", 9.0), "short");
        let cut = fitted(&"w".repeat(80), 9.0);
        assert!(cut.ends_with('…') && width(&cut) <= 9.0, "{cut}");
    }
}
