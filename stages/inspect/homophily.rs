//! How often neighbours have the same class, in four ways.
//!
//! With d(v) neighbours of node v, s(v) of them of its class, n nodes, n_k of them in class k, and sums over undirected
//! edges without loops:
//!
//! - edge: Σ s / Σ d, the share of edges between nodes of one class;
//! - node: the mean of s(v) / d(v) over nodes with neighbours;
//! - class-insensitive (Lim et al., 2021): 1/(C − 1) · Σ_k max(0, h_k − n_k / n), where h_k is Σ s / Σ d over the nodes
//!   of class k. Classes that are independent of the edges give 0, however uneven they are. C counts classes that have
//!   nodes;
//! - adjusted (Platonov et al., 2023): (h − p) / (1 − p) with edge homophily h and p = Σ_k (Σ_{v in k} d(v) / Σ d)². 0
//!   is chance, negative is less than chance.
//!
//! Nodes without a label, and edges to them, do not count: the class that stands in for a label says nothing.

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

use serde::Serialize;

use super::lists::Lists;
use crate::kinds::Graph;

/// The four measures; `None` where one is not defined: without edges, or with a single class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Homophily {
    /// Share of edges between nodes of one class.
    pub edge: Option<f64>,
    /// Mean share of neighbours of a node's own class.
    pub node: Option<f64>,
    /// Excess over the classes' shares of nodes.
    pub class_insensitive: Option<f64>,
    /// Excess over chance, on a scale that ends at 1.
    pub adjusted: Option<f64>,
}

pub(super) fn homophily(graph: &Graph, around: &Lists) -> Homophily {
    let mut by_class = vec![Class::default(); graph.classes];
    let (mut shares, mut with_neighbours) = (0.0, 0usize);
    let labelled = |node: &u32| graph.unlabelled.binary_search(node).is_err();
    let nodes = graph.nodes() - graph.unlabelled.len();
    for (node, label) in (0u32..).zip(&graph.labels).filter(|(node, _)| labelled(node)) {
        let neighbours: Vec<u32> = around.row(node as usize).iter().copied().filter(labelled).collect();
        let same = neighbours.iter().filter(|j| graph.labels[**j as usize] == *label).count();
        let class = &mut by_class[*label as usize];
        class.nodes += 1;
        class.ends += neighbours.len();
        class.same += same;
        if !neighbours.is_empty() {
            shares += ratio(same, neighbours.len());
            with_neighbours += 1;
        }
    }
    let ends: usize = by_class.iter().map(|c| c.ends).sum();
    if ends == 0 {
        return Homophily { edge: None, node: None, class_insensitive: None, adjusted: None };
    }
    let edge = ratio(by_class.iter().map(|c| c.same).sum(), ends);
    let chance: f64 = by_class.iter().map(|c| ratio(c.ends, ends).powi(2)).sum();
    let classes = by_class.iter().filter(|c| c.nodes > 0).count();
    let excess = |c: &Class| (ratio(c.same, c.ends.max(1)) - ratio(c.nodes, nodes)).max(0.0);
    let insensitive = || by_class.iter().map(excess).sum::<f64>() / (classes - 1) as f64;
    Homophily {
        edge: Some(edge),
        node: Some(shares / with_neighbours as f64),
        class_insensitive: (classes > 1).then(insensitive),
        adjusted: (chance < 1.0).then(|| (edge - chance) / (1.0 - chance)),
    }
}

/// Nodes of a class, ends of edges at them, and those of edges within the class.
#[derive(Clone, Default)]
struct Class {
    nodes: usize,
    ends: usize,
    same: usize,
}

fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}
