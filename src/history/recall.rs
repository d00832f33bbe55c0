//! Manifests of earlier artifacts, read once per stage, newest first.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::difference::{Difference, differences};
use crate::plan::Node;
use crate::store::{Manifest, Store};

/// Manifests read for one stage; older ones tell nothing that newer ones do not.
const MOST: usize = 400;

/// The artifact most like a node, and how it differs.
pub struct Nearest {
    /// How it was made.
    pub manifest: Manifest,
    /// In what it differs; empty if the two have the same key.
    pub differences: Vec<Difference>,
}

/// Looks up earlier artifacts of a store.
pub struct Recall<'s> {
    store: &'s Store,
    by_stage: RefCell<HashMap<String, Rc<Vec<Manifest>>>>,
}

impl<'s> Recall<'s> {
    /// Looks into a store.
    pub fn new(store: &'s Store) -> Self {
        Self { store, by_stage: RefCell::default() }
    }

    /// Returns manifests of a stage, newest first.
    pub fn of_stage(&self, stage: &str) -> Rc<Vec<Manifest>> {
        let mut by_stage = self.by_stage.borrow_mut();
        let known = by_stage.entry(stage.to_owned()).or_insert_with(|| {
            let mut entries = self.store.entries(Some(stage)).unwrap_or_default();
            if entries.len() > MOST {
                entries.sort_by_key(|e| std::cmp::Reverse(self.store.modified(e)));
                entries.truncate(MOST);
            }
            let mut manifests: Vec<_> = entries.iter().filter_map(|e| self.store.manifest(&e.key, &e.stage)).collect();
            manifests.sort_by(|a, b| b.created.cmp(&a.created).then(a.key.cmp(&b.key)));
            Rc::new(manifests)
        });
        Rc::clone(known)
    }

    /// Finds the other artifact of the same stage that differs in the fewest ingredients, the newest of several.
    pub fn nearest(&self, node: &Node) -> Option<Nearest> {
        self.of_stage(node.stage.name)
            .iter()
            .filter(|m| m.key != node.key)
            .map(|m| (differences(&m.ingredients, &node.ingredients), m))
            .min_by_key(|(d, _)| d.len())
            .map(|(differences, manifest)| Nearest { manifest: manifest.clone(), differences })
    }
}
