//! Values published elsewhere, read from a CSV file.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Params, Scores};
use crate::contract::{StageError, bounded};
use crate::kinds::Reference;

/// Published values by the places of their row and column.
pub(super) type Published = BTreeMap<(usize, usize), Reference>;

/// The published values to show next to ours; none if the parameters name no file.
pub(super) fn references(params: &Params, scores: Scores) -> Result<Published, StageError> {
    params.reference.as_ref().map_or_else(|| Ok(Published::new()), |file| published(&file.0, params, scores))
}

/// Reads the published values of the rows and columns that the table has.
fn published(path: &Path, params: &Params, scores: Scores) -> Result<Published, StageError> {
    const COLUMNS: [&str; 5] = ["row", "column", "mean", "std", "note"];
    let place = |line: Option<u64>| match line {
        Some(line) => format!("{}, line {line}", path.display()),
        None => path.display().to_string(),
    };
    let bad = |e: csv::Error| StageError::data(place(e.position().map(csv::Position::line)), e.to_string());
    let text = bounded::text(path).map_err(|e| StageError::data(place(None), format!("cannot be read: {e}")))?;
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(bad)?.clone();
    if headers.iter().ne(COLUMNS) {
        let found: Vec<_> = headers.iter().collect();
        let what = format!("has the columns `{}`, expected `{}`", found.join(","), COLUMNS.join(","));
        return Err(StageError::data(place(None), what));
    }
    let percent = params.facts.is_empty() && params.metric.scale(scores).percent;
    let (scale, most) = if percent { (100.0, 100.0) } else { (1.0, f64::MAX) };
    let columns: Vec<&str> = match params.facts.is_empty() {
        true => params.columns.iter().map(String::as_str).collect(),
        false => params.fact_columns().into_iter().map(|(label, _)| label).collect(),
    };
    let mut published = Published::new();
    for record in reader.records() {
        let record = record.map_err(bad)?;
        let line = record.position().map(csv::Position::line);
        let field = |at: usize| record.get(at).unwrap_or_default();
        let number = |at: usize| match field(at) {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(x) if (0.0..=most).contains(&x) => Ok(Some(x / scale)),
                Ok(x) if x.is_finite() => {
                    let what = format!("{} is `{text}`, expected 0 to {most} (shares are in percent)", COLUMNS[at]);
                    Err(StageError::data(place(line), what))
                }
                _ => Err(StageError::data(place(line), format!("{} is `{text}`, expected a number", COLUMNS[at]))),
            },
        };
        let reference = Reference { mean: number(2)?, std: number(3)?, note: field(4).to_owned() };
        let Some(column) = columns.iter().position(|label| *label == field(1)) else { continue };
        let called = |label: &String| params.reference_rows.get(label).unwrap_or(label) == field(0);
        for row in (0..params.rows.len()).filter(|row| called(&params.rows[*row])) {
            if published.insert((row, column), reference.clone()).is_some() {
                let what = format!("row `{}` and column `{}` have a value already", field(0), field(1));
                return Err(StageError::data(place(line), what));
            }
        }
    }
    Ok(published)
}
