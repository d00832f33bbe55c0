//! What is behind a cell, shown where its link leads; and sections of anything else.

use maud::{Markup, html};

use super::{Evidence, ShownTable, table};
use crate::report::section::{Grid, Section};

/// Returns the evidence of all cells of the table at a place of the report.
pub(super) fn of_table(at: usize, shown: &ShownTable) -> Markup {
    let rows = shown.plain.rows.iter().zip(&shown.cells).enumerate();
    html! {
        @for (row, (line, cells)) in rows {
            @for (column, cell) in cells.iter().enumerate() {
                @if let (Some(evidence), Some(title)) = (&cell.evidence, shown.plain.columns.get(column)) {
                    (article(&table::anchor(at, row, column), &line.label, title, &shown.name, evidence))
                }
            }
        }
    }
}

fn article(anchor: &str, row: &str, column: &str, of: &str, evidence: &Evidence) -> Markup {
    html! {
        article id=(anchor) tabindex="-1" aria-labelledby={ "h-" (anchor) } {
            a.close.noprint href={ "#from-" (anchor) } { "Close" }
            h3 id={ "h-" (anchor) } { (row) @if !column.is_empty() { ", " (column) } " of " (of) }
            p.headline { (evidence.headline) }
            @for part in &evidence.sections { (section(part)) }
        }
    }
}

/// Returns a section with its heading.
pub(super) fn section(section: &Section) -> Markup {
    html! { div.part { h4 { (section.heading) } (below(section)) } }
}

/// Returns what stands below the heading of a section.
pub(super) fn below(section: &Section) -> Markup {
    html! {
        @if !section.lines.is_empty() { ul { @for line in &section.lines { li { (line) } } } }
        @if let Some(of) = &section.grid { (grid(of)) }
    }
}

fn grid(grid: &Grid) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Values" {
            table {
                thead { tr { @for title in &grid.columns { th scope="col" { (title) } } } }
                tbody {
                    @for row in &grid.rows { tr { @for cell in row { td { (cell) } } } }
                }
            }
        }
    }
}
