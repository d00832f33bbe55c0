//! Reading untrusted files: streams with bounds, and errors that name the file and the place in it.
//!
//! What several [formats](crate::formats) share stands here; nothing here knows a format.

pub(crate) mod json;
pub(crate) mod npz;
pub mod npz_digest;
pub(crate) mod number;
pub(crate) mod parts;
pub mod source;
pub(crate) mod split_masks;
pub(crate) mod text;
pub(crate) mod watched;
