//! Weights as PyTorch and candle-nn expect them.
//!
//! Our layers are X W + b with W: in × out, and that is how weights are stored. Both libraries have X Wᵀ + b with W:
//! out × in, so every matrix whose name ends in `.weight` is transposed; coefficients of filters stay as they are. A `-` in a
//! name becomes `_`, so that names can be attributes of a module: `gamma-low` is `gamma_low`.

use std::collections::BTreeMap;

use super::{Arrays, Data};
use crate::kinds::Trained;

/// Returns the weights of one split under their own names, or of all splits under `<split>/<name>`.
pub fn weights(trained: &Trained, of_split: Option<usize>) -> Arrays {
    let mut arrays = Arrays::default();
    for (at, split) in trained.splits.iter().enumerate().filter(|(at, _)| of_split.is_none_or(|only| only == *at)) {
        let prefix = if of_split.is_some() { String::new() } else { format!("{at}/") };
        let mut of_split = Arrays::default();
        for (name, (shape, values)) in &split.weights {
            match shape[..] {
                [rows, cols] if name.ends_with(".weight") => {
                    let transposed = (0..cols).flat_map(|c| (0..rows).map(move |r| values[r * cols + c]));
                    of_split.add(attribute(name, &split.weights), &[cols, rows], Data::F32(transposed.collect()));
                }
                _ => of_split.add(attribute(name, &split.weights), shape, Data::F32(values.clone().into())),
            }
        }
        arrays.extend(&prefix, of_split);
    }
    arrays
}

/// The name as an attribute, unless another weight has that name already.
fn attribute<V>(name: &str, all: &BTreeMap<String, V>) -> String {
    let changed = name.replace('-', "_");
    if all.contains_key(&changed) { name.to_owned() } else { changed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::TrainedSplit;

    #[test]
    fn matrices_of_layers_are_transposed_and_nothing_else_is() {
        let weights = [
            ("lin1.weight", vec![2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            ("lin1.bias", vec![3], vec![7.0, 8.0, 9.0]),
            ("gamma-low", vec![1, 2], vec![0.5, 0.25]),
        ];
        let weights: BTreeMap<_, _> = weights.into_iter().map(|(n, s, v)| (n.to_owned(), (s, v))).collect();
        let split = TrainedSplit { weights, ..TrainedSplit::default() };
        let trained = Trained { splits: vec![split.clone(), split], ..Trained::default() };
        let one = super::weights(&trained, Some(1));
        assert_eq!(one.names().collect::<Vec<_>>(), ["gamma_low", "lin1.bias", "lin1.weight"]);
        let transposed = Data::F32(vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0].into());
        assert_eq!(one.get("lin1.weight"), Some((&[3, 2][..], &transposed)));
        assert_eq!(one.get("gamma_low"), Some((&[1, 2][..], &Data::F32(vec![0.5, 0.25].into()))));
        let all = super::weights(&trained, None);
        assert_eq!(all.names().filter(|name| name.starts_with("0/")).count(), 3);
        assert_eq!(all.get("1/lin1.weight"), one.get("lin1.weight"));
    }
}
