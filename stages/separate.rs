//! The stage `separate`: the powers of an operator, taken apart by the distance of nodes, for models that weigh every hop.
//!
//! ```text
//! M   = Σ_{k=1}^{T} S^k                    T: `depth`
//! P_l = M ⊙ 1[distance = l]                l in `hops`; P_1 also has the diagonal of M
//! ```
//!
//! S is the operator, and the distance of two nodes that of its entries beside the diagonal. Published code sums S^k for k ≥ l only, which is the
//! same: lower powers have nothing at distance l. It holds matrices of nodes × nodes for every power and hop. Here some columns of
//! M are made at a time, by the same products that train filters, and only the entries of the hops that are asked for are kept: as
//! many as there are pairs of nodes at those distances, which in a small world is every pair from the third or fourth hop on. That
//! is n² entries, whatever the method: some nodes are looked at first, and hops that would take more than `memory` are refused.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params::{Bytes, Problem};
use crate::contract::{
    Artifact, Estimate, Job, Kind, Known, Memory, Progress, Size, Sizes, Slot, Stage, StageError, Term, Work,
};
use crate::kinds::{Operator, SeparatedHops, size};
use crate::math::csr::Csr;
use crate::math::kernels::hops::{Basis, Hops};

/// Columns of M that are made at a time: full registers, and a row of them is a line or two of the cache.
const BLOCK: usize = 32;
/// Bytes of an entry while rows are collected.
const ENTRY: usize = 20;
/// Nodes that tell how many entries there will be.
const SAMPLE: usize = 32;
/// Memory that entries may take.
const MEMORY: Bytes = Bytes(12 << 30);

/// Parameters of `separate`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Powers of the operator that are summed.
    #[schemars(range(min = 1, max = 1000))]
    pub depth: usize,
    /// The distances that are kept; none is further than `depth`.
    pub hops: Vec<usize>,
    /// Memory that the entries of all hops may take, such as `8GiB`.
    // Not in the key unless it is another one: results without it stay what they are.
    #[serde(skip_serializing_if = "is_usual")]
    #[schemars(extend("default" = "12GiB"))]
    pub memory: Bytes,
}

fn is_usual(memory: &Bytes) -> bool {
    *memory == MEMORY
}

impl Default for Params {
    fn default() -> Self {
        Self { depth: 10, hops: vec![1, 2, 3, 4], memory: MEMORY }
    }
}

impl crate::contract::params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let mut sorted = self.hops.clone();
        sorted.sort_unstable();
        let problem = if sorted.is_empty() {
            Some("expected at least one hop, such as `[1, 2]`".to_owned())
        } else if let Some(odd) = sorted.iter().find(|hop| **hop == 0 || **hop > self.depth) {
            Some(format!("expected hops from 1 to the depth `{}`, found `{odd}`", self.depth))
        } else {
            let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]);
            twice.map(|pair| format!("hop `{}` is listed twice", pair[0]))
        };
        problem.map_or(Ok(()), |message| Err(vec![Problem::value("hops", message)]))
    }

    fn complete(mut self) -> Self {
        // The order means nothing, so it is not in the key.
        self.hops.sort_unstable();
        self
    }
}

/// Takes the powers of an operator apart.
pub struct Separate;

/// Products with the operator: entries × columns.
const PRODUCTS: &str = "products";
/// Pairs of nodes that are looked at.
const PAIRS: &str = "pairs";

impl Stage for Separate {
    const NAME: &'static str = "separate";
    const ABOUT: &'static str = "Takes the powers of an operator apart by the distance of nodes";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::one("operator", Kind("operator"))];
    const TERMS: &'static [Term] = &[Term::shared(PRODUCTS, 6e-10), Term::shared(PAIRS, 2e-9)];
    type Params = Params;
    type Output = SeparatedHops;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        let operator = known.sizes("operator");
        let nodes = operator.or_guess(size::NODES, 5000.0);
        let entries = operator.get(size::ENTRIES).unwrap_or(nodes * Size::guess(12.0));
        let mean = (entries / nodes).value;
        let of_hop = |hop: &usize| expected_entries(nodes, mean, *hop);
        let kept: Size = match known.made.map(SeparatedHops::sizes).and_then(|made| made.get(size::ENTRIES)) {
            Some(made) => made,
            None => params.hops.iter().map(of_hop).sum::<Size>().min(nodes * nodes),
        };
        Estimate {
            sizes: Sizes::default()
                .with(size::NODES, nodes)
                .with(size::ENTRIES, kept)
                .with_list(size::HOPS, params.hops.clone()),
            work: Work::default().and(PRODUCTS, entries * nodes * params.depth).and(PAIRS, nodes * (nodes + entries)),
            memory: Memory::default()
                .and(entries * 40)
                .and_each(nodes * (BLOCK * 40), "use a smaller graph")
                .and_for(kept * ENTRY, "keep fewer `hops`"),
            notes: Vec::new(),
        }
    }

    fn fits(params: &Params, known: &Known) -> Result<(), StageError> {
        let nodes = known.sizes("operator").known(size::NODES);
        if let (Some(nodes), Some(hop)) = (nodes, params.hops.last())
            && *hop >= nodes
        {
            return Err(too_far(*hop, &format!("a graph of `{nodes}` nodes")));
        }
        let stored = known.input("operator").and_then(|input| Operator::load(input.dir?).ok());
        stored.map_or(Ok(()), |operator| within_memory(&operator.matrix, params))
    }

    fn run(params: &Params, job: &Job) -> Result<SeparatedHops, StageError> {
        let operator: Operator = job.input("operator")?;
        separate(operator.matrix, params, job)
    }
}

/// Refuses hops whose entries take more than the memory, by the neighbourhoods of some nodes that stand evenly among all.
#[expect(clippy::cast_precision_loss, reason = "an estimate of two digits")]
fn within_memory(matrix: &Csr, params: &Params) -> Result<(), StageError> {
    let (n, farthest) = (matrix.n(), params.hops.last().copied().unwrap_or(0));
    let nodes: Vec<usize> = (0..n.min(SAMPLE)).map(|i| i * n / n.min(SAMPLE)).collect();
    let at = |node: &usize| {
        distances(matrix, *node, farthest).into_iter().flatten().filter(|d| params.hops.contains(d)).count()
    };
    let pairs = nodes.par_iter().map(at).sum::<usize>() as f64 * n as f64 / nodes.len().max(1) as f64;
    let Bytes(memory) = params.memory;
    if pairs * ENTRY as f64 <= memory as f64 {
        return Ok(());
    }
    Err(StageError::unusable(
        format!(
            "about `{pairs:.1e}` pairs of nodes are {:?} hops apart; they take about {:.0} GB, and `memory` allows {}",
            params.hops,
            pairs * ENTRY as f64 / 1e9,
            params.memory
        ),
        "keep fewer `hops`: from some hop on, nearly all pairs of nodes are as near; or raise `memory`",
    ))
}

/// A hop that no two nodes are apart.
fn too_far(hop: usize, graph: &str) -> StageError {
    StageError::unusable(
        format!("no two nodes of {graph} are `{hop}` hops apart"),
        format!("leave `{hop}` and further hops out of `hops`, here and in the model"),
    )
}

/// Pairs of nodes at a distance, if every node had as many neighbours as the mean and none met again.
fn expected_entries(nodes: Size, degree: f64, hop: usize) -> Size {
    let reached = (degree - 1.0).max(1.0).powi(i32::try_from(hop).unwrap_or(i32::MAX));
    // Neighbours of hubs are hubs, so real graphs are smaller worlds than this.
    (nodes * Size::guess(2.0 * reached)).min(nodes * nodes)
}

/// Some rows of every kept hop.
type Rows = Vec<Vec<(Vec<u32>, Vec<f32>)>>;

fn separate(matrix: Csr, params: &Params, job: &Job) -> Result<SeparatedHops, StageError> {
    within_memory(&matrix, params)?;
    let (n, operator) = (matrix.n(), Hops::new(matrix));
    let blocks: Vec<usize> = (0..n).step_by(BLOCK).collect();
    let done = std::sync::atomic::AtomicU64::new(0);
    let rows: Vec<Rows> = blocks
        .par_iter()
        .map(|first| {
            job.check_cancelled()?;
            let rows = block(&operator, *first, params);
            let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            job.progress(&Progress { done, total: blocks.len() as u64, note: String::new() });
            Ok(rows)
        })
        .collect::<Result<_, StageError>>()?;
    let hop = |at: usize| {
        let (mut indptr, mut indices, mut values) = (vec![0u64], Vec::new(), Vec::new());
        for (columns, entries) in rows.iter().flat_map(|block| &block[at]) {
            indices.extend_from_slice(columns);
            values.extend_from_slice(entries);
            indptr.push(indices.len() as u64);
        }
        Csr::new(n, indptr, indices, values)
    };
    let hops = params.hops.iter().enumerate().map(|(at, l)| Some((*l, hop(at)?))).collect::<Option<Vec<_>>>();
    let hops = hops.ok_or_else(|| StageError::unusable("the operator is not symmetric", "use one of `normalize`"))?;
    match hops.iter().find(|(_, matrix)| matrix.indices.is_empty()) {
        Some((hop, _)) => Err(too_far(*hop, "this graph")),
        None => Ok(SeparatedHops { nodes: n, hops }),
    }
}

/// The rows of some nodes, from `first` on: of every kept hop, and of every node.
fn block(operator: &Hops, first: usize, params: &Params) -> Rows {
    let (n, nodes) = (operator.n(), first..(first + BLOCK).min(operator.n()));
    // Unit vectors side by side; S is symmetric, so columns of M are its rows.
    let mut units = vec![0.0f64; n * BLOCK];
    nodes.clone().enumerate().for_each(|(column, node)| units[node * BLOCK + column] = 1.0);
    let coefficients: Vec<f64> = (0..=params.depth).flat_map(|k| [if k == 0 { 0.0 } else { 1.0 }; BLOCK]).collect();
    let (sums, _) = operator.polynomial(Basis::Powers, &coefficients, &units, None, BLOCK);
    let farthest = params.hops.last().copied().unwrap_or(0);
    let mut rows: Rows = vec![Vec::with_capacity(nodes.len()); params.hops.len()];
    for (column, node) in nodes.enumerate() {
        let distances = distances(operator.matrix(), node, farthest);
        for (l, rows) in params.hops.iter().zip(&mut rows) {
            let (mut columns, mut values) = (Vec::new(), Vec::new());
            for (other, distance) in (0u32..).zip(&distances) {
                let here = *distance == Some(*l) || (*l == 1 && *distance == Some(0));
                #[expect(clippy::cast_possible_truncation, reason = "training is in single precision")]
                let value = sums[other as usize * BLOCK + column] as f32;
                if here && value != 0.0 {
                    columns.push(other);
                    values.push(value);
                }
            }
            rows.push((columns, values));
        }
    }
    rows
}

/// The distance of every node from one, as far as `farthest`.
fn distances(matrix: &Csr, from: usize, farthest: usize) -> Vec<Option<usize>> {
    let mut distances = vec![None; matrix.n()];
    distances[from] = Some(0);
    let mut front = vec![from];
    for distance in 1..=farthest {
        let mut next = Vec::new();
        for node in front {
            for other in matrix.row(node).0 {
                let other = *other as usize;
                if distances[other].is_none() {
                    distances[other] = Some(distance);
                    next.push(other);
                }
            }
        }
        front = next;
    }
    distances
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::contract::params::Params as _;
    use crate::models::testing;

    fn separated(depth: usize, hops: Vec<usize>) -> (Csr, SeparatedHops) {
        let (operator, ..) = testing::artifacts();
        (operator.matrix.clone(), tried(operator.matrix, depth, hops).unwrap())
    }

    fn tried(matrix: Csr, depth: usize, hops: Vec<usize>) -> Result<SeparatedHops, StageError> {
        let cancel = AtomicBool::new(false);
        let params = Params { depth, hops, ..Params::default() };
        params.check().unwrap();
        separate(matrix, &params, &Job::alone(&cancel))
    }

    /// Dense powers, and distances by them: the first power with an entry.
    fn plain(matrix: &Csr, depth: usize) -> (Vec<Vec<f64>>, Vec<Vec<usize>>) {
        let n = matrix.n();
        let (mut sum, mut distance) = (vec![vec![0.0; n]; n], vec![vec![usize::MAX; n]; n]);
        let mut power: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
        (0..n).for_each(|i| distance[i][i] = 0);
        for k in 1..=depth {
            power = (0..n)
                .map(|i| (0..n).map(|j| (0..n).map(|m| matrix.get(i, m) * power[m][j]).sum()).collect())
                .collect();
            for i in 0..n {
                for j in 0..n {
                    sum[i][j] += power[i][j];
                    if power[i][j] != 0.0 && distance[i][j] == usize::MAX {
                        distance[i][j] = k;
                    }
                }
            }
        }
        (sum, distance)
    }

    #[test]
    fn every_hop_holds_the_sum_of_powers_at_its_distance() {
        let (matrix, found) = separated(6, vec![1, 2, 3]);
        let (sum, distance) = plain(&matrix, 6);
        assert_eq!(found.hops.iter().map(|(l, _)| *l).collect::<Vec<_>>(), [1, 2, 3]);
        for (l, hop) in &found.hops {
            for i in 0..matrix.n() {
                for j in 0..matrix.n() {
                    let here = distance[i][j] == *l || (*l == 1 && i == j);
                    let expected = if here { sum[i][j] } else { 0.0 };
                    assert!((f64::from(hop.get(i, j)) - expected).abs() < 1e-6, "hop {l}: {i}, {j}");
                }
            }
        }
    }

    #[test]
    fn hops_that_no_two_nodes_are_apart_are_refused() {
        let (operator, ..) = testing::artifacts();
        let error = tried(operator.matrix, 9, vec![1, 9]).unwrap_err();
        assert_eq!(error.to_string(), "no two nodes of this graph are `9` hops apart");
        assert!(error.hint().unwrap().contains("leave `9`"));
        let sizes = Sizes::default().with(size::NODES, Size::exact(5));
        let operator = crate::contract::KnownInput { slot: "operator", key: String::new(), sizes, dir: None };
        let inputs = [operator];
        let fits =
            |hops: Vec<usize>| Separate::fits(&Params { depth: 9, hops, ..Params::default() }, &Known::of(&inputs));
        assert!(fits(vec![1, 4]).is_ok());
        assert!(fits(vec![1, 5]).unwrap_err().to_string().contains("a graph of `5` nodes are `5` hops apart"));
    }

    #[test]
    fn hops_of_too_many_pairs_are_refused_before_anything_is_computed() {
        // The graph has 14 nodes, all of which are in the sample: the pairs are counted.
        let (operator, ..) = testing::artifacts();
        let hops = vec![1, 2];
        let made = separated(3, hops.clone()).1;
        let pairs: usize = made.hops.iter().map(|(_, matrix)| matrix.indices.len()).sum::<usize>() - testing::NODES;
        let bytes = u64::try_from(pairs * ENTRY).unwrap();
        let within = |memory: u64| {
            within_memory(&operator.matrix, &Params { depth: 3, hops: hops.clone(), memory: Bytes(memory) })
        };
        assert!(within(bytes).is_ok());
        let error = within(bytes - 1).unwrap_err();
        assert!(error.to_string().contains("pairs of nodes are [1, 2] hops apart"), "{error}");
        assert!(error.hint().unwrap().contains("keep fewer `hops`"));
        let written = |memory| serde_json::to_value(Params { memory, ..Params::default() }).unwrap();
        assert!(written(MEMORY).get("memory").is_none(), "results without it keep their keys");
        assert_eq!(written(Bytes(1 << 30))["memory"], "1GiB");
    }

    #[test]
    fn threads_change_no_byte_and_hops_can_be_left_out() {
        let (_, all) = separated(4, vec![1, 2, 3]);
        let three = testing::with_threads(3, || separated(4, vec![1, 2, 3]).1);
        assert_eq!(all, three);
        let (_, some) = separated(4, vec![3]);
        assert_eq!(some.hops[0], all.hops[2]);
    }

    #[test]
    fn hops_out_of_reach_are_refused() {
        let check =
            |hops: Vec<usize>| Params { depth: 3, hops, ..Params::default() }.check().map_err(|p| p[0].message.clone());
        assert!(check(vec![3, 1]).is_ok());
        assert_eq!(check(vec![]).unwrap_err(), "expected at least one hop, such as `[1, 2]`");
        assert_eq!(check(vec![1, 4]).unwrap_err(), "expected hops from 1 to the depth `3`, found `4`");
        assert_eq!(check(vec![0]).unwrap_err(), "expected hops from 1 to the depth `3`, found `0`");
        assert_eq!(check(vec![2, 2]).unwrap_err(), "hop `2` is listed twice");
        assert_eq!(Params { depth: 3, hops: vec![3, 1], ..Params::default() }.complete().hops, [1, 3]);
    }
}
