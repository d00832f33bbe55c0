//! The artifact store: results on disk under the key that names them. Only this module writes below the root.
//!
//! ```text
//! store.json                        format of the store
//! store.lock                        shared by runs, exclusive for deletion
//! objects/<stage>/<key>/            one artifact: its files and manifest.json
//! tmp/<key>.<pid>.<n>/              an artifact being written
//! resume/<key>/                     what a stage left for its next attempt at a node
//! claims/<key>                      lock of a node being computed; says by which process
//! quarantine/<stage>-<key>-<n>/     damaged or replaced artifacts
//! results/<pipeline>/[<profile>/]   published files and published.json
//! runs/<time>-<pipeline>-<pid>.jsonl   log of a run
//! failed/<key>.json                why a node failed, where it always will
//! unfinished/<name>.json            what a run that has not finished needs
//! ```
//!
//! Nothing half-written is ever visible: an artifact is written in `tmp`, flushed, and renamed. Nothing read is
//! trusted: every byte of an artifact is covered by a digest in its manifest, and every byte of the manifest by its
//! own checksum. Locks belong to the operating system, so they vanish with the process that holds them.

mod claim;
mod clock;
mod disk;
mod ended;
mod error;
mod failed;
mod holder;
mod inspect;
mod layout;
mod logs;
mod manifest;
mod pending;
pub mod prune;
mod publish;
mod resume;
mod temporary;
mod unfinished;

pub use claim::{Claim, ClaimGuard, InUse};
pub use disk::{Entry, Opened, Store};
pub use error::StoreError;
pub(crate) use error::{hint_for, stops_everything};
pub use holder::Holder;
pub use layout::ArtifactRef;
pub use logs::LogPart;
pub use manifest::{Cost, FileRecord, Manifest, Provenance};
pub use pending::{Committed, Pending};
pub use publish::{OutputRecord, Published, PublishedFile, PublishedOutput, PublishedRun, Source};
pub use resume::ResumePoint;
pub use temporary::TemporaryStore;
pub use unfinished::UnfinishedRun;
