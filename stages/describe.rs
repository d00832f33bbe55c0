//! `describe`: a graph and its splits in numbers, for tables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Artifact, Estimate, Job, Known, Memory, Slot, Stage, StageError, Term, Work};
use crate::inspect::{PartSizes, describe, part_sizes};
use crate::kinds::{Facts, Graph, Splits, size};

/// Parameters of `describe`: none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct Describe;

impl Stage for Describe {
    const NAME: &'static str = "describe";
    const ABOUT: &'static str = "Counts nodes, links, classes and parts of splits, and how alike neighbours are";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::one("graph", Graph::KIND), Slot::one("splits", Splits::KIND)];
    const TERMS: &'static [Term] = &[Term::alone("links", 1e-7)];
    type Params = Params;
    type Output = Facts;

    fn estimate(_: &Params, known: &Known) -> Estimate {
        let graph = known.sizes("graph");
        let links = graph.or_guess(size::LINKS, 1e5);
        let work = Work::default().and("links", links).shared_by(1);
        Estimate { work, memory: Memory::default().and(links * 24), ..Estimate::default() }
    }

    fn run(_: &Params, job: &Job) -> Result<Facts, StageError> {
        let (graph, splits): (Graph, Splits) = (job.input("graph")?, job.input("splits")?);
        Ok(facts(&graph, &splits))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn facts(graph: &Graph, splits: &Splits) -> Facts {
    let found = describe(graph);
    let counts = &found.counts;
    let one_way = counts.edges_distinct - counts.self_loops;
    let mut facts = Facts::default();
    for (name, count) in [
        ("nodes", counts.nodes),
        ("features", counts.features),
        ("classes", counts.classes),
        ("links", counts.edges_undirected),
        ("arcs", one_way),
        ("arcs-and-loops", one_way + counts.nodes),
        ("isolated", counts.isolated_nodes),
        ("largest-degree", counts.largest_degree),
    ] {
        facts = facts.with(name, [count as f64]);
    }
    let informativeness = found.label_informativeness;
    for (name, share) in [
        ("homophily", found.homophily.edge),
        ("node-homophily", found.homophily.node),
        ("adjusted-homophily", found.homophily.adjusted),
        ("label-informativeness", informativeness.as_ref().map(|found| found.edge)),
        ("shuffled-informativeness", informativeness.as_ref().map(|found| found.shuffled)),
    ] {
        facts = facts.with(name, share);
    }
    let parts = part_sizes(splits);
    for (name, of) in [
        ("train", (|part| part.train) as fn(&PartSizes) -> usize),
        ("val", |part| part.val),
        ("test", |part| part.test),
    ] {
        facts = facts.with(name, parts.iter().map(|part| of(part) as f64));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::testing::graph;
    use crate::kinds::Part;

    #[test]
    fn a_path_with_a_loop_and_an_arc_both_ways_is_counted_by_hand() {
        // 0 – 1 – 2, a loop at 2, and the first link stored both ways.
        let path = graph(&[(0, 1), (1, 0), (1, 2), (2, 2)], vec![0, 0, 1], 2);
        let splits = Splits { parts: vec![vec![Part::Train, Part::Val, Part::Test], vec![Part::Train; 3]] };
        let facts = facts(&path, &splits);
        let of = |name: &str| facts.get(name).unwrap().to_vec();
        assert_eq!([of("nodes"), of("links"), of("arcs"), of("arcs-and-loops")], [[3.0], [2.0], [3.0], [6.0]]);
        assert_eq!(
            [of("classes"), of("isolated"), of("largest-degree"), of("homophily")],
            [[2.0], [0.0], [2.0], [0.5]]
        );
        assert_eq!([of("train"), of("val"), of("test")], [[1.0, 3.0], [1.0, 0.0], [1.0, 0.0]]);
    }

    #[test]
    fn what_a_graph_without_edges_does_not_define_has_no_value() {
        let facts = facts(&graph(&[], vec![0, 1], 2), &Splits { parts: vec![] });
        assert_eq!(facts.get("homophily"), Some(&[][..]));
    }
}
