//! What is timed: data sets and models, with the parameters that ours and the peer read.
//!
//! Both sides compute the same: features as stored, dropout ½ where a model drops, no early stopping, one evaluation per epoch,
//! and one pass through the network for both branches of PP-GNN (`masks: shared`).

use serde_json::{Map, Value};

use super::roofline::{Epoch, Operation, Sizes};

/// Hidden units of all models that have some.
const HIDDEN: usize = 64;

/// Every model: what the row is called, the model, and its parameters.
const MODELS: &[(&str, &str, &str)] = &[
    ("lr", "lr", r#"{"dropout": 0.5}"#),
    ("mlp", "mlp", r#"{"hidden": 64, "dropout": 0.5}"#),
    ("gcn", "gcn", r#"{"hidden": 64, "dropout": 0.5}"#),
    ("gcn-kipf", "gcn-kipf", r#"{"hidden": 64, "dropout": 0.5}"#),
    ("gcn-ogb", "gcn-ogb", r#"{"hidden": 64, "layers": 3, "dropout": 0.5}"#),
    ("sgcn", "sgcn", r#"{"order": 2, "dropout": 0.0}"#),
    ("supergat", "supergat", SUPERGAT),
    ("geom-gcn", "geom-gcn", r#"{"hidden": 48, "dropout": 0.5}"#),
    ("fagcn", "fagcn", r#"{"hidden": 64, "layers": 2, "epsilon": 0.3, "dropout": 0.5}"#),
    ("appnp", "appnp", r#"{"hidden": 64, "dropout": 0.5, "order": 10, "alpha": 0.1}"#),
    ("lgc", "lgc", r#"{"order": 10, "dropout": 0.5}"#),
    ("gpr-gnn", "gpr-gnn", r#"{"hidden": 64, "dropout": 0.5, "dprate": 0.5, "order": 10}"#),
    ("tdgnn", "tdgnn", r#"{"hidden": 64, "dropout": 0.5, "hops": [1, 2], "weighted": true}"#),
    ("h2gcn", "h2gcn", r#"{"hidden": 64, "rounds": 2, "dropout": 0.5}"#),
    ("arma", "arma", r#"{"stacks": 2, "depth": 2, "dropout": 0.5}"#),
    ("bernnet", "bernnet", r#"{"hidden": 64, "dropout": 0.5, "dprate": 0.5, "order": 10}"#),
    ("adagnn", "adagnn", r#"{"hidden": 64, "layers": 8, "dropout": 0.5, "l1": 1e-6}"#),
    ("gfir", "gfir", r#"{"order": 4, "dropout": 0.5}"#),
    ("pp-gnn", "pp-gnn", PP),
    ("pp-gnn-features", "pp-gnn", PP_FEATURES),
];
const SUPERGAT: &str = r#"{"kind": "mx", "hidden": 8, "heads": 8, "out-heads": 8, "dropout": 0.5, "edge-loss": 4.0, "edges": 0.8, "negatives": 0.5}"#;
const PP: &str =
    r#"{"hidden": 64, "dropout": 0.5, "dprate": 0.5, "order": 4, "bins": 4, "eta": 0.85, "masks": "shared"}"#;
const PP_FEATURES: &str =
    r#"{"hidden": 64, "dropout": 0.5, "dprate": 0.5, "order": 4, "bins": 4, "eta": 0.85, "filters": "features"}"#;

/// Data sets, with the eigenpairs per side that PP-GNN has there. All models are timed on the first two.
const DATA: &[(&str, usize)] = &[("cora", 128), ("chameleon", 1024), ("texas", 91), ("pubmed", 256)];
/// Rows on further data sets.
const FURTHER: &[(&str, &str)] = &[("texas", "pp-gnn"), ("pubmed", "gcn")];

/// What is measured.
#[derive(Clone)]
pub struct Row {
    /// Data set, and its folder.
    pub data: &'static str,
    /// What people call it: the model, and the form of it.
    pub name: &'static str,
    /// Eigenpairs per side, for those that need some.
    k: usize,
    /// Parameters of the model, with its name.
    params: Map<String, Value>,
}

/// The rows of the benchmark that the words choose: data sets, models, or both; all if there is none.
pub fn rows(words: &[&str]) -> Vec<Row> {
    let chosen = |known: &dyn Fn(&str) -> bool, name: &str| {
        let mut named = words.iter().filter(|word| known(word)).peekable();
        named.peek().is_none() || named.any(|word| *word == name)
    };
    let is_data = |word: &str| DATA.iter().any(|(data, _)| *data == word);
    let is_model = |word: &str| MODELS.iter().any(|(name, ..)| *name == word);
    let mut rows = Vec::new();
    for (at, (data, k)) in DATA.iter().enumerate() {
        for (name, model, params) in MODELS {
            let there = at < 2 || FURTHER.contains(&(data, name));
            if there && chosen(&is_data, data) && chosen(&is_model, name) {
                let mut params: Map<String, Value> = serde_json::from_str(params).unwrap_or_default();
                params.insert("model".into(), (*model).into());
                rows.push(Row { data, name, k: *k, params });
            }
        }
    }
    rows
}

impl Row {
    fn number(&self, name: &str) -> usize {
        self.params.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
    }

    /// The model's name in a pipeline.
    pub fn model(&self) -> &str {
        self.params.get("model").and_then(Value::as_str).unwrap_or_default()
    }

    /// The same model as `examples/plain/` has it, with the parameters that it has there; the others are as they are here.
    pub fn in_plain_form(&self) -> Option<Self> {
        let known: &[&str] = match self.model() {
            "gcn" => &["hidden", "dropout"],
            "gpr-gnn" => &["order"],
            _ => return None,
        };
        let mut params = self.params.clone();
        params.retain(|name, _| known.contains(&name.as_str()));
        params.insert("model".into(), format!("plain-{}", self.model()).into());
        Some(Self { params, ..self.clone() })
    }

    /// Parameters as the peer reads them.
    pub fn params(&self) -> String {
        Value::Object(self.params.clone()).to_string()
    }

    /// Stages of a pipeline that ends with its training.
    pub fn stages(&self) -> Vec<String> {
        let mut stages = vec![
            format!("load: {{ params: {{ dataset: {} }} }}", self.data),
            "featurize: { inputs: { graph: load } }".into(),
            format!(
                "normalize: {{ inputs: {{ graph: load }}, params: {{ self-loops: {} }} }}",
                !["bernnet", "fagcn", "h2gcn"].contains(&self.model())
            ),
            "split: { inputs: { graph: load }, params: { method: file, count: 10 } }".into(),
        ];
        let mut inputs = String::new();
        if self.model() == "pp-gnn" {
            stages.push(format!("evd: {{ inputs: {{ operator: normalize }}, params: {{ k: {} }} }}", self.k));
            inputs = ", spectrum: evd".into();
        }
        if self.params.contains_key("filters") {
            stages.push("project: { inputs: { spectrum: evd, nodes: featurize } }".into());
            inputs += ", projection: project";
        }
        if self.model() == "tdgnn" {
            stages.push("separate: { inputs: { operator: normalize }, params: { depth: 10, hops: [1, 2] } }".into());
            inputs = ", hops: separate".into();
        }
        if self.model() == "h2gcn" {
            let params = "params: { self-loops: false, hops: 2 }";
            stages.push(format!("two-hops: {{ uses: normalize, inputs: {{ graph: load }}, {params} }}"));
            inputs = ", second-operator: two-hops".into();
        }
        if self.model() == "geom-gcn" {
            stages.push("relate: { inputs: { graph: load }, params: { embedding: isomap } }".into());
            inputs = ", relations: relate".into();
        }
        let mut params = self.params.clone();
        for (name, value) in [("window", 0.0), ("lr", 0.005), ("weight-decay", 0.001)] {
            params.insert(name.into(), if name == "window" { 0.into() } else { value.into() });
        }
        let params = Value::Object(params);
        let inputs = format!("operator: normalize, nodes: featurize, splits: split{inputs}");
        stages.push(format!("train: {{ inputs: {{ {inputs} }}, params: {params} }}"));
        stages
    }

    /// The parts of an epoch that the formula needs.
    pub fn operations(&self, sizes: &Sizes) -> Vec<Operation> {
        let (n, c, d, order) = (sizes.nodes, sizes.classes, HIDDEN, self.number("order"));
        let epoch = Epoch::new(sizes);
        fn network(epoch: Epoch<'_>, classes: usize) -> Epoch<'_> {
            epoch.features("features", HIDDEN, true).dense(HIDDEN, classes)
        }
        let epoch = match self.model() {
            "lr" => epoch.features("features", c, true),
            "mlp" => network(epoch, c),
            "gcn" => epoch.features("features", d, false).convolve(d, 2).dense(d, c).convolve(c, 3),
            "gcn-kipf" => epoch.features("features", d, true).convolve(d, 3).dense(d, c).convolve(c, 3),
            "gcn-ogb" => {
                let epoch = epoch.features("features", d, false).convolve(d, 2);
                let inner = (2..self.number("layers")).fold(epoch, |epoch, _| epoch.dense(d, d).convolve(d, 3));
                inner.dense(d, c).convolve(c, 3)
            }
            "sgcn" => (0..order).fold(epoch.features("features", c, false), |epoch, _| epoch.convolve(c, 2)),
            "supergat" => {
                let (units, outputs) = (d, c * self.number("out-heads"));
                // Scores and sums for training and evaluation, four products on the way back, and the loss on pairs: three for 1.2.
                let epoch = epoch.features("features", units, true).convolve(units, 12);
                epoch.dense(units, outputs).convolve(outputs, 12)
            }
            "geom-gcn" => {
                // Isomap's neighbours have all relations.
                let (parts, d) = (9, self.number("hidden"));
                let epoch = epoch.features("features", parts * d, true).convolve_second(d, 3);
                epoch.dense(parts * d, parts * c).convolve_second(c, 3)
            }
            "fagcn" => {
                let epoch = epoch.features("features", d, true);
                // The gradients of gates are a fourth product.
                let layers = (0..self.number("layers")).fold(epoch, |epoch, _| epoch.dense(d, 2).convolve(d, 4));
                layers.dense(d, c)
            }
            "lgc" => epoch.features("features", c, true).polynomial(order, c),
            "appnp" | "gpr-gnn" | "bernnet" => network(epoch, c).polynomial(order, c),
            "tdgnn" => network(epoch, c).hops(c),
            "h2gcn" => {
                // Three products with either graph, and a classifier of seven parts.
                let epoch = epoch.features("features", d, false);
                let epoch = (0..3).fold(epoch, |epoch, _| epoch.convolve(d, 2).convolve_second(d, 2));
                (0..7).fold(epoch, |epoch, _| epoch.dense(d, c))
            }
            "arma" => {
                let columns = c * self.number("stacks");
                let epoch = epoch.features("features", columns, false).convolve(columns, 2);
                let epoch = epoch.features("skips", columns, true);
                (1..self.number("depth")).fold(epoch, |epoch, _| {
                    epoch.dense(c, columns).convolve(columns, 3).features("skips", columns, true)
                })
            }
            "adagnn" => {
                let epoch = epoch.features("features", 2 * d, false).convolve(d, 2);
                let inner = (2..self.number("layers")).fold(epoch, |epoch, _| epoch.convolve(d, 3));
                inner.dense(d, 2 * c).convolve(c, 3)
            }
            "gfir" => {
                let all = (0..=order).fold(epoch, |epoch, _| epoch.features("features", c, true));
                (0..order).fold(all, |epoch, _| epoch.convolve(c, 3))
            }
            _ => {
                // `evd` keeps at most half of the pairs per side.
                let pairs = 2 * self.k.min(n / 2);
                let epoch = network(epoch, c).polynomial(order, c);
                match self.params.contains_key("filters") {
                    true => epoch.synthesis(pairs, d).dense(d, c),
                    false => epoch.spectral(pairs, c),
                }
            }
        };
        epoch.parts()
    }
}
