//! `ppgnn dag`: draws the graph of nodes for Mermaid or Graphviz.

use std::fmt::Write;

use ppgnn_stages::contract::Registry;

use super::drawing::Drawing;
use super::failure::Failure;
use super::project::PipelineArgs;
use super::{exit, print};

/// Print the graph of nodes, or of stages, for Mermaid or Graphviz
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Language to write
    #[arg(long, value_enum, default_value = "mermaid")]
    format: Format,
    /// Draw a box for each stage, not for each node
    #[arg(long)]
    stages: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Mermaid,
    Dot,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let plan = args.pipeline.plan(registry)?;
    let store = args.pipeline.store.look()?;
    let drawing = if args.stages { Drawing::of_stages(&plan, &store) } else { Drawing::of_nodes(&plan, &store) };
    print(&match args.format {
        Format::Mermaid => mermaid(&drawing),
        Format::Dot => dot(&drawing),
    })?;
    Ok(exit::DONE)
}

fn mermaid(drawing: &Drawing) -> String {
    let mut out = String::from("graph LR\n  classDef cached fill:#d5f0d5,stroke:#2d7a2d;\n");
    for (i, (label, cached)) in drawing.boxes.iter().enumerate() {
        let class = if *cached { ":::cached" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  n{i}[\"{}\"]{class}", label.replace('"', "#quot;"));
    }
    for (from, to, slot) in &drawing.arrows {
        let _ = writeln!(out, "  n{from} -->|{slot}| n{to}");
    }
    out
}

fn dot(drawing: &Drawing) -> String {
    let mut out = String::from("digraph ppgnn {\n  rankdir=LR;\n  node [shape=box];\n");
    for (i, (label, cached)) in drawing.boxes.iter().enumerate() {
        let style = if *cached { ", style=filled, fillcolor=\"#d5f0d5\"" } else { "" };
        let label = label.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(out, "  n{i} [label=\"{label}\"{style}];");
    }
    for (from, to, slot) in &drawing.arrows {
        let _ = writeln!(out, "  n{from} -> n{to} [label=\"{slot}\"];");
    }
    out.push_str("}\n");
    out
}
