//! The files of GraphSAINT, as Flickr comes in.
//!
//! | parameter | file | content |
//! | --- | --- | --- |
//! | `adjacency` | `adj_full.npz` | SciPy's compressed sparse rows: `format`, `shape`, `indptr`, `indices`, `data` |
//! | `features` | `feats.npy` | nodes × features, f8 (any number type is read), stored as f4 |
//! | `classes` | `class_map.json` | `{"0": 3, "1": 0, …}`: the class of every node |
//! | `roles` | `role.json` | `{"tr": […], "va": […], "te": […]}`: the nodes of one split |
//!
//! An entry (i, j) of the adjacency matrix is the edge i → j as stored, whatever its value, unless that is zero.
//! Classes are 0 to C − 1, where C is the largest plus one; the files give one to every node, and −1 is refused. A node in no role is in no part of the split. GraphSAINT's
//! other data sets give several classes per node; those are refused.

use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use super::{Format, labelled};
use crate::contract::params::{self, FilePath};
use crate::contract::{Job, StageError};
use crate::kinds::{Features, Graph, Matrix, Part, Splits};
use crate::reading::json::{self, List, Object};
use crate::reading::npz::csr::StoredRows;
use crate::reading::npz::{self, Expected, Npz, Numbers};
use crate::reading::parts::{PartNames, PartsBuilder};
use crate::reading::watched::MOST_CLASSES;

const ROLES: PartNames = [("tr", Part::Train), ("va", Part::Val), ("te", Part::Test)];

/// Parameters of `graphsaint`. Files count by their content, not by their path.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The adjacency matrix of all nodes, `adj_full.npz`.
    pub adjacency: FilePath,
    /// The features, `feats.npy`.
    pub features: FilePath,
    /// The class of every node, `class_map.json`.
    pub classes: FilePath,
    /// The nodes of every part of the split, `role.json`.
    pub roles: FilePath,
}

impl params::Params for Params {}

/// The format.
pub struct GraphSaint;

impl Format for GraphSaint {
    const NAME: &'static str = "graphsaint";
    const ABOUT: &'static str = "The four files of a GraphSAINT data set with one class per node, such as Flickr";
    const VERSION: u32 = 1;
    type Params = Params;

    fn read(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let (nodes, edges) = adjacency(&params.adjacency.0, job)?;
        job.check_cancelled()?;
        let labels = classes(&params.classes.0, nodes, job)?;
        let parts = roles(&params.roles.0, nodes, job)?;
        job.check_cancelled()?;
        let features = Features::Dense(features(&params.features.0, nodes, job)?);
        Ok(labelled(edges, features, labels, Some(Splits { parts: vec![parts] })))
    }
}

fn adjacency(path: &Path, job: &Job) -> Result<(usize, Vec<(u32, u32)>), StageError> {
    let mut file = Npz::open(path)?;
    if file.has("format") {
        let format = file.word("format")?;
        if format != "csr" {
            let what = format!("is `{format}`, expected compressed sparse rows (`csr`)");
            let hint = "save the matrix with `scipy.sparse.save_npz(path, matrix.tocsr())`";
            return Err(file.error("format", what).with_hint(hint));
        }
    }
    let matrix = StoredRows::read(&mut file, "", u32::MAX, job)?;
    if matrix.cols != matrix.rows {
        return Err(file.error("shape", format!("is {} × {}, expected a square matrix", matrix.rows, matrix.cols)));
    }
    Ok((matrix.rows, matrix.edges()))
}

fn features(path: &Path, nodes: usize, job: &Job) -> Result<Matrix, StageError> {
    let dims = &[("nodes", Some(nodes)), ("features", None)];
    let expected = Expected { member: "features", dims, numbers: Numbers::Real };
    let array = npz::read_npy(path, &expected, job, |node, feature, number| {
        number.finite(format_args!("node {node}, feature {feature}"))
    })?;
    match array.shape.get(1) {
        Some(cols) if *cols > 0 => Ok(Matrix { rows: nodes, cols: *cols, data: array.values }),
        _ => Err(StageError::data(path.display(), "has no features, expected at least one")),
    }
}

fn classes(path: &Path, nodes: usize, job: &Job) -> Result<Vec<u32>, StageError> {
    let Classes(classes) = json::read(path, job, Classes(vec![None; nodes]))?;
    let known = classes.iter().filter(|class| class.is_some()).count();
    match classes.iter().position(Option::is_none) {
        Some(node) => {
            let what = format!("has classes of {known} nodes, expected {nodes}; node {node} is the first without one");
            Err(StageError::data(path.display(), what))
        }
        None => Ok(classes.into_iter().flatten().collect()),
    }
}

/// `{"id": class, …}`.
struct Classes(Vec<Option<u32>>);

impl Object for Classes {
    const EXPECTED: &'static str = "an object of nodes and their classes";

    fn entry<'de, A: MapAccess<'de>>(&mut self, id: &str, entries: &mut A) -> Result<(), A::Error> {
        let last = self.0.len().saturating_sub(1);
        let slot = id.parse().ok().and_then(|node: usize| self.0.get_mut(node));
        let slot = slot.ok_or_else(|| A::Error::custom(format!("`{id}` is not a node, expected 0 to {last}")))?;
        let Class(class) = entries.next_value()?;
        match slot.replace(class) {
            Some(_) => Err(A::Error::custom(format!("node {id} is there twice"))),
            None => Ok(()),
        }
    }
}

/// A class; a list of classes gets a message of its own.
struct Class(u32);

impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneClass)
    }
}

struct OneClass;

impl<'de> Visitor<'de> for OneClass {
    type Value = Class;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a class from 0 to {}", MOST_CLASSES - 1)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Class, E> {
        let class = u32::try_from(number).ok().filter(|class| *class < MOST_CLASSES).map(Class);
        class.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Class, A::Error> {
        Err(A::Error::custom("a list of classes: several classes per node are not supported, expected one number"))
    }
}

fn roles(path: &Path, nodes: usize, job: &Job) -> Result<Vec<Part>, StageError> {
    let empty = Roles { nodes, parts: PartsBuilder::new(nodes, ROLES), seen: Vec::new() };
    let Roles { parts, seen, .. } = json::read(path, job, empty)?;
    match ROLES.iter().find(|(_, part)| !seen.contains(part)) {
        Some((role, _)) => {
            Err(StageError::data(path.display(), format!("has no `{role}`, expected `tr`, `va` and `te`")))
        }
        None => Ok(parts.finish()),
    }
}

/// `{"tr": […], "va": […], "te": […]}`, and which of them were seen.
struct Roles {
    nodes: usize,
    parts: PartsBuilder,
    seen: Vec<Part>,
}

impl Object for Roles {
    const EXPECTED: &'static str = "an object with `tr`, `va` and `te`";

    fn entry<'de, A: MapAccess<'de>>(&mut self, role: &str, entries: &mut A) -> Result<(), A::Error> {
        let Some((role, part)) = ROLES.into_iter().find(|(name, _)| *name == role) else {
            return entries.next_value::<IgnoredAny>().map(drop);
        };
        self.seen.push(part);
        entries.next_value_seed(List::new(|at, id: u64| self.put(role, part, at, id))).map(drop)
    }
}

impl Roles {
    fn put(&mut self, role: &str, part: Part, at: usize, id: u64) -> Result<(), String> {
        let node = usize::try_from(id).ok().filter(|node| *node < self.nodes).ok_or_else(|| {
            format!("entry {at} of `{role}`: {id} is not a node, expected 0 to {}", self.nodes.saturating_sub(1))
        })?;
        let twice = |other| format!("node {node} is in `{role}` and in `{other}`, expected one part per node");
        self.parts.put(node, part).map_err(twice)
    }
}

#[cfg(test)]
mod tests;
