//! Tables of what there is, while a run goes on: made by the stage that makes the real ones, of the runs that are there.

use ppgnn_stages::contract::{Artifact, Registry};
use ppgnn_stages::kinds::{PlainTable, Table};

use super::artifacts::Artifacts;
use super::failure::Failure;
use super::outputs::{self, NOT_YET};
use super::project::StoreArgs;
use crate::plan::{NodeId, Plan};
use crate::report::Failures;

/// Makes the wanted tables without what failed and what is not there yet. A table without any run is left out.
pub fn tables(
    (plan, registry): (&Plan, &Registry),
    wanted: &[NodeId],
    store: &StoreArgs,
    failed: &Failures,
) -> Result<Vec<PlainTable>, Failure> {
    let there = store.look()?;
    let mut lost = outputs::not_there(plan, &there);
    // What failed says more than that it is not there.
    lost.extend(failed.clone());
    let rest = plan.without(registry, &lost);
    let made = Artifacts::new(&rest, store.look()?)?;
    let mut tables = Vec::new();
    for output in plan.outputs.iter().filter(|o| wanted.contains(&o.node) && outputs::is_table(plan, o)) {
        let node = plan.node(output.node);
        let whole = there.get(&node.key, node.stage.name).and_then(|entry| Table::load(&entry.dir).ok());
        // Nothing but the table is ever computed here.
        let inputs = || rest.node(output.node).inputs.iter().map(|edge| rest.node(edge.node));
        let can_be_made = inputs().next().is_some() && inputs().all(|input| there.has(&input.key, input.stage.name));
        let mut table = match whole {
            Some(whole) => whole.so_far(NOT_YET),
            None if can_be_made => made.get::<Table>(output.node)?.so_far(NOT_YET),
            None => continue,
        };
        if table.title.is_empty() {
            table.title.clone_from(&output.name);
        }
        tables.push(table);
    }
    Ok(tables)
}
