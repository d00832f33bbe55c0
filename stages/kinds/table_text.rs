//! Tables as text: GitHub Markdown, LaTeX, CSV and JSON; [`plain`] has pieces to lay out on a terminal.
//!
//! Markdown and LaTeX show shares in percent, `mean ± std` or `mean [interval]`, and `–` where there is no cell; CSV and JSON hold the plain
//! numbers. Labels are escaped for each format, so no label can become markup.

mod caption;
pub(super) mod plain;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::kinds::comparison::Mark;
use crate::kinds::reference::{Reference, Verdict};
use crate::kinds::score::Scale;
use crate::kinds::table::{Cell, Interval, Table};
use caption::{Signs, Words};

/// Footnotes of a table for people: what has more reasons than this is no table to read.
const MOST_NOTES: usize = 20;
/// What the column of average ranks is called.
const RANKS_TITLE: &str = "average rank";

impl Table {
    /// Returns the table as GitHub Markdown: title, table, caption.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = String::new();
        if !self.title.is_empty() {
            let _ = write!(out, "**{}**\n\n", markdown_text(&self.title));
        }
        let titles = [&self.row_title, &self.column_title];
        let corner: Vec<_> = titles.iter().filter(|t| !t.is_empty()).map(|t| markdown_text(t)).collect();
        let labels = self.columns.iter().map(|c| markdown_text(c)).chain(self.ranks_title());
        let header: Vec<String> = [corner.join(" / ")].into_iter().chain(labels).collect();
        out += &line(header.clone());
        out += &line([":---".to_owned()].into_iter().chain(header.iter().skip(1).map(|_| "---:".to_owned())).collect());
        for (row, label) in self.rows.iter().enumerate() {
            let cells = (0..self.columns.len()).map(|column| match self.cell(row, column) {
                None => {
                    let notes = self.marks(self.whys_at(row, column)).map(|marks| format!("<sup>{marks}</sup>"));
                    self.missing(row, column, "–", " ± ", markdown_text) + &notes.unwrap_or_default()
                }
                Some(cell) => {
                    let shown = self.shown(cell, " ± ");
                    let marked = match cell.mark {
                        Some(Mark::Best) => format!("**{shown}**"),
                        // GitHub keeps `ins`, and strips `u`.
                        Some(Mark::NotWorse) => format!("<ins>{shown}</ins>"),
                        None => shown,
                    };
                    let notes = self.marks(&cell.notes).map_or(String::new(), |marks| format!("<sup>{marks}</sup>"));
                    marked + &self.beside(cell, " ± ", "−", Signs::PLAIN, markdown_text) + &notes
                }
            });
            out += &line([markdown_text(label)].into_iter().chain(cells).chain(self.average_rank(row, "–")).collect());
        }
        let caption = self.caption(&Words {
            percent: "%",
            plus_minus: "±",
            times: "×",
            less: "&lt;",
            best: "**bold**",
            not_worse: "<ins>underlined</ins>",
            signs: Signs::PLAIN,
            escape: markdown_text,
        });
        let notes = self.footnotes(|mark, note| format!(" <sup>{mark}</sup> {}.", markdown_text(note)));
        let _ = write!(out, "\n{caption}{notes}\n");
        out
    }

    /// Returns the table as LaTeX for the package `booktabs`.
    pub fn latex(&self) -> String {
        let line = |cells: Vec<String>| format!("    {} \\\\\n", cells.join(" & "));
        let mut out = String::from("\\begin{table}\n  \\centering\n");
        let words = Words {
            percent: "\\%",
            plus_minus: "$\\pm$",
            times: "$\\times$",
            less: "$<$",
            best: "\\textbf{bold}",
            not_worse: "\\underline{underlined}",
            signs: Signs::LATEX,
            escape: latex_text,
        };
        let notes = self.footnotes(|mark, note| format!(" $^{{{mark}}}$ {}.", latex_text(note)));
        let caption = self.caption(&words) + &notes;
        let title = if self.title.is_empty() { String::new() } else { format!("{}. ", latex_text(&self.title)) };
        let _ = writeln!(out, "  \\caption{{{title}{caption}}}");
        let of_ranks = usize::from(self.ranks_title().is_some());
        let _ = write!(out, "  \\begin{{tabular}}{{l{}}}\n    \\toprule\n", "r".repeat(self.columns.len() + of_ranks));
        if !self.column_title.is_empty() && !self.columns.is_empty() {
            let title = latex_text(&self.column_title);
            let over = format!("\\multicolumn{{{}}}{{c}}{{{title}}}", self.columns.len());
            out += &line([String::new(), over].into_iter().chain(self.ranks_title().map(|_| String::new())).collect());
        }
        let labels = self.columns.iter().map(|c| latex_text(c)).chain(self.ranks_title());
        out += &line([latex_text(&self.row_title)].into_iter().chain(labels).collect());
        out += "    \\midrule\n";
        for (row, label) in self.rows.iter().enumerate() {
            let cells = (0..self.columns.len()).map(|column| match self.cell(row, column) {
                None => {
                    let notes = self.marks(self.whys_at(row, column)).map(|marks| format!("$^{{{marks}}}$"));
                    self.missing(row, column, "--", " $\\pm$ ", latex_text) + &notes.unwrap_or_default()
                }
                Some(cell) => {
                    let shown = self.shown(cell, " $\\pm$ ");
                    let marked = match cell.mark {
                        Some(Mark::Best) => format!("\\textbf{{{shown}}}"),
                        Some(Mark::NotWorse) => format!("\\underline{{{shown}}}"),
                        None => shown,
                    };
                    let notes = self.marks(&cell.notes).map_or(String::new(), |marks| format!("$^{{{marks}}}$"));
                    marked + &self.beside(cell, " $\\pm$ ", "$-$", Signs::LATEX, latex_text) + &notes
                }
            });
            out += &line([latex_text(label)].into_iter().chain(cells).chain(self.average_rank(row, "--")).collect());
        }
        out + "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    }

    /// Returns one line per cell, with plain numbers (shares are not in percent). `low` and `high` are the interval of a table that
    /// shows intervals, `p-value` is that of the test against the best of the column, corrected. A cell that could not be computed
    /// has no mean, and says why in `note`. Average ranks are lines of their own, with `n` columns behind each.
    pub fn csv(&self) -> String {
        let label = |labels: &[String], at: usize| labels.get(at).cloned().unwrap_or_default();
        let plain = |number: Option<f64>| number.map_or(String::new(), |x| x.to_string());
        let line = |(row, column): (usize, usize),
                    own: [String; 7],
                    reference: Option<&Reference>,
                    judged: &str,
                    why: &str| {
            let borrowed = reference.map_or("", |reference| if reference.is_borrowed() { "true" } else { "false" });
            let reference = reference.cloned().unwrap_or_default();
            let notes: Vec<&str> = [why, &reference.note].into_iter().filter(|n| !n.is_empty()).collect();
            let place = [label(&self.rows, row), label(&self.columns, column), self.shows(column)];
            let published = [plain(reference.mean), plain(reference.std), borrowed.to_owned(), judged.to_owned()];
            place.into_iter().chain(own).chain(published).chain([notes.join("; ")]).collect::<Vec<_>>()
        };
        let cells = self.cells.iter().map(|cell| {
            let [low, high] = cell.interval.map_or([None; 2], |ends| ends.map(Some)).map(plain);
            let mark = cell.mark.map_or("", Mark::name).to_owned();
            let p = plain(cell.test.map(|test| test.corrected));
            let own = [cell.mean.to_string(), plain(cell.std), cell.n.to_string(), low, high, mark, p];
            let judged = cell.verdict.map_or("", Verdict::name);
            line((cell.row, cell.column), own, cell.reference.as_ref(), judged, &cell.notes.join("; "))
        });
        let absent = self.absent.iter().map(|absent| {
            let own = ["", "", "0", "", "", "", ""].map(str::to_owned);
            line((absent.row, absent.column), own, absent.reference.as_ref(), "", &absent.why)
        });
        let ranks = self.ranking.iter().flat_map(|ranking| {
            let average = |(row, average): (usize, &Option<f64>)| {
                let place = [label(&self.rows, row), RANKS_TITLE.to_owned(), "average-rank".to_owned()];
                let own = [(*average)?.to_string(), String::new(), ranking.columns.len().to_string()];
                Some(place.into_iter().chain(own).chain(vec![String::new(); 9]).collect::<Vec<_>>())
            };
            ranking.averages.iter().enumerate().filter_map(average).collect::<Vec<_>>()
        });
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = [
            "row",
            "column",
            "metric",
            "mean",
            "std",
            "n",
            "low",
            "high",
            "mark",
            "p-value",
            "reference-mean",
            "reference-std",
            "borrowed",
            "verdict",
            "note",
        ];
        let lines = std::iter::once(header.map(str::to_owned).to_vec()).chain(cells).chain(absent).chain(ranks);
        // Writing to memory cannot fail, and what is written is text.
        lines.for_each(|line| drop(writer.write_record(line)));
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// A value as tables show it.
    pub fn number(scale: Scale, digits: usize, value: f64) -> String {
        format!("{:.digits$}", if scale.percent { value * 100.0 } else { value })
    }

    /// A value of a column as the table shows it.
    pub fn shown_number(&self, column: usize, value: f64) -> String {
        Self::number(self.scale(), self.digits(column), value)
    }

    /// Returns everything there is to know about the table.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    fn shown(&self, cell: &Cell, between: &str) -> String {
        let show = |x: f64| self.shown_number(cell.column, x);
        let mean = show(cell.mean);
        match (self.interval, cell.interval, cell.std) {
            (Interval::Bootstrap, Some([low, high]), _) => format!("{mean} [{}, {}]", show(low), show(high)),
            (Interval::None, _, Some(std)) => format!("{mean}{between}{}", show(std)),
            _ => mean,
        }
    }

    /// The title of the column of average ranks, if there is one.
    fn ranks_title(&self) -> Option<String> {
        let ranking = self.ranking.as_ref()?;
        ranking.tests.is_some().then(|| RANKS_TITLE.to_owned())
    }

    /// The average rank of a row, if there is a column for it.
    fn average_rank(&self, row: usize, dash: &str) -> Option<String> {
        self.ranks_title()?;
        let average = self.ranking.as_ref()?.averages.get(row).copied().flatten();
        Some(average.map_or_else(|| dash.to_owned(), |rank| format!("{rank:.2}")))
    }

    /// A value published elsewhere, as it was printed.
    fn printed(&self, column: usize, reference: &Reference, between: &str, escape: fn(&str) -> String) -> String {
        let show = |x: f64| self.shown_number(column, x);
        let note = escape(&reference.note);
        match (reference.mean, reference.std) {
            (Some(mean), Some(std)) => format!("{}{note}{between}{}", show(mean), show(std)),
            (Some(mean), None) => show(mean) + &note,
            _ => note,
        }
    }

    /// What follows a value: the published one, how far ours is from it, and a sign where that is far.
    fn beside(&self, cell: &Cell, between: &str, minus: &str, signs: Signs, escape: fn(&str) -> String) -> String {
        let Some(reference) = &cell.reference else { return String::new() };
        let printed = self.printed(cell.column, reference, between, escape);
        let Some(mean) = reference.mean else { return format!(" ({printed})") };
        let difference = self.shown_number(cell.column, cell.mean - mean);
        let signed = match difference.strip_prefix('-') {
            Some(size) if size.bytes().any(|b| (b'1'..=b'9').contains(&b)) => format!("{minus}{size}"),
            Some(size) => format!("+{size}"),
            None => format!("+{difference}"),
        };
        format!(" ({printed}, {signed}{})", signs.of(cell))
    }

    /// What is shown instead of a missing cell.
    fn missing(&self, row: usize, column: usize, dash: &str, between: &str, escape: fn(&str) -> String) -> String {
        let Some(absent) = self.absent(row, column) else { return dash.to_owned() };
        match &absent.reference {
            Some(reference) => format!("absent ({})", self.printed(column, reference, between, escape)),
            None => "absent".to_owned(),
        }
    }

    /// The notes of all cells, then why cells are absent, each once; a note's mark is its place, from 1.
    fn notes(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let all = self.cells.iter().flat_map(|cell| &cell.notes).chain(self.absent.iter().map(|absent| &absent.why));
        all.map(String::as_str).filter(|note| seen.insert(*note)).collect()
    }

    /// Why a cell is absent, if it is.
    fn whys_at(&self, row: usize, column: usize) -> &[String] {
        self.absent(row, column).map_or(&[], |absent| std::slice::from_ref(&absent.why))
    }

    /// The marks of some notes, if there are any.
    fn marks(&self, of: &[String]) -> Option<String> {
        let places = (1..).zip(self.notes()).filter(|(_, note)| of.iter().any(|own| own == note)).map(|(at, _)| at);
        let shown = |at: usize| if at > MOST_NOTES { "+".to_owned() } else { at.to_string() };
        let mut marks: Vec<String> = places.map(shown).collect();
        marks.dedup();
        (!marks.is_empty()).then(|| marks.join(","))
    }

    /// Every note with its mark.
    fn footnotes(&self, mut show: impl FnMut(&str, &str) -> String) -> String {
        let notes = self.notes();
        let mut text: String = (1..)
            .zip(notes.iter().take(MOST_NOTES))
            .map(|(mark, note): (usize, _)| show(&mark.to_string(), note))
            .collect();
        if let Some(more) = notes.len().checked_sub(MOST_NOTES).filter(|more| *more > 0) {
            text += &show("+", &format!("{more} further notes are in the CSV and JSON files"));
        }
        text
    }
}

/// One line of text, none of whose characters becomes markup.
fn markdown_text(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_control() => out.push(' '),
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '|' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

fn latex_text(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_control() => out.push(' '),
            // At the start of a row these would be arguments of the command before it.
            '[' | '*' if out.is_empty() => {
                out.push('{');
                out.push(c);
                out.push('}');
            }
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '<' => out += "\\textless{}",
            '>' => out += "\\textgreater{}",
            '|' => out += "\\textbar{}",
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
