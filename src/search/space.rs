//! A space of parameters: what values each may take, and under which condition it exists.
//!
//! A sampler works with coordinates: a number in [0, 1] for every parameter that exists. A number of a range stands at its share
//! of the range, or of the logarithms; of a list of m values, the one at place j has the coordinates [j/m, (j + 1)/m).

use std::collections::BTreeMap;

use serde_json::Value;

/// Settings of a trial: values by the path of a parameter, such as `train.lr`.
pub type Settings = BTreeMap<String, Value>;

/// What values a parameter may take.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// One of a list. Numbers in ascending order are neighbours; anything else has no order.
    Choice(Vec<Value>),
    /// A whole number from the first to the second, both included.
    Int {
        /// The smallest.
        from: i64,
        /// The largest.
        to: i64,
        /// Whether ratios count instead of differences.
        log: bool,
    },
    /// A number from the first to the second.
    Float {
        /// The smallest.
        from: f64,
        /// The largest.
        to: f64,
        /// Whether ratios count instead of differences.
        log: bool,
    },
}

/// A parameter that is searched.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its path, such as `train.lr`.
    pub path: String,
    /// What values it may take.
    pub domain: Domain,
    /// Where it exists; everywhere without a condition.
    pub when: Option<Condition>,
}

/// Says that a parameter exists only where another one has one of some values.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The path of the other parameter, which stands before it.
    pub path: String,
    /// The values.
    pub values: Vec<Value>,
}

/// What is wrong with a space, and with which of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path of the parameter; empty if it is the space itself.
    pub path: String,
    /// What is wrong, as a lowercase fragment.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

/// Parameters, each once, a condition's parameter before those that it decides on.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    params: Vec<Param>,
}

/// A point of a space: the coordinate of every parameter, `None` where it does not exist.
pub type Point = Vec<Option<f64>>;

impl Space {
    /// Takes parameters in any order.
    ///
    /// # Errors
    /// Every fault found.
    pub fn new(params: Vec<Param>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        if params.is_empty() {
            faults.push(fault("", "the space is empty", "name at least one parameter with the values to try"));
        }
        for (at, param) in params.iter().enumerate() {
            if params[..at].iter().any(|before| before.path == param.path) {
                faults.push(fault(&param.path, "is searched twice", "leave one of them out"));
            }
            faults.extend(param.domain.fault().map(|(message, help)| fault(&param.path, message, help)));
        }
        let (ordered, cyclic) = in_order(params);
        for (at, param) in ordered.iter().enumerate() {
            let Some(condition) = &param.when else { continue };
            let Some(other) = ordered[..at].iter().find(|other| other.path == condition.path) else {
                let message = format!("depends on `{}`, which the space does not have", condition.path);
                faults.push(fault(&param.path, message, "a condition names another parameter of the space"));
                continue;
            };
            for value in condition.values.iter().filter(|value| !other.domain.contains(value)) {
                let message = format!("depends on `{}` being `{value}`, which it never is", condition.path);
                faults.push(fault(&param.path, message, "name values that the other parameter may take"));
            }
            if condition.values.is_empty() {
                let message = format!("depends on `{}` being one of no values", condition.path);
                faults.push(fault(&param.path, message, "name at least one value"));
            }
        }
        faults.extend(
            cyclic
                .into_iter()
                .map(|path| fault(&path, "depends on itself through its condition", "take one of the conditions away")),
        );
        if faults.is_empty() { Ok(Self { params: ordered }) } else { Err(faults) }
    }

    /// Returns the parameters, conditions first.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Returns the settings at a point; coordinates of parameters that do not exist there are ignored.
    pub fn settings(&self, point: &[f64]) -> Settings {
        let mut settings = Settings::new();
        for (param, at) in self.params.iter().zip(point) {
            if param.exists(&settings) {
                settings.insert(param.path.clone(), param.domain.value(*at));
            }
        }
        settings
    }

    /// Returns where settings stand: the middle of what a value stands for. `None` if they are not of this space.
    pub fn point(&self, settings: &Settings) -> Option<Point> {
        let coordinate = |param: &Param| match settings.get(&param.path) {
            Some(value) => param.domain.coordinate(value).map(Some),
            None => Some(None),
        };
        self.params.iter().map(coordinate).collect()
    }

    /// Returns how many different settings there are; `None` if a range has no end of them.
    pub fn count(&self) -> Option<u64> {
        super::grid::count(self)
    }
}

fn fault(path: &str, message: impl Into<String>, help: impl Into<String>) -> Fault {
    Fault { path: path.into(), message: message.into(), help: help.into() }
}

/// Puts parameters behind those that their conditions name, and otherwise leaves their order; returns those that cannot be put
/// so as well.
fn in_order(params: Vec<Param>) -> (Vec<Param>, Vec<String>) {
    let (mut ordered, mut waiting): (Vec<Param>, Vec<Param>) = (Vec::with_capacity(params.len()), params);
    loop {
        let names: Vec<String> = waiting.iter().map(|param| param.path.clone()).collect();
        let is_free = |param: &Param| param.when.as_ref().is_none_or(|c| !names.contains(&c.path));
        let (free, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_free);
        let stuck = free.is_empty();
        ordered.extend(free);
        waiting = rest;
        if waiting.is_empty() {
            return (ordered, Vec::new());
        }
        if stuck {
            let cyclic = waiting.iter().map(|param| param.path.clone()).collect();
            return (ordered, cyclic);
        }
    }
}

impl Param {
    /// Returns whether the parameter exists beside some settings.
    pub fn exists(&self, settings: &Settings) -> bool {
        self.when.as_ref().is_none_or(|c| settings.get(&c.path).is_some_and(|value| c.values.contains(value)))
    }
}

impl Domain {
    /// Returns what makes it impossible to take a value from it, and what to do about it.
    fn fault(&self) -> Option<(String, &'static str)> {
        match self {
            Self::Choice(values) if values.is_empty() => Some(("has no values".into(), "list at least one")),
            Self::Choice(values) => {
                let twice = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value));
                twice.map(|(_, value)| (format!("lists `{value}` twice"), "list every value once"))
            }
            Self::Int { from, to, log } => {
                let ends =
                    (from > to).then(|| (format!("goes from `{from}` to `{to}`"), "the first must not be larger"));
                let positive = (*log && *from < 1)
                    .then(|| (format!("starts at `{from}` on a logarithmic scale"), "start at 1 or above"));
                ends.or(positive)
            }
            Self::Float { from, to, log } => {
                let finite = (!(from.is_finite() && to.is_finite()))
                    .then(|| (format!("goes from `{from}` to `{to}`"), "both ends must be finite"));
                let ends =
                    (from > to).then(|| (format!("goes from `{from}` to `{to}`"), "the first must not be larger"));
                let positive = (*log && *from <= 0.0)
                    .then(|| (format!("starts at `{from}` on a logarithmic scale"), "start above 0"));
                finite.or(ends).or(positive)
            }
        }
    }

    /// Returns the number of values; `None` where there is no end of them.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Choice(values) => u64::try_from(values.len()).ok(),
            Self::Int { from, to, .. } => Some(to.abs_diff(*from).saturating_add(1)),
            Self::Float { from, to, .. } => (from == to).then_some(1),
        }
    }

    /// Returns values that stand for all of them: every one of a list, both ends of a range.
    pub fn probes(&self) -> Vec<Value> {
        match self {
            Self::Choice(values) => values.clone(),
            Self::Int { from, to, .. } => vec![(*from).into(), (*to).into()],
            Self::Float { from, to, .. } => vec![(*from).into(), (*to).into()],
        }
    }

    /// Returns whether neighbouring coordinates are neighbouring values.
    pub fn is_ordered(&self) -> bool {
        match self {
            Self::Choice(values) => {
                let numbers: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
                numbers.is_some_and(|numbers| numbers.windows(2).all(|pair| pair[0] < pair[1]))
            }
            Self::Int { .. } | Self::Float { .. } => true,
        }
    }

    fn contains(&self, value: &Value) -> bool {
        self.coordinate(value).is_some()
    }

    /// Returns the value at a coordinate.
    pub fn value(&self, at: f64) -> Value {
        let at = at.clamp(0.0, 1.0);
        match self {
            Self::Choice(values) => values[place(at, values.len() as f64)].clone(),
            Self::Int { from, to, log } => {
                let (low, high) = scale(*from as f64 - 0.5, *to as f64 + 0.5, *log);
                let value = unscale(low + at * (high - low), *log).round();
                #[expect(clippy::cast_possible_truncation, reason = "within the range, which is one of whole numbers")]
                let value = value as i64;
                value.clamp(*from, *to).into()
            }
            Self::Float { from, to, log } => {
                let (low, high) = scale(*from, *to, *log);
                rounded(unscale(low + at * (high - low), *log)).clamp(*from, *to).into()
            }
        }
    }

    /// Returns the coordinate of a value, the middle of what stands for it; `None` if it is none of the values.
    pub fn coordinate(&self, value: &Value) -> Option<f64> {
        let share = |low: f64, high: f64, at: f64| if high > low { (at - low) / (high - low) } else { 0.5 };
        match self {
            Self::Choice(values) => {
                let same =
                    |other: &&Value| *other == value || (other.as_f64().is_some() && other.as_f64() == value.as_f64());
                let place = values.iter().position(|other| same(&other))?;
                Some((place as f64 + 0.5) / values.len() as f64)
            }
            Self::Int { from, to, log } => {
                let number = value.as_i64().filter(|number| (*from..=*to).contains(number))?;
                let (low, high) = scale(*from as f64 - 0.5, *to as f64 + 0.5, *log);
                Some(share(low, high, scale(number as f64, number as f64, *log).0))
            }
            Self::Float { from, to, log } => {
                let number = value.as_f64().filter(|number| (*from..=*to).contains(number))?;
                let (low, high) = scale(*from, *to, *log);
                Some(share(low, high, scale(number, number, *log).0))
            }
        }
    }
}

fn scale(from: f64, to: f64, log: bool) -> (f64, f64) {
    if log { (from.ln(), to.ln()) } else { (from, to) }
}

fn unscale(at: f64, log: bool) -> f64 {
    if log { at.exp() } else { at }
}

/// A number to six significant digits: settings are read and written by people.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// The place of a coordinate among `count` places.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number of places")]
pub(super) fn place(at: f64, count: f64) -> usize {
    (at * count).min(count - 1.0).max(0.0) as usize
}

#[cfg(test)]
mod tests;
