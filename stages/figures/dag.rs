//! `draw-dag`: the stages of a pipeline and how they are wired, inputs above what reads them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::figure;
use crate::contract::params::{self, Problem};
use crate::contract::{Job, Slot, Stage, StageError};
use crate::drawing::{Axis, Data, GREY, LIGHT, Look, Picture};
use crate::kinds::Figure;

/// A stage of the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Wired {
    /// Its name.
    pub name: String,
    /// Places of the stages that it reads, all before its own.
    pub inputs: Vec<usize>,
}

/// Parameters of `draw-dag`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// Width in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// The stages of the pipeline.
    #[schemars(extend("x-planned" = true))]
    pub wiring: Vec<Wired>,
}

impl Default for Params {
    fn default() -> Self {
        Self { title: String::new(), width: 12.0, wiring: Vec::new() }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let backward = self.wiring.iter().enumerate().all(|(at, stage)| stage.inputs.iter().all(|input| *input < at));
        if backward { Ok(()) } else { Err(vec![Problem::value("wiring", "a stage reads one that stands behind it")]) }
    }
}

/// The stage.
pub struct DrawDag;

impl Stage for DrawDag {
    const NAME: &'static str = "draw-dag";
    const ABOUT: &'static str = "Draws the stages of a pipeline and how they are wired";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    type Params = Params;
    type Output = Figure;

    fn run(params: &Params, _: &Job) -> Result<Figure, StageError> {
        draw(params)
    }
}

/// The layer of every stage: one more than the deepest of those that it reads.
fn layers(wiring: &[Wired]) -> Vec<usize> {
    let mut layers: Vec<usize> = Vec::new();
    for stage in wiring {
        layers.push(stage.inputs.iter().filter_map(|input| Some(layers.get(*input)? + 1)).max().unwrap_or(0));
    }
    layers
}

/// What stands in a layer: a stage, or a bend of an edge that goes past it.
struct Spot {
    layer: usize,
    /// The spots that it reads, all in the layer above.
    above: Vec<usize>,
    /// Its place across, from 0 to 1.
    across: f64,
}

/// Gives every stage a spot, in their order, and every edge a bend in each layer that it passes.
fn spots(wiring: &[Wired]) -> Vec<Spot> {
    let layers = layers(wiring);
    let spot = |layer: &usize| Spot { layer: *layer, above: Vec::new(), across: 0.5 };
    let mut spots: Vec<Spot> = layers.iter().map(spot).collect();
    for (at, stage) in wiring.iter().enumerate() {
        for input in &stage.inputs {
            let mut from = *input;
            for layer in layers[*input] + 1..layers[at] {
                spots.push(Spot { layer, above: vec![from], across: 0.5 });
                from = spots.len() - 1;
            }
            spots[at].above.push(from);
        }
    }
    for layer in 0..=layers.iter().copied().max().unwrap_or(0) {
        let mut row: Vec<usize> = (0..spots.len()).filter(|at| spots[*at].layer == layer).collect();
        let wished = |at: &usize| {
            let above: Vec<f64> = spots[*at].above.iter().map(|at| spots[*at].across).collect();
            if above.is_empty() { 0.5 } else { above.iter().sum::<f64>() / above.len() as f64 }
        };
        row.sort_by(|a, b| wished(a).total_cmp(&wished(b)));
        // A stage takes the room of three bends.
        let wide = |at: &usize| if *at < wiring.len() { 3.0 } else { 1.0 };
        let whole: f64 = row.iter().map(wide).sum();
        let mut taken = 0.0;
        for at in row {
            spots[at].across = (taken + wide(&at) / 2.0) / whole;
            taken += wide(&at);
        }
    }
    spots
}

fn draw(params: &Params) -> Result<Figure, StageError> {
    let spots = spots(&params.wiring);
    let layers = spots.iter().map(|spot| spot.layer + 1).max().unwrap_or(1) as f64;
    let mut data = Data::new(&["from", "to"]);
    let picture = Picture::new(&params.title, params.width, 0.8 + 1.35 * layers);
    let across = Axis { title: String::new(), from: 0.0, to: 1.0, ticks: Vec::new() };
    let down = Axis { from: layers - 0.5, to: -0.5, ..across.clone() };
    let chart = picture.frameless(picture.rest(), (&across, &down))?;
    let place = |spot: &Spot| (spot.across, spot.layer as f64);
    for spot in &spots {
        for above in &spot.above {
            chart.line(&[place(&spots[*above]), place(spot)], Look::thin(GREY));
        }
    }
    for (stage, spot) in params.wiring.iter().zip(&spots) {
        chart.boxed(place(spot), &stage.name, LIGHT);
        for input in stage.inputs.iter().filter_map(|input| params.wiring.get(*input)) {
            data.row([input.name.clone(), stage.name.clone()]);
        }
    }
    figure(picture, &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_stands_below_everything_that_it_reads() {
        let wired = |name: &str, inputs: &[usize]| Wired { name: name.into(), inputs: inputs.to_vec() };
        let wiring = vec![wired("load", &[]), wired("split", &[0]), wired("evd", &[0]), wired("train", &[0, 1, 2])];
        assert_eq!(layers(&wiring), [0, 1, 1, 2]);
        // The edge from `load` to `train` has a bend beside `split` and `evd`.
        let spots = spots(&wiring);
        assert_eq!((spots.len(), spots[4].layer, &spots[3].above[..]), (5, 1, &[4, 1, 2][..]));
        let drawn = draw(&Params { wiring, ..Params::default() }).unwrap();
        assert_eq!(drawn.csv.lines().count(), 6);
        assert!(drawn.csv.contains("evd,train\n") && drawn.svg.contains(">train</text>"));
    }
}
