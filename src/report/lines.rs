//! The texts of [`Terminal`](super::Terminal) that need nothing but the event.

// Writing to a text cannot fail, so the results of these writes are dropped.
use std::fmt::Write as _;

use crate::plan::NodeName;
use crate::run::{Holder, NodeFailure, RunReport};

use super::units::duration_text;

/// Lays out a node: stage `train`, point `cora/PP-GNN`.
pub(super) fn node_columns(node: &NodeName, last: &str) -> String {
    columns(&node.stage, &node.point.join("/"), last)
}

/// Lays out a stage and a text about it.
pub(super) fn columns(stage: &str, of_stage: &str, last: &str) -> String {
    format!("{stage:<10} {of_stage:<24} {last}")
}

/// Says who computes a node, and since when.
pub(super) fn held_by(holder: Option<&Holder>) -> String {
    let Some(holder) = holder else { return "another process is computing it".to_owned() };
    format!("{} has been computing it since {}", process(holder), since(holder))
}

/// Names a process.
pub(super) fn process(Holder { pid, host, .. }: &Holder) -> String {
    let host = host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    format!("process {pid}{host}")
}

/// Says when a process began.
pub(super) fn since(holder: &Holder) -> String {
    holder.since.replace('T', " ").replace('Z', " UTC")
}

/// Says in one line what happened.
pub(super) fn summary(report: &RunReport) -> String {
    let plural = if report.nodes == 1 { "" } else { "s" };
    let mut text = format!("{} node{plural}: {} cached, {} ran", report.nodes, report.cached, report.ran);
    if report.failed > 0 {
        let _ = write!(text, ", {} failed", report.failed);
    }
    let not_started = report.skipped - report.stopped.min(report.skipped);
    for (count, what) in [(report.stopped, "stopped"), (not_started, "not started"), (report.absent, "not needed")] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    if report.saved_seconds > 0.0 {
        let _ = write!(text, "; {} saved", duration_text(report.saved_seconds));
    }
    if report.interrupted {
        text += "; interrupted";
    }
    text
}

/// Says why a node failed, a line for each cause.
pub(super) fn explanation(failure: &NodeFailure) -> String {
    let indent = " ".repeat(13);
    let mut text = String::new();
    for (i, error) in failure.errors.iter().enumerate() {
        let word = if i == 0 { "error" } else { "cause" };
        let _ = writeln!(text, "{indent}{word}: {}", error.trim_end().replace('\n', &format!("\n{indent}       ")));
    }
    if let Some(hint) = &failure.hint {
        let _ = writeln!(text, "{indent} hint: {hint}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_of_a_run_is_accounted_for() {
        let report = RunReport { nodes: 9, cached: 1, ran: 2, failed: 1, skipped: 3, ..RunReport::default() };
        let report = RunReport { stopped: 1, absent: 2, interrupted: true, ..report };
        let expected = "9 nodes: 1 cached, 2 ran, 1 failed; 1 stopped; 2 not started; 2 not needed; interrupted";
        assert_eq!(summary(&report), expected);
    }
}
