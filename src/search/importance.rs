//! Which parameters matter: how much of the variance of scores lies between the values of each.

use std::collections::BTreeMap;

use serde_json::Value;

use super::space::Settings;

/// Groups that numbers of a range are compared in.
const GROUPS: usize = 4;
/// Values that are compared one by one.
const MOST_VALUES: usize = 12;

/// Returns for every parameter that varies the share of the variance of scores that lies between its values, largest first.
/// Trials that do not have a parameter are a group of their own. Nothing can be said of fewer than three trials or of equal
/// scores.
pub fn importance(trials: &[(&Settings, f64)]) -> Vec<(String, f64)> {
    let mean = trials.iter().map(|(_, score)| score).sum::<f64>() / trials.len().max(1) as f64;
    let total: f64 = trials.iter().map(|(_, score)| (score - mean).powi(2)).sum();
    if trials.len() < 3 || total <= 0.0 {
        return Vec::new();
    }
    let paths: std::collections::BTreeSet<&String> = trials.iter().flat_map(|(settings, _)| settings.keys()).collect();
    let mut shares = Vec::new();
    for path in paths {
        let values: Vec<Option<&Value>> = trials.iter().map(|(settings, _)| settings.get(path)).collect();
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (name, (_, score)) in names(&values).into_iter().zip(trials) {
            groups.entry(name).or_default().push(*score);
        }
        if groups.len() > 1 {
            let between = groups.values().map(|scores| {
                let own = scores.iter().sum::<f64>() / scores.len() as f64;
                scores.len() as f64 * (own - mean).powi(2)
            });
            shares.push((path.clone(), between.sum::<f64>() / total));
        }
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    shares
}

/// The group of every trial: its value, or a quarter of the numbers where there are many.
fn names(values: &[Option<&Value>]) -> Vec<String> {
    let mut distinct: Vec<String> = values.iter().flatten().map(|value| value.to_string()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut numbers: Vec<f64> = values.iter().flatten().filter_map(|value| value.as_f64()).collect();
    numbers.sort_by(f64::total_cmp);
    let group = |value: &Value| match value.as_f64() {
        Some(number) if distinct.len() > MOST_VALUES => {
            let below = numbers.partition_point(|other| *other < number);
            (below * GROUPS / numbers.len().max(1)).to_string()
        }
        _ => value.to_string(),
    };
    values.iter().map(|value| value.map_or_else(|| "none".to_owned(), group)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(lr: f64, init: &str) -> Settings {
        [("train.lr".to_owned(), json!(lr)), ("train.init".to_owned(), json!(init))].into()
    }

    #[test]
    fn a_parameter_that_explains_everything_has_all_of_the_variance() {
        let trials: Vec<(Settings, f64)> = [(0.1, "a", 1.0), (0.1, "b", 1.0), (0.2, "a", 3.0), (0.2, "b", 3.0)]
            .map(|(lr, init, s)| (settings(lr, init), s))
            .into();
        let of: Vec<(&Settings, f64)> = trials.iter().map(|(settings, score)| (settings, *score)).collect();
        assert_eq!(importance(&of), [("train.lr".to_owned(), 1.0), ("train.init".to_owned(), 0.0)]);
    }

    #[test]
    fn numbers_of_a_range_are_compared_in_quarters() {
        let trials: Vec<(Settings, f64)> = (0..40).map(|i| (settings(f64::from(i), "a"), f64::from(i / 10))).collect();
        let of: Vec<(&Settings, f64)> = trials.iter().map(|(settings, score)| (settings, *score)).collect();
        assert_eq!(importance(&of), [("train.lr".to_owned(), 1.0)]);
        assert!(importance(&of[..2]).is_empty() && importance(&[]).is_empty());
    }
}
