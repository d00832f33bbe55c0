//! What `train` takes and makes, before it runs.

use std::path::Path;

use serde_json::Value;

use super::stops::{self, Expected};
use super::{ACTIVATIONS, ACTIVATIONS_ON_GPU, Params};
use crate::command::{self, CommandDef};
use crate::contract::device::Backend;
use crate::contract::params::from_checked;
use crate::contract::{Estimate, Known, Memory, Past, Size, Sizes, Term, Work};
use crate::kinds::files::read_json;
use crate::kinds::size;
use crate::models::{self, GraphSizes, ModelDef};

/// Reading features, operator and eigenvectors and making them ready: bytes.
const READY: &str = "ready";
/// Writing logits and weights: bytes.
const WRITE: &str = "write";
/// Building a model: lanes.
const BUILD: &str = "build";

/// Work of a run, then the work of its epochs.
pub(super) const TERMS: [Term; models::TERMS.len() + 3] = {
    let mut all = [Term::alone(READY, 1.5e-9); models::TERMS.len() + 3];
    all[1] = Term::alone(WRITE, 1.5e-9);
    all[2] = Term::shared(BUILD, 2e-4);
    let mut at = 0;
    while at < models::TERMS.len() {
        all[at + 3] = models::TERMS[at];
        at += 1;
    }
    all
};

/// Bytes of an epoch in the history of a split, in memory and in the frame that is written.
const HISTORY: f64 = 150.0;

pub(super) fn estimate(params: &Params, known: &Known) -> Estimate {
    let graph = GraphSizes::of(known);
    let splits = known.sizes("splits").or_guess(size::SPLITS, 10.0);
    let sizes =
        Sizes::default().with(size::NODES, graph.nodes).with(size::CLASSES, graph.classes).with(size::SPLITS, splits);
    let Ok(model) = known.chosen::<ModelDef>().and_then(|model| model.work(&graph)) else {
        let command = known.chosen::<CommandDef>().and_then(|command| from_checked::<command::Params>(command.params));
        let most = command.ok().and_then(|params| params.memory);
        let memory =
            most.map(|most| Memory::default().and_for(Size::from(most.0 as f64), "lower `memory` of the command"));
        return Estimate { sizes, memory: memory.unwrap_or_default(), ..Estimate::default() };
    };
    let sizes = sizes.with(size::WEIGHTS, model.weights);
    let epochs = epochs(params, known);
    let logits = graph.nodes * graph.classes;
    let entries = graph.entries + graph.second_entries + graph.related * 4;
    let read = graph.stored * 12 + entries * 16 + (graph.pairs[0] + graph.pairs[1]) * graph.nodes * 4;
    let written = (logits + model.weights) * splits * 4;
    let mut work = Work { spread: epochs.spread, ..Work::default() }
        .shared_by(splits)
        .and(READY, read)
        .and(WRITE, written)
        .and(BUILD, splits + model.weights * splits / 1e4);
    for (term, amount) in model.amounts() {
        work = work.and(term, amount * splits * epochs.epochs);
    }
    let room = if known.backend == Backend::Cpu { ACTIVATIONS } else { ACTIVATIONS_ON_GPU };
    #[expect(clippy::cast_precision_loss, reason = "a number of bytes that is small")]
    let lanes = (Size::from(room as f64) / (model.widest * 4)).map(f64::floor).max(1).at_most(model.widest.sure);
    let batches = Size { value: (splits / lanes).value.ceil(), sure: splits.sure.min(model.widest.sure) };
    let work = work.and(models::CALLS, batches * epochs.epochs * model.calls);
    // Weights, their gradient, two moments, and the kept values, some of them twice for a moment.
    let lane = model.weights * (4 * 7) + model.held * 4;
    let kept = (logits * 2 + model.weights) * splits * 4;
    let hidden = if params.keep_hidden { model.widest * splits * 8 } else { Size::ZERO };
    let history = Size::exact(params.epochs).min(epochs.epochs * 2) * splits * HISTORY;
    let memory = Memory::default()
        .and_for(graph.stored * 28 + graph.nodes * 64, "use fewer features (`pca` of `featurize`)")
        .and_for(entries * 40, "use a graph with fewer edges")
        .and_for((graph.pairs[0] + graph.pairs[1]) * graph.nodes * 8, "lower `k` of `evd`")
        .and_for(kept + hidden, "train on fewer splits at a time (`count` of `split`)")
        .and_for(history, "lower `epochs`");
    // Few lanes share the memory whatever the threads; wide ones are trained a few at a time by every thread.
    let memory = if lanes.value >= splits.value {
        memory.and_for(lane * splits, model.remedy)
    } else {
        memory.and_each(lane * lanes, model.remedy)
    };
    Estimate { sizes, work, memory, notes: Vec::new() }
}

/// The epochs of a split: those that ran if the result is there, else those to expect.
fn epochs(params: &Params, known: &Known) -> Expected {
    if let Some(ran) = known.made.and_then(mean_epochs) {
        return Expected { epochs: Size::about(ran), spread: 0.0 };
    }
    let same_model = |past: &&Past| past.variant.as_deref() == Some(&params.model);
    let alike = known.past_of_same("nodes").chain(known.past_of_same("operator")).filter(same_model).collect();
    let past = [alike, known.past.iter().filter(same_model).collect(), known.past.iter().collect()];
    stops::expect(params.epochs, params.window, past)
}

/// The mean over splits of the epochs that ran.
#[expect(clippy::cast_precision_loss, reason = "a number of splits is small")]
fn mean_epochs(dir: &Path) -> Option<f64> {
    let facts: Value = read_json(&dir.join("facts.json")).ok()?;
    let ran: Vec<f64> = facts.get("epochs")?.as_array()?.iter().filter_map(Value::as_f64).collect();
    (!ran.is_empty()).then(|| ran.iter().sum::<f64>() / ran.len() as f64)
}
