//! Axes: what they are called, how far they go, and where their ticks are.

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What goes along it, with its unit.
    pub title: String,
    /// Its first value.
    pub from: f64,
    /// Its last value.
    pub to: f64,
    /// Values with a tick, and what stands at them.
    pub ticks: Vec<(f64, String)>,
}

/// Steps between ticks at most.
const STEPS: f64 = 7.0;
/// The least distance of two ticks, as a share of the axis.
const LEAST_DISTANCE: f64 = 0.08;
/// What is left free beyond the outermost values, as a share of the axis.
const FREE: f64 = 0.04;

impl Axis {
    /// An axis for values, with some space beyond them.
    pub fn of(title: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (from, to) = extent(values);
        let free = FREE * (to - from);
        Self::between(title, from - free, to + free)
    }

    /// An axis for amounts, which starts at zero.
    pub fn from_zero(title: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (_, to) = extent(values.into_iter().chain([0.0]));
        Self::between(title, 0.0, to * (1.0 + FREE))
    }

    /// An axis from one value to another.
    pub fn between(title: &str, from: f64, to: f64) -> Self {
        Self { title: title.to_owned(), from, to, ticks: round_ticks(from, to) }
    }

    /// An axis for values that were chosen by hand, which have ticks themselves where there is room.
    pub fn of_chosen(title: &str, values: &[(f64, String)]) -> Self {
        let mut axis = Self::of(title, values.iter().map(|(value, _)| *value));
        let mut sorted: Vec<&(f64, String)> = values.iter().collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let apart = (axis.to - axis.from) * LEAST_DISTANCE;
        if sorted.windows(2).all(|pair| pair[1].0 - pair[0].0 >= apart) {
            axis.ticks = values.to_vec();
        }
        axis
    }

    /// An axis for decimal logarithms of values that were chosen by hand. As many have ticks as there is room for.
    pub fn of_logarithms(title: &str, values: &[(f64, String)]) -> Self {
        let mut axis = Self::of(title, values.iter().map(|(value, _)| *value));
        let apart = (axis.to - axis.from) * LEAST_DISTANCE;
        let mut sorted = values.to_vec();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        axis.ticks = Vec::new();
        for tick in sorted {
            if axis.ticks.last().is_none_or(|last| tick.0 - last.0 >= apart) {
                axis.ticks.push(tick);
            }
        }
        axis
    }

    /// An axis of names, at 0, 1, and so on.
    pub fn of_names(title: &str, names: &[String]) -> Self {
        let places = (0u32..).map(f64::from).zip(names.iter().cloned()).collect::<Vec<_>>();
        let last = places.last().map_or(0.0, |(place, _)| *place);
        Self { title: title.to_owned(), from: -0.5, to: last + 0.5, ticks: places }
    }

    /// Returns it without ticks.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { ticks: Vec::new(), ..self }
    }
}

/// The least and the largest of values, which differ.
fn extent(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let finite = values.into_iter().filter(|value| value.is_finite());
    let (from, to) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), x| (from.min(x), to.max(x)));
    match to - from {
        width if width > 0.0 && width.is_finite() => (from, to),
        _ if from.is_finite() => (from - from.abs().max(1.0) / 10.0, from + from.abs().max(1.0) / 10.0),
        _ => (0.0, 1.0),
    }
}

/// Round numbers between two values: multiples of 1, 2 or 5 times a power of ten.
fn round_ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let rough = (to - from) / STEPS;
    if !rough.is_finite() || rough <= 0.0 {
        return Vec::new();
    }
    let power = rough.log10().floor();
    let unit = 10f64.powf(power);
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * unit).find(|step| *step >= rough * 0.999).unwrap_or(unit);
    let first = (from / step - 1e-9).ceil();
    let count = ((to / step + 1e-9).floor() - first).clamp(0.0, 50.0) as u32;
    (0..=count).map(|i| (first + f64::from(i)) * step).map(|value| (value, label(value, step))).collect()
}

/// A tick as people write it: as many digits as the step has.
fn label(value: f64, step: f64) -> String {
    let value = if value.abs() < step * 1e-6 { 0.0 } else { value };
    let digits = (-step.log10().floor()).max(0.0);
    if digits > 4.0 || value.abs() >= 1e6 {
        return format!("{value:.1e}").replace(".0e", "e").replace('-', "−");
    }
    format!("{value:.*}", digits as usize).replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from: f64, to: f64) -> Vec<String> {
        round_ticks(from, to).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_numbers_inside_of_the_axis() {
        assert_eq!(labels(-1.0, 1.0), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(0.0, 97.0), ["0", "20", "40", "60", "80"]);
        assert_eq!(labels(0.0, 2.1e7)[1], "5e6");
        assert!(labels(3.0, 3.0).is_empty() && labels(f64::NAN, 1.0).is_empty());
    }

    #[test]
    fn chosen_values_have_ticks_where_there_is_room() {
        let chosen = |values: &[f64]| values.iter().map(|v| (*v, v.to_string())).collect::<Vec<_>>();
        assert_eq!(Axis::of_chosen("", &chosen(&[2.0, 4.0, 8.0])).ticks.len(), 3);
        let crowded = Axis::of_chosen("", &chosen(&[1.0, 2.0, 500.0]));
        assert_eq!(crowded.ticks[0].1, "0");
        assert_eq!(Axis::of_logarithms("", &chosen(&[0.0, 0.001, 1.0])).ticks.len(), 2);
    }

    #[test]
    fn one_value_or_none_still_makes_an_axis() {
        let one = Axis::of("", [2.0]);
        assert!(one.from < 2.0 && one.to > 2.0 && !one.ticks.is_empty());
        assert_eq!((Axis::of("", []).from, Axis::of("", [f64::NAN]).to), (-0.04, 1.04));
    }
}
