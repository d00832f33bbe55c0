//! The caption of a table: what the numbers are, what the marks claim and by which test, and how ours compare with published ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::kinds::comparison::ALPHA;
use crate::kinds::reference::{Reference, Verdict};
use crate::kinds::table::{Cell, Interval, Spread, Table};
use crate::math::inference::{CONFIDENCE, RESAMPLES};

/// Reasons why cells were not tested that a caption gives.
const MOST_REASONS: usize = 4;

/// The words of a caption in a format.
pub(super) struct Words {
    pub percent: &'static str,
    pub plus_minus: &'static str,
    pub times: &'static str,
    pub less: &'static str,
    pub best: &'static str,
    pub not_worse: &'static str,
    pub signs: Signs,
    pub escape: fn(&str) -> String,
}

/// What stands behind a value that is further from a published one than one of its standard deviations, or than two.
#[derive(Clone, Copy)]
pub(super) struct Signs {
    pub within_two: &'static str,
    pub outside: &'static str,
}

impl Signs {
    /// As plain text.
    pub const PLAIN: Self = Self { within_two: "‡", outside: "†" };
    /// As LaTeX.
    pub const LATEX: Self = Self { within_two: "$^\\ddagger$", outside: "$^\\dagger$" };

    /// The sign of a value.
    pub fn of(self, cell: &Cell) -> &'static str {
        match cell.verdict {
            Some(Verdict::WithinTwo) => self.within_two,
            Some(Verdict::Outside) => self.outside,
            _ => "",
        }
    }
}

impl Table {
    /// States metric, unit, spread, number of values, what the marks mean, and how near published values are.
    pub(super) fn caption(&self, of: &Words) -> String {
        let mut text = match &self.metric {
            Some(metric) => {
                let unit = if self.scale().percent { format!(" in {}", of.percent) } else { String::new() };
                let metric = format!("{} {}", metric.part_name(), metric.score);
                format!("{metric}{unit}: mean {} {}.", self.spread(of), self.over(of))
            }
            None => self.facts_mean(of),
        };
        text[..1].make_ascii_uppercase();
        text += &self.marks_mean(of);
        text += &self.ranks_mean(of);
        text += &self.references_mean(of);
        if let Some(picked) = self.cells.iter().find_map(|c| c.picked.as_ref()) {
            let axes = self.picked_from.join(", ");
            let axes = if axes.is_empty() { axes } else { format!(" ({})", (of.escape)(&axes)) };
            let _ = write!(text, " Configurations{axes} were chosen on validation nodes, by {}.", picked.metric);
        }
        for note in &self.notes {
            let stop = if note.ends_with(['.', '!', '?']) { "" } else { "." };
            let _ = write!(text, " {}{stop}", (of.escape)(note));
        }
        text
    }

    /// Says what the facts of a table are, in its own words where labels differ from names.
    fn facts_mean(&self, of: &Words) -> String {
        let mut named: Vec<String> = Vec::new();
        for (label, fact) in self.columns.iter().zip(&self.facts).filter(|(label, fact)| **label != fact.name) {
            let one = format!("{} is `{}`", (of.escape)(label), fact.name);
            let same = self.facts.iter().all(|other| other.name == fact.name);
            named.push(if same { format!("`{}`", fact.name) } else { one });
            named.dedup();
        }
        let mut text = if named.is_empty() { "facts".to_owned() } else { named.join(", ") };
        if let Some(row) = &self.relative_to {
            let _ = write!(text, ", as a multiple of the mean of {}", (of.escape)(row));
        } else if self.facts.iter().any(|fact| fact.name.ends_with("seconds")) {
            text += ", in seconds";
        }
        let n = range(self.cells.iter().map(|c| c.n));
        if n.1 > 1 {
            let _ = write!(text, "; where values differ, mean {} over n = {} values", self.spread(of), from_to(n));
        }
        text + "."
    }

    /// What stands beside a mean.
    fn spread(&self, of: &Words) -> String {
        match (self.interval, self.std) {
            (Interval::Bootstrap, _) => format!(
                "and {} {} bootstrap interval (percentiles of {RESAMPLES} samples of the splits)",
                CONFIDENCE * 100.0,
                of.percent
            ),
            (Interval::None, Spread::Population) => format!("{} population (n) standard deviation", of.plus_minus),
            (Interval::None, Spread::Sample) => format!("{} sample (n - 1) standard deviation", of.plus_minus),
        }
    }

    /// Says what the values of a cell are: splits, and the axes whose runs are averaged, and how many.
    fn over(&self, of: &Words) -> String {
        let n = range(self.cells.iter().map(|c| c.n));
        let runs = range(self.cells.iter().map(|c| c.runs.len()));
        let counted = format!("n = {} per cell", from_to(n));
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

    /// States the rule of the marks, the test, its corrections and the number of splits.
    fn marks_mean(&self, of: &Words) -> String {
        if self.comparisons.is_empty() {
            return String::new();
        }
        let Words { best, not_worse, less, .. } = of;
        let better = if self.scale().larger_is_better { "larger" } else { "smaller" };
        let tested = || self.comparisons.iter().filter(|column| column.tested > 0);
        let mut text = if tested().next().is_some() {
            format!(
                " Best in a column {best} if it is better than every other, else {not_worse} with all that are not shown to \
                 be worse ({better} is better): paired t-tests over splits, corrected for their overlap (Nadeau and Bengio) and \
                 for the comparisons of the column (Holm), p {less} {ALPHA}, n = {} splits.",
                from_to(range(tested().map(|column| column.splits)))
            )
        } else {
            format!(" Best in a column {not_worse} ({better} is better); no test says by how much.")
        };
        text += &self.untested(of);
        text
    }

    /// Says which cells no test was possible for, and why.
    fn untested(&self, of: &Words) -> String {
        let label = |labels: &[String], at: usize| (of.escape)(labels.get(at).map_or("", String::as_str));
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for column in &self.comparisons {
            let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for one in &column.untested {
                reasons.entry(&one.why).or_default().push(label(&self.rows, one.row));
            }
            let whole = |rows: &Vec<String>| column.tested == 0 && rows.len() == column.untested.len();
            for (why, rows) in &reasons {
                let name = label(&self.columns, column.column);
                let cells = if whole(rows) { name } else { format!("{} in {name}", rows.join(", ")) };
                by_reason.entry(why).or_default().push(cells);
            }
        }
        if by_reason.is_empty() {
            return String::new();
        }
        let shown = by_reason.iter().take(MOST_REASONS);
        let mut said: Vec<String> = shown.map(|(why, cells)| format!("{} ({why})", cells.join(", "))).collect();
        if by_reason.len() > MOST_REASONS {
            said.push(format!("and for {} more reasons", by_reason.len() - MOST_REASONS));
        }
        format!(" Not tested: {}.", said.join("; "))
    }

    /// States what average ranks are over, and what tests say of them.
    fn ranks_mean(&self, of: &Words) -> String {
        let Some(ranking) = &self.ranking else { return String::new() };
        let Some(tests) = &ranking.tests else {
            return " No average ranks: they need two rows, and two columns in which every row has a value.".to_owned();
        };
        let p = |p: f64| if p < 0.001 { format!("p {} 0.001", of.less) } else { format!("p = {p:.3}") };
        format!(
            " Average rank over {} columns, 1 for the best: Friedman {}, by F of Iman and Davenport {}; ranks further apart \
             than {:.2} differ (Nemenyi, {ALPHA}).",
            ranking.columns.len(),
            p(tests.p),
            p(tests.f_p),
            tests.critical_difference
        )
    }

    /// States what published values are, and counts how many cells are near them.
    fn references_mean(&self, of: &Words) -> String {
        let judged = || self.cells.iter().filter_map(|cell| cell.verdict);
        if judged().next().is_none() {
            return String::new();
        }
        let title = if self.reference_title.is_empty() { "reference" } else { &self.reference_title };
        let mut text = format!(" In brackets: {}, and ours minus it.", (of.escape)(title));
        let count = |wanted: &[Verdict]| judged().filter(|verdict| wanted.contains(verdict)).count();
        let (near, far) = (count(&[Verdict::WithinTwo]), count(&[Verdict::Outside]));
        let signs = [(near, of.signs.within_two, "one"), (far, of.signs.outside, "two")];
        let used: Vec<String> = signs
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(_, sign, than)| format!("{sign} further than {than}"))
            .collect();
        if !used.is_empty() {
            let _ = write!(text, " {} of its standard deviations.", used.join(", "));
        }
        let borrowed = |reference: &Option<Reference>| reference.as_ref().is_some_and(Reference::is_borrowed);
        let all = self.cells.iter().map(|c| &c.reference).chain(self.absent.iter().map(|a| &a.reference));
        if all.into_iter().any(borrowed) {
            let _ = write!(text, " {} borrowed there from another publication.", (of.escape)("*"));
        }
        let within_one = count(&[Verdict::WithinOne]);
        let comparable = within_one + near + far;
        let others = judged().count() - comparable;
        let cells = |n: usize| if n == 1 { "cell" } else { "cells" };
        let are = |n: usize| if n == 1 { "is" } else { "are" };
        if comparable > 0 {
            let within_two = within_one + near;
            let _ = write!(
                text,
                " Of {comparable} {} with a printed spread {within_one} {} within one, {within_two} within two.",
                cells(comparable),
                are(within_one)
            );
        }
        if others > 0 {
            let _ = write!(text, " {others} {} not comparable, without a printed spread or value.", are_cells(others));
        }
        text
    }
}

fn are_cells(count: usize) -> &'static str {
    if count == 1 { "cell is" } else { "cells are" }
}

/// The least and the most of some numbers.
fn range(numbers: impl Iterator<Item = usize> + Clone) -> (usize, usize) {
    (numbers.clone().min().unwrap_or(0), numbers.max().unwrap_or(0))
}

fn from_to((least, most): (usize, usize)) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}
