//! Training of one split as the documentation says it, written from the formulas: cross-entropy, Adam, the schedule, the
//! stop and the choice of the epoch are plain loops here and share no code with what is tested. Only the model's own
//! forward and backward pass, which have tests of their own, are the same.

use super::*;
use crate::models::ops::{AsTensor, Sides, Tape};
use crate::models::testing::{Built, build_by_name, flat};
use crate::models::{Input, Model, Pass, Streams};
use crate::optim::{Decay, Rate};

/// −log softmax(row)_label, in double precision.
fn entropy(row: &[f32], label: usize) -> (f64, Vec<f64>) {
    let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = row.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = powers.iter().sum();
    (sum.ln() + max - row[label], powers.into_iter().map(|power| power / sum).collect())
}

/// The mean loss on some nodes, and its gradient.
fn loss(logits: &[f32], classes: usize, labels: &[u32], nodes: &[u32]) -> (f64, Vec<f32>) {
    let (mut total, mut gradient) = (0.0, vec![0f32; logits.len()]);
    for node in nodes.iter().map(|node| *node as usize) {
        let (range, label) = (node * classes..(node + 1) * classes, labels[node] as usize);
        let (loss, shares) = entropy(&logits[range.clone()], label);
        total += loss;
        for (class, (g, share)) in gradient[range].iter_mut().zip(shares).enumerate() {
            *g = ((share - if class == label { 1.0 } else { 0.0 }) / nodes.len() as f64) as f32;
        }
    }
    (total / nodes.len() as f64, gradient)
}

fn share_right(logits: &[f32], classes: usize, labels: &[u32], nodes: &[u32]) -> f64 {
    let right = nodes.iter().filter(|node| {
        let row = &logits[**node as usize * classes..][..classes];
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter().position(|x| *x == largest) == Some(labels[**node as usize] as usize)
    });
    right.count() as f64 / nodes.len() as f64
}

/// One weight with the moments of Adam, in single precision.
struct Stepped {
    values: Vec<f32>,
    m: Vec<f32>,
    v: Vec<f32>,
    t: i32,
}

impl Stepped {
    fn step(&mut self, gradient: &[f32], rate: f64, decay: f64) {
        self.t += 1;
        let rate = (rate / (1.0 - 0.9f64.powi(self.t))) as f32;
        let (decay, unbias) = (decay as f32, (1.0 - 0.999f64.powi(self.t)) as f32);
        // What is below 1e-17 counts as 0.
        let whole = |x: f32| if x.abs() < 1e-17 { 0.0 } else { x };
        for (i, g) in gradient.iter().enumerate() {
            let g = whole(g + self.values[i] * decay);
            self.m[i] = whole(self.m[i] * 0.9f32 + g * (1.0 - 0.9f64) as f32);
            let v = self.v[i] * 0.999f32 + g * g * (1.0 - 0.999f64) as f32;
            self.v[i] = if v < 1e-17f32 * 1e-17f32 { 0.0 } else { v };
            let step = self.m[i] * rate / ((self.v[i] / unbias).sqrt() + 1e-8f32);
            self.values[i] = whole(self.values[i] - step);
        }
    }
}

fn singles(tensor: &Tensor) -> Vec<f32> {
    flat(tensor).into_iter().map(|x| x as f32).collect()
}

/// Whether to stop after the last of these losses: it is larger than the mean of the `window` before it.
fn stops(losses: &[f64], window: usize) -> bool {
    let (last, before) = losses.split_last().unwrap();
    before.len() > window && before[before.len() - window..].iter().map(|l| l - last).sum::<f64>() < 0.0
}

/// Trains one split.
pub(super) fn by_plain_loop(
    p: &Params,
    variant: &Value,
    view: &GraphView,
    labels: &[u32],
    splits: &Splits,
    split: usize,
) -> TrainedSplit {
    assert_eq!(p.select, ValMetric::of("loss"));
    let (train, val) = (splits.nodes(split, Part::Train), splits.nodes(split, Part::Val));
    let mut built = build_by_name(&p.model, variant, view, vec![Streams::new(p.seed, split)]);
    let zero = |values: Vec<f32>| Stepped { m: vec![0.0; values.len()], v: vec![0.0; values.len()], values, t: 0 };
    let mut weights: Vec<_> = built.weights.iter().map(|w| zero(singles(&w.param.tensor()))).collect();
    let mut history: Vec<Epoch> = Vec::new();
    let mut kept: Option<(usize, Vec<f32>, Vec<Vec<f32>>)> = None;
    for epoch in 0..p.epochs {
        let (train_loss, gradients) = pass(&mut built, view, labels, &train);
        let falls = p.lr_decay.powi((epoch / p.lr_decay_every) as i32);
        for ((named, weight), gradient) in built.weights.iter().zip(&mut weights).zip(gradients) {
            let Some(rule) = named.rule else {
                // What the model changes itself counts from the next pass on.
                named.param.commit().unwrap();
                weight.values = singles(&named.param.tensor());
                continue;
            };
            let Some(gradient) = gradient else { continue };
            // The schedule of a rate of the model's own: the same share of it as of the run's rate.
            let rate = match rule.rate {
                Rate::Shared => p.lr * falls,
                Rate::Own(rate) => rate * (p.lr * falls / p.lr),
            };
            let decay = match rule.decay {
                Decay::Shared => p.weight_decay,
                Decay::Off => 0.0,
                Decay::Own(decay) => decay,
            };
            weight.step(&gradient, rate, decay);
            let shape = named.param.tensor().dims().to_vec();
            named.param.set(&Tensor::from_slice(&weight.values, shape, &Device::Cpu).unwrap()).unwrap();
        }
        let logits = singles(&testing::eval(&*built.model, view, 1));
        let val_loss = loss(&logits, view.classes, labels, &val).0;
        let best = history.iter().map(|e| e.val_loss).fold(f64::INFINITY, f64::min);
        let val_accuracy = share_right(&logits, view.classes, labels, &val);
        history.push(Epoch { train_loss, val_loss, val_accuracy, further: vec![] });
        if val_loss < best {
            kept = Some((epoch, logits, weights.iter().map(|w| w.values.clone()).collect()));
        }
        if stops(&history.iter().map(|e| e.val_loss).collect::<Vec<_>>(), p.window) {
            break;
        }
    }
    let (best_epoch, logits, values) = kept.unwrap();
    let shape = |w: &crate::models::Named| w.param.tensor().dims()[1..].to_vec();
    let named = built.weights.iter().zip(values).map(|(w, values)| (w.name.to_string(), (shape(w), values)));
    TrainedSplit { best_epoch: Some(best_epoch), logits, weights: named.collect(), hidden: Default::default(), history }
}

/// A training pass: the loss with the model's own term, and the gradients of all weights.
fn pass(built: &mut Built<dyn Model>, view: &GraphView, labels: &[u32], train: &[u32]) -> (f64, Vec<Option<Vec<f32>>>) {
    let tape = Tape::new(Sides::Train);
    let input = Input::new(&view.features, &tape);
    let output = built.model.forward(view, &input, &mut Pass::new(Sides::Train, &mut built.streams)).unwrap();
    let logits = output.logits.main().clone();
    let (mut total, gradient) = loss(&singles(&logits), view.classes, labels, train);
    let gradient = Tensor::from_vec(gradient, logits.shape(), &Device::Cpu).unwrap();
    let mut from = vec![(logits, gradient)];
    if let Some(term) = output.term {
        total += flat(&term)[0];
        from.push((term.clone(), term.ones_like().unwrap()));
    }
    let gradients = tape.back(from).unwrap();
    let of = |w: &crate::models::Named| gradients.of(&w.param.tensor()).unwrap().map(|g| singles(&g));
    (total, built.weights.iter().map(of).collect())
}
