//! The numbers behind a picture, as CSV.

use crate::contract::StageError;

/// Rows of texts under names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    names: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Data {
    /// No rows yet.
    pub fn new(names: &[&'static str]) -> Self {
        Self { names: names.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Writes it.
    ///
    /// # Errors
    /// Where a row has not as many values as there are names.
    pub fn csv(&self) -> Result<String, StageError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut written = writer.write_record(&self.names);
        for row in &self.rows {
            written = written.and_then(|()| writer.write_record(row));
        }
        let cannot = |why: String| {
            StageError::unusable(format!("the numbers of the figure cannot be written: {why}"), "report this")
        };
        written.map_err(|e| cannot(e.to_string()))?;
        let bytes = writer.into_inner().map_err(|e| cannot(e.to_string()))?;
        String::from_utf8(bytes).map_err(|e| cannot(e.to_string()))
    }
}

/// Writes a number so that it is read back as it was.
pub fn number(value: f64) -> String {
    value.to_string()
}
