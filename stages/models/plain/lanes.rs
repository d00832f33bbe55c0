//! The ordinary row that a model in plain form becomes: a network of its own for every lane, whose variables get the lane's values
//! before every pass.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use candle_core::{Result, Tensor, Var, bail};
use candle_nn::VarBuilder;

use super::back_end::{BackEnd, Drawn};
use super::{Mode, PlainModel};
use crate::contract::{Crate, StageError};
use crate::models::ops::AsTensor;
use crate::models::ops::candle_graph::{self, CandleLane};
use crate::models::{Build, GraphView, Input, Model, ModelDef, Output, Param, Pass, State, Weights};

/// Values of the largest activation, as far as batches are cut by it: lanes share no pass over the graph, so each is a batch of
/// its own, and no other's tensors wait for it.
const ALONE: usize = 1 << 40;

impl ModelDef {
    /// The row of `M`.
    pub const fn plain<M: PlainModel>() -> Self {
        Self::of::<Lanes<M>>()
    }
}

/// The networks of all lanes.
pub(super) struct Lanes<M> {
    /// By split: lanes may have left since the model was built.
    networks: BTreeMap<usize, Network<M>>,
    trained: Vec<Param>,
    states: Vec<State>,
}

/// The network of one lane.
struct Network<M> {
    model: M,
    /// Those of `Lanes::trained`, in that order.
    trained: Vec<Var>,
    /// Those of `Lanes::states`, in that order.
    states: Vec<Var>,
}

impl<M: PlainModel> Build for Lanes<M> {
    const NAME: &'static str = M::NAME;
    const ABOUT: &'static str = M::ABOUT;
    const REFERENCE: &'static str = M::REFERENCE;
    const EQUATION: &'static str = M::EQUATION;
    const VERSION: u32 = M::VERSION;
    const CRATE: Crate = M::CRATE;
    type Params = M::Params;

    fn build(params: &M::Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let (dtype, device) = (weights.dtype(), weights.device().clone());
        let (mut splits, mut models, mut tensors) = (Vec::new(), Vec::new(), Vec::new());
        for streams in weights.lanes() {
            splits.push(streams.split());
            let drawn = Mutex::new(Drawn::new(streams, dtype, device.clone()));
            let builder = VarBuilder::from_backend(Box::new(BackEnd(&drawn)), dtype, device.clone());
            models.push(M::build(params, &graph.plain, builder)?);
            tensors.push(drawn.into_inner().unwrap_or_else(PoisonError::into_inner).tensors);
        }
        let mut built = Self { networks: BTreeMap::new(), trained: Vec::new(), states: Vec::new() };
        for (i, name) in same_names::<M>(&tensors)?.iter().enumerate() {
            let of_lanes: Vec<_> = tensors.iter().map(|lane| lane[i].1.as_detached_tensor()).collect();
            let stacked = Tensor::stack(&of_lanes, 0)?;
            let owned = name.clone().into();
            match is_state(name) {
                true => built.states.push(weights.drawn_state(owned, &stacked)?),
                false => built.trained.push(weights.drawn(owned, M::rule(params, name), &stacked)?),
            }
        }
        for ((split, model), tensors) in splits.into_iter().zip(models).zip(tensors) {
            let (states, trained): (Vec<_>, Vec<_>) = tensors.into_iter().partition(|(name, _)| is_state(name));
            let vars = |of: Vec<(String, Var)>| of.into_iter().map(|(_, var)| var).collect();
            built.networks.insert(split, Network { model, trained: vars(trained), states: vars(states) });
        }
        Ok(built)
    }

    fn widest(_: &M::Params, _: &GraphView) -> usize {
        ALONE
    }
}

/// The names of the tensors, which must be those of all lanes.
fn same_names<M: PlainModel>(lanes: &[Vec<(String, Var)>]) -> Result<Vec<String>> {
    let names = |lane: &Vec<(String, Var)>| lane.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let first = lanes.first().map(names).unwrap_or_default();
    match lanes.iter().map(names).find(|other| *other != first) {
        Some(other) => bail!(
            "`{}` asks for the tensors {first:?} in one split and for {other:?} in another: every split must have the same",
            M::NAME
        ),
        None => Ok(first),
    }
}

/// Whether training changes a tensor without a gradient, by the names that candle-nn gives to running moments.
fn is_state(name: &str) -> bool {
    let last = name.rsplit('.').next();
    last.is_some_and(|last| ["running_mean", "running_var"].contains(&last))
}

impl<M: PlainModel> Model for Lanes<M> {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let sides = x.tape.sides();
        let (trained, states) = (tensors(&self.trained), tensors(&self.states));
        let (mut lanes, mut left) = (Vec::new(), Vec::new());
        for (i, streams) in pass.lanes().iter_mut().enumerate() {
            let Some(network) = self.networks.get(&streams.split()) else {
                bail!("`{}` was not built for split `{}`", M::NAME, streams.split());
            };
            set_all(&network.trained, &trained, i)?;
            set_all(&network.states, &states, i)?;
            // The evaluation comes first: it reads the states that the training pass changes.
            let evaluated = sides.evaluate().then(|| network.logits(graph, &mut Mode::eval())).transpose()?;
            let trained = sides.train().then(|| network.logits(graph, &mut Mode::train(streams))).transpose()?;
            left.push(network.states.iter().map(Var::as_detached_tensor).collect::<Vec<_>>());
            lanes.push(CandleLane { trained, evaluated, weights: network.trained.clone() });
        }
        for (i, state) in self.states.iter().enumerate() {
            let of_lanes: Vec<&Tensor> = left.iter().map(|lane| &lane[i]).collect();
            state.update(Tensor::stack(&of_lanes, 0)?, pass);
        }
        Ok(candle_graph::step(&x.tape, lanes, trained)?.into())
    }
}

impl<M: PlainModel> Network<M> {
    fn logits(&self, graph: &GraphView, mode: &mut Mode) -> Result<Tensor> {
        let graph = &graph.plain;
        let logits = self.model.forward(graph, graph.features()?, mode)?;
        if logits.dims() != [graph.nodes(), graph.classes()] || logits.dtype() != graph.dtype() {
            bail!(
                "`{}` returned {:?} of {:?}, expected logits of {:?}: {} nodes × {} classes",
                M::NAME,
                logits.dtype(),
                logits.dims(),
                graph.dtype(),
                graph.nodes(),
                graph.classes()
            );
        }
        Ok(logits)
    }
}

fn tensors<T: AsTensor>(of: &[T]) -> Vec<Tensor> {
    of.iter().map(AsTensor::tensor).collect()
}

/// Gives the variables of a lane its values.
fn set_all(vars: &[Var], stacked: &[Tensor], lane: usize) -> Result<()> {
    vars.iter().zip(stacked).try_for_each(|(var, stacked)| var.set(&stacked.get(lane)?.detach()))
}
