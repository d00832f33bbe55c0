//! The zip of a node-property data set of the Open Graph Benchmark, such as `arxiv.zip`.
//!
//! | member, below any folder | lines (gzip, comma-separated, no header) |
//! | --- | --- |
//! | `raw/num-node-list.csv.gz`, `raw/num-edge-list.csv.gz` | one number: how many nodes or edges there are |
//! | `raw/edge.csv.gz` | source, target |
//! | `raw/node-feat.csv.gz` | the features of a node, all lines equally long |
//! | `raw/node-label.csv.gz` | the class of a node |
//! | `mapping/nodeidx2….csv.gz`, `mapping/labelidx2….csv.gz` | a header, then number and name of a node or class; may be absent |
//! | `split/<name>/train.csv.gz`, `valid.csv.gz`, `test.csv.gz` | a node; one split |
//!
//! Where there are names of nodes, every node has one; a class without one is called by its number. Names of classes that
//! no node has are left out, further columns too, and a name in double quotes is without them.
//! Edges stay as they are stored. Classes are 0 to C − 1, where C is the largest plus one. Empty lines are skipped.
//! Nothing is unpacked to disk: members are decoded as a stream, a line holds at most 1 MiB and a member at most 4 GiB
//! when it is decoded, and reading ends at the first line beyond the announced number.

mod mapping;
mod text;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zip::ZipArchive;
use zip::read::ZipFile;

use self::text::Lines;
use super::{Format, labelled};
use crate::contract::params::{self, FilePath};
use crate::contract::{Job, StageError};
use crate::kinds::{Features, Graph, Matrix, Part, Splits};
use crate::reading::npz::damaged_zip;
use crate::reading::parts::{PartNames, PartsBuilder};
use crate::reading::source;
use crate::reading::text::{number, shown, whole};
use crate::reading::watched::{MEMBER_LIMIT, MOST_CLASSES};

const PARTS: PartNames = [("train.csv.gz", Part::Train), ("valid.csv.gz", Part::Val), ("test.csv.gz", Part::Test)];

/// The most nodes or edges: what fits into [`MEMBER_LIMIT`] bytes as pairs of numbers.
const MOST: u32 = 1 << 29;

/// Parameters of `ogb`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The zip as published. It counts by its content, not by its path.
    pub path: FilePath,
}

impl params::Params for Params {}

/// The format.
pub struct Ogb;

impl Format for Ogb {
    const NAME: &'static str = "ogb";
    const ABOUT: &'static str =
        "The zip of an Open Graph Benchmark data set with one class per node, such as OGBN-arXiv";
    const VERSION: u32 = 2;
    type Params = Params;

    fn read(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let mut zip = Zip::open(&params.path.0)?;
        let nodes = count(&mut zip, job, "raw/num-node-list.csv.gz", "nodes")?;
        let edges = count(&mut zip, job, "raw/num-edge-list.csv.gz", "edges")?;
        if nodes == 0 {
            return Err(zip.error("raw/num-node-list.csv.gz", "announces no nodes, expected at least one"));
        }
        let labels = labels(&mut zip, job, nodes)?;
        let edges = read_edges(&mut zip, job, nodes, edges)?;
        let parts = parts(&mut zip, job, nodes)?;
        let features = Features::Dense(features(&mut zip, job, nodes)?);
        let graph = labelled(edges, features, labels, Some(Splits { parts: vec![parts] }));
        let names = mapping::names(&mut zip, job, nodes, graph.classes)?;
        Ok(Graph { names, ..graph })
    }
}

type Member<'z> = ZipFile<'z, BufReader<File>>;

/// An open zip, whose members are known by the end of their path.
struct Zip {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
    names: Vec<String>,
}

impl Zip {
    fn open(path: &Path) -> Result<Self, StageError> {
        let file = BufReader::new(source::open(path)?);
        let archive = ZipArchive::new(file).map_err(|e| damaged_zip(path, "a zip file", &e))?;
        let names: Vec<_> = archive.file_names_raw().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        if let Some(name) = names.iter().find(|name| escapes(name)) {
            let what = format!("has a member `{}` that points outside its folder", name.escape_debug());
            let hint = "no data set needs that: take the file from its publisher";
            return Err(StageError::data(path.display(), what).with_hint(hint));
        }
        Ok(Self { path: path.to_owned(), archive, names })
    }

    /// The place of the only member that `wanted` accepts.
    fn find(&self, words: &str, wanted: impl Fn(&str) -> bool) -> Result<usize, StageError> {
        let mut found = self.names.iter().enumerate().filter(|(_, name)| wanted(name));
        let names = |names: Vec<&String>| {
            let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
            if names.is_empty() { "none".into() } else { names.join(", ") }
        };
        let (what, hint) = match (found.next(), found.next()) {
            (Some((index, _)), None) => return Ok(index),
            (Some((_, one)), Some((_, two))) => {
                let what = format!("has several members `{words}`: {}", names(vec![one, two]));
                (what, "expected one data set a file".into())
            }
            (None, _) => {
                let known = names(self.names.iter().filter(|name| !name.ends_with('/')).take(20).collect());
                (format!("has no member `{words}`"), format!("its members are {known}"))
            }
        };
        Err(StageError::data(self.path.display(), what).with_hint(hint))
    }

    fn error(&self, member: &str, what: impl Into<String>) -> StageError {
        StageError::data(format!("{}, member `{member}`", self.path.display()), what)
    }

    /// The lines of the member that ends in `member`.
    fn lines<'z>(&'z mut self, job: &Job<'z>, member: &str) -> Result<Lines<'z, Member<'z>>, StageError> {
        let index = self.find(member, |name| name.strip_suffix(member).is_some_and(is_folder))?;
        self.lines_at(job, index)
    }

    fn place(&self, index: usize) -> String {
        let name = self.names.get(index).map_or("", String::as_str);
        format!("{}, member `{}`", self.path.display(), name.escape_debug())
    }

    fn lines_at<'z>(&'z mut self, job: &Job<'z>, index: usize) -> Result<Lines<'z, Member<'z>>, StageError> {
        job.check_cancelled()?;
        let place = self.place(index);
        match self.archive.by_index(index) {
            Ok(file) => {
                let size = file.size();
                Ok(Lines::new(place, file, size, job))
            }
            Err(e) => Err(StageError::data(place, format!("cannot be decoded: {e}"))),
        }
    }
}

/// Whether a name, were it unpacked, would leave the folder that it is unpacked to.
fn escapes(name: &str) -> bool {
    name.starts_with(['/', '\\']) || name.get(1..2) == Some(":") || name.split(['/', '\\']).any(|part| part == "..")
}

fn is_folder(start: &str) -> bool {
    start.is_empty() || start.ends_with('/')
}

/// Reads the one number of a list with one graph.
fn count(zip: &mut Zip, job: &Job, member: &str, word: &str) -> Result<usize, StageError> {
    let mut lines = zip.lines(job, member)?;
    let mut count = None;
    lines.each(|line| {
        if count.is_some() {
            return Err("has a second graph, expected one".into());
        }
        count = whole(line, MOST + 1);
        match count {
            Some(_) => Ok(()),
            None => Err(format!("`{}` is not a number of {word}, expected 0 to {MOST}", shown(line))),
        }
    })?;
    let missing = || lines.about(format!("is empty, expected the number of {word}"));
    count.map(|count| count as usize).ok_or_else(missing)
}

fn labels(zip: &mut Zip, job: &Job, nodes: usize) -> Result<Vec<u32>, StageError> {
    let mut lines = zip.lines(job, "raw/node-label.csv.gz")?;
    let mut labels = Vec::new();
    lines.each(|line| {
        if labels.len() == nodes {
            return Err(format!("is label {}, expected {nodes}, the nodes of `num-node-list`", nodes + 1));
        }
        labels.push(whole(line, MOST_CLASSES).ok_or_else(|| match fields(line).count() {
            1 => format!("label `{}` is not a class, expected 0 to {}", shown(line), MOST_CLASSES - 1),
            several => format!("has {several} classes, expected one class per node"),
        })?);
        Ok(())
    })?;
    if labels.len() < nodes {
        return Err(lines.about(format!("has {} labels, expected {nodes}, the nodes of `num-node-list`", labels.len())));
    }
    Ok(labels)
}

fn read_edges(zip: &mut Zip, job: &Job, nodes: usize, count: usize) -> Result<Vec<(u32, u32)>, StageError> {
    let mut lines = zip.lines(job, "raw/edge.csv.gz")?;
    let mut edges = Vec::new();
    lines.each(|line| {
        if edges.len() == count {
            return Err(format!("is edge {}, expected {count}, as in `num-edge-list`", count + 1));
        }
        let mut ends = fields(line);
        let (Some(source), Some(target), None) = (ends.next(), ends.next(), ends.next()) else {
            return Err(format!("has {} numbers, expected source and target", fields(line).count()));
        };
        edges.push((node(source, nodes)?, node(target, nodes)?));
        Ok(())
    })?;
    if edges.len() < count {
        return Err(lines.about(format!("has {} edges, expected {count}, as in `num-edge-list`", edges.len())));
    }
    Ok(edges)
}

fn features(zip: &mut Zip, job: &Job, nodes: usize) -> Result<Matrix, StageError> {
    let mut lines = zip.lines(job, "raw/node-feat.csv.gz")?;
    let (mut data, mut rows, mut cols) = (Vec::new(), 0, 0);
    lines.each(|line| {
        if rows == nodes {
            return Err(format!("has features of node {nodes}, expected {nodes} nodes, as in `num-node-list`"));
        }
        let before = data.len();
        for (at, text) in fields(line).enumerate() {
            let refused = || format!("feature {at}: `{}` is not a finite 32-bit number", shown(text));
            data.push(number(text).ok_or_else(refused)?);
        }
        let found = data.len() - before;
        if rows == 0 {
            cols = found;
        } else if found != cols {
            return Err(format!("has {found} features, expected {cols}, as on the first line"));
        }
        if data.len() as u64 * 4 > MEMBER_LIMIT {
            return Err(format!("the features up to here take more than {MEMBER_LIMIT} bytes"));
        }
        rows += 1;
        Ok(())
    })?;
    if rows < nodes {
        return Err(lines.about(format!("has features of {rows} nodes, expected {nodes}, as in `num-node-list`")));
    }
    Ok(Matrix { rows, cols, data })
}

fn parts(zip: &mut Zip, job: &Job, nodes: usize) -> Result<Vec<Part>, StageError> {
    let mut parts = PartsBuilder::new(nodes, PARTS);
    for (file, part) in PARTS {
        let index = zip.find(&format!("split/…/{file}"), |name| is_split(name, file))?;
        zip.lines_at(job, index)?.each(|line| {
            let node = node(line, nodes)?;
            let twice = |other| format!("node {node} is in `{other}` as well, expected one part per node");
            parts.put(node as usize, part).map_err(twice)
        })?;
    }
    Ok(parts.finish())
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| *b == b',')
}

/// Whether a path ends in `split/<name>/<file>`.
fn is_split(path: &str, file: &str) -> bool {
    let mut parts = path.rsplit('/');
    parts.next() == Some(file) && parts.next().is_some() && parts.next() == Some("split")
}

fn node(text: &[u8], nodes: usize) -> Result<u32, String> {
    let id = whole(text, u32::try_from(nodes).unwrap_or(u32::MAX));
    id.ok_or_else(|| format!("`{}` is not a node, expected 0 to {}", shown(text), nodes.saturating_sub(1)))
}

#[cfg(test)]
mod tests;
