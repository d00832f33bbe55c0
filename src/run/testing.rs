//! Plans for unit tests: nodes that are never computed, with the inputs a test gives them.

use ppgnn_stages::contract::StageDef;
use serde_json::json;

use crate::pipeline::DeviceRequest;
use crate::plan::{Edge, KeyInput, KeyInputs, Node, NodeId, NodeName, Plan};

/// A plan whose nodes have the given inputs, by position.
pub(super) fn plan(inputs: &[&[usize]]) -> Plan {
    plan_of(inputs, |_| "normalize")
}

/// The same, with the stage of every node.
pub(super) fn plan_of(inputs: &[&[usize]], stage: impl Fn(usize) -> &'static str) -> Plan {
    let mut nodes: Vec<Node> = Vec::new();
    for (at, of) in inputs.iter().enumerate() {
        let def = find(stage(at));
        let written = if def.name == "train" { json!({"model": "mlp"}) } else { json!({}) };
        let of_key = of.iter().map(|i| KeyInput { slot: "of".into(), key: nodes[*i].key }).collect();
        let params = json!({"node": at}).as_object().cloned().unwrap_or_default();
        let ingredients = KeyInputs {
            stage: def.name.into(),
            version: def.version,
            from: None,
            variant: None,
            added: Vec::new(),
            params,
            inputs: of_key,
            profile: "cpu".into(),
        };
        nodes.push(Node {
            name: NodeName::new("node", [at.to_string()]),
            aliases: Vec::new(),
            axes: Vec::new(),
            dataset: None,
            stage: def,
            params: def.check(&ppgnn_stages::built_in(), written.as_object().unwrap()).unwrap(),
            inputs: of.iter().map(|i| Edge { slot: "of", node: NodeId(*i) }).collect(),
            key: ingredients.key(),
            ingredients,
        });
    }
    Plan {
        pipeline: "test".into(),
        profile: None,
        device: DeviceRequest::Cpu,
        nodes,
        outputs: Vec::new(),
        absent: Vec::new(),
        known_data: Vec::new(),
        trials: Vec::new(),
        searches: Vec::new(),
        wired: Default::default(),
        unshared: 0,
    }
}

fn find(name: &str) -> &'static StageDef {
    ppgnn_stages::STAGES.iter().find(|s| s.name == name).unwrap()
}
