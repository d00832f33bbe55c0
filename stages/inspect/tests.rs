use super::testing::{geom_gcn, graph};
use super::*;
use crate::kinds::{Features, Graph, Matrix, Part, Splits};
use crate::math::csr::Csr;
use crate::math::random::Stream;

const TR: Part = Part::Train;
const VA: Part = Part::Val;
const TE: Part = Part::Test;
const NO: Part = Part::None;

fn near(found: Option<f64>, expected: f64) {
    assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} {expected}");
}

/// 0–1, 0–2, 0–3, 1–2 in mixed directions with a duplicate and a loop; 4–5; 6 alone. Classes 0 0 1 1 | 2 0 | 0.
fn small() -> Graph {
    graph(&[(0, 1), (1, 0), (2, 0), (0, 3), (1, 2), (1, 2), (3, 3), (4, 5)], vec![0, 0, 1, 1, 2, 0, 0], 3)
}

#[test]
fn degrees_are_those_of_the_undirected_graph_without_loops() {
    let degrees = describe(&small()).degrees;
    // 3 2 2 1 1 1 0
    assert_eq!((degrees.min, degrees.median, degrees.mean, degrees.max), (0, 1.0, 10.0 / 7.0, 3));
    let buckets: Vec<_> = degrees.histogram.iter().map(|b| (b.from, b.to, b.nodes)).collect();
    assert_eq!(buckets, [(0, 0, 1), (1, 1, 3), (2, 2, 2), (3, 4, 1)]);
}

#[test]
fn histogram_ranges_double_and_even_numbers_have_a_mean_median() {
    // A star with nine leaves: degrees 9 and nine times 1.
    let star: Vec<_> = (1..10).map(|leaf| (0, leaf)).collect();
    let degrees = describe(&graph(&star, vec![0; 10], 1)).degrees;
    let buckets: Vec<_> = degrees.histogram.iter().map(|b| (b.from, b.to, b.nodes)).collect();
    assert_eq!(buckets, [(0, 0, 0), (1, 1, 9), (2, 2, 0), (3, 4, 0), (5, 8, 0), (9, 16, 1)]);
    // A path of four nodes, degrees 1 1 2 2.
    assert_eq!(describe(&graph(&[(0, 1), (1, 2), (2, 3)], vec![0; 4], 1)).degrees.median, 1.5);
}

#[test]
fn the_four_homophilies_follow_their_formulas() {
    let found = describe(&small()).homophily;
    // Of 0–1, 0–2, 0–3, 1–2, 4–5 the first joins one class.
    near(found.edge, 1.0 / 5.0);
    // Nodes 0 and 1 have 1 of 3 and 1 of 2 neighbours in their class, 2 to 5 none.
    near(found.node, (1.0 / 3.0 + 1.0 / 2.0) / 6.0);
    // Class 0: 2 of 6 ends, 4 of 7 nodes; the others 0: nothing is above its share.
    near(found.class_insensitive, 0.0);
    // Ends 6, 3, 1 of 10.
    near(found.adjusted, (0.2 - 0.46) / (1.0 - 0.46));
    // Two classes with two edges each inside and one between: h_k = 4/5, n_k / n = 1/2.
    let two = graph(&[(0, 1), (1, 2), (3, 4), (4, 5), (2, 3)], vec![0, 0, 0, 1, 1, 1], 2);
    let found = describe(&two).homophily;
    near(found.class_insensitive, 0.3 + 0.3);
    near(found.adjusted, (0.8 - 0.5) / 0.5);
}

#[test]
fn homophily_is_nothing_where_it_is_not_defined() {
    let none = describe(&graph(&[(1, 1)], vec![0, 1], 2)).homophily;
    assert_eq!(none, Homophily { edge: None, node: None, class_insensitive: None, adjusted: None });
    let single = describe(&graph(&[(0, 1)], vec![1, 1], 3)).homophily;
    assert_eq!(single, Homophily { edge: Some(1.0), node: Some(1.0), class_insensitive: None, adjusted: None });
}

#[test]
fn components_are_counted_with_lone_nodes() {
    assert_eq!(describe(&small()).components, Components { count: 3, largest: 4, isolated: 1 });
}

#[test]
fn features_are_described_alike_in_both_forms() {
    let mut graph = graph(&[], vec![0; 3], 1);
    let sparse = Csr::rectangular(3, 2, vec![0, 1, 1, 2], vec![0, 1], vec![1.0, 1.0]).unwrap();
    graph.features = Features::Sparse(sparse);
    let expected =
        FeatureFacts { cols: 2, sparse: true, density: 2.0 / 6.0, binary: true, zero_rows: 1, min: 0.0, max: 1.0 };
    assert_eq!(describe(&graph).features, expected);
    graph.features = Features::Dense(graph.features.to_dense());
    assert_eq!(describe(&graph).features, FeatureFacts { sparse: false, ..expected });
    graph.features = Features::Dense(Matrix { rows: 3, cols: 1, data: vec![-2.0, 0.5, -1.0] });
    let found = describe(&graph).features;
    assert_eq!((found.min, found.max, found.binary, found.zero_rows), (-2.0, 0.5, false, 0));
    graph.features = Features::Dense(Matrix { rows: 3, cols: 0, data: vec![] });
    let found = describe(&graph).features;
    assert_eq!((found.min, found.max, found.density, found.zero_rows), (0.0, 0.0, 0.0, 3));
}

#[test]
fn classes_and_splits_are_counted_and_names_are_in_kebab_case() {
    let mut graph = small();
    graph.unlabelled = vec![6];
    graph.masks =
        Some(Splits { parts: vec![vec![TR, TR, TR, VA, TE, TE, NO], vec![TR, TR, VA, VA, TE, TE, TE], vec![TR; 7]] });
    let found = describe(&graph);
    assert_eq!((found.class_sizes, found.class_names, found.weights), (vec![3, 2, 1], vec![], None));
    graph.names.classes = ["x", "y", "z"].map(String::from).to_vec();
    graph.weights = Some((0..graph.edges.len()).map(|i| if i == 1 { -2.0 } else { 0.5 }).collect());
    let found = describe(&graph);
    assert_eq!(found.class_names, ["x", "y", "z"]);
    assert_eq!(found.weights, Some(WeightFacts { min: -2.0, max: 0.5 }));
    let splits = found.splits.clone().unwrap();
    assert_eq!(splits.sizes[0], PartSizes { train: 3, val: 1, test: 2, outside: 1 });
    assert_eq!(splits.least, PartSizes { train: 2, val: 0, test: 0, outside: 0 });
    assert_eq!(splits.most, PartSizes { train: 7, val: 2, test: 3, outside: 1 });
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["counts"]["edges-one-way"], 4);
    assert_eq!(json["homophily"]["edge"], 0.2);
    assert_eq!(json["class-sizes"][0], 3);
}

#[test]
fn an_empty_graph_is_described_without_trouble() {
    let empty = graph(&[], vec![], 0);
    let found = describe(&empty);
    assert_eq!((found.counts.nodes, found.components.count, found.degrees.median), (0, 0, 0.0));
    assert_eq!(warnings(&empty, None, false), []);
}

#[test]
fn clones_stand_behind_the_node_that_others_link_to() {
    // 0, 1, 2 link to 4 and 5; only 1 is linked to. 3 has another label.
    let edges = [(0, 4), (0, 5), (1, 4), (1, 5), (2, 4), (2, 5), (3, 4), (3, 5), (4, 1), (5, 4)];
    let found = twins(&graph(&edges, vec![0, 0, 0, 1, 1, 1], 2));
    assert_eq!(found.original, [1, 1, 1, 3, 4, 5]);
    assert_eq!(found.kept(), [1, 3, 4, 5]);
    assert_eq!((found.groups(0), found.groups(2), found.groups(3)), ((1, 3), (1, 3), (0, 0)));
}

#[test]
fn nodes_with_different_links_in_are_both_kept_and_clones_go_to_the_most_linked() {
    // 0, 1, 2, 3 link to 4. Into 0: 5. Into 1: 5 and 6. Into 2: 5 and 6. Into 3: nobody.
    let edges = [(0, 4), (1, 4), (2, 4), (3, 4), (5, 0), (5, 1), (6, 1), (5, 2), (6, 2)];
    assert_eq!(twins(&graph(&edges, vec![0; 7], 1)).original, [0, 1, 1, 1, 4, 5, 6]);
}

#[test]
fn nodes_without_links_out_need_the_same_links_in() {
    // Into 0 and 1: 3 and 4; into 2: 3. 3 and 4 differ in what they link to. 5 and 6 have no edge.
    let edges = [(3, 0), (3, 1), (3, 2), (4, 0), (4, 1)];
    let found = twins(&graph(&edges, vec![0; 7], 1));
    assert_eq!(found.original, [0, 0, 2, 3, 4, 5, 6]);
    assert_eq!(found.links, [2, 2, 1, 3, 2, 0, 0]);
}

#[test]
fn a_loop_counts_as_a_link_out_but_not_as_a_link_in() {
    // 1 links to 0 like 0 does itself; 2 and 3 each link to themselves and to 0, which is not the same.
    let edges = [(0, 0), (1, 0), (2, 2), (2, 0), (3, 3), (3, 0)];
    assert_eq!(twins(&graph(&edges, vec![0; 4], 1)).original, [0, 0, 2, 3]);
    // 0 and 1 both link to 0 and 2, so that 0 is its own neighbour, and 1 links to 0: into 0 is 1.
    let edges = [(0, 0), (0, 2), (1, 0), (1, 2)];
    assert_eq!(twins(&graph(&edges, vec![0; 3], 1)).original, [0, 0, 2]);
}

#[test]
fn edges_in_both_directions_leave_one_node_of_every_neighbourhood() {
    let edges = [(0, 2), (2, 0), (1, 2), (2, 1), (3, 2), (2, 3), (3, 4), (4, 3)];
    assert_eq!(twins(&graph(&edges, vec![0; 5], 1)).original, [0, 0, 2, 3, 4]);
}

#[test]
fn nodes_without_a_class_have_no_twins() {
    let mut graph = graph(&[(0, 3), (1, 3), (2, 3)], vec![0; 4], 1);
    graph.unlabelled = vec![0];
    assert_eq!(twins(&graph).original, [0, 1, 1, 3]);
}

/// The definition, word for word, in quadratic time.
fn twins_slowly(graph: &Graph) -> Vec<u32> {
    let n = u32::try_from(graph.nodes()).unwrap();
    let set = |f: &dyn Fn(u32, u32) -> Option<u32>| {
        graph.edges.iter().filter_map(|&(a, b)| f(a, b)).collect::<std::collections::BTreeSet<_>>()
    };
    let out = |i: u32| set(&|a, b| (a == i).then_some(b));
    let into = |i: u32| set(&|a, b| (b == i && a != i).then_some(a));
    let mut original: Vec<u32> = (0..n).collect();
    let mut order: Vec<u32> = (0..n).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(into(*i).len()), *i));
    let mut kept: Vec<u32> = Vec::new();
    for i in order {
        let alike = |k: &&u32| graph.labels[**k as usize] == graph.labels[i as usize] && out(**k) == out(i);
        let mut group = kept.iter().filter(alike);
        let found = match (out(i).is_empty(), into(i).is_empty()) {
            (true, true) => None,
            (false, true) => group.next(),
            _ => group.find(|k| into(**k) == into(i)),
        };
        match found {
            Some(k) => original[i as usize] = *k,
            None => kept.push(i),
        }
    }
    original
}

#[test]
fn twins_agree_with_their_definition_on_random_graphs() {
    let mut found_some = 0;
    for seed in 0..200 {
        let mut stream = Stream::new(seed, &["test", "twins"]);
        let n = 2 + stream.below(12);
        let node = |stream: &mut Stream| u32::try_from(stream.below(n)).unwrap();
        let count = stream.below(3 * n);
        let mut edges: Vec<_> = (0..count).map(|_| (node(&mut stream), node(&mut stream))).collect();
        // Some copies of links out, or hardly any two nodes would be alike.
        for _ in 0..n / 2 {
            let (from, to) = (node(&mut stream), node(&mut stream));
            edges.retain(|(a, _)| *a != to || from == to);
            edges.extend(edges.clone().iter().filter(|(a, _)| *a == from).map(|(_, b)| (to, *b)));
        }
        let labels = (0..n).map(|_| u32::try_from(stream.below(2)).unwrap()).collect();
        let graph = graph(&edges, labels, 2);
        let found = twins(&graph);
        assert_eq!(found.original, twins_slowly(&graph), "{seed}");
        found_some += usize::from(found.kept().len() < graph.nodes());
    }
    assert!(found_some > 50, "{found_some}");
}

fn codes(found: &[Warning]) -> Vec<&'static str> {
    found.iter().map(|w| w.code).collect()
}

#[test]
fn a_graph_without_trouble_has_no_warnings() {
    let ring: Vec<_> = (0..6).flat_map(|i| [(i, (i + 1) % 6), ((i + 1) % 6, i)]).collect();
    let graph = graph(&ring, vec![0, 1, 0, 1, 0, 1], 2);
    let splits = Splits { parts: vec![vec![TR, TR, VA, VA, TE, TE], vec![TE, TE, VA, VA, TR, TR]] };
    assert_eq!(warnings(&graph, Some(&splits), false), []);
    assert_eq!(warnings(&graph, None, false), []);
}

#[test]
fn every_warning_has_its_numbers_and_the_most_important_comes_first() {
    // 0 to 3 are clones: each links to 4, 5, 6, 7, of which 5 and 6 are alike too: 4 links out, 7 has no class. 8 has
    // no edge. Class 1 holds 4 to 7, class 2 holds 8.
    let mut edges: Vec<_> = (0..4).flat_map(|a| (4..8).map(move |b| (a, b))).collect();
    edges.push((4, 0));
    let mut graph = graph(&edges, vec![0, 0, 0, 0, 1, 1, 1, 1, 2], 3);
    graph.unlabelled = vec![7];
    let splits =
        Splits { parts: vec![vec![TR, TE, TE, VA, TR, VA, TE, TE, TE], vec![TR, TE, VA, VA, TR, NO, TE, TE, TE]] };
    let found = warnings(&graph, Some(&splits), false);
    let all = [
        (
            "twins-across-parts",
            "of the 5 test nodes of split 0, 2 (40.0 %) have a twin (the same label and the same links out, at least 4) \
             among its training nodes (32.5 % on average over 2 splits): a model need only remember those; the graph \
             has 2 groups of twins with 6 nodes; `filter: duplicates` of `load` keeps one node of each",
        ),
        (
            "class-not-trained",
            "no training node: class 2 (1 node) in splits 0, 1; no model can learn such a class, and macro scores \
             count it as 0",
        ),
        (
            "unlabelled-in-parts",
            "of 1 node without a class, 0 train, 0 validate and 1 test, on average over the splits: they count as \
             the class that stands in, as in published code; `unlabelled: leave-out` of `split` takes them out",
        ),
        (
            "uneven-splits",
            "splits differ in size (train/val/test): 2/2/5 in split 0, 2/2/4 in split 1; a mean over them mixes \
             different tasks",
        ),
        (
            "nodes-in-no-part",
            "up to 1 of 9 nodes have a label and are in no part of split 1: they are in the graph, but neither train nor count",
        ),
        (
            "one-way-edges",
            "15 of 16 edges (93.8 %) are stored in one direction only; models see an undirected graph, because \
             `normalize` adds the reverse of every edge",
        ),
        ("isolated-nodes", "1 node has no neighbour: a model sees nothing of the graph there but the node itself"),
    ];
    assert_eq!(found, all.map(|(code, message)| Warning { code, message: message.to_owned() }));
    assert_eq!(codes(&warnings(&graph, None, false)), ["one-way-edges", "isolated-nodes"]);
    // Splits of another graph say nothing about this one.
    assert_eq!(
        codes(&warnings(&graph, Some(&Splits { parts: vec![vec![TR]] }), false)),
        ["one-way-edges", "isolated-nodes"]
    );
}

#[test]
fn twins_with_few_links_and_rare_leaks_are_not_worth_a_warning() {
    // Leaves of one hub: alike, but one link says nothing.
    let star: Vec<_> = (1..9).map(|leaf| (leaf, 0)).collect();
    let splits = Splits { parts: vec![[vec![TR; 5], vec![TE; 4]].concat()] };
    assert!(!codes(&warnings(&graph(&star, vec![0; 9], 1), Some(&splits), false)).contains(&"twins-across-parts"));
    // Two clones with four links among n other test nodes in a ring: 1 of 100 test nodes is told, 1 of 101 not.
    for (tests, told) in [(100u32, true), (101, false)] {
        let n = tests + 1;
        let mut edges: Vec<_> = (2..n).map(|i| (i, if i + 1 < n { i + 1 } else { 2 })).collect();
        edges.extend([0, 1].into_iter().flat_map(|a| (2..6).map(move |b| (a, b))));
        let mut row = vec![TE; n as usize];
        row[0] = TR;
        let found = codes(&warnings(&graph(&edges, vec![0; n as usize], 1), Some(&Splits { parts: vec![row] }), false));
        assert_eq!(found.contains(&"twins-across-parts"), told, "{tests}");
    }
}

#[test]
fn splits_that_differ_by_a_tenth_are_even() {
    let row = |trains| [vec![TR; trains], vec![VA; 15], vec![TE; 40 - 15 - trains]].concat();
    let ring: Vec<_> = (0..40).flat_map(|i| [(i, (i + 1) % 40), ((i + 1) % 40, i)]).collect();
    let labels = || (0..40).map(|i| i % 2).collect();
    let found =
        |a, b| codes(&warnings(&graph(&ring, labels(), 2), Some(&Splits { parts: vec![row(a), row(b)] }), false));
    assert_eq!(found(11, 11), Vec::<&str>::new());
    assert_eq!(found(10, 11), Vec::<&str>::new());
    assert_eq!(found(10, 12), ["uneven-splits"]);
}

#[test]
fn long_lists_are_cut() {
    let mut graph = graph(&[(0, 1), (1, 0)], vec![0, 1], 2);
    graph.unlabelled = vec![0, 1];
    let splits = Splits { parts: vec![vec![TR, TE]; 9] };
    let found = warnings(&graph, Some(&splits), false);
    assert_eq!(found[0].code, "empty-part");
    assert!(found[0].message.starts_with("no validation node in splits 0, 1, 2, 3, 4, 5, and 3 more:"), "{found:?}");
    assert!(found[1].message.contains("class 1 (1 node) in splits 0, 1, 2, 3, 4, 5, and 3 more;"), "{found:?}");
    assert!(
        found[2].message.starts_with("of 2 nodes without a class, 1 train, 0 validate and 1 test, on"),
        "{found:?}"
    );
}

#[test]
fn real_graphs_are_described_as_counted_elsewhere() {
    // Every number was counted by a separate script with Python's sets.
    let Some(chameleon) = geom_gcn("chameleon") else { return };
    let found = describe(&chameleon);
    assert_eq!((found.counts.edges_distinct, found.counts.edges_undirected), (36_101, 31_371));
    assert_eq!((found.counts.self_loops, found.counts.edges_one_way), (50, 26_691));
    assert_eq!((found.degrees.median, found.degrees.max), (12.0, 732));
    assert_eq!(found.components, Components { count: 1, largest: 2277, isolated: 0 });
    assert_eq!(found.class_sizes, [456, 460, 453, 521, 387]);
    assert_eq!(found.twins, TwinFacts { groups: 399, nodes: 1808, duplicates: 1409 });
    near(found.homophily.edge, 0.2299257275827994);
    near(found.homophily.node, 0.24708590555631774);
    near(found.homophily.class_insensitive, 0.04110543026577378);
    near(found.homophily.adjusted, 0.03241608885101856);
    assert_eq!((found.features.binary, found.features.zero_rows), (true, 233));
    near(Some(found.features.density), 29_157.0 / (2277.0 * 2325.0));
    let splits = found.splits.unwrap();
    assert_eq!((splits.least, splits.sizes.len()), (PartSizes { train: 1092, val: 729, test: 456, outside: 0 }, 10));
    assert_eq!(splits.least, splits.most);
}

#[test]
fn the_leak_is_told_of_chameleon_and_squirrel_and_not_of_small_graphs_full_of_leaves() {
    let starts = [
        ("chameleon", "of the 456 test nodes of split 0, 257 (56.4 %) have", "(57.6 % on average over 10 splits)"),
        ("squirrel", "of the 1041 test nodes of split 0, 565 (54.3 %) have", "(55.2 % on average over 10 splits)"),
    ];
    for (name, start, mean) in starts {
        let Some(graph) = geom_gcn(name) else { return };
        let found = warnings(&graph, graph.masks.as_ref(), false);
        assert_eq!(codes(&found), ["twins-across-parts", "one-way-edges"], "{name}");
        assert!(found[0].message.starts_with(start) && found[0].message.contains(mean), "{}", found[0].message);
    }
    for name in ["texas", "wisconsin", "cornell"] {
        let Some(graph) = geom_gcn(name) else { return };
        let found = codes(&warnings(&graph, graph.masks.as_ref(), false));
        assert!(!found.contains(&"twins-across-parts"), "{name}: {found:?}");
    }
}

#[test]
fn a_single_class_and_an_empty_part_are_told() {
    let graph = graph(&[(0, 1), (1, 0)], vec![1, 1], 2);
    assert_eq!(codes(&warnings(&graph, None, false)), ["one-class"]);
    let splits = Splits { parts: vec![vec![TR, TE]] };
    assert_eq!(codes(&warnings(&graph, Some(&splits), false))[0], "empty-part");
}

#[test]
fn nodes_without_a_label_do_not_count_for_homophily() {
    // A path 0 – 1 – 2 – 3; without a label for node 2 only the first edge counts.
    let mut graph = graph(&[(0, 1), (1, 2), (2, 3)], vec![0, 0, 0, 1], 2);
    assert_eq!(graph.counts().edge_homophily, 2.0 / 3.0);
    graph.unlabelled = vec![2];
    assert_eq!((graph.counts().edge_homophily, describe(&graph).homophily.edge), (1.0, Some(1.0)));
}
