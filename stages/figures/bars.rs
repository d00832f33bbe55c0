//! Histograms.

/// Counts values in bins of one width between two ends; those beyond count in the outermost bins.
pub fn histogram(values: &[f64], from: f64, to: f64, bins: usize) -> Vec<usize> {
    let mut counts = vec![0; bins];
    for value in values {
        let place = (value - from) / (to - from) * bins as f64;
        if let Some(count) = counts.get_mut((place.max(0.0) as usize).min(bins.saturating_sub(1))) {
            *count += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_an_edge_are_counted_once() {
        assert_eq!(histogram(&[-1.0, -0.5, 0.0, 0.99, 1.0, 1.0001], -1.0, 1.0, 4), [1, 1, 1, 3]);
        assert!(histogram(&[1.0], 0.0, 1.0, 0).is_empty());
    }
}
