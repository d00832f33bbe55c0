//! What a program is handed: a folder with its files, the data, and what is asked of it.
//!
//! `data.safetensors` holds `edges` (2 × entries) and `weights` of the operator, `features` (nodes × columns) or, where most of them are
//! zero, `feature-places` (2 × entries) and `feature-values`; and, a row per split, `parts` and `labels`. The label of a node is −1
//! where the split does not train or validate on it. `job.json` holds sizes, seeds and parameters.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::contract::ArtifactError;
use crate::contract::params::FilePath;
use crate::kinds::files::{TensorFile, write_json, write_text};
use crate::kinds::{Features, Nodes, Operator, Part, Splits};
use crate::math::random::Stream;

/// Version of the formats, in `job.json`.
pub const FORMAT: u32 = 1;
/// The module for Python that reads and writes them.
pub const HELPER: &str = include_str!("ppgnn_io.py");

/// What is asked of the program.
const JOB: &str = "job.json";
/// What it learns from.
const DATA: &str = "data.safetensors";
/// Its name in the folder.
const HELPER_FILE: &str = "ppgnn_io.py";
/// What the program writes.
pub(super) const RESULT: &str = "result.safetensors";

/// Whether a file of the folder is none of the user's.
pub(super) fn is_ours(place: &str) -> bool {
    [JOB, DATA, RESULT, HELPER_FILE].contains(&place)
}

/// A graph, and the splits that a process trains on.
#[derive(Clone, Copy)]
pub(super) struct Handed<'a> {
    pub operator: &'a Operator,
    pub nodes: &'a Nodes,
    pub splits: &'a Splits,
    /// Which of the splits.
    pub which: &'a [usize],
    pub seed: u64,
    /// Parameters of `train`.
    pub training: &'a Value,
    /// Parameters of the program's own.
    pub params: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Asked<'a> {
    format: u32,
    seed: u64,
    splits: &'a [usize],
    seeds: Vec<u32>,
    nodes: usize,
    classes: usize,
    columns: usize,
    params: &'a Map<String, Value>,
    training: &'a Value,
}

impl Handed<'_> {
    /// Writes everything into an empty folder; `files` with their places in it.
    pub fn write<'f>(
        &self,
        dir: &Path,
        files: impl Iterator<Item = (&'f FilePath, &'f String)>,
    ) -> Result<(), ArtifactError> {
        for (FilePath(from), place) in files {
            let to = dir.join(place);
            let folder = to.parent().unwrap_or(dir);
            fs::create_dir_all(folder).map_err(|e| ArtifactError::io(folder, e))?;
            fs::copy(from, &to).map_err(|e| ArtifactError::io(from, e))?;
        }
        write_text(&dir.join(HELPER_FILE), HELPER)?;
        // A split's seed is its own, whichever splits it comes with.
        let seed = |split: &usize| Stream::new(self.seed, &["command", &split.to_string()]).bits();
        let asked = Asked {
            format: FORMAT,
            seed: self.seed,
            splits: self.which,
            seeds: self.which.iter().map(seed).collect(),
            nodes: self.nodes.len(),
            classes: self.nodes.classes,
            columns: self.nodes.features.cols(),
            params: self.params,
            training: self.training,
        };
        write_json(&dir.join(JOB), &asked)?;
        self.data(&dir.join(DATA))
    }

    fn data(&self, path: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        let matrix = &self.operator.matrix;
        let places = places(&matrix.indptr, &matrix.indices);
        let entries = matrix.indices.len();
        file.add("edges", &[2, entries], &places);
        #[expect(clippy::cast_possible_truncation, reason = "models train in single precision")]
        let weights: Vec<f32> = matrix.values.iter().map(|weight| *weight as f32).collect();
        file.add("weights", &[entries], &weights);
        let feature_places;
        match &self.nodes.features {
            Features::Dense(dense) => file.add("features", &[dense.rows, dense.cols], &dense.data),
            Features::Sparse(sparse) => {
                feature_places = self::places(&sparse.indptr, &sparse.indices);
                file.add("feature-places", &[2, sparse.indices.len()], &feature_places);
                file.add("feature-values", &[sparse.values.len()], &sparse.values);
            }
        }
        let rows = || self.which.iter().map(|split| &self.splits.parts[*split]);
        let parts: Vec<u8> = rows().flatten().map(|part| *part as u8).collect();
        let labels: Vec<i64> = rows().flat_map(|row| row.iter().zip(&self.nodes.labels).map(label)).collect();
        let shape = [self.which.len(), self.nodes.len()];
        file.add("parts", &shape, &parts);
        file.add("labels", &shape, &labels);
        file.write(path)
    }
}

/// What a split may know of a node's class.
fn label((part, label): (&Part, &u32)) -> i64 {
    if matches!(part, Part::Train | Part::Val) { i64::from(*label) } else { -1 }
}

/// Rows, then columns, of the stored values of a sparse matrix.
fn places(indptr: &[u64], indices: &[u32]) -> Vec<i64> {
    let row = |(row, ends): (i64, &[u64])| std::iter::repeat_n(row, usize::try_from(ends[1] - ends[0]).unwrap_or(0));
    let rows = (0..).zip(indptr.windows(2)).flat_map(row);
    rows.chain(indices.iter().map(|column| i64::from(*column))).collect()
}
