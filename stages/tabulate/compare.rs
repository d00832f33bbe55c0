//! Which cells of a column are marked, and what average ranks say.
//!
//! The best mean of a column is tested against every other cell by a paired test over splits. It is bold if it is better than
//! all of them; otherwise it is underlined, with all that are not shown to be worse. What cannot be tested is not claimed: a best
//! that lacks a test against any other cell is not bold, and cells without a test are marked only if they look like it.

use std::collections::BTreeMap;

use super::sample::Sample;
use crate::kinds::{ALPHA, Cell, Comparison, Mark, RankTests, Ranking, Table, Test, Untested};
use crate::math::inference::{critical_difference, friedman, holm, mean_ranks};
use crate::math::stats;

/// The samples of cells, by row and column.
pub(super) type Samples = BTreeMap<(usize, usize), Sample>;

/// Compares the cells of every column that has several, and marks them.
pub(super) fn compare(table: &mut Table, samples: &Samples) {
    for column in 0..table.columns.len() {
        if let Some((comparison, outcomes)) = compared(table, samples, column) {
            let scale = table.scale();
            let digits = table.digits;
            let shown = |cell: &Cell| Table::number(scale, digits, cell.mean);
            let of_best = table.cell(comparison.best, column).map(shown);
            let is_worse = |test: &Test| test.corrected < ALPHA && scale.worth(test.difference) > 0.0;
            let beats_all = comparison.untested.is_empty() && outcomes.values().all(is_worse);
            for cell in table.cells.iter_mut().filter(|cell| cell.column == column) {
                cell.test = outcomes.get(&cell.row).copied();
                cell.mark = match cell.test {
                    _ if cell.row == comparison.best => Some(if beats_all { Mark::Best } else { Mark::NotWorse }),
                    Some(test) => (!is_worse(&test)).then_some(Mark::NotWorse),
                    None => (Some(shown(cell)) == of_best).then_some(Mark::NotWorse),
                };
            }
            table.comparisons.push(comparison);
        }
    }
}

/// Tests the best of a column against every other cell of it; nothing for a column with fewer than two.
fn compared(table: &Table, samples: &Samples, column: usize) -> Option<(Comparison, BTreeMap<usize, Test>)> {
    let scale = table.scale();
    let cells: Vec<&Cell> = table.cells.iter().filter(|cell| cell.column == column).collect();
    if cells.len() < 2 {
        return None;
    }
    let better = |best: &Cell, cell: &Cell| scale.worth(cell.mean) > scale.worth(best.mean);
    let best = cells.iter().copied().reduce(|best, cell| if better(best, cell) { cell } else { best })?;
    let own = samples.get(&(best.row, column))?;
    let (mut tested, mut untested) = (Vec::new(), Vec::new());
    for cell in cells.iter().filter(|cell| cell.row != best.row) {
        match samples.get(&(cell.row, column)).map_or(Err("no splits"), |other| own.test(other)) {
            Ok(test) => tested.push((cell.row, test)),
            Err(why) => untested.push(Untested { row: cell.row, why: why.to_owned() }),
        }
    }
    let corrected = holm(&tested.iter().map(|(_, test)| test.p).collect::<Vec<_>>());
    let outcomes: BTreeMap<usize, Test> = tested
        .into_iter()
        .zip(corrected)
        .map(|((row, test), corrected)| (row, Test { difference: test.difference, t: test.t, p: test.p, corrected }))
        .collect();
    let comparison = Comparison {
        column,
        best: best.row,
        splits: own.values().len(),
        ratio: own.ratio().unwrap_or_default(),
        tested: outcomes.len(),
        untested,
    };
    Some((comparison, outcomes))
}

/// Ranks the rows that have any value over the columns in which all of them have one.
pub(super) fn ranking(table: &Table) -> Ranking {
    let rows: Vec<usize> =
        (0..table.rows.len()).filter(|row| table.cells.iter().any(|cell| cell.row == *row)).collect();
    let scale = table.scale();
    let of_column = |column: usize| -> Option<Vec<f64>> {
        let worth = |row: &usize| table.cell(*row, column).map(|cell| scale.worth(cell.mean));
        Some(mean_ranks(&rows.iter().map(worth).collect::<Option<Vec<_>>>()?))
    };
    let (columns, ranks): (Vec<usize>, Vec<Vec<f64>>) =
        (0..table.columns.len()).filter_map(|column| Some((column, of_column(column)?))).unzip();
    let mut averages = vec![None; table.rows.len()];
    let tests = friedman(&ranks).zip(critical_difference(ALPHA, rows.len(), columns.len()));
    if tests.is_some() {
        for (at, row) in rows.iter().enumerate() {
            averages[*row] = stats::mean(&ranks.iter().map(|column| column[at]).collect::<Vec<_>>());
        }
    }
    let tests = tests.map(|(test, critical_difference)| RankTests {
        chi_square: test.chi_square,
        p: test.p,
        f: test.f,
        f_p: test.f_p,
        critical_difference,
    });
    Ranking { columns, averages, tests }
}
