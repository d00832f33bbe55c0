//! `ppgnn schema`: prints a JSON Schema of pipeline files, so that editors complete and check them.

use ppgnn_stages::contract::Registry;

use super::failure::Failure;
use super::{exit, print};
use crate::pipeline::json_schema;

/// Print the JSON Schema of pipeline files
///
/// Editors use it to complete and check: put `# yaml-language-server: $schema=ppgnn.schema.json` into the first line of
/// a pipeline file after `ppgnn schema > ppgnn.schema.json`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args, registry: &Registry) -> Result<u8, Failure> {
    let text = serde_json::to_string_pretty(&json_schema(registry)).map_err(|e| Failure::unexpected(e.to_string()))?;
    print(&format!("{text}\n"))?;
    Ok(exit::DONE)
}
