//! What a stage says about itself before it runs: what it will make, what that takes, and what must fail.
//!
//! Sizes go in, sizes come out, so the whole of a plan can be priced before any of it is computed. Work is counted in terms that
//! the stage names ([`Term`]), with the seconds that a unit of each takes on an ordinary core; how fast this machine is, the
//! engine learns from what was computed before.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::device::Backend;
use super::job::Chosen;
use super::sizes::{Size, Sizes, Sureness};
use super::{Row, StageError};

/// A kind of work that a stage does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// Its name, in kebab-case; manifests hold how much of it there was.
    pub name: &'static str,
    /// Seconds that a unit takes on one core.
    pub seconds: f64,
    /// Whether several threads share it.
    pub shared: bool,
}

impl Term {
    /// Work that one thread does.
    pub const fn alone(name: &'static str, seconds: f64) -> Self {
        Self { name, seconds, shared: false }
    }

    /// Work that several threads share.
    pub const fn shared(name: &'static str, seconds: f64) -> Self {
        Self { name, seconds, shared: true }
    }
}

/// How much a node has to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Amounts by the names of [`Stage::TERMS`](super::Stage::TERMS).
    pub amounts: Vec<(&'static str, Size)>,
    /// How many threads can share it; more do not help.
    pub threads: Size,
    /// What the amounts may be wrong by beyond their sureness, as a standard deviation of the logarithm.
    pub spread: f64,
}

impl Default for Work {
    fn default() -> Self {
        Self { amounts: Vec::new(), threads: Size::from(f64::INFINITY), spread: 0.0 }
    }
}

impl Work {
    /// Adds some amount of a term.
    #[must_use]
    pub fn and(mut self, term: &'static str, amount: Size) -> Self {
        self.amounts.push((term, amount));
        self
    }

    /// Says how many threads can share it.
    #[must_use]
    pub fn shared_by(self, threads: impl Into<Size>) -> Self {
        Self { threads: threads.into(), ..self }
    }

    /// Returns how sure the amounts are.
    pub fn sure(&self) -> Sureness {
        let all = self.amounts.iter().map(|(_, amount)| amount.sure);
        all.min().unwrap_or(Sureness::Guess)
    }
}

/// Something that a stage holds in memory at the time when it holds most.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Bytes.
    pub bytes: Size,
    /// Whether every thread has its own.
    pub each: bool,
    /// What makes it smaller, such as "lower `hidden`".
    pub remedy: Option<String>,
}

/// The memory that a stage takes at most, by what it is for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// What is held at a time.
    pub held: Vec<Held>,
}

impl Memory {
    /// Adds some bytes.
    #[must_use]
    pub fn and(self, bytes: Size) -> Self {
        self.push(bytes, false, None)
    }

    /// Adds some bytes that a person can do something about.
    #[must_use]
    pub fn and_for(self, bytes: Size, remedy: impl Into<String>) -> Self {
        self.push(bytes, false, Some(remedy.into()))
    }

    /// Adds some bytes that every thread has.
    #[must_use]
    pub fn and_each(self, bytes: Size, remedy: impl Into<String>) -> Self {
        self.push(bytes, true, Some(remedy.into()))
    }

    fn push(mut self, bytes: Size, each: bool, remedy: Option<String>) -> Self {
        self.held.push(Held { bytes, each, remedy });
        self
    }

    /// Returns what all threads hold together, and what each holds besides.
    pub fn parts(&self) -> (Size, Size) {
        let of = |each: bool| self.held.iter().filter(|held| held.each == each).map(|held| held.bytes).sum();
        (of(false), of(true))
    }

    /// Returns what makes the largest part smaller.
    pub fn remedy(&self) -> Option<&str> {
        let able = self.held.iter().filter(|held| held.remedy.is_some());
        able.max_by(|a, b| a.bytes.value.total_cmp(&b.bytes.value))?.remedy.as_deref()
    }
}

/// What a node will make and take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Sizes of the output.
    pub sizes: Sizes,
    /// What there is to do; empty where the stage cannot say.
    pub work: Work,
    /// What it holds in memory at most.
    pub memory: Memory,
    /// What people should know before it runs, such as a parameter that counts only in part.
    pub notes: Vec<String>,
}

/// An input of a node, as far as it is known.
#[derive(Clone, Debug)]
pub struct KnownInput<'a> {
    /// Name of the slot.
    pub slot: &'static str,
    /// Key of the artifact.
    pub key: String,
    /// Its sizes; none for a slot that takes many.
    pub sizes: Sizes,
    /// Its folder, if it is in the store. Nothing has been verified of what is in it.
    pub dir: Option<&'a Path>,
}

/// An earlier result of the same stage.
#[derive(Clone, Debug)]
pub struct Past {
    /// The row that was chosen, if the stage chooses.
    pub variant: Option<String>,
    /// Its parameters, defaults filled in.
    pub params: Map<String, Value>,
    /// Slots and keys of its inputs.
    pub inputs: Vec<(String, String)>,
    /// What the stage measured.
    pub measured: BTreeMap<String, f64>,
    /// `facts.json` of the artifact; null where there is none.
    pub facts: Value,
}

impl Past {
    /// Returns the key of the input in a slot.
    pub fn input(&self, slot: &str) -> Option<&str> {
        self.inputs.iter().find(|(name, _)| name == slot).map(|(_, key)| key.as_str())
    }
}

/// What a stage may know when it makes an [`Estimate`].
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The inputs in slot order.
    pub inputs: &'a [KnownInput<'a>],
    /// What the stage computes on, if it says [`Stage::ON_DEVICE`](super::Stage::ON_DEVICE).
    pub backend: Backend,
    /// The row that the parameters chose, if the stage chooses.
    pub chosen: Option<Chosen<'a, dyn Row>>,
    /// The rows that the stage uses.
    pub used: &'a [&'static dyn Row],
    /// Earlier results of the stage on this machine or another, newest first.
    pub past: &'a [Past],
    /// The folder of the result, if it is there already. Nothing has been verified of what is in it.
    pub made: Option<&'a Path>,
    /// What was measured when it was made.
    pub measured: Option<&'a BTreeMap<String, f64>>,
}

impl<'a> Known<'a> {
    /// Nothing but inputs.
    pub fn of(inputs: &'a [KnownInput<'a>]) -> Self {
        let (backend, used, past) = (Backend::Cpu, &[], &[]);
        Self { inputs, backend, chosen: None, used, past, made: None, measured: None }
    }

    /// Returns the input in a slot that takes one.
    pub fn input(&self, slot: &str) -> Option<&'a KnownInput<'a>> {
        self.inputs.iter().find(|input| input.slot == slot)
    }

    /// Returns what is known of the input in a slot; nothing where nothing is wired.
    pub fn sizes(&self, slot: &str) -> Sizes {
        self.input(slot).map_or_else(Sizes::default, |input| input.sizes.clone())
    }

    /// Returns how many inputs a slot has.
    pub fn count(&self, slot: &str) -> usize {
        self.inputs.iter().filter(|input| input.slot == slot).count()
    }

    /// Returns the row of the stage's choice, with its parameters.
    ///
    /// # Errors
    /// [`StageError::Unusable`] in a stage that does not choose from the table of `R`.
    pub fn chosen<R: Row>(&self) -> Result<Chosen<'a, R>, StageError> {
        super::job::of_table(self.chosen)
    }

    /// Lists the rows that the stage uses.
    pub fn used<R: Row>(&self) -> Vec<&'static R> {
        self.used.iter().filter_map(|row| row.of_type()).collect()
    }

    /// Returns what was measured, if the result is there already.
    pub fn measured(&self, name: &str) -> Option<f64> {
        self.measured?.get(name).copied()
    }

    /// Lists earlier results that have the same artifact in a slot.
    pub fn past_of_same<'k>(&'k self, slot: &'k str) -> impl Iterator<Item = &'a Past> + 'k {
        let key = self.input(slot).map(|input| input.key.as_str());
        self.past.iter().filter(move |past| key.is_some() && past.input(slot) == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_that_of_the_largest_part() {
        let memory = Memory::default()
            .and(Size::exact(9000))
            .and_for(Size::exact(70), "lower `nodes`")
            .and_each(Size::about(300.0), "lower `hidden`");
        assert_eq!(memory.remedy(), Some("lower `hidden`"));
        let (all, each) = memory.parts();
        assert_eq!((all.known(), each), (Some(9070), Size::about(300.0)));
        assert_eq!(Memory::default().remedy(), None);
    }

    #[test]
    fn work_is_as_sure_as_its_least_sure_term() {
        let work = Work::default().and("a", Size::exact(3)).and("b", Size::guess(4.0));
        assert_eq!((work.sure(), Work::default().sure()), (Sureness::Guess, Sureness::Guess));
        assert_eq!(Work::default().and("a", Size::exact(3)).sure(), Sureness::Exact);
    }
}
