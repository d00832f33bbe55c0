//! The lines of the live view: a function of where the run stands, the tables so far, and the page.
//!
//! ```text
//! Test accuracy
//! method / dataset     homophilic        heterophilic
//! MLP                  73.20 ± 2.53 n=10            ·
//!
//! 12 of 39 nodes, 43 % of the work, about 12.3 s left (8.0 s to 15.2 s), 3 hits
//!   train heterophilic/MLP  2.4 s  120/200 loss 0.31
//! ```

use ppgnn_stages::kinds::PlainTable;

use super::progress::{Left, Progress, Running, Waiting};
use crate::report::lines::{process, since};
use crate::report::page::{Page, width_of};
use crate::report::table::excerpt;
use crate::report::units::duration_text;

/// Nodes that are named at a time, in each of the two lists.
const MOST_NAMED: usize = 4;

/// Draws the view: never wider than the page, and never as high, so that the cursor has a line of its own.
pub(super) fn frame(progress: &Progress, tables: &[PlainTable], page: Page) -> Vec<String> {
    let room = page.height.saturating_sub(1);
    let mut status = vec![status(progress, page)];
    status.extend(named(&progress.running, "running", page, |running| running_line(running, page)));
    status.extend(named(&progress.waiting, "waiting for others", page, |waiting| waiting_line(waiting, page)));
    status.truncate(room);
    let mut above = drawn_tables(tables, page, room.saturating_sub(status.len() + 1));
    if !above.is_empty() {
        above.push(String::new());
    }
    above.extend(status);
    above
}

/// The tables that fit, and how many more there are.
fn drawn_tables(tables: &[PlainTable], page: Page, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        let (blank, note) = (usize::from(at > 0), usize::from(at + 1 < tables.len()));
        let drawn = excerpt(table, page, room.saturating_sub(lines.len() + blank + note));
        if drawn.is_empty() {
            let (count, plural) = (tables.len() - at, if tables.len() - at == 1 { "" } else { "s" });
            if lines.len() < room {
                lines.push(page.styled("2", &page.cut(&format!("… {count} more table{plural} than fit here"))));
            }
            break;
        }
        lines.extend((at > 0).then(String::new));
        lines.extend(drawn);
    }
    lines
}

/// How far the run is: the longest text that fits.
fn status(progress: &Progress, page: Page) -> String {
    let (ended, needed) = (progress.ended(), progress.needed.max(progress.ended()));
    let hits = format!("{} hit{}", progress.hits, if progress.hits == 1 { "" } else { "s" });
    let failed = (progress.failed > 0).then(|| format!("{} failed", progress.failed));
    let stopping = progress.stopping.then(|| "stopping".to_owned());
    let texts = |of: &str, share: &dyn Fn(Left) -> Vec<String>| {
        let left = progress.left.map(share).unwrap_or_default();
        let ends = [stopping.clone(), failed.clone(), Some(hits.clone())].into_iter().flatten();
        std::iter::once(format!("{ended}{of}{needed} nodes")).chain(left).chain(ends).collect::<Vec<_>>().join(", ")
    };
    let percent = |left: Left| format!("{:.0} %", (left.share * 100.0).clamp(0.0, 100.0));
    let long = texts(" of ", &|left: Left| {
        let [expected, least, most] = [left.seconds, left.least, left.most].map(duration_text);
        vec![format!("{} of the work", percent(left)), format!("about {expected} left ({least} to {most})")]
    });
    let medium = texts(" of ", &|left: Left| {
        let [least, most] = [left.least, left.most].map(duration_text);
        vec![percent(left), format!("{least} to {most} left")]
    });
    let short = texts("/", &|left: Left| vec![percent(left), format!("{} left", duration_text(left.seconds))]);
    let fits = [long, medium].into_iter().find(|text| width_of(text) <= page.width);
    page.cut(&fits.unwrap_or(short))
}

fn named<T>(of: &[T], what: &str, page: Page, line: impl Fn(&T) -> String) -> Vec<String> {
    let shown = if of.len() > MOST_NAMED { MOST_NAMED - 1 } else { of.len() };
    let mut lines: Vec<String> = of[..shown].iter().map(line).collect();
    if shown < of.len() {
        lines.push(page.cut(&format!("  and {} more {what}", of.len() - shown)));
    }
    lines
}

fn running_line(running: &Running, page: Page) -> String {
    let name = name_of(&running.node, page);
    let seconds = duration_text(running.since.elapsed().as_secs_f64());
    let said = if running.said.is_empty() { String::new() } else { format!("  {}", running.said.trim_end()) };
    page.cut(&format!("  {name}  {seconds}{said}"))
}

fn waiting_line(waiting: &Waiting, page: Page) -> String {
    let name = name_of(&waiting.node, page);
    let Some(holder) = &waiting.holder else {
        return page.cut(&format!("  waiting for {name}: another process has it"));
    };
    let time = holder.held_for().map(|time| format!(" for {}", duration_text(time.as_secs_f64()))).unwrap_or_default();
    page.cut(&format!("  waiting for {name}: {}{time}, since {}", process(holder), since(holder)))
}

/// The name of a node, in at most half a line.
fn name_of(node: &crate::plan::NodeName, page: Page) -> String {
    let half = Page { width: page.width / 2, ..page };
    half.cut(&format!("{} {}", node.stage, node.point.join("/")))
}

#[cfg(test)]
mod tests;
