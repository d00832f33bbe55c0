//! What is timed: data sets and models, as our parameters, as the peer's arguments, and as a form of the bound.
//!
//! Both sides compute the same: features as stored, dropout ½ on features, hidden units and before propagation, no early
//! stopping, one evaluation per epoch, and one pass through the network for both branches of PP-GNN (`masks: shared`).

use super::roofline::Form;

/// Hidden units of all models.
pub const HIDDEN: usize = 64;
/// Dropout of all models.
pub const DROPOUT: f64 = 0.5;

/// What is measured.
pub struct Row {
    /// Data set, and its folder.
    pub data: &'static str,
    /// Model with its parameters.
    pub model: Model,
    /// How many times faster than the peer ours is meant to be.
    pub target: f64,
    /// Epochs of the peer: about five seconds.
    pub peer_epochs: usize,
}

/// A model with what the row sets.
pub enum Model {
    PpGnn { k: usize, order: usize, bins: usize, eta: f64 },
    GprGnn { order: usize },
    Gcn,
}

/// The rows of the benchmark.
pub const ROWS: [Row; 4] = [
    Row {
        data: "chameleon",
        model: Model::PpGnn { k: 1024, order: 4, bins: 4, eta: 0.85 },
        target: 40.0,
        peer_epochs: 20,
    },
    Row { data: "texas", model: Model::PpGnn { k: 91, order: 4, bins: 4, eta: 0.85 }, target: 30.0, peer_epochs: 300 },
    Row { data: "cora", model: Model::GprGnn { order: 10 }, target: 30.0, peer_epochs: 40 },
    Row { data: "pubmed", model: Model::Gcn, target: 5.0, peer_epochs: 40 },
];

impl Model {
    /// Its name in a pipeline.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PpGnn { .. } => "pp-gnn",
            Self::GprGnn { .. } => "gpr-gnn",
            Self::Gcn => "gcn",
        }
    }

    /// Parameters of `train` that only this model has.
    fn own(&self) -> String {
        match self {
            Self::PpGnn { order, bins, eta, .. } => {
                format!(", order: {order}, bins: {bins}, eta: {eta}, dprate: 0.5, masks: shared")
            }
            Self::GprGnn { order } => format!(", order: {order}, dprate: 0.5"),
            Self::Gcn => String::new(),
        }
    }

    /// Arguments of the peer.
    fn arguments(&self) -> String {
        match self {
            Self::PpGnn { k, order, bins, eta } => {
                format!("--model ppgnn --k {k} --order {order} --bins {bins} --eta {eta}")
            }
            Self::GprGnn { order } => format!("--model gprgnn --order {order}"),
            Self::Gcn => "--model gcn".into(),
        }
    }
}

impl Row {
    /// Stages of a pipeline that ends with its training.
    pub fn stages(&self) -> Vec<String> {
        let mut stages = vec![
            format!("load: {{ params: {{ dataset: {} }} }}", self.data),
            "featurize: { inputs: { graph: load } }".into(),
            "normalize: { inputs: { graph: load } }".into(),
            "split: { inputs: { graph: load }, params: { method: file, count: 10 } }".into(),
        ];
        let mut spectrum = "";
        if let Model::PpGnn { k, .. } = self.model {
            stages.push(format!("evd: {{ inputs: {{ operator: normalize }}, params: {{ k: {k} }} }}"));
            spectrum = ", spectrum: evd";
        }
        stages.push(format!(
            "train: {{ inputs: {{ operator: normalize, nodes: featurize, splits: split{spectrum} }}, params: {{ model: {}, \
             window: 0, lr: 0.005, weight-decay: 0.001, hidden: {HIDDEN}, dropout: {DROPOUT}{} }} }}",
            self.model.name(),
            self.model.own()
        ));
        stages
    }

    /// Arguments of the peer after the folder with data.
    pub fn arguments(&self, threads: usize) -> String {
        format!(
            "{} --hidden {HIDDEN} --dropout {DROPOUT} --dprate 0.5 --epochs {} --splits 1 --no-stop --threads {threads}",
            self.model.arguments(),
            self.peer_epochs
        )
    }

    /// What decides the cost on a graph of `nodes` nodes.
    pub fn form(&self, nodes: usize) -> Form {
        match self.model {
            Model::PpGnn { k, order, bins, .. } => {
                // `evd` keeps at most half of the pairs per side.
                Form::Filtered { order, pairs: 2 * k.min(nodes / 2), coefficients: (1 + 2 * bins) * (order + 1) }
            }
            Model::GprGnn { order } => Form::Filtered { order, pairs: 0, coefficients: order + 1 },
            Model::Gcn => Form::Convolved,
        }
    }
}
