//! Shapes as SVG: text stays text, names are escaped, and the background is white, so that a picture can be read on a dark page.

use std::fmt::Write;

use super::canvas::{POINT, Place, Shape};
use super::font;
use super::style::Ink;

/// Writes a picture. `title` is what a screen reader says.
pub fn svg(title: &str, (width, height): (u32, u32), shapes: &[Shape]) -> String {
    let (w, h) = (short(f64::from(width) / POINT), short(f64::from(height) / POINT));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}pt\" height=\"{h}pt\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
         font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n<title>{}</title>\n<rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n",
        escaped(title)
    );
    shapes.iter().for_each(|shape| add(&mut out, shape));
    out.push_str("</svg>\n");
    out
}

/// Writes a shape. Writing to a text does not fail.
fn add(out: &mut String, shape: &Shape) {
    match shape {
        Shape::Line { places, ink, width, dash } => {
            let (path, width) = (path(places), short(f64::from(*width) / POINT));
            let lengths: Vec<String> = dash.iter().map(|length| short(f64::from(*length) / POINT)).collect();
            let dash =
                if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", lengths.join(" ")) };
            let _ = writeln!(
                out,
                "<path d=\"{path}\" fill=\"none\"{} stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>",
                paint("stroke", *ink)
            );
        }
        Shape::Area { places, ink } => {
            let _ = writeln!(out, "<path d=\"{}Z\"{}/>", path(places), paint("fill", *ink));
        }
        Shape::Dots { places, ink, radius } => {
            // A line of no length with round ends is a disc, in a quarter of the bytes.
            let discs: String = places.iter().map(|at| format!("M{}h0", place(*at))).collect();
            let width = short(f64::from(*radius) * 2.0 / POINT);
            let _ = writeln!(
                out,
                "<path d=\"{discs}\" fill=\"none\"{} stroke-width=\"{width}\" stroke-linecap=\"round\"/>",
                paint("stroke", *ink)
            );
        }
        Shape::Text { text, at, size, ink, upward, bold } => {
            let (x, y) = (short(f64::from(at.0) / POINT), short(f64::from(at.1) / POINT));
            let turned = if *upward { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
            let bold = if *bold { " font-weight=\"bold\"" } else { "" };
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"{}{bold}{turned}>{}</text>",
                short(size / POINT),
                paint("fill", *ink),
                escaped(text)
            );
        }
    }
}

fn path(places: &[Place]) -> String {
    let steps = places.iter().enumerate();
    steps.map(|(at, p)| format!("{}{}", if at == 0 { 'M' } else { 'L' }, place(*p))).collect()
}

fn place((x, y): Place) -> String {
    format!("{} {}", short(f64::from(x) / POINT), short(f64::from(y) / POINT))
}

fn paint(what: &str, Ink { rgb: (r, g, b), alpha }: Ink) -> String {
    let faint = if alpha < 1.0 { format!(" {what}-opacity=\"{}\"", short(alpha)) } else { String::new() };
    format!(" {what}=\"#{r:02x}{g:02x}{b:02x}\"{faint}")
}

/// A number with two digits at most.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A text as XML holds it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in font::shown(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::style::BLACK;

    #[test]
    fn names_cannot_become_markup() {
        let text = "<script>alert('x')</script> & \"quoted\" \u{202e}right to left\u{0}".to_owned();
        let shape = Shape::Text { text: text.clone(), at: (10, 20), size: 70.0, ink: BLACK, upward: true, bold: false };
        let svg = svg(&text, (100, 100), &[shape]);
        assert!(!svg.contains("<script") && !svg.contains('\u{202e}') && !svg.contains('\0'), "{svg}");
        assert_eq!(
            svg.matches("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;quoted&quot; right to left")
                .count(),
            2
        );
        assert!(svg.contains("x=\"1\" y=\"2\"") && svg.contains("rotate(-90 1 2)"), "{svg}");
    }
}
