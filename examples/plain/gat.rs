//! GAT (Veličković et al., ICLR 2018): two layers of attention over edges, eight heads of eight units, then one head.

use ppgnn::stages::candle_core::{Result, Tensor};
use ppgnn::stages::candle_nn::{Init, Linear, Module, VarBuilder, ops::leaky_relu};
use ppgnn::stages::contract::{Crate, params::NoParams};
use ppgnn::stages::models::{Mode, PlainFeatures, PlainGraph, PlainModel};

const DROPOUT: f64 = 0.6;

/// W, a for both ends of an edge, and b.
struct Attention(Linear, [Tensor; 2], Tensor);

impl Attention {
    fn new(inputs: usize, heads: usize, units: usize, vb: VarBuilder) -> Result<Self> {
        let glorot = |shape: &[usize], sizes: usize, name: &str| {
            let r = (6.0 / sizes as f64).sqrt();
            vb.get_with_hints(shape, name, Init::Uniform { lo: -r, up: r })
        };
        let weight = glorot(&[heads * units, inputs], inputs + heads * units, "weight")?;
        let ends = ["source", "target"].map(|name| glorot(&[heads, units], heads + units, name));
        let [source, target] = ends;
        Ok(Self(Linear::new(weight, None), [source?, target?], vb.get(heads * units, "bias")?))
    }

    /// Sums X W over neighbours, weighted by attention: `h` is X W, nodes × (heads · units).
    fn over_edges(&self, graph: &PlainGraph, h: &Tensor, mode: &mut Mode, purpose: &'static str) -> Result<Tensor> {
        let (edges, (heads, units)) = (graph.edges()?, self.1[0].dims2()?);
        let of_end = |a: &Tensor| h.reshape((graph.nodes(), heads, units))?.broadcast_mul(a)?.sum(2);
        let scores = edges.of_sources(&of_end(&self.1[0])?)? + edges.of_targets(&of_end(&self.1[1])?)?;
        let attention = mode.dropout(&edges.softmax(&leaky_relu(&scores?, 0.2)?)?, DROPOUT, purpose)?;
        let messages = edges.of_sources(h)?.reshape((edges.count(), heads, units))?;
        let messages = messages.broadcast_mul(&attention.unsqueeze(2)?)?.flatten_from(1)?;
        edges.sum(&messages)?.broadcast_add(&self.2)
    }
}

/// Two layers.
pub struct Gat(Attention, Attention);

impl PlainModel for Gat {
    const NAME: &'static str = "plain-gat";
    const ABOUT: &'static str = "Two layers of attention over edges, in plain form";
    const VERSION: u32 = 1;
    const CRATE: Crate = Crate { name: "plain", version: "0.1.0" };
    type Params = NoParams;

    fn build(_: &NoParams, graph: &PlainGraph, vb: VarBuilder) -> Result<Self> {
        let first = Attention::new(graph.columns(), 8, 8, vb.pp("att1"))?;
        Ok(Self(first, Attention::new(64, 1, graph.classes(), vb.pp("att2"))?))
    }

    fn forward(&self, graph: &PlainGraph, x: &PlainFeatures, mode: &mut Mode) -> Result<Tensor> {
        let h = x.dropout(mode, DROPOUT, "dropout/features")?.linear(&self.0.0)?;
        let hidden = self.0.over_edges(graph, &h, mode, "dropout/attention1")?.elu(1.0)?;
        let hidden = mode.dropout(&hidden, DROPOUT, "dropout/hidden")?;
        self.1.over_edges(graph, &self.1.0.forward(&hidden)?, mode, "dropout/attention2")
    }
}
