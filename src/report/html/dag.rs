//! The graph of stages as a picture: a box stands right of everything that it reads.

use maud::{Markup, html};

use super::Dag;

const BOX: (usize, usize) = (148, 40);
const GAP: (usize, usize) = (40, 22);
const MARGIN: usize = 8;

/// Returns the picture, and the same in words.
pub(super) fn dag(dag: &Dag) -> Markup {
    let arrows: Vec<_> = dag.arrows.iter().filter(|(from, to, _)| from != to).collect();
    let columns = columns(dag.boxes.len(), &arrows);
    let mut heights: Vec<usize> = vec![0; columns.iter().max().map_or(0, |most| most + 1)];
    let places: Vec<(usize, usize)> = columns
        .iter()
        .map(|column| {
            let row = heights[*column];
            heights[*column] += 1;
            (MARGIN + column * (BOX.0 + GAP.0), MARGIN + row * (BOX.1 + GAP.1))
        })
        .collect();
    let width = 2 * MARGIN + heights.len() * (BOX.0 + GAP.0);
    let height = 2 * MARGIN + heights.iter().max().unwrap_or(&0) * (BOX.1 + GAP.1);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Graph of stages" {
            svg.dag width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="img"
                aria-label="Graph of stages; the list below says the same in words" {
                @for (from, to, _) in &arrows { path d=(curve(places[*from], places[*to])) {} }
                @for ((x, y), (label, there)) in places.iter().zip(&dag.boxes) {
                    g class=[there.then_some("there")] {
                        rect x=(x) y=(y) width=(BOX.0) height=(BOX.1) rx="6" {}
                        (lines(label, *x, *y))
                    }
                }
            }
        }
        details {
            summary { "In words" }
            ul {
                @for (at, (label, _)) in dag.boxes.iter().enumerate() {
                    li {
                        (label)
                        @let reads: Vec<_> = dag.arrows.iter().filter(|(_, to, _)| *to == at).collect();
                        @for (nth, (from, _, slot)) in reads.iter().enumerate() {
                            (if nth == 0 { ", reads " } else { ", " }) (slot) " from " (name(&dag.boxes[*from].0))
                        }
                    }
                }
            }
        }
    }
}

/// The column of every box: one more than the last of those that it reads.
fn columns(boxes: usize, arrows: &[&(usize, usize, &'static str)]) -> Vec<usize> {
    let mut columns = vec![0; boxes];
    // A path has at most as many arrows as there are boxes.
    for _ in 0..boxes {
        for (from, to, _) in arrows {
            columns[*to] = (columns[*from] + 1).max(columns[*to]).min(boxes);
        }
    }
    columns
}

fn curve(from: (usize, usize), to: (usize, usize)) -> String {
    let (x, y, end, at) = (from.0 + BOX.0, from.1 + BOX.1 / 2, to.0, to.1 + BOX.1 / 2);
    let bend = end.saturating_sub(x) / 2;
    format!("M{x} {y}C{} {y} {} {at} {end} {at}", x + bend, end.saturating_sub(bend))
}

/// The name in the first line of a box, the rest in the second.
fn lines(label: &str, x: usize, y: usize) -> Markup {
    let (first, second) = label.split_once(" (").unwrap_or((label, ""));
    html! {
        text x=(x + BOX.0 / 2) y=(y + 17) { (first) }
        text.small x=(x + BOX.0 / 2) y=(y + 32) { (second.trim_end_matches(')')) }
    }
}

fn name(label: &str) -> &str {
    label.split_once(" (").map_or(label, |(name, _)| name)
}
