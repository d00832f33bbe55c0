//! Exit codes: a contract with scripts. Each is documented in `docs/commands.md` and tested.

/// Success.
pub const DONE: u8 = 0;
/// An unexpected error.
pub const UNEXPECTED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// The pipeline file is invalid.
pub const INVALID: u8 = 3;
/// Data, or a result that was asked for, is missing or changed.
pub const DATA: u8 = 4;
/// A stage failed.
pub const FAILED: u8 = 5;
/// Results are outside of the tolerance that was asked for.
pub const OUTSIDE: u8 = 6;
/// The artifact store cannot be used: read-only, full, or of a newer format.
pub const STORE: u8 = 7;
/// Interrupted by Ctrl-C or a termination signal.
pub const INTERRUPTED: u8 = 130;
