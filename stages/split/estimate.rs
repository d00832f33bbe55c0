//! What `split` takes and makes, before it runs: also which classes will have no node in a part.

use super::{Method, Params, Unlabelled, drawn, labelled, leave_out, no_masks, rounded_away};
use crate::contract::{Estimate, Known, Memory, Size, Sizes, StageError, Work};
use crate::kinds::{Graph, Part, size};

/// The most lacks that are listed: more would be told to nobody.
const MOST_LISTED: usize = 200;

pub(super) fn estimate(params: &Params, known: &Known) -> Estimate {
    let graph = known.sizes("graph");
    let nodes = graph.or_guess(size::NODES, 5000.0);
    let asked = Size::exact(params.count);
    let count = match params.method {
        Method::File => graph.get(size::SPLITS).unwrap_or(Size::guess(10.0)).min(asked),
        Method::Stratified | Method::PerClass => asked,
    };
    let sizes = Sizes::default().with(size::NODES, nodes).with(size::SPLITS, count);
    Estimate {
        sizes: divided(params, known)
            .into_iter()
            .flatten()
            .fold(sizes, |sizes, (name, list)| sizes.with_list(name, list)),
        work: Work::default()
            .and("parts", nodes * count)
            .and("edges", graph.or_guess(size::EDGES, 1e5))
            .and("values", graph.or_guess(size::STORED, 1e5))
            .shared_by(1),
        memory: Memory::default()
            .and_for(size::graph_bytes(&graph), "use a smaller graph")
            .and_for(nodes * count * 3, "lower `count`"),
        notes: rounded_away(params, named(class_sizes(known))).into_iter().collect(),
    }
}

/// Sizes of classes with what the classes are called.
fn named(sizes: Option<Vec<usize>>) -> impl Iterator<Item = (String, usize)> {
    sizes.into_iter().flatten().enumerate().map(|(class, members)| (class.to_string(), members))
}

pub(super) fn fits(params: &Params, known: &Known) -> Result<(), StageError> {
    let graph = known.sizes("graph");
    if params.method == Method::File {
        return if graph.known(size::SPLITS) == Some(0) { Err(no_masks()) } else { Ok(()) };
    }
    for (class, members) in class_sizes(known).iter().flatten().enumerate().filter(|(_, members)| **members > 0) {
        drawn(params, *members, || class.to_string())?;
    }
    Ok(())
}

/// Nodes of every class that have a label, from the parameters of a generator or from the graph in the store.
fn class_sizes(known: &Known) -> Option<Vec<usize>> {
    let input = known.input("graph")?;
    if let Some(sizes) = input.sizes.list(size::CLASS_SIZES) {
        return Some(sizes.to_vec());
    }
    Graph::load_labels(input.dir?).ok().map(|graph| labelled(&graph))
}

/// Which classes have no node in which part of which split, and where training nodes have the fewest classes.
fn divided(params: &Params, known: &Known) -> Option<Vec<(&'static str, Vec<usize>)>> {
    let splits: Vec<[Vec<usize>; 3]> = match params.method {
        Method::File => {
            let mut graph = Graph::load_labels(known.input("graph")?.dir?).ok()?;
            let mut masks = graph.masks.take()?;
            masks.parts.truncate(params.count);
            if params.unlabelled == Unlabelled::LeaveOut {
                masks.parts.iter_mut().for_each(|row| leave_out(row, &graph.unlabelled));
            }
            masks.parts.iter().map(|row| counts(row, &graph)).collect()
        }
        // Every split draws as many of a class.
        Method::Stratified | Method::PerClass => {
            let of_class = |members: &usize| match *members {
                0 => Some([0; 3]),
                members => {
                    let (train, val) = drawn(params, members, String::new).ok()?;
                    Some([train, val, members - train - val])
                }
            };
            let classes: Vec<[usize; 3]> = class_sizes(known)?.iter().map(of_class).collect::<Option<_>>()?;
            vec![std::array::from_fn(|part| classes.iter().map(|parts| parts[part]).collect())]
        }
    };
    let mut lists: Vec<(&'static str, Vec<usize>)> = size::LACKS.map(|name| (name, Vec::new())).into();
    let mut least: Option<[usize; 2]> = None;
    for (split, parts) in splits.iter().enumerate() {
        for (part, (_, lacks)) in parts.iter().zip(&mut lists) {
            let absent = (0..part.len()).filter(|class| part[*class] == 0);
            lacks
                .extend(absent.take((MOST_LISTED - lacks.len().min(MOST_LISTED)) / 2).flat_map(|class| [split, class]));
        }
        let classes = parts[0].iter().filter(|nodes| **nodes > 0).count();
        if least.is_none_or(|[_, fewest]| classes < fewest) {
            least = Some([split, classes]);
        }
    }
    lists.extend(least.map(|least| (size::LEAST_CLASSES, least.to_vec())));
    Some(lists)
}

/// Nodes of every class in every part of a split.
fn counts(row: &[Part], graph: &Graph) -> [Vec<usize>; 3] {
    Part::SCORED.map(|(part, _)| {
        let mut counts = vec![0; graph.classes];
        row.iter().zip(&graph.labels).filter(|(p, _)| **p == part).for_each(|(_, label)| counts[*label as usize] += 1);
        counts
    })
}
