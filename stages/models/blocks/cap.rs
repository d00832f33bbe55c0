//! A cap on the number of weights: that of a PP-GNN of some hidden units, as the paper compares models of about the same size.

use crate::contract::{Size, StageError};
use crate::models::GraphSizes;

/// Refuses more `weights` than a PP-GNN with `hidden` hidden units has in its network, features · hidden + hidden + hidden · classes +
/// classes. The smallest form of a model is always allowed: for many classes no form would be left.
///
/// # Errors
/// [`StageError::Unusable`] if all sizes are known and there are more.
pub fn within_cap(
    weights: Size,
    hidden: Option<usize>,
    is_smallest: bool,
    graph: &GraphSizes,
    remedy: &str,
) -> Result<(), StageError> {
    let Some(hidden) = hidden.filter(|_| !is_smallest) else { return Ok(()) };
    let most = graph.features * hidden + Size::exact(hidden) + graph.classes * hidden + graph.classes;
    match (weights.known(), most.known()) {
        (Some(weights), Some(most)) if weights > most => Err(StageError::unusable(
            format!("`{weights}` weights are more than the `{most}` of a PP-GNN with `{hidden}` hidden units"),
            format!("{remedy}, raise `cap-hidden`, or leave it out"),
        )),
        _ => Ok(()),
    }
}
