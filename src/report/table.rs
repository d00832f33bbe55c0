//! Tables for people: aligned columns that fit the terminal. Files and pipes get Markdown.
//!
//! Columns that do not fit beside each other follow below, with the labels of the rows again. Where not even one fits, what
//! stands beside a value goes below it.

use std::ops::Range;

use ppgnn_stages::kinds::{Mark, PlainCell, PlainTable, Table};

use super::page::{Page, padded, width_of};

const BETWEEN: usize = 2;
/// Labels keep this many columns, however narrow the page is.
const LEAST_LABEL: usize = 8;
/// What stands for bold and underlined where there are no styles.
const MARKS: [&str; 2] = ["▲", "△"];

/// Draws a finished table, with its caption and notes.
pub fn drawn(table: &Table, page: Page) -> String {
    let [best, not_worse] = if page.colour { ["bold", "underlined"] } else { MARKS };
    let plain = table.plain(best, not_worse);
    let mut lines = Vec::new();
    if !plain.title.is_empty() {
        lines.extend(page.wrapped(&plain.title, 0).iter().map(|line| page.styled("1", line)));
        lines.push(String::new());
    }
    let mut grid = Grid::new(&plain, page, false);
    if grid.widest() + BETWEEN + grid.label > page.width {
        grid = Grid::new(&plain, page, true);
        grid.label = grid.label.min(page.width.saturating_sub(grid.widest() + BETWEEN).max(LEAST_LABEL));
    }
    let mut from = 0;
    while from < plain.columns.len() {
        let columns = from..from + grid.fitting(from).max(1);
        from = columns.end;
        lines.extend(grid.block(columns, 0..plain.rows.len()));
        lines.push(String::new());
    }
    lines.extend(page.wrapped(&plain.caption, 0));
    for (mark, note) in &plain.notes {
        lines.extend(page.wrapped(&format!("[{mark}] {note}."), 4));
    }
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Draws what fits of a table that is being computed into so many lines, and says what does not fit.
pub(super) fn excerpt(table: &PlainTable, page: Page, most_lines: usize) -> Vec<String> {
    let mut grid = Grid::new(table, page, false);
    grid.label = grid.label.min((page.width / 3).max(LEAST_LABEL));
    let columns = grid.fitting(0).clamp(1, table.columns.len().max(1)).min(table.columns.len());
    let mut lines: Vec<String> = Vec::new();
    if !table.title.is_empty() {
        lines.push(page.styled("1", &page.cut(&table.title)));
    }
    let hidden_columns = table.columns.len() - columns;
    let head = lines.len() + 1;
    let all_fit = hidden_columns == 0 && head + table.rows.len() <= most_lines;
    let room = most_lines.saturating_sub(head + usize::from(!all_fit));
    let rows = table.rows.len().min(room);
    if rows == 0 {
        return Vec::new();
    }
    lines.extend(grid.block(0..columns, 0..rows));
    if !all_fit {
        let more = [(table.rows.len() - rows, "row"), (hidden_columns, "column")];
        let more = more.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> =
            more.map(|(count, what)| format!("{count} more {what}{}", if *count == 1 { "" } else { "s" })).collect();
        lines.push(page.styled("2", &page.cut(&format!("… {} than fit here", words.join(" and ")))));
    }
    lines
}

/// The widths of a table's columns on a page.
struct Grid<'t> {
    table: &'t PlainTable,
    page: Page,
    /// Whether what stands beside a value goes below it.
    stacked: bool,
    label: usize,
    columns: Vec<Widths>,
}

/// A column: its values end below each other, and what stands beside them begins below each other.
struct Widths {
    value: usize,
    beside: usize,
    header: usize,
}

impl<'t> Grid<'t> {
    fn new(table: &'t PlainTable, page: Page, stacked: bool) -> Self {
        let most = |of: &mut dyn Iterator<Item = usize>| of.max().unwrap_or(0);
        let mut labels = table.rows.iter().map(|row| width_of(&row.label)).chain([width_of(&table.corner)]);
        let column = |(at, header): (usize, &String)| {
            let cells = || table.rows.iter().filter_map(|row| row.cells.get(at));
            Widths {
                value: most(&mut cells().map(|cell| width_of(&marked(cell, page)))),
                beside: most(&mut cells().map(|cell| width_of(&cell.beside))),
                header: width_of(header),
            }
        };
        let columns = table.columns.iter().enumerate().map(column).collect();
        Self { table, page, stacked, label: most(&mut labels), columns }
    }

    fn width(&self, column: &Widths) -> usize {
        let own = match (self.stacked, column.beside) {
            (_, 0) => column.value,
            (true, beside) => column.value.max(beside),
            (false, beside) => column.value + 1 + beside,
        };
        own.max(column.header)
    }

    fn widest(&self) -> usize {
        self.columns.iter().map(|column| self.width(column)).max().unwrap_or(0)
    }

    /// Counts the columns that fit beside each other, from one on.
    fn fitting(&self, from: usize) -> usize {
        let mut used = self.label;
        let fits = |column: &&Widths| {
            used += BETWEEN + self.width(column);
            used <= self.page.width
        };
        self.columns[from..].iter().take_while(fits).count()
    }

    /// Draws some columns of some rows, below their header.
    fn block(&self, columns: Range<usize>, rows: Range<usize>) -> Vec<String> {
        let label = |text: &str| padded(&console::truncate_str(text, self.label, "…"), self.label, false);
        let between = " ".repeat(BETWEEN);
        let mut header = label(&self.table.corner);
        for at in columns.clone() {
            header += &between;
            header += &padded(&self.table.columns[at], self.width(&self.columns[at]), true);
        }
        let mut lines = vec![self.page.styled("2", &self.page.cut(&header))];
        for row in &self.table.rows[rows] {
            let (mut line, mut below) = (label(&row.label), label(""));
            for at in columns.clone() {
                let Some(cell) = row.cells.get(at) else { continue };
                let width = self.width(&self.columns[at]);
                let (value, beside) = (marked(cell, self.page), &cell.beside);
                let after = if self.stacked || self.columns[at].beside == 0 { 0 } else { self.columns[at].beside + 1 };
                line += &between;
                line += &padded(&value, width - after, true);
                if self.stacked {
                    below += &between;
                    below += &padded(beside, width, true);
                } else if after > 0 {
                    line += &padded(&format!(" {beside}"), after, false);
                }
            }
            lines.push(self.page.cut(line.trim_end()));
            if !below.trim().is_empty() {
                lines.push(self.page.cut(below.trim_end()));
            }
        }
        lines
    }
}

/// A value as it looks: bold, underlined, or with a mark.
fn marked(cell: &PlainCell, page: Page) -> String {
    match (cell.mark, page.colour) {
        (None, true) => cell.value.clone(),
        (None, false) => cell.value.clone() + " ",
        (Some(Mark::Best), true) => page.styled("1", &cell.value),
        (Some(Mark::NotWorse), true) => page.styled("4", &cell.value),
        (Some(Mark::Best), false) => cell.value.clone() + MARKS[0],
        (Some(Mark::NotWorse), false) => cell.value.clone() + MARKS[1],
    }
}

#[cfg(test)]
mod tests;
