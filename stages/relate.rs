//! The stage `relate`: how the nodes around a node are related to it, from a published file of neighbourhoods.
//!
//! The authors of Geom-GCN embed the nodes of a graph in a plane. Neighbours of a node are those of the graph and those near it in
//! the plane; the relation of a pair is where it is a neighbour, and the quadrant in which the other node lies. The program that
//! embeds was not published, its results were: a line `node1,node2<TAB>space<TAB>relation` for every pair, where the space is `graph` or
//! `latent_space` and the relation 0 to 3. This is how they are used there:
//!
//! - a row says how `node1` is related to `node2`, which hears it: ordered pairs, from `node1` to `node2`;
//! - a pair has one relation. A later row overwrites an earlier one, so a neighbour in both spaces has the relation of its last row;
//! - every node is related to itself, by a relation of its own, whatever the file or the graph says of loops.
//!
//! A file belongs to a graph: its rows of `graph` are the edges in both directions, all of them and no others, which is checked. Published
//! code starts from the edges and would fail on one that no row names.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params::{self, FilePath};
use crate::contract::{
    Artifact, Estimate, FromDataset, Job, Known, Memory, Size, Sizes, Slot, Stage, StageError, Term, Work,
};
use crate::kinds::{Graph, Relations, size};
use crate::math::csr::Csr;
use crate::reading::source;
use crate::reading::text::{Lines, shown, whole};

const HEADER: &str = "node1,node2<TAB>space<TAB>relation_type";
/// Quadrants of a plane.
const QUADRANTS: u32 = 4;
/// Bytes of a line.
const LINE: f64 = 20.0;

/// Parameters of `relate`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The neighbourhoods. The file counts by its content, not by its path.
    pub file: FilePath,
}

impl params::Params for Params {}

/// The stage.
pub struct Relate;

impl Stage for Relate {
    const NAME: &'static str = "relate";
    const ABOUT: &'static str = "Reads how nodes near each other, in the graph or in an embedding, are related";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::one("graph", Graph::KIND)];
    const FROM_DATASET: Option<FromDataset> =
        Some(FromDataset { field: "neighbourhoods", choice: "embedding", param: "file" });
    const TERMS: &'static [Term] = &[Term::alone("rows", 3e-7), Term::alone("edges", 5e-8)];
    type Params = Params;
    type Output = Relations;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        let graph = known.sizes("graph");
        let (nodes, edges) = (graph.or_guess(size::NODES, 5000.0), graph.or_guess(size::EDGES, 1e5));
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let rows = match std::fs::metadata(&params.file.0) {
            Ok(file) => Size::about(file.len() as f64 / LINE),
            Err(_) => edges * Size::guess(3.0),
        };
        Estimate {
            sizes: Sizes::default()
                .with(size::NODES, nodes)
                .with(size::ENTRIES, rows + nodes)
                .with(size::RELATIONS, Size::guess(9.0)),
            work: Work::default().and("rows", rows).and("edges", edges).shared_by(1),
            memory: Memory::default()
                .and(size::graph_bytes(&graph))
                .and_for(rows * 64 + edges * 16, "use a smaller file"),
            notes: Vec::new(),
        }
    }

    fn run(params: &Params, job: &Job) -> Result<Relations, StageError> {
        let graph: Graph = job.input("graph")?;
        let file = source::open_as(&params.file.0, "a list of neighbourhoods")?;
        let mut lines = Lines::new(&params.file.0, BufReader::with_capacity(1 << 16, file));
        relations(&mut lines, &graph, job)
    }
}

/// Reads the relations of a graph.
fn relations<R: BufRead>(lines: &mut Lines<R>, graph: &Graph, job: &Job) -> Result<Relations, StageError> {
    let nodes = u32::try_from(graph.nodes()).map_err(|_| lines.about_file("is of a graph of more than 2³² nodes"))?;
    lines.exact_header(HEADER)?;
    let mut rows = Rows { nodes, edges: Edges::of(graph), pairs: BTreeMap::new() };
    lines.each(job, |line| rows.add(line))?;
    if let Some((a, b)) = rows.edges.first_unnamed() {
        let what =
            format!("has no row that says how node `{a}` is related to node `{b}`, between which there is an edge");
        return Err(lines.about_file(what).with_hint(ANOTHER_GRAPH));
    }
    rows.finish().ok_or_else(|| lines.about_file("has relations that are no matrix"))
}

const ANOTHER_GRAPH: &str =
    "is it the file of another data set? `graph` must be the whole graph that the file was made for";

/// What was read so far.
struct Rows {
    nodes: u32,
    edges: Edges,
    /// The relation of every pair, by who hears and who is heard.
    pairs: BTreeMap<(u32, u32), u8>,
}

impl Rows {
    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let mut fields = line.split(|b| *b == b'\t');
        let (Some(pair), Some(space), Some(quadrant), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            let count = line.split(|b| *b == b'\t').count();
            return Err(format!("has {count} fields between tabs, expected `{HEADER}`"));
        };
        let mut ends = pair.split(|b| *b == b',');
        let (Some(from), Some(to), None) = (ends.next(), ends.next(), ends.next()) else {
            return Err(format!("`{}` is no pair of nodes, expected `node1,node2`", shown(pair)));
        };
        let node = |word: &[u8]| {
            let expected =
                || format!("`{}` is not a node, expected 0 to {}", shown(word), self.nodes.saturating_sub(1));
            whole(word, self.nodes).ok_or_else(expected)
        };
        let (from, to) = (node(from)?, node(to)?);
        let first = match space {
            b"graph" => 0,
            b"latent_space" => QUADRANTS,
            other => return Err(format!("`{}` is no space, expected `graph` or `latent_space`", shown(other))),
        };
        let quadrant = whole(quadrant, QUADRANTS)
            .ok_or_else(|| format!("`{}` is no relation, expected 0 to {}", shown(quadrant), QUADRANTS - 1))?;
        if first == 0 && !self.edges.name(from, to) {
            return Err(format!("the graph has no edge between the nodes `{from}` and `{to}`: {ANOTHER_GRAPH}"));
        }
        // Below 8.
        let relation = u8::try_from(first + quadrant).unwrap_or(Relations::OWN);
        self.pairs.insert((to, from), relation);
        Ok(())
    }

    fn finish(mut self) -> Option<Relations> {
        self.pairs.extend((0..self.nodes).map(|node| ((node, node), Relations::OWN)));
        let mut indptr = vec![0u64; self.nodes as usize + 1];
        self.pairs.keys().for_each(|(to, _)| indptr[*to as usize + 1] += 1);
        (0..self.nodes as usize).for_each(|node| indptr[node + 1] += indptr[node]);
        let indices = self.pairs.keys().map(|(_, from)| *from).collect();
        let pairs = Csr::new(self.nodes as usize, indptr, indices, self.pairs.into_values().collect())?;
        Some(Relations { pairs })
    }
}

/// The edges of a graph in both directions, and which of them were named.
struct Edges {
    all: Vec<(u32, u32)>,
    named: Vec<bool>,
}

impl Edges {
    fn of(graph: &Graph) -> Self {
        let mut all: Vec<(u32, u32)> = graph.edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        all.sort_unstable();
        all.dedup();
        // A loop may be named, and need not be.
        let named = all.iter().map(|(a, b)| a == b).collect();
        Self { all, named }
    }

    /// Notes that an edge was named; returns whether there is one.
    fn name(&mut self, from: u32, to: u32) -> bool {
        let found = self.all.binary_search(&(from, to));
        found.map(|at| self.named[at] = true).is_ok()
    }

    fn first_unnamed(&self) -> Option<(u32, u32)> {
        self.named.iter().position(|named| !named).map(|at| self.all[at])
    }
}
