//! Tables as text: GitHub Markdown, LaTeX, CSV and JSON.
//!
//! Markdown and LaTeX show shares in percent, `mean ± std`, and `–` where there is no cell; CSV and JSON hold the plain
//! numbers. Labels are escaped for each format, so no label can become markup.

use std::fmt::Write as _;

use crate::kinds::metrics::Metric;
use crate::kinds::table::{Cell, Rank, Spread, Table};

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
                None => "–".to_owned(),
                Some(cell) => {
                    let shown = self.shown(cell, " ± ");
                    match cell.rank {
                        Some(Rank::Best) => format!("**{shown}**"),
                        // GitHub keeps `ins`, and strips `u`.
                        Some(Rank::Second) => format!("<ins>{shown}</ins>"),
                        None => shown,
                    }
                }
            });
            out += &line([markdown_text(label)].into_iter().chain(cells).collect());
        }
        let marks = ("**bold**", "<ins>underlined</ins>");
        let _ = write!(out, "\n{}\n", self.caption("%", "±", marks));
        out
    }

    /// Returns the table as LaTeX for the package `booktabs`.
    pub fn latex(&self) -> String {
        let line = |cells: Vec<String>| format!("    {} \\\\\n", cells.join(" & "));
        let mut out = String::from("\\begin{table}\n  \\centering\n");
        let caption = self.caption("\\%", "$\\pm$", ("\\textbf{bold}", "\\underline{underlined}"));
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
                None => "--".to_owned(),
                Some(cell) => {
                    let shown = self.shown(cell, " $\\pm$ ");
                    match cell.rank {
                        Some(Rank::Best) => format!("\\textbf{{{shown}}}"),
                        Some(Rank::Second) => format!("\\underline{{{shown}}}"),
                        None => shown,
                    }
                }
            });
            out += &line([latex_text(label)].into_iter().chain(cells).collect());
        }
        out + "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    }

    /// Returns one line a cell, with plain numbers (shares are not in percent); rank is 1, 2 or empty.
    pub fn csv(&self) -> String {
        let mut out = String::from("row,column,metric,mean,std,n,rank\n");
        for cell in &self.cells {
            let label = |labels: &[String], at: usize| csv_text(labels.get(at).map_or("", String::as_str));
            let rank = match cell.rank {
                Some(Rank::Best) => "1",
                Some(Rank::Second) => "2",
                None => "",
            };
            let std = cell.std.map_or(String::new(), |s| s.to_string());
            let (row, column) = (label(&self.rows, cell.row), label(&self.columns, cell.column));
            let metric = words(self.metric).join("-");
            let _ = writeln!(out, "{row},{column},{metric},{},{std},{},{rank}", cell.mean, cell.n);
        }
        out
    }

    /// Returns everything there is to know about the table.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    fn shown(&self, cell: &Cell, between: &str) -> String {
        let mean = number(self.metric, self.digits, cell.mean);
        match cell.std {
            Some(std) => format!("{mean}{between}{}", number(self.metric, self.digits, std)),
            None => mean,
        }
    }

    /// States metric, unit, spread, number of values and the marks.
    fn caption(&self, percent: &str, plus_minus: &str, (bold, underlined): (&str, &str)) -> String {
        let unit = if self.metric.is_share() { format!(" in {percent}") } else { String::new() };
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
        let metric = words(self.metric).join(" ");
        let mut text =
            format!("{metric}{unit}: mean {plus_minus} {spread} standard deviation over splits, {n} a cell.");
        text[..1].make_ascii_uppercase();
        if self.cells.iter().any(|c| c.rank.is_some()) {
            let better = if self.metric.is_share() { "larger" } else { "smaller" };
            let _ = write!(text, " Best in a column {bold}, second best {underlined} ({better} is better).");
        }
        if self.cells.iter().any(|c| c.picked.is_some()) {
            text += " Configurations were chosen on validation nodes.";
        }
        text
    }
}

fn words(metric: Metric) -> [&'static str; 2] {
    match metric {
        Metric::TestAccuracy => ["test", "accuracy"],
        Metric::TestMacroF1 => ["test", "macro-f1"],
        Metric::TestLoss => ["test", "loss"],
        Metric::ValAccuracy => ["val", "accuracy"],
        Metric::ValMacroF1 => ["val", "macro-f1"],
        Metric::ValLoss => ["val", "loss"],
        Metric::TrainAccuracy => ["train", "accuracy"],
        Metric::TrainMacroF1 => ["train", "macro-f1"],
        Metric::TrainLoss => ["train", "loss"],
    }
}

/// A value as tables show it.
pub(super) fn number(metric: Metric, digits: usize, value: f64) -> String {
    format!("{:.digits$}", if metric.is_share() { value * 100.0 } else { value })
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

fn csv_text(text: &str) -> String {
    let plain = !text.contains(['"', ',', '\n', '\r']);
    if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
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

Test accuracy in %: mean ± population (n) standard deviation over splits, n = 2 a cell. Best in a column **bold**, \
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
        let expected = "row,column,metric,mean,std,n,rank\n\
            gcn_a,texas,test-accuracy,0.5,0.0125,2,2\n\
            \"say \"\"hi\"\",\nyou\",texas,test-accuracy,0.75,0.0125,2,1\n\
            gcn_a,a|b,test-accuracy,0.1,0.0125,2,\n";
        assert_eq!(csv, expected);
    }
}
