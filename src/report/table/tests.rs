//! What tables look like on pages of several sizes.

use super::*;
use ppgnn_stages::kinds::{Cell, Comparison, Metric, Reference};

const WIDE: Page = Page { width: 80, height: 30, colour: false };

fn table(columns: &[&str], means: &[&[f64]]) -> Table {
    let cell = |row: usize, column: usize, mean: f64| {
        let of_column = |row: usize| means[row][column];
        let others = || (0..means.len()).filter(|other| *other != row).map(of_column);
        let mark = if others().all(|other| other < mean) { Some(Mark::Best) } else { None };
        let mark = if means.len() > 1 && mark.is_none() && mean == 0.5 { Some(Mark::NotWorse) } else { mark };
        Cell { row, column, mean, std: Some(0.0125), n: 2, values: vec![mean; 2], mark, ..Cell::default() }
    };
    let cells = means
        .iter()
        .enumerate()
        .flat_map(|(row, of_row)| of_row.iter().enumerate().map(move |(column, mean)| cell(row, column, *mean)));
    let comparison = |column| Comparison { column, splits: 2, tested: 1, ..Comparison::default() };
    Table {
        title: "Main results".into(),
        metric: Some(Metric::default()),
        digits: 1,
        row_title: "model".into(),
        column_title: "data".into(),
        rows: (0..means.len()).map(|row| format!("model {row}")).collect(),
        columns: columns.iter().map(|label| (*label).to_owned()).collect(),
        cells: cells.collect(),
        comparisons: (0..columns.len()).map(comparison).collect(),
        ..Table::default()
    }
}

fn small() -> Table {
    let mut table = table(&["texas", "a rather long label"], &[&[0.5, 0.75], &[0.75, 0.5], &[0.075, 0.5]]);
    table.cells[4].notes = vec!["keeps the first epoch".into()];
    table
}

#[test]
fn columns_are_aligned_and_marks_stand_for_styles_that_are_not_there() {
    let expected = "\
Main results

model / data          texas  a rather long label
model 0        50.0 ± 1.2△          75.0 ± 1.2▲
model 1        75.0 ± 1.2▲          50.0 ± 1.2△
model 2         7.5 ± 1.2 [1]       50.0 ± 1.2△

Test accuracy in %: mean ± population (n) standard deviation over splits, n = 2
per cell. Best in a column ▲ if it is better than every other, else △ with all
that are not shown to be worse (larger is better): paired t-tests over splits,
corrected for their overlap (Nadeau and Bengio) and for the comparisons of the
column (Holm), p < 0.05, n = 2 splits.
[1] keeps the first epoch.
";
    let drawn = drawn(&small(), WIDE);
    let without_spaces = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(without_spaces(&drawn), without_spaces(expected), "{drawn}");
    let at = |line: usize| drawn.lines().nth(line).unwrap().chars().position(|c| c == '±').unwrap();
    assert!(at(3) == at(4) && at(4) == at(5), "numbers are below each other:\n{drawn}");
}

#[test]
fn with_styles_the_best_is_bold_and_what_is_not_worse_underlined() {
    let drawn = drawn(&small(), Page { colour: true, ..WIDE });
    assert!(drawn.contains("\x1b[1m75.0 ± 1.2\x1b[0m") && drawn.contains("\x1b[4m50.0 ± 1.2\x1b[0m"), "{drawn}");
    let words = drawn.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Best in a column bold if it is better than every other, else underlined with"), "{drawn}");
    assert!(["**", "<ins>", "<sup>", "▲"].iter().all(|mark| !drawn.contains(mark)), "{drawn}");
}

#[test]
fn columns_that_do_not_fit_follow_below_with_the_labels_again() {
    let columns: Vec<String> = (0..9).map(|i| format!("data set {i}")).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let table = table(&columns, &[&[0.5; 9], &[0.25; 9]]);
    for width in [44, 60, 80] {
        let drawn = drawn(&table, Page { width, ..WIDE });
        assert!(drawn.lines().all(|line| width_of(line) <= width), "{width}:\n{drawn}");
        assert!(columns.iter().all(|label| drawn.contains(label)), "{width}:\n{drawn}");
        assert_eq!(drawn.matches("50.0 ± 1.2").count(), 9, "{width}:\n{drawn}");
        assert!(drawn.matches("model 1").count() > 1, "{width}:\n{drawn}");
    }
}

#[test]
fn what_does_not_fit_beside_a_value_goes_below_it() {
    let mut table = small();
    let reference = Reference { mean: Some(0.561), std: Some(0.03), note: String::new() };
    table.set_references(|_, _| Some(reference.clone()));
    let drawn = drawn(&table, Page { width: 38, ..WIDE });
    assert!(drawn.lines().all(|line| width_of(line) <= 38), "{drawn}");
    let below = drawn.lines().skip_while(|line| !line.starts_with("model 0")).nth(1).unwrap();
    assert_eq!(below.trim(), "(56.1 ± 3.0, −6.1†)", "{drawn}");
}

#[test]
fn an_excerpt_fits_its_lines_and_says_what_does_not() {
    let columns: Vec<String> = (0..9).map(|i| format!("data set {i}")).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let plain = table(&columns, &[&[0.5; 9][..]; 20]).so_far("not yet");
    for (width, lines) in [(44, 10), (80, 12), (12, 5), (80, 30), (200, 30)] {
        let drawn = excerpt(&plain, Page { width, ..WIDE }, lines);
        assert!(drawn.len() <= lines && drawn.len() > 3, "{width}×{lines}: {drawn:?}");
        assert!(drawn.iter().all(|line| width_of(line) <= width), "{width}×{lines}: {drawn:?}");
        let note = drawn.last().unwrap();
        match width {
            200 => assert!(!note.contains('…'), "{note}"),
            // 12 for labels and 2 + 15 for a column leave no room for a second one; title, header and this note for 7 rows.
            44 => assert_eq!(note, "… 13 more rows and 8 more columns than fit …"),
            _ => assert!(note.contains("more"), "{note}"),
        }
    }
    assert!(excerpt(&plain, WIDE, 2).is_empty(), "no row fits");
    assert!(excerpt(&plain, WIDE, 9)[2].contains("50.0 ± 1.2"), "cells are shown");
}
