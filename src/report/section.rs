//! `Section`: a part of what is told of something: a heading, lines, and a grid. As text here, as HTML in `html`.

use super::page::padded;

/// A heading and what stands below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// Lines below it.
    pub lines: Vec<String>,
    /// A grid below the lines, if there is one.
    pub grid: Option<Grid>,
}

/// Columns of numbers and words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// What the columns are.
    pub columns: Vec<String>,
    /// One text for every column.
    pub rows: Vec<Vec<String>>,
}

impl Section {
    /// A heading with lines; nothing where there are none.
    pub fn of_lines(heading: impl Into<String>, lines: impl IntoIterator<Item = String>) -> Option<Self> {
        let lines: Vec<String> = lines.into_iter().collect();
        (!lines.is_empty()).then(|| Self { heading: heading.into(), lines, grid: None })
    }

    /// Returns it as text: a blank line, the heading, and everything else indented.
    pub fn text(&self) -> String {
        let grid = self.grid.iter().flat_map(Grid::lines);
        let below = self.lines.iter().cloned().chain(grid).map(|line| format!("  {line}\n"));
        format!("\n{}\n{}", self.heading, below.collect::<String>())
    }
}

impl Grid {
    /// Columns end below their titles.
    fn lines(&self) -> impl Iterator<Item = String> {
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&self.columns).map(|(cell, title)| padded(cell, title.chars().count(), true));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        std::iter::once(&self.columns).chain(&self.rows).map(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_ends_below_its_titles() {
        let columns = ["split", "accuracy", ""].map(str::to_owned).to_vec();
        let rows = vec![["0", "50.0", ""].map(str::to_owned).to_vec(), ["1", "–", "why"].map(str::to_owned).to_vec()];
        let section =
            Section { heading: "run".into(), lines: vec!["seed 1".into()], grid: Some(Grid { columns, rows }) };
        assert_eq!(section.text(), "\nrun\n  seed 1\n  split  accuracy\n      0      50.0\n      1         –  why\n");
        assert_eq!(Section::of_lines("nothing", []), None);
    }
}
