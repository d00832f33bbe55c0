//! What a model takes per epoch: its formula, counted instead of computed.
//!
//! A model lists its operations in the order of its formula; each adds what it computes and what it keeps for the way back. All
//! amounts are of one lane and one epoch: the training pass with its way back, and the evaluation that rides along. `train`
//! multiplies by lanes and epochs, and knows the seconds of a unit ([`TERMS`]). Lanes of a batch share the calls of operations.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::contract::{Known, Size, Sizes, Term};
use crate::kinds::size;

/// The kinds of work in an epoch, with the seconds of a unit.
pub const TERMS: &[Term] = &[
    Term::shared(GATHER, 1.1e-10),
    Term::shared(PRODUCT, 4.0e-11),
    Term::shared(HOPS, 2.0e-10),
    Term::shared(PAIRS, 2.5e-11),
    Term::shared(UNITS, 6.0e-10),
    Term::shared(WEIGHTS, 1.0e-9),
    Term::alone(CALLS, 3.0e-5),
];

/// Stored features × columns.
const GATHER: &str = "gather";
/// Multiplications of dense products.
const PRODUCT: &str = "product";
/// Entries of an operator × columns.
const HOPS: &str = "hops";
/// Eigenpairs × nodes × columns.
const PAIRS: &str = "pairs";
/// Values that are touched one by one: activations, masks, losses.
const UNITS: &str = "units";
/// Values that the optimiser updates.
const WEIGHTS: &str = "weights";
/// Operations, each of which costs something however small it is and however many lanes it has.
pub const CALLS: &str = "operations";

/// The graph that a model is trained on, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSizes {
    /// Nodes.
    pub nodes: Size,
    /// Classes.
    pub classes: Size,
    /// Features per node.
    pub features: Size,
    /// Values of the features that are stored.
    pub stored: Size,
    /// Entries of the operator.
    pub entries: Size,
    /// Those on its diagonal; `None` if it is not known whether there are any.
    pub loops: Option<usize>,
    /// Entries of the second operator; none if there is none.
    pub second_entries: Size,
    /// Those on its diagonal; `None` if it is not known whether there are any.
    pub second_loops: Option<usize>,
    /// Relations that some pair of nodes has; none if there are none.
    pub relations: Size,
    /// Pairs of related nodes.
    pub related: Size,
    /// Eigenpairs of the low side and of the high side; none if there is no spectrum.
    pub pairs: [Size; 2],
    /// Separated hops with their entries; `None` if there are none.
    pub hops: Option<Vec<(usize, Size)>>,
}

impl GraphSizes {
    /// What is known of the inputs of `train`.
    pub fn of(known: &Known) -> Self {
        let (operator, data, spectrum) = (known.sizes("operator"), known.sizes("nodes"), known.sizes("spectrum"));
        let nodes = data.get(size::NODES).or(operator.get(size::NODES)).unwrap_or(Size::guess(5000.0));
        let features = data.or_guess(size::FEATURES, 500.0);
        let side =
            |sizes: &Sizes, name| if known.count("spectrum") > 0 { sizes.or_guess(name, 256.0) } else { Size::ZERO };
        let (second, relations) = (known.input("second-operator"), known.input("relations"));
        Self {
            nodes,
            classes: data.or_guess(size::CLASSES, 5.0),
            features,
            stored: data.get(size::STORED).unwrap_or_else(|| (nodes * features * 0.1).min(Size::guess(f64::MAX))),
            entries: operator.get(size::ENTRIES).unwrap_or_else(|| nodes * Size::guess(12.0)),
            loops: operator.known(size::LOOPS),
            second_entries: second
                .map_or(Size::ZERO, |second| second.sizes.get(size::ENTRIES).unwrap_or(nodes * Size::guess(100.0))),
            second_loops: second.and_then(|second| second.sizes.known(size::LOOPS)),
            relations: relations.map_or(Size::ZERO, |relations| relations.sizes.or_guess(size::RELATIONS, 9.0)),
            related: relations.map_or(Size::ZERO, |relations| {
                relations.sizes.get(size::ENTRIES).unwrap_or(nodes * Size::guess(20.0))
            }),
            pairs: [side(&spectrum, size::LOW), side(&spectrum, size::HIGH)],
            hops: known.input("hops").map(|hops| separated(&hops.sizes, nodes)),
        }
    }

    /// Returns the same with propagated features, which are less sparse with every hop.
    #[must_use]
    pub fn propagated(&self, order: usize) -> Self {
        let degree = (self.entries / self.nodes).value.max(1.0);
        let reached = degree.powi(i32::try_from(order).unwrap_or(i32::MAX));
        let stored = (self.stored * Size::about(reached)).min(self.nodes * self.features);
        Self { stored, ..self.clone() }
    }

    /// Returns whether every value of the features is stored.
    pub fn is_dense(&self) -> bool {
        self.stored.value >= self.nodes.value * self.features.value
    }
}

/// Every separated hop with its entries: as they are, or in equal shares.
fn separated(sizes: &Sizes, nodes: Size) -> Vec<(usize, Size)> {
    let hops = sizes.list(size::HOPS).unwrap_or_default();
    let all = sizes.get(size::ENTRIES).unwrap_or(nodes * Size::guess(200.0));
    match sizes.list(size::HOP_ENTRIES).filter(|entries| entries.len() == hops.len()) {
        Some(entries) => hops.iter().copied().zip(entries.iter().map(|entries| Size::exact(*entries))).collect(),
        None => hops.iter().map(|hop| (*hop, all / hops.len().max(1))).collect(),
    }
}

/// The work of one lane and epoch, and what it keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelWork {
    graph: GraphSizes,
    amounts: BTreeMap<&'static str, Size>,
    /// Operations of a pass, and of the way back.
    pub calls: f64,
    /// Trained values.
    pub weights: Size,
    /// Values that are held at a time for one pass and the way back.
    pub held: Size,
    /// Values of the largest activation, twice where it is propagated.
    pub widest: Size,
    /// What most of it comes from, as a parameter that a person can lower.
    pub remedy: &'static str,
}

impl ModelWork {
    /// Begins with nothing but the loss.
    pub fn on(graph: &GraphSizes) -> Self {
        let logits = graph.nodes * graph.classes;
        let new = Self {
            graph: graph.clone(),
            amounts: BTreeMap::new(),
            calls: 0.0,
            weights: Size::ZERO,
            held: logits * 4,
            widest: logits,
            remedy: "lower `hidden`, or train on fewer splits at a time",
        };
        new.plus(UNITS, logits * 4, 4.0)
    }

    fn plus(mut self, term: &'static str, amount: Size, calls: f64) -> Self {
        let sum = self.amounts.get(term).map_or(amount, |before| *before + amount);
        self.amounts.insert(term, sum);
        self.calls += calls;
        self
    }

    fn keeps(mut self, columns: Size, tensors: f64) -> Self {
        let values = self.graph.nodes * columns;
        self.held = self.held + values * tensors;
        self.widest = self.widest.max(values);
        self
    }

    /// X·W with dropout on X, in this many training passes with masks of their own.
    #[must_use]
    pub fn features(self, columns: impl Into<Size>, passes: usize) -> Self {
        let (graph, columns, passes) = (self.graph.clone(), columns.into(), Size::from(passes));
        // Training passes and the evaluation forward; the weights' gradients of all passes on the way back.
        let sides = passes * 2 + 1;
        let trained = self.trained(graph.features * columns);
        let counted = if graph.is_dense() {
            trained.plus(PRODUCT, graph.nodes * graph.features * columns * sides, 6.0)
        } else {
            trained.plus(GATHER, graph.stored * columns * sides, 6.0)
        };
        let mut counted = counted.plus(UNITS, graph.stored * passes, 0.0).keeps(columns, 1.0 + 2.0 * passes.value);
        if !graph.is_dense() {
            counted.held = counted.held + graph.stored * passes;
        }
        counted
    }

    /// Z·W of activations.
    #[must_use]
    pub fn dense(self, inputs: impl Into<Size>, outputs: impl Into<Size>) -> Self {
        let (nodes, inputs, outputs) = (self.graph.nodes, inputs.into(), outputs.into());
        self.trained(inputs * outputs).plus(PRODUCT, nodes * inputs * outputs * 4, 4.0).keeps(outputs, 3.0)
    }

    /// ReLU, dropout, sums and the like of activations with this many columns.
    #[must_use]
    pub fn units(self, columns: impl Into<Size>) -> Self {
        let (nodes, columns) = (self.graph.nodes, columns.into());
        self.plus(UNITS, nodes * columns * 3, 3.0).keeps(columns, 3.0)
    }

    /// Masks on activations of this many columns, there and back, where what is left is not kept.
    #[must_use]
    pub fn masked(self, columns: impl Into<Size>) -> Self {
        let nodes = self.graph.nodes;
        self.plus(UNITS, nodes * columns.into() * 2, 0.0)
    }

    /// Says that hidden units of this many columns are propagated, see [`Build::widest`](super::Build::widest).
    #[must_use]
    pub fn propagated(mut self, columns: impl Into<Size>) -> Self {
        self.widest = self.widest.max(self.graph.nodes * columns.into() * 2);
        self
    }

    /// This many products of the operator with activations.
    #[must_use]
    pub fn hops(self, count: impl Into<Size>, columns: impl Into<Size>) -> Self {
        let entries = self.graph.entries;
        self.products(entries, count.into(), columns.into())
    }

    /// The same with the second operator.
    #[must_use]
    pub fn second_hops(self, count: impl Into<Size>, columns: impl Into<Size>) -> Self {
        let entries = self.graph.second_entries;
        self.products(entries, count.into(), columns.into())
    }

    fn products(self, entries: Size, count: Size, columns: Size) -> Self {
        let nodes = self.graph.nodes;
        // Training, evaluation, and the way back.
        let columns_touched = count * columns * 3;
        self.plus(HOPS, entries * columns_touched, 3.0).plus(UNITS, nodes * columns_touched, 0.0).keeps(columns, 5.0)
    }

    /// A product with the matrices of all relations; every relation has this many columns.
    #[must_use]
    pub fn related(self, columns: impl Into<Size>) -> Self {
        let GraphSizes { nodes, relations, related, .. } = self.graph;
        // Training, evaluation, and the way back.
        let (columns, sides) = (columns.into(), 3);
        let work = self.plus(HOPS, related * columns * sides, 3.0);
        work.plus(UNITS, nodes * relations * columns * sides, 0.0).keeps(relations * columns, 3.0)
    }

    /// A sum over neighbours with a trained gate for every entry.
    #[must_use]
    pub fn gated_sum(self, columns: impl Into<Size>) -> Self {
        let (entries, columns) = (self.graph.entries, columns.into());
        // On the way back, the gradients of gates are as much as a product; gates are made three times.
        let mut work = self.products(entries, Size::ONE, columns).plus(HOPS, entries * columns, 0.0);
        work = work.plus(UNITS, entries * 6, 0.0);
        work.held = work.held + entries;
        work
    }

    /// Attention of some heads, `columns` of all of them together.
    #[must_use]
    pub fn attention(self, columns: impl Into<Size>, heads: usize) -> Self {
        let (nodes, entries, columns) = (self.graph.nodes, self.graph.entries, columns.into());
        // A product for scores and one for the sum, for training and evaluation; on the way back scores anew, the gradients of weights,
        // and two sums. Weights are made three times, of exponentials.
        let mut work = self.plus(HOPS, entries * columns * 8, 4.0).plus(UNITS, entries * heads * 24, 0.0);
        work = work.plus(UNITS, nodes * columns * 3, 0.0).keeps(columns, 5.0);
        work.held = work.held + entries * heads * 3;
        work.widest = work.widest.max(nodes * columns * 2).max(entries * heads);
        work
    }

    /// A loss on pairs of nodes, `share` for every entry of the operator.
    #[must_use]
    pub fn links(self, share: f64, columns: impl Into<Size>) -> Self {
        let (pairs, columns) = (self.graph.entries * share, columns.into());
        // A product for logits, and one for the gradients of either end; pairs are drawn, and sorted by their ends.
        let mut work = self.plus(HOPS, pairs * columns * 3, 4.0).plus(UNITS, pairs * 24, 0.0).keeps(columns, 1.0);
        work.held = work.held + pairs * 9;
        work
    }

    /// A sum over separated hops.
    #[must_use]
    pub fn hop_sum(self, hops: &[usize], columns: impl Into<Size>) -> Self {
        let usual = self.graph.nodes * Size::guess(50.0);
        let there = self.graph.hops.clone().unwrap_or_default();
        let entries =
            hops.iter().map(|hop| there.iter().find(|(l, _)| l == hop).map_or(usual, |(_, entries)| *entries));
        let (entries, columns) = (entries.sum::<Size>(), columns.into());
        self.products(entries, Size::ONE, columns).units(columns)
    }

    /// Filtering with this many eigenpairs.
    #[must_use]
    pub fn filter(self, pairs: impl Into<Size>, columns: impl Into<Size>) -> Self {
        let (nodes, pairs, columns) = (self.graph.nodes, pairs.into(), columns.into());
        self.plus(PAIRS, pairs * nodes * columns * 6, 12.0).keeps(columns, 5.0)
    }

    /// U(h ⊙ UᵀX·W) with this many eigenpairs: forward once for training and evaluation, and back.
    #[must_use]
    pub fn synthesis(self, pairs: impl Into<Size>, columns: impl Into<Size>) -> Self {
        let (nodes, features) = (self.graph.nodes, self.graph.features);
        let (pairs, columns) = (pairs.into(), columns.into());
        let work = self.plus(PAIRS, pairs * nodes * columns * 2, 6.0).keeps(columns, 4.0);
        work.plus(PRODUCT, pairs * features * columns * 2, 4.0)
    }

    /// Further values that are trained.
    #[must_use]
    pub fn trained(mut self, values: impl Into<Size>) -> Self {
        let values = values.into();
        self.weights = self.weights + values;
        self.plus(WEIGHTS, values, 1.0)
    }

    /// Returns the amounts by term, without [`CALLS`].
    pub fn amounts(&self) -> impl Iterator<Item = (&'static str, Size)> {
        self.amounts.iter().map(|(term, amount)| (*term, *amount))
    }

    /// What a model takes that does not say it: a network with as many hidden units and products with the operator as its
    /// parameters sound like.
    pub fn unsaid(params: &Value, needs_spectrum: bool, graph: &GraphSizes) -> Self {
        let number = |names: &[&str]| {
            let found = names.iter().find_map(|name| params.get(*name)?.as_f64());
            found.map(Size::about)
        };
        let hidden = number(&["hidden", "units", "width"]).unwrap_or(Size::guess(64.0))
            * number(&["heads"]).unwrap_or(Size::ONE);
        let hops = number(&["order", "hops", "layers", "depth", "k"]).unwrap_or(Size::guess(2.0));
        let mut work = Self::on(graph).features(hidden, 1).units(hidden).dense(hidden, graph.classes);
        work = work.hops(hops, graph.classes).hops(Size::guess(1.0), hidden);
        if needs_spectrum {
            work = work.filter(graph.pairs[0] + graph.pairs[1], graph.classes);
        }
        work
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::Sureness;

    /// 100 nodes, 3 classes, 20 features of which 200 values are stored, 500 entries, 8 and 7 pairs.
    pub(crate) fn graph() -> GraphSizes {
        GraphSizes {
            nodes: Size::exact(100),
            classes: Size::exact(3),
            features: Size::exact(20),
            stored: Size::exact(200),
            entries: Size::exact(500),
            loops: Some(100),
            second_entries: Size::ZERO,
            second_loops: None,
            relations: Size::ZERO,
            related: Size::ZERO,
            pairs: [Size::exact(8), Size::exact(7)],
            hops: None,
        }
    }

    fn amount(work: &ModelWork, term: &str) -> f64 {
        work.amounts().find(|(name, _)| *name == term).map_or(0.0, |(_, amount)| amount.value)
    }

    #[test]
    fn every_operation_adds_what_it_computes() {
        let work = ModelWork::on(&graph()).features(16, 1).units(16).dense(16, 3).hops(4, 3).filter(15, 3);
        assert_eq!(amount(&work, GATHER), 200.0 * 16.0 * 3.0);
        assert_eq!(amount(&work, PRODUCT), 100.0 * 16.0 * 3.0 * 4.0);
        assert_eq!(amount(&work, HOPS), 500.0 * 4.0 * 3.0 * 3.0);
        assert_eq!(amount(&work, PAIRS), 15.0 * 100.0 * 3.0 * 6.0);
        assert_eq!((work.weights.known(), work.calls), (Some(20 * 16 + 16 * 3), 4.0 + 7.0 + 3.0 + 5.0 + 3.0 + 12.0));
        assert_eq!(work.widest.known(), Some(100 * 16));
        assert!(work.amounts().all(|(name, _)| TERMS.iter().any(|term| term.name == name)));
    }

    #[test]
    fn gates_cost_a_fourth_product_and_hold_a_number_per_entry() {
        let (before, work) = (ModelWork::on(&graph()), ModelWork::on(&graph()).gated_sum(16));
        assert_eq!(amount(&work, HOPS), 500.0 * 16.0 * 4.0);
        assert_eq!(amount(&work, UNITS) - amount(&before, UNITS), 100.0 * 16.0 * 3.0 + 500.0 * 6.0);
        assert_eq!((work.held.value - before.held.value, work.calls - before.calls), (100.0 * 16.0 * 5.0 + 500.0, 3.0));
    }

    #[test]
    fn attention_takes_eight_products_and_holds_numbers_per_entry_and_head() {
        let (before, work) = (ModelWork::on(&graph()), ModelWork::on(&graph()).attention(16, 8));
        assert_eq!(amount(&work, HOPS), 500.0 * 16.0 * 8.0);
        assert_eq!(amount(&work, UNITS) - amount(&before, UNITS), 500.0 * 8.0 * 24.0 + 100.0 * 16.0 * 3.0);
        assert_eq!(work.held.value - before.held.value, 100.0 * 16.0 * 5.0 + 500.0 * 8.0 * 3.0);
        assert_eq!(work.widest.known(), Some(500 * 8));
        let work = before.clone().links(1.2, 16);
        assert_eq!(amount(&work, HOPS), 600.0 * 16.0 * 3.0);
        assert_eq!(work.held.value - before.held.value, 100.0 * 16.0 + 600.0 * 9.0);
    }

    #[test]
    fn relations_are_one_product_over_all_pairs_and_keep_a_part_each() {
        let graph = GraphSizes { relations: Size::exact(9), related: Size::exact(700), ..graph() };
        let (before, work) = (ModelWork::on(&graph), ModelWork::on(&graph).related(16));
        assert_eq!(amount(&work, HOPS), 700.0 * 16.0 * 3.0);
        assert_eq!(amount(&work, UNITS) - amount(&before, UNITS), 100.0 * 9.0 * 16.0 * 3.0);
        assert_eq!(work.widest.known(), Some(100 * 9 * 16));
    }

    #[test]
    fn dense_features_are_a_dense_product() {
        let dense = GraphSizes { stored: Size::exact(2000), ..graph() };
        let work = ModelWork::on(&dense).features(16, 2);
        assert_eq!((amount(&work, GATHER), amount(&work, PRODUCT)), (0.0, 100.0 * 20.0 * 16.0 * 5.0));
    }

    #[test]
    fn a_model_that_says_nothing_is_guessed_by_its_parameters() {
        let of = |params: Value| ModelWork::unsaid(&params, true, &graph());
        let (small, large) =
            (of(serde_json::json!({"hidden": 8})), of(serde_json::json!({"hidden": 800, "order": 20})));
        assert!(large.widest.value > 50.0 * small.widest.value && amount(&large, HOPS) > 5.0 * amount(&small, HOPS));
        assert!(small.amounts().any(|(_, amount)| amount.sure == Sureness::Guess));
        assert!(amount(&small, PAIRS) > 0.0 && amount(&ModelWork::unsaid(&Value::Null, false, &graph()), PAIRS) == 0.0);
    }
}
