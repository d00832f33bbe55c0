//! SuperGAT against dense products, with and without masks and pairs, and what it must not do.

use candle_core::{DType, Device, Tensor};

use super::*;
use crate::kinds::{Features, Matrix, Nodes, Operator};
use crate::math::csr::Csr;
use crate::math::kernels::heads::Heads;
use crate::models::ops::{Mask, Sides};
use crate::models::testing::{self, Built, distance, flat, forward};
use crate::models::{Streams, work};

const LANES: usize = 2;

fn graph() -> GraphView {
    testing::view(DType::F64)
}

fn build(params: &Params, graph: &GraphView) -> Built<SuperGat> {
    let built = testing::build::<SuperGat>(params, graph, LANES);
    // Biases start at 0, where they would hide.
    for name in ["conv1.bias", "conv2.bias"] {
        let bias = built.weights.iter().find(|weight| weight.name == name).unwrap();
        bias.param.set(&testing::normal(bias.param.tensor().dims(), 3)).unwrap();
    }
    built
}

fn small(kind: Kind, heads: usize, out_heads: usize) -> Params {
    Params { kind, hidden: 3, heads, out_heads, dropout: 0.4, edge_loss: 0.8, edges: 0.6, negatives: 0.7 }
}

/// The formula of one lane, written out for dense matrices.
struct ByHand<'a> {
    params: &'a Params,
    built: &'a Built<SuperGat>,
    graph: &'a GraphView,
    lane: usize,
    /// Where masks and pairs are drawn from, in training.
    streams: Option<Streams>,
}

impl ByHand<'_> {
    fn weight(&self, name: &str) -> Tensor {
        self.built.weight(name).get(self.lane).unwrap()
    }

    fn dropped(&mut self, x: &Tensor, purpose: &'static str) -> Tensor {
        let Some(streams) = &mut self.streams else { return x.clone() };
        let mask = Mask::draw(streams.open(purpose), x.elem_count(), self.params.dropout);
        let factors: Vec<f64> = (0..x.elem_count()).map(|at| mask.factor(at)).collect();
        (x * Tensor::from_vec(factors, x.dims(), &Device::Cpu).unwrap()).unwrap()
    }

    /// What the weights of attention are multiplied with, nodes × nodes for every head.
    fn on_entries(&mut self, heads: usize) -> Vec<Vec<f64>> {
        let (matrix, n, p) = (self.graph.operator.matrix(), self.graph.nodes, self.params.dropout);
        let (side, entries) = (Heads { count: heads, features: 1 }.side(), matrix.indices.len());
        let count = entries * side * heads.div_ceil(16);
        let mask = self.streams.as_mut().map(|streams| Mask::draw(streams.open("dropout/attention"), count, p));
        let head = |head: usize| {
            let mut full = vec![0.0; n * n];
            for (i, at) in (0..n).flat_map(|i| matrix.range(i).map(move |at| (i, at))) {
                let bit = head / 16 * entries * side + at * side + head % 16;
                full[i * n + matrix.indices[at] as usize] = mask.as_ref().map_or(1.0, |mask| mask.factor(bit));
            }
            full
        };
        (0..heads).map(head).collect()
    }

    /// The sums of every head of a layer, nodes × f each.
    fn layer(&mut self, x: &Tensor, names: &Names, heads: usize) -> Vec<Tensor> {
        let (n, q) = (self.graph.nodes, x.matmul(&self.weight(names.weight)).unwrap());
        let f = q.dim(1).unwrap() / heads;
        let (q, masks) = (flat(&q), self.on_entries(heads));
        let matrix = self.graph.operator.matrix();
        let a = (self.params.kind == Kind::Mx).then(|| flat(&self.weight(names.vectors)));
        let head = |h: usize| {
            let q = |i: usize, c: usize| q[(i * f + c) * heads + h];
            let score = |i: usize, j: usize| {
                let s: f64 = (0..f).map(|c| q(i, c) * q(j, c)).sum();
                let Some(a) = &a else { return s / (f as f64).sqrt() };
                let both = (0..f).map(|c| a[c * heads + h] * q(i, c) + a[(f + c) * heads + h] * q(j, c));
                both.sum::<f64>() / (1.0 + (-s).exp())
            };
            let mut out = vec![0.0; n * f];
            for i in 0..n {
                let near: Vec<usize> = matrix.row(i).0.iter().map(|j| *j as usize).collect();
                let leaky = |e: f64| if e > 0.0 { e } else { 0.2 * e };
                let powers: Vec<f64> = near.iter().map(|j| leaky(score(i, *j)).exp()).collect();
                let sum: f64 = powers.iter().sum();
                for (j, power) in near.into_iter().zip(powers) {
                    let weight = power / sum * masks[h][i * n + j];
                    (0..f).for_each(|c| out[i * f + c] += weight * q(j, c));
                }
            }
            Tensor::from_vec(out, (n, f), &Device::Cpu).unwrap()
        };
        (0..heads).map(head).collect()
    }

    /// The mean loss of a layer on the pairs that it draws.
    fn link_loss(&mut self, x: &Tensor, names: &Names, heads: usize) -> f64 {
        let Some(streams) = &mut self.streams else { return 0.0 };
        let matrix = self.graph.operator.matrix();
        let count = matrix.indices.len() as f64 * self.params.edges;
        let edges = some_edges(matrix, count as usize, streams.open(names.links[0])).unwrap();
        let count = (count * self.params.negatives) as usize;
        let others = some_others(matrix, count, streams.open(names.links[1])).unwrap();
        assert!(!edges.is_empty() && !others.is_empty());
        let q = x.matmul(&self.weight(names.weight)).unwrap();
        let columns = q.dim(1).unwrap();
        let rows = q.to_vec2::<f64>().unwrap();
        let scale = if self.params.kind == Kind::Mx { 1.0 } else { ((columns / heads) as f64).sqrt() };
        let loss = |[i, j]: &[u32; 2], sign: f64| {
            let dot: f64 = rows[*i as usize].iter().zip(&rows[*j as usize]).map(|(a, b)| a * b).sum();
            (sign * dot / scale / heads as f64).exp().ln_1p()
        };
        let sum = edges.iter().map(|e| loss(e, -1.0)).chain(others.iter().map(|o| loss(o, 1.0))).sum::<f64>();
        sum / (edges.len() + others.len()) as f64
    }

    /// Logits, and the term of the loss.
    fn run(mut self) -> (Tensor, f64) {
        let Params { heads, out_heads, edge_loss, .. } = *self.params;
        let x = self.dropped(&self.graph.features.to_dense().unwrap(), "dropout/features");
        let mut loss = self.link_loss(&x, &FIRST, heads);
        // Heads beside each other: head h of feature c is column c · heads + h.
        let sums = Tensor::stack(&self.layer(&x, &FIRST, heads), 2).unwrap().flatten(1, 2).unwrap();
        let h = sums.broadcast_add(&self.weight("conv1.bias")).unwrap().elu(1.0).unwrap();
        let h = self.dropped(&h, "dropout/hidden");
        loss += self.link_loss(&h, &LAST, out_heads);
        let mean = Tensor::stack(&self.layer(&h, &LAST, out_heads), 2).unwrap().mean(2).unwrap();
        (mean.broadcast_add(&self.weight("conv2.bias")).unwrap(), edge_loss * loss)
    }
}

#[test]
fn logits_are_those_of_dense_products() {
    let graph = graph();
    for (heads, out_heads) in [(8, 8), (1, 1), (3, 2), (16, 17), (20, 5)] {
        for kind in [Kind::Mx, Kind::Sd] {
            let params = small(kind, heads, out_heads);
            let built = build(&params, &graph);
            let logits = built.eval(&graph);
            for lane in 0..LANES {
                let by_hand = ByHand { params: &params, built: &built, graph: &graph, lane, streams: None };
                assert!(distance(&logits.get(lane).unwrap(), &by_hand.run().0) < 1e-12, "{params:?}");
            }
        }
    }
}

#[test]
fn training_drops_features_units_and_attention_and_adds_the_loss_on_pairs_of_both_layers() {
    let graph = graph();
    for (heads, out_heads) in [(8, 8), (1, 3), (3, 1), (17, 2)] {
        for kind in [Kind::Mx, Kind::Sd] {
            let params = small(kind, heads, out_heads);
            let mut built = build(&params, &graph);
            built.streams = testing::streams(LANES);
            let output = forward(&*built.model, &graph, Sides::Train, &mut built.streams);
            let terms = output.term.unwrap().to_vec1::<f64>().unwrap();
            for (lane, streams) in testing::streams(LANES).into_iter().enumerate() {
                let by_hand = ByHand { params: &params, built: &built, graph: &graph, lane, streams: Some(streams) };
                let (logits, term) = by_hand.run();
                assert!(distance(&output.logits.main().get(lane).unwrap(), &logits) < 1e-12, "{params:?}");
                assert!((terms[lane] - term).abs() < 1e-12 && term > 0.1, "{params:?}");
            }
            assert!(distance(output.logits.main(), &built.eval(&graph)) > 1e-3);
        }
    }
}

#[test]
fn pairs_are_drawn_in_training_alone_anew_in_every_pass_and_for_each_layer() {
    let graph = graph();
    let mut built = build(&small(Kind::Mx, 2, 2), &graph);
    let drawn = |built: &Built<SuperGat>| -> Vec<(String, u128)> {
        let all = built.streams.iter().flat_map(Streams::positions);
        all.filter(|(purpose, _)| purpose.starts_with("links/")).map(|(purpose, at)| (purpose, at.words)).collect()
    };
    assert!(forward(&*built.model, &graph, Sides::Eval, &mut built.streams).term.is_none());
    assert!(drawn(&built).is_empty());
    let [first, second] = [0, 1].map(|_| forward(&*built.model, &graph, Sides::Both, &mut built.streams).term.unwrap());
    assert!(drawn(&built).len() == 4 * LANES && distance(&first, &second) > 1e-9);
    let matrix = graph.operator.matrix();
    let mut links = |names: &Names| some_edges(matrix, 20, built.streams[0].open(names.links[0])).unwrap();
    assert_ne!(links(&FIRST), links(&LAST));
}

#[test]
fn without_the_loss_on_edges_nothing_is_drawn_and_everything_else_stays() {
    let graph = graph();
    for kind in [Kind::Mx, Kind::Sd] {
        let with = small(kind, 4, 2);
        let without = Params { edge_loss: 0.0, ..with.clone() };
        let [(logits, _), (plain, purposes)] = [with, without].map(|params| {
            let mut built = build(&params, &graph);
            let output = forward(&*built.model, &graph, Sides::Train, &mut built.streams);
            assert_eq!(output.term.is_some(), params.edge_loss > 0.0);
            let purposes: Vec<String> = built.streams[0].positions().into_keys().collect();
            (output.logits.main().clone(), purposes)
        });
        assert!(purposes.iter().all(|purpose| !purpose.starts_with("links/")));
        assert_eq!(testing::bits(&logits), testing::bits(&plain), "pairs shift no mask");
    }
}

/// The same graph with other numbers of its nodes: node i becomes `to[i]`.
fn renumbered(to: &[usize]) -> GraphView {
    let (operator, nodes, spectrum) = testing::artifacts();
    let n = to.len();
    let mut from = vec![0; n];
    to.iter().enumerate().for_each(|(i, at)| from[*at] = i);
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for i in &from {
        let row: std::collections::BTreeMap<usize, f64> =
            operator.matrix.row(*i).0.iter().map(|j| (to[*j as usize], operator.matrix.get(*i, *j as usize))).collect();
        indices.extend(row.keys().map(|j| *j as u32));
        values.extend(row.into_values());
        indptr.push(indices.len() as u64);
    }
    let dense = nodes.features.to_dense();
    let data = from.iter().flat_map(|i| dense.row(*i).to_vec()).collect();
    let features = Features::Dense(Matrix { rows: n, cols: dense.cols, data });
    let labels = from.iter().map(|i| nodes.labels[*i]).collect();
    let operator = Operator { matrix: Csr::new(n, indptr, indices, values).unwrap() };
    testing::view_of((operator, Nodes { features, labels, ..nodes }, spectrum), DType::F64)
}

#[test]
fn other_numbers_of_the_nodes_permute_the_logits() {
    let graph = graph();
    let to: Vec<usize> = (0..graph.nodes).map(|i| (5 * i + 3) % graph.nodes).collect();
    for kind in [Kind::Mx, Kind::Sd] {
        let params = small(kind, 8, 3);
        let [plain, permuted] = [&graph, &renumbered(&to)].map(|graph| build(&params, graph).eval(graph));
        let order = Tensor::new(to.iter().map(|at| *at as u32).collect::<Vec<_>>(), &Device::Cpu).unwrap();
        assert!(distance(&permuted.index_select(&order, 1).unwrap(), &plain) < 1e-12);
        assert!(distance(&permuted, &plain) > 1e-3);
    }
}

#[test]
fn the_values_of_the_operator_do_not_matter_and_its_pattern_does() {
    let (operator, nodes, spectrum) = testing::artifacts();
    let params = small(Kind::Mx, 2, 2);
    let of = |matrix: Csr| {
        let graph = testing::view_of((Operator { matrix }, nodes.clone(), spectrum.clone()), DType::F64);
        build(&params, &graph).eval(&graph)
    };
    let mut scaled = operator.matrix.clone();
    scaled.values.iter_mut().enumerate().for_each(|(at, value)| *value = 1.0 + at as f64);
    assert_eq!(testing::bits(&of(scaled)), testing::bits(&of(operator.matrix.clone())));
    // Without one of its edges, in both directions.
    let m = &operator.matrix;
    let (i, j) = (0, m.row(0).0.iter().copied().find(|j| *j != 0).unwrap() as usize);
    let keeps = |a: usize, b: usize| (a, b) != (i, j) && (a, b) != (j, i);
    let (mut indptr, mut indices) = (vec![0], Vec::new());
    for a in 0..m.n() {
        indices.extend(m.row(a).0.iter().filter(|b| keeps(a, **b as usize)));
        indptr.push(indices.len() as u64);
    }
    let values = vec![1.0; indices.len()];
    assert!(distance(&of(Csr::new(m.n(), indptr, indices, values).unwrap()), &of(m.clone())) > 1e-6);
}

#[test]
fn with_weights_of_zero_every_neighbour_counts_the_same() {
    let graph = graph();
    for kind in [Kind::Mx, Kind::Sd] {
        let built = build(&small(kind, 2, 1), &graph);
        // Hidden units are then those of the bias alone, the same for all nodes, and attention is a mean.
        built.model.first.weight.set(&built.weight("conv1.weight").zeros_like().unwrap()).unwrap();
        let logits = built.eval(&graph).to_vec3::<f64>().unwrap();
        assert!(
            logits
                .iter()
                .all(|lane| lane.iter().all(|row| { row.iter().zip(&lane[0]).all(|(a, b)| (a - b).abs() < 1e-12) }))
        );
    }
}

#[test]
fn weights_are_drawn_as_published_and_all_are_decayed() {
    let (graph, hidden, heads) = (graph(), 40, 10);
    let params = Params { hidden, heads, ..Params::default() };
    let built = testing::build::<SuperGat>(&params, &graph, 1);
    assert!(built.weights.iter().all(|weight| weight.rule == Some(Rule::decayed())));
    let names = ["conv1.weight", "conv1.attention", "conv1.bias", "conv2.weight", "conv2.attention", "conv2.bias"];
    assert_eq!(built.weights.iter().map(|weight| &*weight.name).collect::<Vec<_>>(), names);
    for (name, size, sum) in [
        ("conv1.weight", 5 * hidden * heads, 5 + hidden * heads),
        ("conv1.attention", 2 * hidden * heads, heads + 2 * hidden),
        ("conv2.weight", hidden * heads * 8 * 2, hidden * heads + 8 * 2),
        ("conv2.attention", 2 * 2 * 8, 8 + 2 * 2),
    ] {
        let (values, r) = (flat(&built.weight(name)), (6.0 / sum as f64).sqrt());
        assert!(values.len() == size && values.iter().all(|w| w.abs() <= r), "{name}");
        // Three deviations of a mean of squares, whose mean is r²/3 and whose variance is 4r⁴/45.
        let square = values.iter().map(|w| w * w).sum::<f64>() / size as f64;
        assert!((square - r * r / 3.0).abs() < 3.0 * r * r * (4.0 / 45.0 / size as f64).sqrt(), "{name}");
    }
    assert!(["conv1.bias", "conv2.bias"].iter().all(|name| flat(&built.weight(name)).iter().all(|b| *b == 0.0)));
    let scaled = testing::build::<SuperGat>(&Params { kind: Kind::Sd, ..params }, &graph, 1);
    assert_eq!(testing::bits(&scaled.weight("conv1.weight")), testing::bits(&built.weight("conv1.weight")));
    assert_eq!(scaled.weights.len(), 4);
}

fn refusal(params: &Params, graph: &GraphView) -> StageError {
    let mut streams = testing::streams(1);
    let mut weights = Weights::new(&mut streams, graph.dtype(), Device::Cpu);
    SuperGat::build(params, graph, &mut weights).err().unwrap()
}

#[test]
fn graphs_without_self_loops_or_edges_are_refused_with_a_hint() {
    let (params, sizes) = (Params::default(), work::tests::graph());
    let error = refusal(&params, &testing::view_for("fagcn", DType::F32));
    assert!(error.to_string().contains("node `0` has none"), "{error}");
    assert!(error.hint().unwrap().contains("`self-loops: true`"));
    let one_missing = SuperGat::fits(&params, &GraphSizes { loops: Some(99), ..sizes.clone() }).unwrap_err();
    assert!(one_missing.to_string().contains("`99` of `100` nodes"), "{one_missing}");
    assert!(SuperGat::fits(&params, &sizes).is_ok());
    assert!(SuperGat::fits(&params, &GraphSizes { loops: None, ..sizes.clone() }).is_ok(), "nothing is known");

    let (operator, nodes, spectrum) = testing::artifacts();
    let n = operator.nodes();
    let alone = Csr::new(n, (0..=n as u64).collect(), (0..n as u32).collect(), vec![1.0; n]).unwrap();
    let error = refusal(&params, &testing::view_of((Operator { matrix: alone }, nodes, spectrum), DType::F32));
    assert!(error.to_string().contains("the graph of `14` nodes has none"), "{error}");
    let alone = GraphSizes { entries: 100.into(), ..sizes };
    assert!(SuperGat::fits(&params, &alone).is_err());
}

#[test]
fn more_pairs_than_there_are_are_refused_with_the_numbers() {
    let (graph, sizes) = (graph(), work::tests::graph());
    let entries = graph.operator.matrix().indices.len();
    let others = 14 * 14 - entries;
    // All pairs that are no edges, and one more.
    let with =
        |count: usize| Params { edges: 1.0, negatives: (count as f64 + 0.5) / entries as f64, ..small(Kind::Mx, 2, 2) };
    let mut built = build(&with(others), &graph);
    assert!(forward(&*built.model, &graph, Sides::Train, &mut built.streams).term.is_some());
    let error = refusal(&with(others + 1), &graph).to_string();
    assert!(error.contains(&format!("would draw `{}` pairs", others + 1)), "{error}");
    assert!(error.contains(&format!("a graph of `14` nodes has `{others}`")), "{error}");
    let unused = Params { edge_loss: 0.0, ..with(others + 1) };
    testing::build::<SuperGat>(&unused, &graph, 1);
    // 100 nodes and 500 entries: 9500 others.
    let of = |negatives: f64| SuperGat::fits(&Params { edges: 1.0, negatives, ..Params::default() }, &sizes);
    assert!(of(19.0).is_ok() && of(19.01).is_err());
    let none = SuperGat::fits(&Params { edges: 0.001, ..Params::default() }, &sizes).unwrap_err();
    assert!(none.to_string().contains("`edges: 0.001` of `500` edges"), "{none}");
}

#[test]
fn too_many_units_are_refused_before_anything_runs() {
    use crate::contract::params::Params as _;
    let of = |hidden, heads| Params { hidden, heads, ..Params::default() }.check();
    assert!(of(8, 8).is_ok() && of(65536, 1).is_ok() && of(64, 1024).is_ok());
    let problems = of(65, 1024).unwrap_err();
    assert!(problems[0].message.contains("`66560`"), "{}", problems[0].message);
}
