//! What a trained model says of every node: class by name, and the probability of every class.
//!
//! Probabilities are the softmax of the logits of the kept epoch, in double precision. Nodes without a label are a part of
//! their own, whatever the split says of them.
//!
//! A vote combines splits: the mean of the probabilities over those splits in which the node is in neither the training nor
//! the validation part. A split that was fitted to a node, or whose epoch was chosen by it, does not vote on it, so the vote
//! is as honest as a test score. A node that every split has used has no vote.

use std::sync::Arc;

use super::{Arrays, Data, Frame, Values};
use crate::kinds::{Graph, Part, Splits, Trained};
use crate::math::stats;

/// The part of nodes without a label.
const UNLABELLED: &str = "unlabelled";

/// A trained model, what it was trained on, and what nodes and classes are called.
pub struct Predictions<'a> {
    trained: &'a Trained,
    graph: &'a Graph,
    splits: &'a Splits,
    labelled: Vec<bool>,
}

impl<'a> Predictions<'a> {
    /// Puts the three together.
    ///
    /// # Errors
    /// Says which of them is about something else.
    pub fn new(trained: &'a Trained, graph: &'a Graph, splits: &'a Splits) -> Result<Self, String> {
        let (nodes, classes) = (trained.nodes, trained.classes);
        if graph.nodes() != nodes || graph.classes != classes {
            let (n, c) = (graph.nodes(), graph.classes);
            return Err(format!("{nodes} nodes and {classes} classes were trained on, the graph has {n} and {c}"));
        }
        if splits.len() != trained.splits.len() || splits.parts.iter().any(|parts| parts.len() != nodes) {
            return Err(format!("{} splits were trained, but there are {}", trained.splits.len(), splits.len()));
        }
        let labelled = super::graph::labels(graph).into_iter().map(|label| label >= 0).collect();
        Ok(Self { trained, graph, splits, labelled })
    }

    /// One row per split and node: `split`, `id`, `part`, `true`, `predicted`, and `p:<class>` for every class.
    pub fn frame(&self, of_split: Option<usize>) -> Frame {
        let chosen: Vec<usize> = (0..self.splits.len()).filter(|s| of_split.is_none_or(|only| only == *s)).collect();
        let nodes = self.trained.nodes;
        let all: Vec<Vec<f64>> = chosen.iter().map(|s| self.probabilities(*s)).collect();
        let each = || chosen.iter().flat_map(|s| (0..nodes).map(move |node| (*s, node)));
        let frame = Frame::of_rows(chosen.len() * nodes)
            .with("split", Values::wholes(each().map(|(split, _)| split)))
            .with("id", self.ids(chosen.len()))
            .with("part", Values::texts(each().map(|(split, node)| self.part(split, node))))
            .with("true", self.truth(chosen.len()));
        let rows = all.iter().flat_map(|p| p.chunks_exact(self.trained.classes.max(1)));
        self.predicted(frame, rows.map(Some))
    }

    /// One row per node: `id`, `true`, `votes` (how many splits voted), `predicted`, and `p:<class>` for every class.
    pub fn vote(&self) -> Frame {
        let (nodes, classes) = (self.trained.nodes, self.trained.classes);
        let (mut sums, mut votes) = (vec![0.0; nodes * classes], vec![0usize; nodes]);
        for split in 0..self.splits.len() {
            let rows = sums.chunks_exact_mut(classes.max(1)).zip(&mut votes).zip(&self.splits.parts[split]);
            for (p, ((row, votes), part)) in self.probabilities(split).chunks_exact(classes.max(1)).zip(rows) {
                if !matches!(part, Part::Train | Part::Val) {
                    *votes += 1;
                    row.iter_mut().zip(p).for_each(|(sum, p)| *sum += p);
                }
            }
        }
        for (row, votes) in sums.chunks_exact_mut(classes.max(1)).zip(&votes) {
            #[expect(clippy::cast_precision_loss, reason = "a number of splits")]
            row.iter_mut().for_each(|sum| *sum /= (*votes).max(1) as f64);
        }
        let frame = Frame::of_rows(nodes)
            .with("id", self.ids(1))
            .with("true", self.truth(1))
            .with("votes", Values::wholes(votes.iter().copied()));
        let rows = sums.chunks_exact(classes.max(1)).zip(&votes).map(|(row, votes)| (*votes > 0).then_some(row));
        self.predicted(frame, rows)
    }

    /// `logits` (splits × nodes × classes, f32), `probabilities` (the same, f64), `parts` (splits × nodes: 0 unused, 1 train,
    /// 2 val, 3 test, 4 unlabelled) and `labels` (nodes, −1 where there is none).
    pub fn arrays(&self, of_split: Option<usize>) -> Arrays {
        let chosen: Vec<usize> = (0..self.splits.len()).filter(|s| of_split.is_none_or(|only| only == *s)).collect();
        let (nodes, classes) = (self.trained.nodes, self.trained.classes);
        let logits = chosen.iter().flat_map(|s| &self.trained.splits[*s].logits).copied();
        let parts = chosen.iter().flat_map(|s| self.splits.parts[*s].iter().zip(&self.labelled));
        let mut arrays = Arrays::default();
        arrays.add("logits", &[chosen.len(), nodes, classes], Data::F32(logits.collect()));
        let probabilities = chosen.iter().flat_map(|s| self.probabilities(*s)).collect();
        arrays.add("probabilities", &[chosen.len(), nodes, classes], Data::F64(probabilities));
        let parts = parts.map(|(part, labelled)| if *labelled { *part as u8 } else { 4 }).collect();
        arrays.add("parts", &[chosen.len(), nodes], Data::U8(parts));
        arrays.add("labels", &[nodes], Data::I64(super::graph::labels(self.graph)));
        arrays
    }

    fn predicted<'p>(&self, frame: Frame, rows: impl Iterator<Item = Option<&'p [f64]>>) -> Frame {
        let names: Vec<Arc<str>> = (0..self.trained.classes).map(|c| Arc::from(&*self.graph.names.class(c))).collect();
        let rows: Vec<Option<&[f64]>> = rows.collect();
        let best = |row: &Option<&[f64]>| names.get(stats::argmax((*row)?)).cloned();
        let mut frame = frame.with("predicted", Values::Text(rows.iter().map(best).collect()));
        for (class, name) in names.iter().enumerate() {
            let of_class = rows.iter().map(|row| row.and_then(|row| row.get(class)).copied());
            frame = frame.with(format!("p:{name}"), Values::Number(of_class.collect()));
        }
        frame
    }

    /// The softmax of the logits of a split, nodes × classes.
    fn probabilities(&self, split: usize) -> Vec<f64> {
        let classes = self.trained.classes.max(1);
        let mut all = vec![0.0; self.trained.nodes * self.trained.classes];
        let rows = self.trained.splits[split].logits.chunks_exact(classes).zip(all.chunks_exact_mut(classes));
        for (logits, shares) in rows {
            stats::softmax(logits, shares);
        }
        all
    }

    fn ids(&self, times: usize) -> Values {
        let once: Vec<Option<Arc<str>>> =
            (0..self.trained.nodes).map(|node| Some(Arc::from(&*self.graph.names.id(node)))).collect();
        Values::Text(vec![once; times].concat())
    }

    fn truth(&self, times: usize) -> Values {
        let names: Vec<Arc<str>> = (0..self.trained.classes).map(|c| Arc::from(&*self.graph.names.class(c))).collect();
        let of_node = |(label, labelled): (&u32, &bool)| names.get(*label as usize).filter(|_| *labelled).cloned();
        let once: Vec<Option<Arc<str>>> = self.graph.labels.iter().zip(&self.labelled).map(of_node).collect();
        Values::Text(vec![once; times].concat())
    }

    fn part(&self, split: usize, node: usize) -> &'static str {
        match self.splits.parts[split][node] {
            _ if !self.labelled[node] => UNLABELLED,
            Part::None => "unused",
            Part::Train => "train",
            Part::Val => "val",
            Part::Test => "test",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Features, Matrix, Names, TrainedSplit};

    fn example() -> (Trained, Graph, Splits) {
        let split = |logits: [f32; 6]| TrainedSplit { logits: logits.to_vec(), ..TrainedSplit::default() };
        // Natural logarithms of 3 and 1: probabilities 3/4 and 1/4.
        let l3 = 3f32.ln();
        let splits = vec![split([l3, 0.0, 0.0, l3, 0.0, 0.0]), split([0.0, l3, 0.0, 0.0, 0.0, l3])];
        let trained = Trained { nodes: 3, classes: 2, splits, ..Trained::default() };
        let graph = Graph {
            features: Features::Dense(Matrix { rows: 3, cols: 1, data: vec![0.0; 3] }),
            labels: vec![0, 1, 0],
            classes: 2,
            unlabelled: vec![2],
            names: Names { ids: ["a,1", "b", "c"].map(str::to_owned).into(), classes: vec!["no".into(), "yes".into()] },
            ..Graph::default()
        };
        let parts = vec![vec![Part::Test, Part::Train, Part::Test], vec![Part::Test, Part::Val, Part::None]];
        (trained, graph, Splits { parts })
    }

    fn lines(frame: &Frame) -> Vec<String> {
        let mut bytes = Vec::new();
        frame.write_csv(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_node_of_every_split_has_a_row_with_names() {
        let (trained, graph, splits) = example();
        let predictions = Predictions::new(&trained, &graph, &splits).unwrap();
        let rows = lines(&predictions.frame(None));
        assert_eq!(rows.len(), 7);
        assert_eq!(rows[0], "split,id,part,true,predicted,p:no,p:yes");
        assert!(rows[1].starts_with("0,\"a,1\",test,no,no,0.75"), "{}", rows[1]);
        assert!(rows[2].starts_with("0,b,train,yes,yes,0.2499999"), "{}", rows[2]);
        assert_eq!(rows[3], "0,c,unlabelled,,no,0.5,0.5");
        assert_eq!(lines(&predictions.frame(Some(1))), [&rows[..1], &rows[4..]].concat());
        let arrays = predictions.arrays(Some(0));
        assert_eq!(arrays.get("labels"), Some((&[3][..], &Data::I64(vec![0, 1, -1]))));
        assert_eq!(arrays.get("parts"), Some((&[1, 3][..], &Data::U8(vec![3, 1, 4]))));
    }

    #[test]
    fn a_split_that_used_a_node_has_no_vote_on_it() {
        let (trained, graph, splits) = example();
        let rows = lines(&Predictions::new(&trained, &graph, &splits).unwrap().vote());
        assert_eq!(rows[0], "id,true,votes,predicted,p:no,p:yes");
        // 3/4 and 1/4: a tie, which goes to the first class as everywhere.
        assert!(rows[1].starts_with("\"a,1\",no,2,"), "{}", rows[1]);
        assert_eq!(rows[2], "b,yes,0,,,");
        assert!(rows[3].starts_with("c,,2,yes,0.3749999") && rows[3].contains(",0.62"), "{}", rows[3]);
    }

    #[test]
    fn artifacts_of_other_graphs_are_refused() {
        let (trained, mut graph, splits) = example();
        assert!(Predictions::new(&trained, &graph, &Splits::default()).is_err());
        graph.labels.push(0);
        assert!(Predictions::new(&trained, &graph, &splits).is_err());
    }
}
