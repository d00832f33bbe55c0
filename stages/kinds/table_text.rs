//! Tables as text: GitHub Markdown, LaTeX, CSV and JSON.
//!
//! Markdown and LaTeX show shares in percent, `mean ± std`, and `–` where there is no cell; CSV and JSON hold the plain
//! numbers. Labels are escaped for each format, so no label can become markup.

use std::fmt::Write as _;

use crate::kinds::score::Scale;
use crate::kinds::table::{Cell, Rank, Reference, Spread, Table};

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
                None => self.missing(row, column, "–", " ± ", markdown_text),
                Some(cell) => {
                    let shown = self.shown(cell, " ± ");
                    let marked = match cell.rank {
                        Some(Rank::Best) => format!("**{shown}**"),
                        // GitHub keeps `ins`, and strips `u`.
                        Some(Rank::Second) => format!("<ins>{shown}</ins>"),
                        None => shown,
                    };
                    let notes = self.marks(cell).map_or(String::new(), |marks| format!("<sup>{marks}</sup>"));
                    marked + &self.beside(cell, " ± ", "−", "†", markdown_text) + &notes
                }
            });
            out += &line([markdown_text(label)].into_iter().chain(cells).collect());
        }
        let marks = ("**bold**", "<ins>underlined</ins>");
        let caption = self.caption("%", "±", marks, "†");
        let notes = self.footnotes(|mark, note| format!(" <sup>{mark}</sup> {}.", markdown_text(note)));
        let _ = write!(out, "\n{caption}{notes}{}\n", self.whys(markdown_text));
        out
    }

    /// Returns the table as LaTeX for the package `booktabs`.
    pub fn latex(&self) -> String {
        let line = |cells: Vec<String>| format!("    {} \\\\\n", cells.join(" & "));
        let mut out = String::from("\\begin{table}\n  \\centering\n");
        let marks = ("\\textbf{bold}", "\\underline{underlined}");
        let notes = self.footnotes(|mark, note| format!(" $^{{{mark}}}$ {}.", latex_text(note)));
        let caption = self.caption("\\%", "$\\pm$", marks, "$\\dagger$") + &notes + &self.whys(latex_text);
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
                None => self.missing(row, column, "--", " $\\pm$ ", latex_text),
                Some(cell) => {
                    let shown = self.shown(cell, " $\\pm$ ");
                    let marked = match cell.rank {
                        Some(Rank::Best) => format!("\\textbf{{{shown}}}"),
                        Some(Rank::Second) => format!("\\underline{{{shown}}}"),
                        None => shown,
                    };
                    let notes = self.marks(cell).map_or(String::new(), |marks| format!("$^{{{marks}}}$"));
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

    /// The notes of all cells, each once; a note's mark is its place, from 1.
    fn notes(&self) -> Vec<&str> {
        let mut notes: Vec<&str> = Vec::new();
        for note in self.cells.iter().flat_map(|cell| &cell.notes) {
            if !notes.contains(&note.as_str()) {
                notes.push(note);
            }
        }
        notes
    }

    /// The marks of a cell's notes, if it has any.
    fn marks(&self, cell: &Cell) -> Option<String> {
        let all = self.notes();
        let has = |note: &&str| cell.notes.iter().any(|own| own == note);
        let marks = (1..).zip(&all).filter(|(_, note)| has(note)).map(|(mark, _): (usize, _)| mark.to_string());
        let marks: Vec<String> = marks.collect();
        (!marks.is_empty()).then(|| marks.join(","))
    }

    /// Every note with its mark.
    fn footnotes(&self, show: impl Fn(usize, &str) -> String) -> String {
        (1..).zip(self.notes()).map(|(mark, note)| show(mark, note)).collect()
    }

    /// Why cells are absent, each reason once.
    fn whys(&self, escape: fn(&str) -> String) -> String {
        let mut whys: Vec<&str> = self.absent.iter().map(|a| a.why.as_str()).collect();
        whys.dedup();
        let mut seen = std::collections::BTreeSet::new();
        whys.retain(|w| seen.insert(*w));
        whys.iter().map(|why| format!(" Absent: {}.", escape(why))).collect()
    }

    /// States metric, unit, spread, number of values and the marks.
    fn caption(&self, percent: &str, plus_minus: &str, (bold, underlined): (&str, &str), far: &str) -> String {
        let unit = if self.scale().percent { format!(" in {percent}") } else { String::new() };
        let spread = match self.std {
            Spread::Population => "population (n)",
            Spread::Sample => "sample (n - 1)",
        };
        let (least, most) = (self.cells.iter().map(|c| c.n).min(), self.cells.iter().map(|c| c.n).max());
        let n = match (least, most) {
            (Some(least), Some(most)) if least == most => format!("n = {least}"),
            (Some(least), Some(most)) => format!("n = {least} to {most}"),
            _ => "n = 0".into(),
        };
        let metric = format!("{} {}", self.metric.part_name(), self.metric.score);
        let mut text =
            format!("{metric}{unit}: mean {plus_minus} {spread} standard deviation over splits, {n} per cell.");
        text[..1].make_ascii_uppercase();
        if self.cells.iter().any(|c| c.rank.is_some()) {
            let better = if self.scale().larger_is_better { "larger" } else { "smaller" };
            let _ = write!(text, " Best in a column {bold}, second best {underlined} ({better} is better).");
        }
        if self.cells.iter().any(|c| c.reference.is_some()) {
            let of = if self.reference_title.is_empty() { "reference" } else { &self.reference_title };
            let of = if far.contains('$') { latex_text(of) } else { markdown_text(of) };
            let _ = write!(text, " In brackets: {of}, and ours minus it.");
            if self.cells.iter().any(Cell::is_far) {
                let _ = write!(text, " {far} further than two of its standard deviations.");
            }
        }
        if self.cells.iter().any(|c| c.picked.is_some()) {
            text += " Configurations were chosen on validation nodes.";
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
mod tests {
    use super::*;
    use crate::kinds::table::Absent;
    use crate::kinds::table::tests::table;

    #[test]
    fn markdown_marks_escapes_and_explains() {
        let table = table(&[(0, 0, 0.5), (1, 0, 0.75), (2, 0, 0.25), (0, 1, 0.1)]);
        let expected = "\
**Main \\| results**

| model / data | texas | a\\|b |
| :--- | ---: | ---: |
| gcn\\_a | <ins>50.0 ± 1.2</ins> | 10.0 ± 1.2 |
| 50 % &amp; more | **75.0 ± 1.2** | – |
| say \"hi\", you | 25.0 ± 1.2 | – |

Test accuracy in %: mean ± population (n) standard deviation over splits, n = 2 per cell. Best in a column **bold**, \
second best <ins>underlined</ins> (larger is better).
";
        assert_eq!(table.markdown(), expected);
    }

    #[test]
    fn latex_marks_and_escapes() {
        let latex = table(&[(0, 0, 0.5), (1, 0, 0.75), (0, 1, 0.1)]).latex();
        for line in [
            "  \\caption{Main \\textbar{} results. Test accuracy in \\%: mean $\\pm$ population (n) standard",
            "  \\begin{tabular}{lrr}\n    \\toprule\n     & \\multicolumn{2}{c}{data} \\\\\n",
            "    model & texas & a\\textbar{}b \\\\\n    \\midrule\n",
            "    gcn\\_a & \\underline{50.0 $\\pm$ 1.2} & 10.0 $\\pm$ 1.2 \\\\\n",
            "    50 \\% \\& more & \\textbf{75.0 $\\pm$ 1.2} & -- \\\\\n",
            "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n",
        ] {
            assert!(latex.contains(line), "{line}\n{latex}");
        }
    }

    #[test]
    fn csv_has_plain_numbers_and_quotes_what_it_must() {
        let csv = table(&[(0, 0, 0.5), (2, 0, 0.75), (0, 1, 0.1)]).csv();
        let expected = "row,column,metric,mean,std,n,rank,reference-mean,reference-std,note\n\
            gcn_a,texas,test-accuracy,0.5,0.0125,2,2,,,\n\
            \"say \"\"hi\"\",\nyou\",texas,test-accuracy,0.75,0.0125,2,1,,,\n\
            gcn_a,a|b,test-accuracy,0.1,0.0125,2,,,,\n";
        assert_eq!(csv, expected);
    }

    #[test]
    fn published_values_and_absent_cells_stand_beside_ours() {
        let mut table = table(&[(0, 0, 0.5), (1, 0, 0.75)]);
        table.reference_title = "paper".into();
        let reference = |mean, std, note: &str| Some(Reference { mean, std, note: note.into() });
        table.cells[0].reference = reference(Some(0.561), Some(0.03), "*");
        table.cells[1].reference = reference(Some(0.75), None, "");
        let why = "d: not here; fetch d";
        table.absent.push(Absent { row: 0, column: 1, why: why.into(), reference: reference(None, None, "OOM") });
        table.absent.push(Absent { row: 1, column: 1, why: why.into(), reference: None });
        let markdown = table.markdown();
        for line in [
            "| gcn\\_a | <ins>50.0 ± 1.2</ins> (56.1\\* ± 3.0, −6.1†) | absent (OOM) |",
            "| 50 % &amp; more | **75.0 ± 1.2** (75.0, +0.0) | absent |",
            "In brackets: paper, and ours minus it. † further than two of its standard deviations.",
            "Absent: d: not here; fetch d.\n",
        ] {
            assert!(markdown.contains(line), "{line}\n{markdown}");
        }
        assert_eq!(markdown.matches("Absent:").count(), 1);
        assert!(table.latex().contains("(56.1{*} $\\pm$ 3.0, $-$6.1$^\\dagger$)"), "{}", table.latex());
        assert!(table.csv().contains("gcn_a,texas,test-accuracy,0.5,0.0125,2,2,0.561,0.03,*\n"), "{}", table.csv());
        assert!(table.csv().contains("gcn_a,a|b,test-accuracy,,,0,,,,d: not here; fetch d; OOM\n"), "{}", table.csv());
    }
}
