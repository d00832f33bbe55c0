//! Reading files that nobody vouches for: streams with bounds, and errors that name file and place.
//!
//! What several [formats](crate::formats) share stands here; nothing here knows a format.

pub(crate) mod json;
pub(crate) mod npz;
pub mod npz_digest;
pub(crate) mod pickle;
pub mod source;
pub(crate) mod split_masks;
pub(crate) mod text;
pub(crate) mod watched;
