//! Compares the ingredients of two keys, one by one.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::plan::{ArtifactKey, KeyInputs};

/// What one key has for an ingredient; `None` where it lacks it.
pub type Side = Option<Value>;

/// An ingredient that differs.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// Anything but an input: a parameter, a version, the numeric profile.
    Value {
        /// Its name: `params.lr`, `version`, `model`, `profile`.
        name: String,
        /// What the earlier artifact had.
        before: Side,
        /// What the node has.
        now: Side,
    },
    /// An input.
    Input {
        /// Slot, numbered where it takes many.
        slot: String,
        /// Key of what was there.
        before: Option<ArtifactKey>,
        /// Key of what is there.
        now: Option<ArtifactKey>,
    },
}

/// Returns everything in which two keys of one stage differ.
pub fn differences(before: &KeyInputs, now: &KeyInputs) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |name: &str, before: Side, now: Side| {
        if before != now {
            found.push(Difference::Value { name: name.to_owned(), before, now });
        }
    };
    compare("stage version", Some(before.version.into()), Some(now.version.into()));
    let from = |k: &KeyInputs| k.from.as_ref().map(|c| Value::from(c.to_string()));
    compare("stage crate", from(before), from(now));
    let variant = |k: &KeyInputs| k.variant.as_ref().map(|v| Value::from(v.to_string()));
    compare("variant", variant(before), variant(now));
    let added = |k: &KeyInputs| {
        let rows: Vec<_> = k.added.iter().map(ToString::to_string).collect();
        (!rows.is_empty()).then(|| Value::from(rows.join(", ")))
    };
    compare("added rows", added(before), added(now));
    for name in before.params.keys().chain(now.params.keys()).collect::<BTreeSet<_>>() {
        compare(&format!("params.{name}"), before.params.get(name).cloned(), now.params.get(name).cloned());
    }
    compare("numeric profile", Some(before.profile.clone().into()), Some(now.profile.clone().into()));
    found.extend(input_differences(before, now));
    found
}

fn input_differences(before: &KeyInputs, now: &KeyInputs) -> Vec<Difference> {
    let of = |k: &KeyInputs, slot: &str| -> Vec<ArtifactKey> {
        k.inputs.iter().filter(|i| i.slot == slot).map(|i| i.key).collect()
    };
    let mut found = Vec::new();
    for slot in before.inputs.iter().chain(&now.inputs).map(|i| &i.slot).collect::<BTreeSet<_>>() {
        let (b, n) = (of(before, slot), of(now, slot));
        let many = b.len().max(n.len()) > 1;
        for i in 0..b.len().max(n.len()) {
            let (before, now) = (b.get(i).copied(), n.get(i).copied());
            if before != now {
                let slot = if many { format!("{slot}[{i}]") } else { slot.clone() };
                found.push(Difference::Input { slot, before, now });
            }
        }
    }
    found
}
