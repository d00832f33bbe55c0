//! What a person should know before trusting a result on a graph. The most important comes first.
//!
//! | code | said when |
//! | --- | --- |
//! | `twins-across-parts` | on average over the splits, 1 % of the test nodes have a twin among the training nodes |
//! | `empty-part` | a split has no training, validation or test node |
//! | `class-not-trained` | a class has validation or test nodes but no training node in a split |
//! | `unlabelled-in-parts` | a node whose class the publisher does not give is in a part |
//! | `uneven-splits` | the largest size of a part over the splits is more than a tenth above the smallest |
//! | `nodes-in-no-part` | a labelled node is in no part of a split |
//! | `edges-say-nothing` | label informativeness is at most two spreads above that of shuffled labels |
//! | `one-way-edges` | 1 % of the edges are stored in one direction only, and the format does not store each edge once |
//! | `isolated-nodes` | a node has no neighbour |
//! | `one-class` | all nodes with a label have the same |
//! | `constant-answer` | two thirds of the nodes with a label are of one class, and the pipeline decides by accuracy |
//!
//! A twin here shares at least [`SHARED_LINKS`] links. Nodes with fewer are alike by chance: with published splits, a
//! quarter of the test nodes of Texas and a third of Pubmed's share a single hub with a training node of their class.
//! With four links WebKB, Actor, Cora, Citeseer and Pubmed have 0.5 % at most; Chameleon has 58 % and Squirrel 55 %.

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

use std::collections::BTreeMap;

use serde::Serialize;

use super::describe::{PartSizes, part_sizes};
use super::informativeness::informativeness;
use super::lists::Lists;
use super::twins::twins;
use crate::kinds::{Graph, Part, Splits};

/// Twins with fewer common links may be alike by chance.
pub const SHARED_LINKS: usize = 4;
/// The share from which a leak, or one-way edges, are reported.
pub const LEAK: f64 = 0.01;
/// A longer list of numbers in a message is not read.
const MOST_LISTED: usize = 6;

/// Something that may spoil a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Warning {
    /// A fixed name, in kebab-case.
    pub code: &'static str,
    /// What was found, with numbers, and what can be done about it.
    pub message: String,
}

/// The share of one class from which an accuracy says little.
const CONSTANT: f64 = 2.0 / 3.0;

/// Warns if a constant answer has a good accuracy, which is what `decides` (a pipeline's parameters, in words) go by.
pub fn constant_answer(graph: &Graph, decides: &str) -> Option<Warning> {
    let mut sizes = vec![0usize; graph.classes];
    graph.labels.iter().for_each(|class| sizes[*class as usize] += 1);
    graph.unlabelled.iter().for_each(|node| sizes[graph.labels[*node as usize] as usize] -= 1);
    let (all, (class, most)) = (sizes.iter().sum(), sizes.iter().enumerate().max_by_key(|(_, size)| **size)?);
    (*most < all && *most as f64 >= CONSTANT * all as f64).then(|| Warning {
        code: "constant-answer",
        message: format!(
            "{} of the nodes with a label are of class `{}`: a constant answer has that accuracy, and {decides} go by \
             accuracy; `roc-auc` or `balanced-accuracy` tell models apart",
            percent(*most, all),
            graph.names.class_shown(class)
        ),
    })
}

/// Says what is wrong with splits of a graph, if anything.
type Judge = fn(&Graph, &Splits) -> Option<String>;

/// Judges a graph, and splits of it if there are any; the head of this file lists what is said when. Splits of another
/// number of nodes are not looked at. `once` says that the graph comes from where each edge is stored once by convention.
pub fn warnings(graph: &Graph, splits: Option<&Splits>, once: bool) -> Vec<Warning> {
    let counts = graph.counts();
    let splits = splits.filter(|s| !s.is_empty() && s.parts.iter().all(|row| row.len() == graph.nodes()));
    let of_splits: [(_, Judge); 6] = [
        ("twins-across-parts", twins_across),
        ("empty-part", empty_part),
        ("class-not-trained", not_trained),
        ("unlabelled-in-parts", unlabelled),
        ("uneven-splits", uneven),
        ("nodes-in-no-part", outside),
    ];
    let of_splits = of_splits.into_iter().map(|(code, judge)| (code, splits.and_then(|s| judge(graph, s))));
    let one_way = || {
        format!(
            "{} of {} edges ({}) are stored in one direction only; models see an undirected graph, because `normalize` \
             adds the reverse of every edge",
            counts.edges_one_way,
            counts.edges_undirected,
            percent(counts.edges_one_way, counts.edges_undirected)
        )
    };
    let lone =
        |n| format!("{} no neighbour: a model sees nothing of the graph there but the node itself", has(n, "node"));
    let of_graph = [
        ("edges-say-nothing", says_nothing(graph)),
        ("one-way-edges", (!once && reaches(counts.edges_one_way, counts.edges_undirected)).then(one_way)),
        ("isolated-nodes", Some(counts.isolated_nodes).filter(|n| *n > 0).map(lone)),
        ("one-class", one_class(graph)),
    ];
    let all = of_splits.chain(of_graph);
    all.filter_map(|(code, message)| Some(Warning { code, message: message? })).collect()
}

fn twins_across(graph: &Graph, splits: &Splits) -> Option<String> {
    let twins = twins(graph);
    let mut leaks = Vec::new();
    for row in &splits.parts {
        let mut trains = vec![false; graph.nodes()];
        let original = |i: usize| twins.original[i] as usize;
        (0..row.len()).filter(|i| row[*i] == Part::Train).for_each(|i| trains[original(i)] = true);
        let tests = (0..row.len()).filter(|i| row[*i] == Part::Test);
        let leaked = tests.clone().filter(|i| trains[original(*i)] && twins.links[*i] >= SHARED_LINKS);
        leaks.push((leaked.count(), tests.count()));
    }
    let share = |(part, whole): &(usize, usize)| *part as f64 / (*whole).max(1) as f64;
    let mean = leaks.iter().map(share).sum::<f64>() / leaks.len().max(1) as f64;
    let (leaked, tests) = *leaks.first().filter(|_| mean >= LEAK)?;
    let (groups, nodes) = twins.groups(SHARED_LINKS);
    let average = if leaks.len() > 1 {
        format!(" ({:.1} % on average over {} splits)", 100.0 * mean, leaks.len())
    } else {
        String::new()
    };
    Some(format!(
        "of the {tests} test nodes of split 0, {leaked} ({}) have a twin (the same label and the same links out, \
         at least {SHARED_LINKS}) among its training nodes{average}: a model need only remember those; the graph has {} \
         of twins with {nodes} nodes; `filter: duplicates` of `load` keeps one node of each",
        percent(leaked, tests),
        number(groups, "group")
    ))
}

fn empty_part(_: &Graph, splits: &Splits) -> Option<String> {
    let sizes = part_sizes(splits);
    let empty = ["training", "validation", "test"].iter().enumerate().filter_map(|(part, name)| {
        let size = |s: &PartSizes| [s.train, s.val, s.test][part];
        let which: Vec<_> = (0..sizes.len()).filter(|s| size(&sizes[*s]) == 0).collect();
        (!which.is_empty()).then(|| format!("no {name} node in {}", those(&which)))
    });
    let found: Vec<_> = empty.collect();
    (!found.is_empty()).then(|| format!("{}: training and tables need all three parts", found.join(", ")))
}

fn one_class(graph: &Graph) -> Option<String> {
    let labelled = |i: &u32| graph.unlabelled.binary_search(i).is_err();
    let mut labels = (0u32..).zip(&graph.labels).filter(|(i, _)| labelled(i)).map(|(_, label)| label);
    let first = labels.next()?;
    labels.all(|l| l == first).then(|| "all nodes have the same class: every model is right everywhere".to_owned())
}

fn says_nothing(graph: &Graph) -> Option<String> {
    let found = informativeness(graph, &Lists::around(graph)).filter(|found| found.says_nothing())?;
    Some(format!(
        "edges say no more about classes than chance: their label informativeness is {:.4}, with shuffled labels {:.4} ± {:.4} \
         ({} shuffles); the class of a node says nothing about those of its neighbours, and a model that ignores the graph may \
         do as well as any",
        found.edge, found.shuffled, found.spread, found.shuffles
    ))
}

fn not_trained(graph: &Graph, splits: &Splits) -> Option<String> {
    let mut missing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (split, row) in splits.parts.iter().enumerate() {
        let (mut trained, mut scored) = (vec![false; graph.classes], vec![false; graph.classes]);
        for (label, part) in graph.labels.iter().zip(row) {
            match part {
                Part::Train => trained[*label as usize] = true,
                Part::Val | Part::Test => scored[*label as usize] = true,
                Part::None => {}
            }
        }
        for class in (0..graph.classes).filter(|c| scored[*c] && !trained[*c]) {
            missing.entry(class).or_default().push(split);
        }
    }
    let lines: Vec<_> = missing
        .iter()
        .map(|(class, where_missing)| {
            let size = graph.labels.iter().filter(|l| **l as usize == *class).count();
            format!("class {class} ({}) in {}", number(size, "node"), those(where_missing))
        })
        .collect();
    (!lines.is_empty()).then(|| {
        format!(
            "no training node: {}; no model can learn such a class, and macro scores count it as 0",
            listed(&lines, "; ")
        )
    })
}

fn unlabelled(graph: &Graph, splits: &Splits) -> Option<String> {
    let only = |row: &Vec<Part>| graph.unlabelled.iter().filter_map(|i| row.get(*i as usize).copied()).collect();
    let sizes = part_sizes(&Splits { parts: splits.parts.iter().map(only).collect() });
    let mean = |of: fn(&PartSizes) -> usize| sizes.iter().map(of).sum::<usize>() as f64 / sizes.len().max(1) as f64;
    let means = [mean(|s| s.train), mean(|s| s.val), mean(|s| s.test)];
    (means.iter().sum::<f64>() > 0.0).then(|| {
        let [train, val, test] = means.map(|m| format!("{m:.1}").trim_end_matches(".0").to_owned());
        let average = if sizes.len() > 1 { ", on average over the splits" } else { "" };
        format!(
            "of {} without a class, {train} train, {val} validate and {test} test{average}: they count as the class \
             that stands in, as in published code; `unlabelled: leave-out` of `split` takes them out",
            number(graph.unlabelled.len(), "node")
        )
    })
}

fn uneven(_: &Graph, splits: &Splits) -> Option<String> {
    let sizes: Vec<_> = part_sizes(splits).iter().map(|s| [s.train, s.val, s.test]).collect();
    // Rounding, or a filter that takes a few nodes away, is no reason to worry.
    let apart = (0..3).any(|part| {
        let of_part = || sizes.iter().map(|s| s[part]);
        of_part().max().unwrap_or(0) as f64 > 1.1 * of_part().min().unwrap_or(0) as f64
    });
    let mut alike: BTreeMap<[usize; 3], Vec<usize>> = BTreeMap::new();
    for (split, sizes) in sizes.into_iter().enumerate() {
        alike.entry(sizes).or_default().push(split);
    }
    // The most common sizes first, then in the order of the splits.
    let mut alike: Vec<_> = alike.into_iter().collect();
    alike.sort_by_key(|(_, which)| (std::cmp::Reverse(which.len()), which.first().copied()));
    apart.then(|| {
        let lines = alike.iter().map(|([a, b, c], which)| format!("{a}/{b}/{c} in {}", those(which)));
        format!(
            "splits differ in size (train/val/test): {}; a mean over them mixes different tasks",
            listed(&lines.collect::<Vec<_>>(), ", ")
        )
    })
}

fn outside(graph: &Graph, splits: &Splits) -> Option<String> {
    let unlabelled = |i: u32| graph.unlabelled.binary_search(&i).is_ok();
    let left_out =
        |row: &Vec<Part>| (0u32..).zip(row).filter(|(node, part)| **part == Part::None && !unlabelled(*node)).count();
    let counts: Vec<_> = splits.parts.iter().map(left_out).collect();
    let (least, most) = (*counts.iter().min()?, *counts.iter().max()?);
    let nodes = graph.nodes();
    (most > 0).then(|| {
        let which: Vec<_> = (0..counts.len()).filter(|s| counts[*s] > 0).collect();
        let found = match (least == most, counts.len()) {
            (true, 1) => format!("{most} of {nodes} nodes have a label and are in no part of the split"),
            (true, _) => format!("{most} of {nodes} nodes have a label and are in no part of each split"),
            (false, _) => format!("up to {most} of {nodes} nodes have a label and are in no part of {}", those(&which)),
        };
        format!("{found}: they are in the graph, but neither train nor count")
    })
}

fn reaches(part: usize, whole: usize) -> bool {
    part > 0 && part as f64 >= LEAK * whole as f64
}

fn percent(part: usize, whole: usize) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

fn number(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn has(n: usize, what: &str) -> String {
    format!("{} {}", number(n, what), if n == 1 { "has" } else { "have" })
}

fn those(splits: &[usize]) -> String {
    let names: Vec<_> = splits.iter().map(ToString::to_string).collect();
    format!("split{} {}", if splits.len() == 1 { "" } else { "s" }, listed(&names, ", "))
}

fn listed(items: &[String], between: &str) -> String {
    let shown = items.iter().take(MOST_LISTED).cloned().collect::<Vec<_>>().join(between);
    let more = items.len().saturating_sub(MOST_LISTED);
    if more > 0 { format!("{shown}{between}and {more} more") } else { shown }
}
