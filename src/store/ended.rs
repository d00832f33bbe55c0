//! Searches that ended because their trials had taken long enough: `ended/<digest>` for the trials that they had.
//!
//! How long trials took is measured, and is in no key. What was concluded from it is recorded once, so that a search stays ended
//! when what was trained for its trials is deleted, and with it how long that took.

use super::disk::Store;
use super::error::StoreError;
use super::layout::{ENDED, is_plain};

impl Store {
    /// Records that a search ended.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn remember_end(&self, digest: &str) -> Result<(), StoreError> {
        self.must_write()?;
        self.replace_file(&self.root().join(ENDED).join(digest), b"")
    }

    /// Returns whether the end of a search was recorded.
    pub fn has_ended(&self, digest: &str) -> bool {
        is_plain(digest) && self.root().join(ENDED).join(digest).is_file()
    }
}
