//! Twins: nodes that are copies of each other as far as links and label can tell.
//!
//! Chameleon and Squirrel contain many clones of pages: no page links to a clone, and it has the links out and the label
//! of its page. A clone in the test set of a page in the training set is a leak, because a model need only remember.
//!
//! Two nodes are twins if they have the same label and the same stored links out (loops as stored), and one of them has
//! no links in or both have the same; a node's own loop is no link in. Nodes without links out are twins only if they
//! have the same links in, and nodes without any edge or without a label have no twins. In a group of nodes with the
//! same label and links out, ordered by the number of links in, most first, then by number, a node stands for itself
//! unless an earlier one has the same links in, or its own links in are none: then it is a duplicate of that one, or of
//! the first.
//!
//! Where every edge is stored in both directions, twins are the nodes of one class with the same neighbours. Such nodes
//! are common where nodes have few neighbours (leaves of one hub), which says nothing about copies: [`Twins::links`]
//! tells how much two nodes share.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::lists::Lists;
use crate::kinds::Graph;

/// Which node stands for which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twins {
    /// For every node the node it is a duplicate of, or itself.
    pub original: Vec<u32>,
    /// For every node the number of links it shares with its twins: those out, or those in if there are none out.
    pub links: Vec<usize>,
}

impl Twins {
    /// Returns the nodes that stand for themselves, ascending.
    pub fn kept(&self) -> Vec<u32> {
        (0u32..).zip(&self.original).filter(|(node, original)| node == *original).map(|(node, _)| node).collect()
    }

    /// Counts groups of two and more twins that share at least `links` links, and the nodes in them.
    pub fn groups(&self, links: usize) -> (usize, usize) {
        let mut sizes = vec![0usize; self.original.len()];
        for (original, _) in self.original.iter().zip(&self.links).filter(|(_, shared)| **shared >= links) {
            sizes[*original as usize] += 1;
        }
        let groups = sizes.iter().filter(|size| **size > 1);
        (groups.clone().count(), groups.sum())
    }
}

/// Finds the twins of a graph. Takes time in proportion to edges · log nodes.
pub fn twins(graph: &Graph) -> Twins {
    let (out, into) = (Lists::out(graph), Lists::into(graph));
    let mut order: Vec<u32> = (0u32..).take(graph.nodes()).collect();
    let alike = |i: u32| (graph.labels[i as usize], out.row(i as usize));
    let links_in = |i: u32| into.row(i as usize);
    order.retain(|i| graph.unlabelled.binary_search(i).is_err());
    order.sort_unstable_by(|a, b| {
        let rank = |i: u32| (Reverse(links_in(i).len()), i);
        alike(*a).cmp(&alike(*b)).then_with(|| rank(*a).cmp(&rank(*b)))
    });
    let mut original: Vec<u32> = (0u32..).take(graph.nodes()).collect();
    for group in order.chunk_by(|a, b| alike(*a) == alike(*b)) {
        // A map only to look things up: its order, which differs from run to run, decides nothing.
        let mut kept: HashMap<&[u32], u32> = HashMap::new();
        for node in group {
            let same = match links_in(*node) {
                [] if alike(*node).1.is_empty() => continue,
                [] => group.first(),
                links => Some(&*kept.entry(links).or_insert(*node)),
            };
            original[*node as usize] = same.copied().unwrap_or(*node);
        }
    }
    let shared = |i: usize| if out.row(i).is_empty() { into.row(i).len() } else { out.row(i).len() };
    Twins { original, links: (0..graph.nodes()).map(shared).collect() }
}
