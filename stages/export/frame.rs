//! A table of named columns, in the three forms that people read: CSV, JSON and Parquet.
//!
//! Texts stand in a file byte for byte; CSV quotes what has to be quoted. A number has as many digits as it takes to read
//! the same number back. What is absent is an empty field in CSV and `null` elsewhere.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use polars::prelude::{Column, DataFrame, DataType, ParquetReader, SerReader};
use serde_json::{Map, Value};

use crate::contract::ArtifactError;
use crate::kinds::files::parquet;

/// The values of a column; `None` is an absent one.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Texts.
    Text(Vec<Option<Arc<str>>>),
    /// Numbers.
    Number(Vec<Option<f64>>),
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// True or false.
    Flag(Vec<Option<bool>>),
}

impl Values {
    /// Texts, all present.
    pub fn texts<T: Into<Arc<str>>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::Text(texts.into_iter().map(|text| Some(text.into())).collect())
    }

    /// Numbers, all present.
    pub fn numbers(numbers: impl IntoIterator<Item = f64>) -> Self {
        Self::Number(numbers.into_iter().map(Some).collect())
    }

    /// Whole numbers, all present. One that is too large for 63 bits is absent.
    pub fn wholes(numbers: impl IntoIterator<Item = usize>) -> Self {
        Self::Whole(numbers.into_iter().map(|n| i64::try_from(n).ok()).collect())
    }

    /// One value of a parameter file, `rows` times. Lists and mappings stand as JSON.
    pub fn constant(value: &Value, rows: usize) -> Self {
        match value {
            Value::Null => Self::Text(vec![None; rows]),
            Value::Bool(flag) => Self::Flag(vec![Some(*flag); rows]),
            Value::Number(n) => match n.as_i64() {
                Some(whole) => Self::Whole(vec![Some(whole); rows]),
                // A seed is a name for a stream, and must not be rounded.
                None if n.is_u64() => Self::Text(vec![Some(n.to_string().into()); rows]),
                None => Self::Number(vec![n.as_f64(); rows]),
            },
            Value::String(text) => Self::Text(vec![Some(text.as_str().into()); rows]),
            Value::Array(_) | Value::Object(_) => Self::Text(vec![Some(value.to_string().into()); rows]),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Text(v) => v.len(),
            Self::Number(v) => v.len(),
            Self::Whole(v) => v.len(),
            Self::Flag(v) => v.len(),
        }
    }

    fn is_absent(&self) -> bool {
        matches!(self, Self::Text(v) if v.iter().all(Option::is_none))
    }

    /// Writes a value as text; nothing if it is absent.
    pub(super) fn text(&self, row: usize) -> Option<String> {
        match self {
            Self::Text(v) => v.get(row)?.as_deref().map(str::to_owned),
            // The shortest text that reads back as the same number: 0.1, 1e-7.
            Self::Number(v) => (*v.get(row)?).map(|x| format!("{x:?}")),
            Self::Whole(v) => (*v.get(row)?).map(|n| n.to_string()),
            Self::Flag(v) => (*v.get(row)?).map(|f| f.to_string()),
        }
    }

    fn json(&self, row: usize) -> Value {
        let value = match self {
            Self::Text(v) => v.get(row).and_then(Option::as_deref).map(Value::from),
            Self::Number(v) => v.get(row).copied().flatten().map(Value::from),
            Self::Whole(v) => v.get(row).copied().flatten().map(Value::from),
            Self::Flag(v) => v.get(row).copied().flatten().map(Value::from),
        };
        value.unwrap_or_default()
    }

    /// Adds the rows of another column of the name. If the types differ, whole numbers become numbers, and anything else text.
    fn append(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Text(a), Self::Text(b)) => a.extend(b),
            (Self::Number(a), Self::Number(b)) => a.extend(b),
            (Self::Whole(a), Self::Whole(b)) => a.extend(b),
            (Self::Flag(a), Self::Flag(b)) => a.extend(b),
            (Self::Number(a), Self::Whole(b)) => a.extend(b.into_iter().map(as_number)),
            (Self::Whole(a), Self::Number(b)) => {
                *self = Self::Number(a.iter().copied().map(as_number).chain(b).collect());
            }
            (a, b) if b.is_absent() => a.lengthen(b.len()),
            (a, b) if a.is_absent() => {
                let rows = a.len();
                *a = b.absent(rows);
                a.append(b);
            }
            (a, b) => {
                let texts = |v: &Self| (0..v.len()).map(|row| v.text(row).map(Arc::from)).collect::<Vec<_>>();
                *a = Self::Text([texts(a), texts(&b)].concat());
            }
        }
    }

    /// Adds absent values.
    fn lengthen(&mut self, by: usize) {
        match self {
            Self::Text(v) => v.resize(v.len() + by, None),
            Self::Number(v) => v.resize(v.len() + by, None),
            Self::Whole(v) => v.resize(v.len() + by, None),
            Self::Flag(v) => v.resize(v.len() + by, None),
        }
    }

    /// A column of the same type without any value.
    fn absent(&self, rows: usize) -> Self {
        match self {
            Self::Text(_) => Self::Text(vec![None; rows]),
            Self::Number(_) => Self::Number(vec![None; rows]),
            Self::Whole(_) => Self::Whole(vec![None; rows]),
            Self::Flag(_) => Self::Flag(vec![None; rows]),
        }
    }

    fn keep(&mut self, rows: &[bool]) {
        fn kept<T>(values: &mut Vec<T>, rows: &[bool]) {
            let mut wanted = rows.iter();
            values.retain(|_| wanted.next().copied().unwrap_or(false));
        }
        match self {
            Self::Text(v) => kept(v, rows),
            Self::Number(v) => kept(v, rows),
            Self::Whole(v) => kept(v, rows),
            Self::Flag(v) => kept(v, rows),
        }
    }

    fn column(&self, name: &str) -> Column {
        match self {
            Self::Text(v) => Column::new(name.into(), v.iter().map(Option::as_deref).collect::<Vec<_>>()),
            Self::Number(v) => Column::new(name.into(), v),
            Self::Whole(v) => Column::new(name.into(), v),
            Self::Flag(v) => Column::new(name.into(), v),
        }
    }

    fn of_column(column: &Column) -> Option<Self> {
        let cast = |to: &DataType| column.cast(to).ok();
        Some(match column.dtype() {
            DataType::Boolean => Self::Flag(column.bool().ok()?.iter().collect()),
            DataType::String => Self::Text(column.str().ok()?.iter().map(|t| t.map(Arc::from)).collect()),
            dtype if dtype.is_integer() => Self::Whole(cast(&DataType::Int64)?.i64().ok()?.iter().collect()),
            dtype if dtype.is_float() => Self::Number(cast(&DataType::Float64)?.f64().ok()?.iter().collect()),
            _ => return None,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a column that has other numbers beside it")]
fn as_number(whole: Option<i64>) -> Option<f64> {
    whole.map(|n| n as f64)
}

/// Named columns of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    columns: Vec<(String, Values)>,
    rows: usize,
}

impl Frame {
    /// An empty table with that many rows to come.
    pub fn of_rows(rows: usize) -> Self {
        Self { columns: Vec::new(), rows }
    }

    /// Returns it with one more column. Missing rows are absent; a name that is taken gets a `~`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, mut values: Values) -> Self {
        let mut name = name.into();
        while self.has(&name) {
            name.push('~');
        }
        values.lengthen(self.rows.saturating_sub(values.len()));
        self.columns.push((name, values));
        self
    }

    /// Returns it with the column of an axis, which is called `axis.<name>` if its name is taken.
    #[must_use]
    pub fn with_axis(self, name: &str, values: Values) -> Self {
        let name = if self.has(name) { format!("axis.{name}") } else { name.to_owned() };
        self.with(name, values)
    }

    /// Returns it with texts in front that are the same in every row. One whose name is taken is called `axis.<name>`.
    #[must_use]
    pub fn labelled<'l>(mut self, labels: impl DoubleEndedIterator<Item = (&'l str, &'l str)>) -> Self {
        for (name, text) in labels.rev() {
            let name = if self.has(name) { format!("axis.{name}") } else { name.to_owned() };
            self.columns.insert(0, (name, Values::Text(vec![Some(text.into()); self.rows])));
        }
        self
    }

    fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|(there, _)| there == name)
    }

    /// Returns the names of the columns.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// Returns a column.
    pub fn column(&self, name: &str) -> Option<&Values> {
        self.columns.iter().find(|(there, _)| there == name).map(|(_, values)| values)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Keeps some rows.
    pub fn keep(&mut self, rows: &[bool]) {
        self.columns.iter_mut().for_each(|(_, values)| values.keep(rows));
        self.rows = rows.iter().take(self.rows).filter(|kept| **kept).count();
    }

    /// Adds the rows of another table. A column that only one of them has is absent in the rows of the other; it stands
    /// behind the column that it follows in its own table.
    pub fn append(&mut self, other: Self) {
        let rows = self.rows + other.rows;
        let mut places: HashMap<String, usize> = self.names().map(str::to_owned).zip(0..).collect();
        let mut after = 0;
        for (name, values) in other.columns {
            let place = places.get(&name).copied().unwrap_or_else(|| {
                places.values_mut().filter(|place| **place >= after).for_each(|place| *place += 1);
                places.insert(name.clone(), after);
                self.columns.insert(after, (name, values.absent(self.rows)));
                after
            });
            self.columns[place].1.append(values);
            after = place + 1;
        }
        self.columns.iter_mut().for_each(|(_, values)| values.lengthen(rows - values.len()));
        self.rows = rows;
    }

    /// Writes it as CSV with a line of names.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn write_csv(&self, to: impl Write) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(to);
        csv.write_record(self.names())?;
        for row in 0..self.rows {
            for (_, values) in &self.columns {
                csv.write_field(values.text(row).unwrap_or_default())?;
            }
            csv.write_record(None::<&[u8]>)?;
        }
        csv.flush()
    }

    /// Writes it as a JSON list with an object per row, each on a line of its own. JSON has no numbers that are not finite:
    /// they are `null`.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn write_json(&self, mut to: impl Write) -> io::Result<()> {
        to.write_all(b"[")?;
        for row in 0..self.rows {
            to.write_all(if row == 0 { b"\n" } else { b",\n" })?;
            let object: Map<String, Value> = self.columns.iter().map(|(n, v)| (n.clone(), v.json(row))).collect();
            serde_json::to_writer(&mut to, &object)?;
        }
        to.write_all(b"\n]\n")?;
        to.flush()
    }

    /// Writes it as Parquet.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_parquet(&self, to: impl Write) -> std::io::Result<()> {
        let columns = self.columns.iter().map(|(name, values)| values.column(name)).collect();
        parquet(to, &mut DataFrame::new_infer_height(columns).map_err(std::io::Error::other)?)
    }

    /// Reads a Parquet file of the store. Columns of types that no table here has are left out.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read_parquet(path: &Path) -> Result<Self, ArtifactError> {
        let file = std::fs::File::open(path).map_err(|e| ArtifactError::io(path, e))?;
        let read = ParquetReader::new(file).finish();
        let read = read.map_err(|e| ArtifactError::malformed(path, format!("a Parquet table ({e})")))?;
        let columns = read.columns().iter().filter_map(|c| Some((c.name().to_string(), Values::of_column(c)?)));
        Ok(Self { rows: read.height(), columns: columns.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(frame: &Frame) -> String {
        let mut bytes = Vec::new();
        frame.write_csv(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn texts_survive_every_form_byte_for_byte() {
        let odd = ["a,b", "say \"x\"", "two\nlines", " padded ", "007", "1e3", "", "été"];
        let frame = Frame::of_rows(odd.len()).with("id", Values::texts(odd));
        let text = csv(&frame);
        let read: Vec<String> =
            csv::Reader::from_reader(text.as_bytes()).records().map(|r| r.unwrap()[0].to_owned()).collect();
        assert_eq!(read, odd);
        let mut json = Vec::new();
        frame.write_json(&mut json).unwrap();
        let json: Vec<Map<String, Value>> = serde_json::from_slice(&json).unwrap();
        assert_eq!(json.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>(), odd);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frame.parquet");
        frame.write_parquet(std::fs::File::create(&path).unwrap()).unwrap();
        assert_eq!(Frame::read_parquet(&path).unwrap(), frame);
    }

    #[test]
    fn every_type_survives_parquet_with_its_absent_values() {
        let frame = Frame::of_rows(2)
            .with("x", Values::Number(vec![Some(0.1), None]))
            .with("n", Values::Whole(vec![None, Some(-3)]))
            .with("f", Values::Flag(vec![Some(true), None]))
            .with("t", Values::Text(vec![None, Some("t".into())]));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frame.parquet");
        frame.write_parquet(std::fs::File::create(&path).unwrap()).unwrap();
        assert_eq!(Frame::read_parquet(&path).unwrap(), frame);
        assert_eq!(csv(&frame), "x,n,f,t\n0.1,,true,\n,-3,,t\n");
    }

    #[test]
    fn tables_with_other_columns_are_joined_in_the_order_of_both() {
        let mut all = Frame::of_rows(1).with("a", Values::wholes([1])).with("z", Values::numbers([0.5]));
        let more = Frame::of_rows(2)
            .with("b", Values::texts(["x", "y"]))
            .with("a", Values::numbers([2.5, 1e-7]))
            .with("c", Values::wholes([7, 8]));
        all.append(more);
        assert_eq!(csv(&all), "b,a,c,z\n,1.0,,0.5\nx,2.5,7,\ny,1e-7,8,\n");
        all.append(Frame::of_rows(1).with("a", Values::texts(["word"])));
        assert_eq!(csv(&all).lines().last(), Some(",word,,"));
        all.keep(&[false, true, false, true]);
        assert_eq!(csv(&all), "b,a,c,z\nx,2.5,7,\n,word,,\n");
    }

    #[test]
    fn labels_stand_in_front_and_never_replace_a_column() {
        let frame = Frame::of_rows(1).with("split", Values::wholes([0]));
        let frame = frame.labelled([("node", "train/x"), ("split", "mine")].into_iter());
        assert_eq!(csv(&frame), "node,axis.split,split\ntrain/x,mine,0\n");
    }
}
