//! Shapes as a PDF of one page, in the fonts that every reader has: Helvetica for Latin letters, Symbol for Greek ones. A letter that
//! neither has is shown as `?`; the SVG has it.

use std::collections::BTreeSet;

use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str};

use super::canvas::{POINT, Place, Shape};
use super::font;
use super::style::Ink;

/// Names of the fonts in the file.
const FONTS: [(&[u8], &[u8]); 3] = [(b"F1", b"Helvetica"), (b"F2", b"Helvetica-Bold"), (b"F3", b"Symbol")];

/// Writes a picture.
pub fn pdf(size: (u32, u32), shapes: &[Shape]) -> Vec<u8> {
    let (width, height) = (points(f64::from(size.0)), points(f64::from(size.1)));
    let [catalog, pages, page, content] = [1, 2, 3, 4].map(Ref::new);
    let alphas: BTreeSet<u8> = shapes.iter().map(|shape| percent(ink(shape))).collect();
    let (font_ref, alpha_ref) = (|at: i32| Ref::new(5 + at), |percent: u8| Ref::new(100 + i32::from(percent)));
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    let mut sheet = pdf.page(page);
    sheet.media_box(Rect::new(0.0, 0.0, width, height)).parent(pages).contents(content);
    let mut resources = sheet.resources();
    let mut fonts = resources.fonts();
    for (at, (name, _)) in (0..).zip(FONTS) {
        fonts.pair(Name(name), font_ref(at));
    }
    fonts.finish();
    let mut states = resources.ext_g_states();
    for alpha in &alphas {
        states.pair(Name(format!("A{alpha}").as_bytes()), alpha_ref(*alpha));
    }
    states.finish();
    resources.finish();
    sheet.finish();
    for (at, (_, base)) in (0..).zip(FONTS) {
        let mut font = pdf.type1_font(font_ref(at));
        font.base_font(Name(base));
        if base != b"Symbol" {
            font.encoding_predefined(Name(b"WinAnsiEncoding"));
        }
    }
    for alpha in &alphas {
        let share = f32::from(*alpha) / 100.0;
        pdf.ext_graphics(alpha_ref(*alpha)).stroking_alpha(share).non_stroking_alpha(share);
    }
    let mut drawn = Content::new();
    drawn.set_line_join(LineJoinStyle::RoundJoin);
    shapes.iter().for_each(|shape| add(&mut drawn, shape, height));
    pdf.stream(content, &drawn.finish());
    pdf.finish()
}

fn ink(shape: &Shape) -> Ink {
    match shape {
        Shape::Line { ink, .. } | Shape::Area { ink, .. } | Shape::Dots { ink, .. } | Shape::Text { ink, .. } => *ink,
    }
}

fn percent(ink: Ink) -> u8 {
    (ink.alpha * 100.0).round().clamp(0.0, 100.0) as u8
}

fn points(units: f64) -> f32 {
    (units / POINT) as f32
}

fn add(out: &mut Content, shape: &Shape, height: f32) {
    let paint = ink(shape);
    let (r, g, b) = paint.rgb;
    let [r, g, b] = [r, g, b].map(|c| f32::from(c) / 255.0);
    let at = |(x, y): Place| (points(f64::from(x)), height - points(f64::from(y)));
    out.set_parameters(Name(format!("A{}", percent(paint)).as_bytes()));
    out.set_fill_rgb(r, g, b);
    out.set_stroke_rgb(r, g, b);
    match shape {
        Shape::Line { places, width, dash, .. } => {
            out.set_line_cap(LineCapStyle::ButtCap);
            out.set_line_width(points(f64::from(*width)));
            out.set_dash_pattern(dash.iter().map(|length| points(f64::from(*length))), 0.0);
            trace(out, places.iter().map(|place| at(*place)));
            out.stroke();
        }
        Shape::Area { places, .. } => {
            trace(out, places.iter().map(|place| at(*place)));
            out.fill_nonzero();
        }
        Shape::Dots { places, radius, .. } => {
            out.set_line_cap(LineCapStyle::RoundCap);
            out.set_line_width(points(f64::from(*radius) * 2.0));
            out.set_dash_pattern([], 0.0);
            for (x, y) in places.iter().map(|place| at(*place)) {
                out.move_to(x, y);
                out.line_to(x, y);
            }
            out.stroke();
        }
        Shape::Text { text, at: place, size, upward, bold, .. } => {
            let (x, y) = at(*place);
            let size = points(*size);
            out.begin_text();
            out.set_text_matrix(if *upward { [0.0, 1.0, -1.0, 0.0, x, y] } else { [1.0, 0.0, 0.0, 1.0, x, y] });
            for (symbol, bytes) in pieces(&font::shown(text)) {
                let name = if symbol { FONTS[2].0 } else { FONTS[usize::from(*bold)].0 };
                out.set_font(Name(name), size);
                out.show(Str(&bytes));
            }
            out.end_text();
        }
    }
}

fn trace(out: &mut Content, places: impl Iterator<Item = (f32, f32)>) {
    for (step, (x, y)) in places.enumerate() {
        if step == 0 {
            out.move_to(x, y);
        } else {
            out.line_to(x, y);
        }
    }
}

/// Cuts a text into what Symbol shows and what Helvetica does.
fn pieces(text: &str) -> Vec<(bool, Vec<u8>)> {
    let mut all: Vec<(bool, Vec<u8>)> = Vec::new();
    for c in text.chars() {
        let (symbol, byte) = code(c);
        match all.last_mut().filter(|(last, _)| *last == symbol) {
            Some((_, bytes)) => bytes.push(byte),
            None => all.push((symbol, vec![byte])),
        }
    }
    all
}

/// The Greek letters of Symbol, in the order of their codes.
const GREEK: &str = "αbcδεφγηιϕκλμνοπθρστυϖωξψζ";

/// Whether a character is in Symbol, and its code.
fn code(c: char) -> (bool, u8) {
    let latin = |byte: u8| (false, byte);
    match c {
        ' '..='~' | '\u{a0}'..='\u{ff}' => latin(u8::try_from(u32::from(c)).unwrap_or(b'?')),
        '−' | '–' => latin(0x96),
        '—' => latin(0x97),
        '‘' => latin(0x91),
        '’' => latin(0x92),
        '“' => latin(0x93),
        '”' => latin(0x94),
        '…' => latin(0x85),
        '•' => latin(0x95),
        '†' => latin(0x86),
        'β' => (true, b'b'),
        'χ' => (true, b'c'),
        'Γ' => (true, b'G'),
        'Δ' => (true, b'D'),
        'Λ' => (true, b'L'),
        'Σ' => (true, b'S'),
        'Φ' => (true, b'F'),
        'Ω' => (true, b'W'),
        '√' => (true, 0xd6),
        '≤' => (true, 0xa3),
        '≥' => (true, 0xb3),
        c => match (b'a'..).zip(GREEK.chars()).find(|(_, letter)| *letter == c && !letter.is_ascii()) {
            Some((byte, _)) => (true, byte),
            None => latin(b'?'),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::style::BLACK;

    #[test]
    fn greek_letters_are_those_of_symbol_and_others_are_marked() {
        assert_eq!(pieces("h(λ)"), [(false, b"h(".to_vec()), (true, b"l".to_vec()), (false, b")".to_vec())]);
        // Codes of the standard encoding of Symbol.
        for (letter, byte) in
            [('α', b'a'), ('δ', b'd'), ('ε', b'e'), ('φ', b'f'), ('θ', b'q'), ('σ', b's'), ('ω', b'w'), ('ζ', b'z')]
        {
            assert_eq!(code(letter), (true, byte), "{letter}");
        }
        assert_eq!((code('Ã'), code('中')), ((false, 0xc3), (false, b'?')));
    }

    #[test]
    fn a_pdf_has_one_page_of_the_size_of_the_picture() {
        let line = Shape::Line { places: vec![(0, 0), (100, 50)], ink: BLACK, width: 10, dash: &[] };
        let bytes = pdf((200, 100), &[line]);
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("%PDF-1.7") && text.contains("/MediaBox [0 0 20 10]"), "{text}");
        assert!(text.contains("0 10 m\n10 5 l\nS"), "{text}");
    }
}
