//! What `load` takes and makes, before it runs: by the parameters of a generator, by `expect`, else by the size of the files.

use super::{Expect, Filter, Params};
use crate::contract::bounded;
use crate::contract::{Chosen, Estimate, Memory, Size, Sizes, Sureness, Term, Work};
use crate::formats::FormatDef;
use crate::kinds::size;

/// Bytes that are read and decoded.
const READ: &str = "read";
/// Random numbers that are drawn.
const DRAW: &str = "draw";
/// Edges, which are sorted and written.
const EDGES: &str = "edges";
/// Values of features, which are written.
const VALUES: &str = "values";

pub(super) const TERMS: &[Term] =
    &[Term::alone(READ, 6e-9), Term::alone(DRAW, 1.2e-8), Term::alone(EDGES, 4e-8), Term::alone(VALUES, 1.5e-9)];

pub(super) fn estimate(params: &Params, format: Chosen<FormatDef>) -> Estimate {
    let files = format.files();
    let lengths = files.iter().filter_map(|file| Some(bounded::regular(file).ok()?.len()));
    #[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^53")]
    let bytes = Size::about(lengths.sum::<u64>() as f64);
    let said = of_files(bytes, files.is_empty()).overlaid(format.sizes());
    let mut sizes = params.expect.as_ref().map_or(said.clone(), |expect| said.overlaid(expected(expect)));
    if let Some(draw) = &params.masks {
        sizes = sizes.with(size::SPLITS, draw.count);
    }
    let [nodes, edges, stored, splits] =
        [size::NODES, size::EDGES, size::STORED, size::SPLITS].map(|name| sizes.or_guess(name, 1.0));
    let drawn = if files.is_empty() { stored + edges * 2 } else { Size::ZERO };
    let work = Work::default().and(READ, bytes).and(DRAW, drawn).and(EDGES, edges).and(VALUES, stored).shared_by(1);
    // Edges three times and sorted once; lists that grow have room to spare.
    let masks = nodes * splits * 3;
    let memory = Memory::default()
        .and(bytes)
        .and_for(
            edges * 40,
            if files.is_empty() { "lower `degree` or `nodes`" } else { "use a graph with fewer edges" },
        )
        .and_for(
            stored * 12 + nodes * 100,
            if files.is_empty() { "lower `features` or `nodes`" } else { "use a smaller graph" },
        )
        .and_for(masks, "lower `count` of `masks`");
    if params.filter != Filter::None {
        // Nobody knows how many nodes it leaves.
        sizes = sizes.at_most(Sureness::About);
    }
    Estimate { sizes, work, memory, notes: Vec::new() }
}

/// What files of this size usually hold.
fn of_files(bytes: Size, none: bool) -> Sizes {
    if none {
        return Sizes::default();
    }
    let guess = |share: f64| (bytes * share).max(10.0).at_most(Sureness::Guess);
    let (nodes, edges) = (guess(1.0 / 2000.0), guess(1.0 / 100.0));
    Sizes::default()
        .with(size::NODES, nodes)
        .with(size::FEATURES, Size::guess(500.0))
        .with(size::STORED, guess(1.0 / 50.0))
        .with(size::CLASSES, Size::guess(5.0))
        .with(size::EDGES, edges)
        .with(size::LINKS, edges)
        .with(size::SPLITS, Size::guess(10.0))
}

/// What the file must hold, or loading fails.
fn expected(expect: &Expect) -> Sizes {
    let values = expect.nodes.zip(expect.features).map(|(nodes, features)| Size::exact(nodes * features));
    // Bags of words have a few values in a hundred; short rows are seldom sparse.
    let sparse = expect.features.is_some_and(|features| features > 400);
    let stored = values.map(|all| if sparse { all * Size::guess(0.03) } else { all.at_most(Sureness::About) });
    Sizes::default()
        .with_some(size::NODES, expect.nodes)
        .with_some(size::FEATURES, expect.features)
        .with_some(size::CLASSES, expect.classes)
        .with_some(size::EDGES, expect.edges_distinct.map(|edges| Size::exact(edges).at_most(Sureness::About)))
        .with_some(size::LINKS, expect.edges_undirected)
        .with_some(size::SPLITS, expect.splits)
        .with_some(size::STORED, stored)
}
