//! A table as pieces of plain text, for whoever lays them out: on a terminal, columns are aligned and cut to its width.

use crate::kinds::comparison::Mark;
use crate::kinds::table::{Cell, Table};

use super::caption::{Signs, Words};

/// A table in words, without markup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainTable {
    /// Its title; may be empty.
    pub title: String,
    /// What rows and columns are.
    pub corner: String,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<PlainRow>,
    /// What the numbers are.
    pub caption: String,
    /// Footnotes: mark and text.
    pub notes: Vec<(String, String)>,
}

/// A row of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainRow {
    /// Its label.
    pub label: String,
    /// One for every column.
    pub cells: Vec<PlainCell>,
}

/// A cell of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainCell {
    /// The number, or a word instead of it.
    pub value: String,
    /// What stands beside it; may be empty.
    pub beside: String,
    /// Its mark.
    pub mark: Option<Mark>,
}

impl Table {
    /// Returns the table in words; `best` and `not_worse` say how marked cells look.
    pub fn plain(&self, best: &'static str, not_worse: &'static str) -> PlainTable {
        let words = Words {
            percent: "%",
            plus_minus: "±",
            times: "×",
            less: "<",
            best,
            not_worse,
            signs: Signs::PLAIN,
            escape: plain_text,
        };
        let mut notes = Vec::new();
        self.footnotes(|mark, note| {
            notes.push((mark.to_owned(), plain_text(note)));
            String::new()
        });
        let joined = |beside: String, marks: Option<String>| {
            let marks = marks.map(|marks| format!("[{marks}]")).unwrap_or_default();
            [beside.trim(), marks.as_str()]
                .iter()
                .filter(|part| !part.is_empty())
                .copied()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let cells = |row, column| match self.cell(row, column) {
            Some(cell) => PlainCell {
                value: self.shown(cell, " ± "),
                beside: joined(self.beside(cell, " ± ", "−", Signs::PLAIN, plain_text), self.marks(&cell.notes)),
                mark: cell.mark,
            },
            None => PlainCell {
                value: self.missing(row, column, "–", " ± ", plain_text),
                beside: joined(String::new(), self.marks(self.whys_at(row, column))),
                mark: None,
            },
        };
        PlainTable { caption: self.caption(&words), notes, ..self.pieces(cells) }
    }

    /// Returns what there is of a table that is being computed: every cell with the number of splits behind it, and `…` where
    /// runs are still to come. `pending` is the reason that such runs are missing for.
    pub fn so_far(&self, pending: &str) -> PlainTable {
        let cells = |row, column| match self.cell(row, column) {
            Some(cell) => {
                let more = if cell.lacks(pending) { "…" } else { "" };
                PlainCell { value: self.shown(cell, " ± "), beside: format!("n={}{more}", cell.n), mark: cell.mark }
            }
            None if self.whys_at(row, column).iter().any(|why| why.contains(pending)) => {
                PlainCell { value: "·".to_owned(), ..PlainCell::default() }
            }
            None => PlainCell { value: self.missing(row, column, "–", " ± ", plain_text), ..PlainCell::default() },
        };
        self.pieces(cells)
    }

    fn pieces(&self, cell: impl Fn(usize, usize) -> PlainCell) -> PlainTable {
        let titles = [&self.row_title, &self.column_title];
        let corner: Vec<_> = titles.iter().filter(|t| !t.is_empty()).map(|t| plain_text(t)).collect();
        let row = |(row, label): (usize, &String)| PlainRow {
            label: plain_text(label),
            cells: (0..self.columns.len())
                .map(|column| cell(row, column))
                .chain(self.average_rank(row, "–").map(|value| PlainCell { value, ..PlainCell::default() }))
                .collect(),
        };
        PlainTable {
            title: plain_text(&self.title),
            corner: corner.join(" / "),
            columns: self.columns.iter().map(|label| plain_text(label)).chain(self.ranks_title()).collect(),
            rows: self.rows.iter().enumerate().map(row).collect(),
            caption: String::new(),
            notes: Vec::new(),
        }
    }
}

impl Cell {
    /// Returns whether runs are missing for a reason: its own, or those of a configuration that it could have shown.
    fn lacks(&self, reason: &str) -> bool {
        let left_out = self.picked.iter().flat_map(|picked| &picked.left_out).map(|one| &one.why);
        self.missing.iter().chain(left_out).any(|why| why.contains(reason))
    }
}

/// One line of text, none of whose characters means something to a terminal.
fn plain_text(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::reference::Reference;
    use crate::kinds::table::tests::table;
    use crate::kinds::table::{Absent, LeftOut, Picked};

    #[test]
    fn a_plain_table_has_no_markup_and_no_control_characters() {
        let mut table = table(&[(0, 0, 0.5), (1, 0, 0.75), (2, 0, 0.25)]);
        let reference = Reference { mean: Some(0.561), std: Some(0.03), note: "*".into() };
        table.set_references(|row, _| (row == 0).then(|| reference.clone()));
        table.cells[2].notes = vec!["odd \x1b[31m".into()];
        let plain = table.plain("bold", "underlined");
        assert_eq!(
            (&*plain.title, &*plain.corner, &*plain.rows[2].label),
            ("Main | results", "model / data", "say \"hi\", you")
        );
        let cell = |row: usize| (&*plain.rows[row].cells[0].value, &*plain.rows[row].cells[0].beside);
        assert_eq!(cell(0), ("50.0 ± 1.2", "(56.1* ± 3.0, −6.1†)"));
        assert_eq!(cell(2), ("25.0 ± 1.2", "[1]"));
        assert_eq!(plain.rows[1].cells[0].mark, Some(Mark::Best));
        assert_eq!(plain.notes, [("1".to_owned(), "odd  [31m".to_owned())]);
        assert!(plain.caption.contains("Best in a column bold if it is better than every other, else underlined with"));
        assert!(
            plain.caption.contains("p < 0.05") && plain.caption.contains(" * borrowed there from"),
            "{}",
            plain.caption
        );
    }

    #[test]
    fn a_table_so_far_says_how_many_splits_are_behind_a_cell_and_where_more_come() {
        let mut table = table(&[(0, 0, 0.5), (1, 0, 0.75), (2, 0, 0.25)]);
        table.cells[0].missing = vec!["not yet".into()];
        let left_out = vec![LeftOut { label: "lr=1".into(), why: "not yet".into() }];
        let picked = Picked { metric: "val-loss".parse().unwrap(), chosen: 0, candidates: vec![], left_out };
        table.cells[1].picked = Some(picked);
        let absent = |row, why: &str| Absent { row, column: 1, why: why.into(), reference: None };
        table.absent = vec![absent(0, "not yet"), absent(1, "train/x failed: why")];
        let plain = table.so_far("not yet");
        let besides: Vec<&str> = plain.rows.iter().map(|row| &*row.cells[0].beside).collect();
        assert_eq!(besides, ["n=2…", "n=2…", "n=2"]);
        let empty: Vec<&str> = plain.rows.iter().map(|row| &*row.cells[1].value).collect();
        assert_eq!(empty, ["·", "absent", "–"]);
    }
}
