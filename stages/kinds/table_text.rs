//! Tables as text: GitHub Markdown, LaTeX, CSV and JSON; [`plain`] has pieces to lay out on a terminal.
//!
//! Markdown and LaTeX show shares in percent, `mean ± std`, and `–` where there is no cell; CSV and JSON hold the plain
//! numbers. Labels are escaped for each format, so no label can become markup.

pub(super) mod plain;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::kinds::score::Scale;
use crate::kinds::table::{Cell, Rank, Reference, Spread, Table};

/// Footnotes of a table for people: what has more reasons than this is no table to read.
const MOST_NOTES: usize = 20;

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
        let labels = self.columns.iter().map(|c| markdown_text(c));
        out += &line([corner.join(" / ")].into_iter().chain(labels).collect());
        out += &line([":---".to_owned()].into_iter().chain(self.columns.iter().map(|_| "---:".to_owned())).collect());
        for (row, label) in self.rows.iter().enumerate() {
            let cells = (0..self.columns.len()).map(|column| match self.cell(row, column) {
                None => {
                    let notes = self.marks(self.whys_at(row, column)).map(|marks| format!("<sup>{marks}</sup>"));
                    self.missing(row, column, "–", " ± ", markdown_text) + &notes.unwrap_or_default()
                }
                Some(cell) => {
                    let shown = self.shown(cell, " ± ");
                    let marked = match cell.rank {
                        Some(Rank::Best) => format!("**{shown}**"),
                        // GitHub keeps `ins`, and strips `u`.
                        Some(Rank::Second) => format!("<ins>{shown}</ins>"),
                        None => shown,
                    };
                    let notes = self.marks(&cell.notes).map_or(String::new(), |marks| format!("<sup>{marks}</sup>"));
                    marked + &self.beside(cell, " ± ", "−", "†", markdown_text) + &notes
                }
            });
            out += &line([markdown_text(label)].into_iter().chain(cells).collect());
        }
        let caption = self.caption(&Words {
            percent: "%",
            plus_minus: "±",
            times: "×",
            best: "**bold**",
            second: "<ins>underlined</ins>",
            far: "†",
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
            best: "\\textbf{bold}",
            second: "\\underline{underlined}",
            far: "$\\dagger$",
            escape: latex_text,
        };
        let notes = self.footnotes(|mark, note| format!(" $^{{{mark}}}$ {}.", latex_text(note)));
        let caption = self.caption(&words) + &notes;
        let title = if self.title.is_empty() { String::new() } else { format!("{}. ", latex_text(&self.title)) };
        let _ = writeln!(out, "  \\caption{{{title}{caption}}}");
        let _ = write!(out, "  \\begin{{tabular}}{{l{}}}\n    \\toprule\n", "r".repeat(self.columns.len()));
        if !self.column_title.is_empty() && !self.columns.is_empty() {
            let title = latex_text(&self.column_title);
            out += &line(vec![String::new(), format!("\\multicolumn{{{}}}{{c}}{{{title}}}", self.columns.len())]);
        }
        let labels = self.columns.iter().map(|c| latex_text(c));
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
                    let marked = match cell.rank {
                        Some(Rank::Best) => format!("\\textbf{{{shown}}}"),
                        Some(Rank::Second) => format!("\\underline{{{shown}}}"),
                        None => shown,
                    };
                    let notes = self.marks(&cell.notes).map_or(String::new(), |marks| format!("$^{{{marks}}}$"));
                    marked + &self.beside(cell, " $\\pm$ ", "$-$", "$^\\dagger$", latex_text) + &notes
                }
            });
            out += &line([latex_text(label)].into_iter().chain(cells).collect());
        }
        out + "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    }

    /// Returns one line per cell, with plain numbers (shares are not in percent); rank is 1, 2 or empty. A cell that could
    /// not be computed has no mean, and says why in `note`.
    pub fn csv(&self) -> String {
        let label = |labels: &[String], at: usize| labels.get(at).cloned().unwrap_or_default();
        let plain = |number: Option<f64>| number.map_or(String::new(), |x| x.to_string());
        let line = |(row, column): (usize, usize), own: [String; 4], reference: Option<&Reference>, why: &str| {
            let reference = reference.cloned().unwrap_or_default();
            let notes: Vec<&str> = [why, &reference.note].into_iter().filter(|n| !n.is_empty()).collect();
            let place = [label(&self.rows, row), label(&self.columns, column), self.metric.to_string()];
            let published = [plain(reference.mean), plain(reference.std), notes.join("; ")];
            place.into_iter().chain(own).chain(published).collect::<Vec<_>>()
        };
        let cells = self.cells.iter().map(|cell| {
            let rank = match cell.rank {
                Some(Rank::Best) => "1",
                Some(Rank::Second) => "2",
                None => "",
            };
            let own = [cell.mean.to_string(), plain(cell.std), cell.n.to_string(), rank.to_owned()];
            line((cell.row, cell.column), own, cell.reference.as_ref(), &cell.notes.join("; "))
        });
        let absent = self.absent.iter().map(|absent| {
            let own = ["", "", "0", ""].map(str::to_owned);
            line((absent.row, absent.column), own, absent.reference.as_ref(), &absent.why)
        });
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = ["row", "column", "metric", "mean", "std", "n", "rank", "reference-mean", "reference-std", "note"];
        let lines = std::iter::once(header.map(str::to_owned).to_vec()).chain(cells).chain(absent);
        // Writing to memory cannot fail, and what is written is text.
        lines.for_each(|line| drop(writer.write_record(line)));
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// A value as tables show it.
    pub fn number(scale: Scale, digits: usize, value: f64) -> String {
        format!("{:.digits$}", if scale.percent { value * 100.0 } else { value })
    }

    /// Returns everything there is to know about the table.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    fn shown(&self, cell: &Cell, between: &str) -> String {
        let mean = Self::number(self.scale(), self.digits, cell.mean);
        match cell.std {
            Some(std) => format!("{mean}{between}{}", Self::number(self.scale(), self.digits, std)),
            None => mean,
        }
    }

    /// A value published elsewhere, as it was printed.
    fn printed(&self, reference: &Reference, between: &str, escape: fn(&str) -> String) -> String {
        let show = |x: f64| Self::number(self.scale(), self.digits, x);
        let note = escape(&reference.note);
        match (reference.mean, reference.std) {
            (Some(mean), Some(std)) => format!("{}{note}{between}{}", show(mean), show(std)),
            (Some(mean), None) => show(mean) + &note,
            _ => note,
        }
    }

    /// What follows a value: the published one, how far ours is from it, and a mark where that is far.
    fn beside(&self, cell: &Cell, between: &str, minus: &str, far: &str, escape: fn(&str) -> String) -> String {
        let Some(reference) = &cell.reference else { return String::new() };
        let printed = self.printed(reference, between, escape);
        let Some(mean) = reference.mean else { return format!(" ({printed})") };
        let difference = Self::number(self.scale(), self.digits, cell.mean - mean);
        let signed = match difference.strip_prefix('-') {
            Some(size) if size.bytes().any(|b| (b'1'..=b'9').contains(&b)) => format!("{minus}{size}"),
            Some(size) => format!("+{size}"),
            None => format!("+{difference}"),
        };
        let mark = if cell.is_far() { far } else { "" };
        format!(" ({printed}, {signed}{mark})")
    }

    /// What is shown instead of a missing cell.
    fn missing(&self, row: usize, column: usize, dash: &str, between: &str, escape: fn(&str) -> String) -> String {
        let Some(absent) = self.absent(row, column) else { return dash.to_owned() };
        match &absent.reference {
            Some(reference) => format!("absent ({})", self.printed(reference, between, escape)),
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

    /// States metric, unit, spread, number of values and the marks.
    fn caption(&self, of: &Words) -> String {
        let unit = if self.scale().percent { format!(" in {}", of.percent) } else { String::new() };
        let spread = match self.std {
            Spread::Population => "population (n)",
            Spread::Sample => "sample (n - 1)",
        };
        let metric = format!("{} {}", self.metric.part_name(), self.metric.score);
        let mut text = format!("{metric}{unit}: mean {} {spread} standard deviation {}.", of.plus_minus, self.over(of));
        text[..1].make_ascii_uppercase();
        if self.cells.iter().any(|c| c.rank.is_some()) {
            let better = if self.scale().larger_is_better { "larger" } else { "smaller" };
            let _ = write!(text, " Best in a column {}, second best {} ({better} is better).", of.best, of.second);
        }
        if self.cells.iter().any(|c| c.reference.is_some()) {
            let title = if self.reference_title.is_empty() { "reference" } else { &self.reference_title };
            let _ = write!(text, " In brackets: {}, and ours minus it.", (of.escape)(title));
            if self.cells.iter().any(Cell::is_far) {
                let _ = write!(text, " {} further than two of its standard deviations.", of.far);
            }
        }
        if let Some(picked) = self.cells.iter().find_map(|c| c.picked.as_ref()) {
            let axes = self.picked_from.join(", ");
            let axes = if axes.is_empty() { axes } else { format!(" ({})", (of.escape)(&axes)) };
            let _ = write!(text, " Configurations{axes} were chosen on validation nodes, by {}.", picked.metric);
        }
        text
    }

    /// Says what the values of a cell are: splits, and the axes whose runs are averaged, and how many.
    fn over(&self, of: &Words) -> String {
        let range = |of_cell: fn(&Cell) -> usize| {
            let numbers = || self.cells.iter().map(of_cell);
            (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0))
        };
        let (n, runs) = (range(|c| c.n), range(|c| c.runs.len()));
        let counted = match n {
            (least, most) if least == most => format!("n = {least} per cell"),
            (least, most) => format!("n = {least} to {most} per cell"),
        };
        if self.pooled.is_empty() {
            return format!("over splits, {counted}");
        }
        let axes = (of.escape)(&self.pooled.join(", "));
        // Every run has as many splits as the others, if none of them is undefined.
        let each = (n.0 == n.1 && runs.0 == runs.1).then(|| n.0.checked_div(runs.0)).flatten();
        match each.filter(|each| each * runs.0 == n.0) {
            Some(splits) => format!("over splits and {axes}, {counted} ({splits} splits {} {} runs)", of.times, runs.0),
            None => format!("over splits and {axes}, {counted}"),
        }
    }
}

/// The words of a caption in a format.
struct Words {
    percent: &'static str,
    plus_minus: &'static str,
    times: &'static str,
    best: &'static str,
    second: &'static str,
    far: &'static str,
    escape: fn(&str) -> String,
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
