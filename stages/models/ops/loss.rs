//! The cross-entropy that training lowers, and the scores that choose an epoch.
//!
//! Logits: lanes × nodes × classes. A lane's loss is the mean of −log softmax(logits)_label over its nodes; its gradient is
//! (softmax − 1[label]) / count on those nodes and 0 elsewhere. Both are summed in double precision in the order of the
//! nodes.

use std::sync::Arc;

use candle_core::{DType, Result, Tensor, bail};
use rayon::prelude::*;

use super::sided::Sided;
use crate::kinds::{Predicted, ScoreDef, Undefined};
use crate::math::real::Real;
use crate::math::stats;
use crate::tensor::slices::{self, Element, by_float};

/// Which nodes of every lane count, and the classes of all nodes.
#[derive(Clone)]
pub struct Targets {
    labels: Arc<[u32]>,
    /// Nodes of every lane.
    lanes: Arc<Vec<Vec<u32>>>,
    /// Scores besides loss and accuracy.
    further: Arc<[&'static ScoreDef]>,
    #[cfg(any(feature = "cuda", test))]
    uploaded: Arc<std::sync::OnceLock<crate::tensor::cuda::Judged>>,
}

/// Mean cross-entropy and accuracy of one lane; of equal logits the lowest class is the prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneScore {
    /// Mean cross-entropy.
    pub loss: f64,
    /// Share of right predictions.
    pub accuracy: f64,
    /// The scores that were asked for besides.
    pub further: Vec<std::result::Result<f64, Undefined>>,
}

/// What a pass tells of every lane.
#[derive(Default)]
pub struct PassScores {
    /// Training losses with the model's own terms, and the gradient of the cross-entropy at the logits, of a pass that
    /// trains.
    pub train: Option<(Vec<f64>, Tensor)>,
    /// Scores on the validation nodes, of a pass that evaluates.
    pub val: Option<Vec<LaneScore>>,
}

/// Scores both sides of a pass: the loss on the nodes of `train`, plus the model's own `term` (lanes) if there is one, and
/// the scores on the nodes of `val`. What is not wanted is left out.
///
/// # Errors
/// When the logits are of other nodes or lanes.
pub fn score_pass(
    logits: &Sided,
    train: Option<&Targets>,
    term: Option<&Tensor>,
    val: Option<&Targets>,
) -> Result<PassScores> {
    on_gpu!(logits.main() => super::cuda::score_pass(logits, train, term, val));
    let mut train = train.map(|train| train.loss(logits.main())).transpose()?;
    if let (Some((losses, _)), Some(term)) = (&mut train, term) {
        let terms = term.to_dtype(DType::F64)?.to_vec1::<f64>()?;
        losses.iter_mut().zip(terms).for_each(|(loss, term)| *loss += term);
    }
    let val = val.zip(logits.eval()).map(|(val, logits)| val.scores(logits)).transpose()?;
    Ok(PassScores { train, val })
}

impl Targets {
    /// Names the nodes of every lane. Labels and nodes must fit the logits that they meet.
    pub fn new(labels: Arc<[u32]>, lanes: Vec<Vec<u32>>) -> Self {
        Self {
            labels,
            lanes: Arc::new(lanes),
            further: Arc::default(),
            #[cfg(any(feature = "cuda", test))]
            uploaded: Arc::default(),
        }
    }

    /// Asks for scores besides loss and accuracy.
    #[must_use]
    pub fn scored_by(self, further: Arc<[&'static ScoreDef]>) -> Self {
        Self { further, ..self }
    }

    /// Returns the nodes of every lane.
    #[cfg(any(feature = "cuda", test))]
    pub(super) fn lanes(&self) -> &[Vec<u32>] {
        &self.lanes
    }

    /// Returns the scores that were asked for besides, of logits on a GPU: rankings are made on the CPU, whose sorting takes
    /// less time than a pass.
    #[cfg(any(feature = "cuda", test))]
    pub(super) fn further_on_gpu(&self, logits: &Tensor) -> Result<Vec<Vec<std::result::Result<f64, Undefined>>>> {
        if self.further.is_empty() {
            return Ok(Vec::new());
        }
        let scores = crate::tensor::cuda::on_cpu(logits, |logits| self.scores(logits))?;
        Ok(scores.into_iter().map(|score| score.further).collect())
    }

    /// Returns the same on the GPU of some logits.
    #[cfg(any(feature = "cuda", test))]
    pub(super) fn on_gpu(&self, logits: &Tensor) -> Result<&crate::tensor::cuda::Judged> {
        crate::tensor::cuda::once(&self.uploaded, || {
            self.check(logits.dims())?;
            let mut inside = vec![0u8; self.lanes.len() * self.labels.len()];
            for (nodes, inside) in self.lanes.iter().zip(inside.chunks_exact_mut(self.labels.len().max(1))) {
                nodes.iter().for_each(|node| inside[*node as usize] = 1);
            }
            crate::tensor::cuda::Judged::new(logits.device(), &self.labels, &inside, logits.dim(2)?)
        })
    }

    /// Keeps some lanes.
    #[must_use]
    pub fn select(&self, lanes: &[usize]) -> Self {
        let kept = lanes.iter().filter_map(|lane| self.lanes.get(*lane).cloned()).collect();
        Self::new(self.labels.clone(), kept).scored_by(self.further.clone())
    }

    /// Returns the loss of every lane, and the gradient of their sum.
    ///
    /// # Errors
    /// When the logits are of other nodes or lanes.
    pub fn loss(&self, logits: &Tensor) -> Result<(Vec<f64>, Tensor)> {
        let (_, nodes, classes) = logits.dims3()?;
        self.check(logits.dims())?;
        by_float!(logits.dtype(), "a loss", T => {
            let (size, mut gradient) = ((nodes * classes).max(1), vec![T::default(); logits.elem_count()]);
            let losses = slices::lend::<T, _, 1>([logits], |[logits]| {
                let lanes = gradient.par_chunks_mut(size).zip(logits.par_chunks(size)).zip(&*self.lanes);
                Ok(lanes.map(|((gradient, x), nodes)| self.entropy(x, classes, nodes, gradient)).collect())
            })?;
            Ok((losses, slices::tensor(gradient, logits.dims())?))
        })
    }

    /// Returns the scores of every lane.
    ///
    /// # Errors
    /// When the logits are of other nodes or lanes.
    pub fn scores(&self, logits: &Tensor) -> Result<Vec<LaneScore>> {
        let (_, nodes, classes) = logits.dims3()?;
        self.check(logits.dims())?;
        by_float!(logits.dtype(), "a score", T => slices::lend::<T, _, 1>([logits], |[logits]| {
            let lanes = logits.par_chunks((nodes * classes).max(1)).zip(&*self.lanes);
            Ok(lanes.map(|(logits, nodes)| self.score(logits, classes, nodes)).collect())
        }))
    }

    fn check(&self, dims: &[usize]) -> Result<()> {
        match dims {
            [lanes, nodes, _] if *lanes == self.lanes.len() && *nodes == self.labels.len() => Ok(()),
            _ => bail!("logits of {dims:?} for {} lanes of {} nodes", self.lanes.len(), self.labels.len()),
        }
    }

    fn score<T: Element>(&self, logits: &[T], classes: usize, nodes: &[u32]) -> LaneScore {
        let (mut loss, mut right) = (0.0, 0usize);
        // The loss needs the exponentials that probabilities are made of.
        let wanted = if self.further.is_empty() { 0 } else { nodes.len() * classes };
        let mut shares = vec![0.0; wanted];
        let mut shares_of = shares.chunks_exact_mut(classes.max(1));
        for &node in nodes {
            let node = node as usize;
            let (row, label) = (&logits[node * classes..(node + 1) * classes], self.labels[node] as usize);
            right += usize::from(stats::argmax(row) == label);
            let of_node = match shares_of.next() {
                Some(shares) => stats::cross_entropy_and_shares(row, label, shares),
                None => stats::cross_entropy(row, label),
            };
            loss += of_node.unwrap_or(f64::NAN);
        }
        let count = nodes.len().max(1) as f64;
        let further = self.further(logits, classes, nodes, shares);
        LaneScore { loss: loss / count, accuracy: right as f64 / count, further }
    }

    /// Returns the scores of one lane that were asked for besides loss and accuracy.
    fn further<T: Element>(
        &self,
        logits: &[T],
        classes: usize,
        nodes: &[u32],
        shares: Vec<f64>,
    ) -> Vec<std::result::Result<f64, Undefined>> {
        if self.further.is_empty() {
            return Vec::new();
        }
        let rows = nodes.iter().flat_map(|node| &logits[*node as usize * classes..(*node as usize + 1) * classes]);
        let rows: Vec<f32> = rows.map(|z| <f32 as Real>::narrow(z.widen())).collect();
        let truth = nodes.iter().map(|node| self.labels[*node as usize] as usize);
        let part = Predicted::new(rows.chunks_exact(classes.max(1)).zip(truth).collect(), classes);
        let part = part.with_probabilities(shares);
        self.further.iter().map(|row| row.score(&part)).collect()
    }

    /// Writes the gradient of one lane's loss and returns the loss.
    fn entropy<T: Element>(&self, logits: &[T], classes: usize, nodes: &[u32], gradient: &mut [T]) -> f64 {
        let count = nodes.len().max(1) as f64;
        let (mut loss, mut shares) = (0.0, vec![0.0; classes]);
        for &node in nodes {
            let node = node as usize;
            let (row, label) = (&logits[node * classes..(node + 1) * classes], self.labels[node] as usize);
            loss += stats::cross_entropy_and_shares(row, label, &mut shares).unwrap_or(f64::NAN);
            for ((class, share), g) in shares.iter().enumerate().zip(&mut gradient[node * classes..]) {
                let target = if class == label { 1.0 } else { 0.0 };
                *g = T::narrow((share - target) / count);
            }
        }
        loss / count
    }
}
