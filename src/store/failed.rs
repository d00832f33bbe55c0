//! What failed and always will: `failed/<key>.json` says why, so that a search need not try it again.
//!
//! Only failures that follow from the ingredients of a key are recorded, such as a loss that is not finite. An artifact that is there
//! counts, whatever is recorded; a record that cannot be read counts as absent.

use serde::{Deserialize, Serialize};

use super::disk::Store;
use super::error::{StoreError, io_error};
use super::layout::FAILED;
use crate::plan::ArtifactKey;

/// Why a node failed.
#[derive(Serialize, Deserialize)]
struct Record {
    why: String,
}

impl Store {
    /// Records why a node failed.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn remember_failure(&self, key: &ArtifactKey, why: &str) -> Result<(), StoreError> {
        self.must_write()?;
        let path = self.root().join(FAILED).join(format!("{key}.json"));
        let record = Record { why: why.to_owned() };
        let text = serde_json::to_string(&record).map_err(|e| io_error("write", &path)(e.into()))?;
        self.replace_file(&path, (text + "\n").as_bytes())
    }

    /// Returns why a node failed, if that was recorded.
    pub fn failure(&self, key: &ArtifactKey) -> Option<String> {
        let bytes = std::fs::read(self.root().join(FAILED).join(format!("{key}.json"))).ok()?;
        serde_json::from_slice::<Record>(&bytes).ok().map(|record| record.why)
    }
}
