//! Exact reductions of a symmetric eigenproblem, before anything is iterated.
//!
//! - **Twins.** Nodes i and j whose rows agree outside the columns i and j, with equal diagonal entries a and the entry c
//!   between them (in a graph: the same neighbours, apart from each other), have the eigenvector eᵢ − eⱼ with eigenvalue
//!   a − c. A group of t twins gives t − 1 such pairs at no cost; every other eigenvector is constant on the group, so that
//!   the group can be one node of a smaller symmetric matrix, the quotient: with P: n × groups the matrix whose columns are
//!   the normalised indicators of the groups, B = PᵀAP, and a pair (λ, y) of B is the pair (λ, Py) of A.
//! - **Components.** The spectrum of a disconnected graph is the union of the spectra of its components.
//!
//! Real graphs have many of both: half of Chameleon are twins, a third of Pubmed. What is left is smaller, and free of
//! the repeated eigenvalues that iterative solvers find hard.

use super::super::csr::Csr;

/// A group of twins: nodes that an automorphism of the matrix exchanges.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TwinGroup {
    /// The eigenvalue of their differences.
    pub value: f64,
    /// The nodes, ascending.
    pub members: Vec<u32>,
}

/// A connected part of the quotient.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The quotient matrix.
    pub matrix: Csr,
    /// For every row of it the nodes that it stands for, ascending.
    pub groups: Vec<Vec<u32>>,
    /// Twins among its nodes, by their smallest node.
    pub twins: Vec<TwinGroup>,
}

impl Part {
    /// Returns how many nodes of the graph it stands for.
    pub fn nodes(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// Writes a vector of the quotient as one of the graph: Py.
    pub fn lift(&self, y: &[f64], into: &mut [f64]) {
        for (group, y) in self.groups.iter().zip(y) {
            let value = y / root(group.len());
            group.iter().for_each(|i| into[*i as usize] = value);
        }
    }
}

impl TwinGroup {
    /// Returns how many eigenvectors they give.
    pub fn pairs(&self) -> usize {
        self.members.len() - 1
    }

    /// Writes the eigenvector of place `j`: one on the first j + 1 members, −(j + 1) on the next, normalised. These are
    /// orthogonal to each other and to everything that is constant on the group.
    pub fn vector(&self, j: usize, into: &mut [f64]) {
        let scale = 1.0 / root((j + 1) * (j + 2));
        self.members[..=j].iter().for_each(|i| into[*i as usize] = scale);
        into[self.members[j + 1] as usize] = -scale * count(j + 1);
    }
}

pub(super) fn root(nodes: usize) -> f64 {
    count(nodes).sqrt()
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 nodes")]
fn count(nodes: usize) -> f64 {
    nodes as f64
}

/// Splits a symmetric matrix into connected parts without twins: those of most nodes first, ties by the smallest node.
pub(super) fn reduce(a: &Csr) -> Vec<Part> {
    let groups = groups(a);
    let mut group_of = vec![0u32; a.n()];
    for (g, group) in (0u32..).zip(&groups) {
        group.iter().for_each(|i| group_of[*i as usize] = g);
    }
    let mut seen = vec![false; groups.len()];
    let mut parts = Vec::new();
    for start in (0u32..).take(groups.len()) {
        if !seen[start as usize] {
            parts.push(part(a, &groups, &group_of, &reachable(a, &groups, &group_of, start, &mut seen)));
        }
    }
    // Stable: parts were found by their smallest node.
    parts.sort_by_key(|part| std::cmp::Reverse(part.nodes()));
    parts
}

/// Groups of twins and single nodes, by their smallest node.
fn groups(a: &Csr) -> Vec<Vec<u32>> {
    let mut grouped = vec![false; a.n()];
    let mut found: Vec<Vec<u32>> = Vec::new();
    for kind in [Kind::Adjacent, Kind::Apart] {
        let mut order: Vec<u32> = (0u32..).take(a.n()).filter(|i| !grouped[*i as usize]).collect();
        // Stable, so that twins stay in ascending order.
        order.sort_by(|i, j| neighbours(a, *i, kind).cmp(neighbours(a, *j, kind)));
        for group in order.chunk_by(|i, j| are_twins(a, *i, *j, kind)).filter(|group| group.len() > 1) {
            group.iter().for_each(|i| grouped[*i as usize] = true);
            found.push(group.to_vec());
        }
    }
    found.extend((0u32..).zip(&grouped).filter(|(_, grouped)| !**grouped).map(|(i, _)| vec![i]));
    found.sort_by_key(|group| group[0]);
    found
}

/// Whether twins are neighbours of each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Adjacent,
    Apart,
}

/// Columns of a row outside the diagonal; those of adjacent twins agree if each counts itself.
fn neighbours(a: &Csr, i: u32, kind: Kind) -> impl Iterator<Item = u32> {
    let (columns, _) = a.row(i as usize);
    let (before, after) = columns.split_at(columns.partition_point(|c| *c < i));
    let own = (kind == Kind::Adjacent).then_some(i);
    before.iter().copied().chain(own).chain(after.iter().copied().filter(move |c| *c != i))
}

/// Nodes without neighbours are parts of their own, and have no twins.
fn are_twins(a: &Csr, i: u32, j: u32, kind: Kind) -> bool {
    let others = |i: u32, j: u32| {
        let (columns, values) = a.row(i as usize);
        columns.iter().zip(values).filter(move |(c, _)| **c != i && **c != j).map(|(c, v)| (*c, v.to_bits()))
    };
    neighbours(a, i, kind).eq(neighbours(a, j, kind))
        && neighbours(a, i, Kind::Apart).next().is_some()
        && entry(a, i, i).to_bits() == entry(a, j, j).to_bits()
        && others(i, j).eq(others(j, i))
}

fn entry(a: &Csr, i: u32, j: u32) -> f64 {
    a.get(i as usize, j as usize)
}

/// Groups that are connected with `start`, ascending.
fn reachable(a: &Csr, groups: &[Vec<u32>], group_of: &[u32], start: u32, seen: &mut [bool]) -> Vec<u32> {
    seen[start as usize] = true;
    let mut component = vec![start];
    let mut next = 0;
    while let Some(&group) = component.get(next) {
        next += 1;
        // A group's rows reach the same groups.
        for neighbour in a.row(groups[group as usize][0] as usize).0 {
            let other = group_of[*neighbour as usize];
            if !std::mem::replace(&mut seen[other as usize], true) {
                component.push(other);
            }
        }
    }
    component.sort_unstable();
    component
}

/// The quotient of connected groups.
fn part(a: &Csr, groups: &[Vec<u32>], group_of: &[u32], component: &[u32]) -> Part {
    let (mut indptr, mut indices, mut values) = (vec![0u64], Vec::new(), Vec::new());
    let mut twins = Vec::new();
    for g in component {
        let group = &groups[*g as usize];
        let first = group[0];
        let (own, between) = (entry(a, first, first), group.get(1).map_or(0.0, |second| entry(a, first, *second)));
        let (columns, entries) = a.row(first as usize);
        for (column, value) in columns.iter().zip(entries) {
            let other = &groups[group_of[*column as usize] as usize];
            // One entry for a group, that of its smallest node; groups are numbered by it, so columns ascend.
            let Ok(at) = component.binary_search(&group_of[*column as usize]) else { continue };
            if other[0] == *column && other[0] != first {
                indices.push(u32::try_from(at).unwrap_or(u32::MAX));
                values.push(value * root(group.len() * other.len()));
            }
        }
        // The diagonal: what a twin has for itself and from the others.
        let diagonal = own + between * count(group.len() - 1);
        if diagonal != 0.0 {
            let row = usize::try_from(indptr[indptr.len() - 1]).unwrap_or(usize::MAX);
            let me = u32::try_from(indptr.len() - 1).unwrap_or(u32::MAX);
            let at = row + indices[row..].partition_point(|c| *c < me);
            indices.insert(at, me);
            values.insert(at, diagonal);
        }
        indptr.push(indices.len() as u64);
        if group.len() > 1 {
            twins.push(TwinGroup { value: own - between, members: group.clone() });
        }
    }
    let matrix = Csr::new(component.len(), indptr, indices, values).unwrap_or_default();
    Part { matrix, groups: component.iter().map(|g| groups[*g as usize].clone()).collect(), twins }
}
