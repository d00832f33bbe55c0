//! A table that can be sorted, whose cells lead to their evidence.

use maud::{Markup, html};
use ppgnn_stages::kinds::{Mark, PlainCell, PlainTable, Verdict};

use super::page::data_uri;
use super::{ShownCell, ShownTable};

/// The name that the evidence of a cell has in the page.
pub(super) fn anchor(table: usize, row: usize, column: usize) -> String {
    format!("t{table}r{row}c{column}")
}

/// Returns the table at a place of the report.
pub(super) fn table(at: usize, table: &ShownTable) -> Markup {
    let plain = &table.plain;
    let title = if plain.title.is_empty() { &table.name } else { &plain.title };
    let heading = format!("t{at}");
    html! {
        section.table aria-labelledby=(heading) {
            h3 id=(heading) { (title) }
            @if let Some(lacks) = &table.lacks { p.lacks { (lacks) } }
            div.scroll tabindex="0" role="region" aria-labelledby=(heading) {
                table.sortable {
                    thead {
                        tr {
                            th scope="col" { (sorter(&plain.corner)) }
                            @for column in &plain.columns { th scope="col" { (sorter(column)) } }
                        }
                    }
                    tbody {
                        @for (row, line) in plain.rows.iter().enumerate() {
                            tr {
                                th scope="row" { (line.label) }
                                @for (column, shown) in line.cells.iter().enumerate() {
                                    (cell(&anchor(at, row, column), shown, table.cells.get(row).and_then(|row| row.get(column))))
                                }
                            }
                        }
                    }
                }
            }
            @if !plain.caption.is_empty() { p.caption { (plain.caption) } }
            @if !plain.notes.is_empty() {
                dl.notes { @for (mark, note) in &plain.notes { dt { "[" (mark) "]" } dd { (note) } } }
            }
            p.links.noprint {
                @if let Some(csv) = &table.csv {
                    a download={ (table.name) ".csv" } href=(data_uri("text/csv", csv.as_bytes())) { "Numbers as CSV" }
                }
            }
        }
    }
}

/// Returns a table that fills in: nothing sorts, and nothing is known beyond what it shows.
pub(super) fn plain_table(at: usize, table: &PlainTable) -> Markup {
    let heading = format!("t{at}");
    html! {
        h3 id=(heading) { (table.title) }
        div.scroll id={ "s" (at) } tabindex="0" role="region" aria-labelledby=(heading) {
            table {
                thead {
                    tr {
                        th scope="col" { (table.corner) }
                        @for column in &table.columns { th scope="col" { (column) } }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            th scope="row" { (row.label) }
                            @for shown in &row.cells { (cell("", shown, None)) }
                        }
                    }
                }
            }
        }
    }
}

/// A title of a column that sorts by it.
fn sorter(title: &str) -> Markup {
    html! { button type="button" { (title) span.arrow aria-hidden="true" {} } }
}

fn cell(anchor: &str, shown: &PlainCell, known: Option<&ShownCell>) -> Markup {
    let verdict = known.and_then(|known| known.verdict);
    let value = match shown.mark {
        Some(Mark::Best) => html! { strong { (shown.value) } },
        Some(Mark::NotWorse) => html! { u { (shown.value) } },
        None => html! { (shown.value) },
    };
    let has_evidence = known.is_some_and(|known| known.evidence.is_some());
    html! {
        td class=[verdict.map(Verdict::name)] data-v=[known.and_then(|known| known.number)] {
            @if has_evidence { a.cell id={ "from-" (anchor) } href={ "#" (anchor) } { (value) } } @else { (value) }
            // What stands beside a value in brackets is longer than the value.
            @if !shown.beside.is_empty() { " " small class=[shown.beside.starts_with('(').then_some("below")] { (shown.beside) } }
            @if let Some(verdict) = verdict { span.said { ", " (in_words(verdict)) } }
        }
    }
}

/// What the colour of a cell says, for those who do not see it.
fn in_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::WithinOne => "within one published deviation",
        Verdict::WithinTwo => "within two published deviations",
        Verdict::Outside => "further than two published deviations",
        Verdict::NoPrintedSpread => "no spread was published",
        Verdict::NoPrintedValue => "no value was published",
    }
}
