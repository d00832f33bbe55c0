//! Sizes of artifacts that may not be there yet: numbers that know how sure they are.
//!
//! Arithmetic keeps track of that: a product of something exact and something guessed is a guess. So an estimate is written
//! like the formula it is, and says by itself what it is worth.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Sub};

/// How sure a number is, the least sure first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sureness {
    /// Nothing is known: a usual number stands in its place.
    Guess,
    /// It follows from what is known, but not to the last digit.
    About,
    /// It is so.
    Exact,
}

/// A number of nodes, edges, bytes or operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// The number.
    pub value: f64,
    /// How sure it is.
    pub sure: Sureness,
}

impl Size {
    /// Nothing at all.
    pub const ZERO: Self = Self { value: 0.0, sure: Sureness::Exact };
    /// One.
    pub const ONE: Self = Self { value: 1.0, sure: Sureness::Exact };

    /// A number that is known.
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    pub const fn exact(value: usize) -> Self {
        Self { value: value as f64, sure: Sureness::Exact }
    }

    /// A number that is about right.
    pub const fn about(value: f64) -> Self {
        Self { value, sure: Sureness::About }
    }

    /// A usual number, where nothing is known.
    pub const fn guess(value: f64) -> Self {
        Self { value, sure: Sureness::Guess }
    }

    /// Returns the number if it is exact.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "exact numbers were whole")]
    pub fn known(self) -> Option<usize> {
        (self.sure == Sureness::Exact && self.value >= 0.0).then_some(self.value as usize)
    }

    /// Returns it no surer than `sure`.
    #[must_use]
    pub fn at_most(self, sure: Sureness) -> Self {
        Self { sure: self.sure.min(sure), ..self }
    }

    /// Returns the smaller of two.
    #[must_use]
    pub fn min(self, other: impl Into<Self>) -> Self {
        self.with(other.into(), f64::min)
    }

    /// Returns the larger of two.
    #[must_use]
    pub fn max(self, other: impl Into<Self>) -> Self {
        self.with(other.into(), f64::max)
    }

    /// Returns a function of it, which is as sure as it is itself, but no longer a count.
    #[must_use]
    pub fn map(self, f: impl FnOnce(f64) -> f64) -> Self {
        Self { value: f(self.value), sure: self.sure.min(Sureness::About) }
    }

    fn with(self, other: Self, f: impl FnOnce(f64, f64) -> f64) -> Self {
        Self { value: f(self.value, other.value), sure: self.sure.min(other.sure) }
    }
}

impl From<usize> for Size {
    fn from(value: usize) -> Self {
        Self::exact(value)
    }
}

impl From<f64> for Size {
    /// A factor of a formula, which makes nothing less sure.
    fn from(value: f64) -> Self {
        Self { value, sure: Sureness::Exact }
    }
}

macro_rules! operator {
    ($($name:ident, $method:ident, $f:expr;)*) => {$(
        impl<T: Into<Size>> $name<T> for Size {
            type Output = Size;
            fn $method(self, other: T) -> Size {
                self.with(other.into(), $f)
            }
        }
    )*};
}
operator! {
    Add, add, |a, b| a + b;
    Sub, sub, |a: f64, b| (a - b).max(0.0);
    Mul, mul, |a, b| a * b;
    Div, div, |a, b| a / b;
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, |sum, size| sum + size)
    }
}

/// What is known of an artifact before it is there, by name: `nodes`, `features`, …
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    numbers: BTreeMap<&'static str, Size>,
    lists: BTreeMap<&'static str, Vec<usize>>,
}

impl Sizes {
    /// Says how large something is.
    #[must_use]
    pub fn with(mut self, name: &'static str, size: impl Into<Size>) -> Self {
        self.numbers.insert(name, size.into());
        self
    }

    /// Says it if it is known.
    #[must_use]
    pub fn with_some(self, name: &'static str, size: Option<impl Into<Size>>) -> Self {
        match size {
            Some(size) => self.with(name, size),
            None => self,
        }
    }

    /// Lists numbers that are exact, such as the nodes of every class.
    #[must_use]
    pub fn with_list(mut self, name: &'static str, list: Vec<usize>) -> Self {
        self.lists.insert(name, list);
        self
    }

    /// Returns a size, if anything is known of it.
    pub fn get(&self, name: &str) -> Option<Size> {
        self.numbers.get(name).copied()
    }

    /// Returns a size, or a usual one where nothing is known of it.
    pub fn or_guess(&self, name: &str, usual: f64) -> Size {
        self.get(name).unwrap_or(Size::guess(usual))
    }

    /// Returns a size that is exact.
    pub fn known(&self, name: &str) -> Option<usize> {
        self.get(name)?.known()
    }

    /// Returns a list.
    pub fn list(&self, name: &str) -> Option<&[usize]> {
        self.lists.get(name).map(Vec::as_slice)
    }

    /// Lays others on top: what they say counts.
    #[must_use]
    pub fn overlaid(mut self, others: Self) -> Self {
        self.numbers.extend(others.numbers);
        self.lists.extend(others.lists);
        self
    }

    /// Returns them no surer than `sure`, without lists, which are exact.
    #[must_use]
    pub fn at_most(mut self, sure: Sureness) -> Self {
        self.numbers.values_mut().for_each(|size| *size = size.at_most(sure));
        if sure < Sureness::Exact {
            self.lists.clear();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_as_sure_as_the_least_sure_of_what_it_is_made_of() {
        let (nodes, edges) = (Size::exact(10), Size::about(31.5));
        assert_eq!((nodes * 4 + 2).known(), Some(42));
        assert_eq!(nodes * 2.0 + edges, Size::about(51.5));
        assert_eq!((nodes + edges).known(), None);
        assert_eq!((nodes + edges + Size::guess(1.0)).sure, Sureness::Guess);
        assert_eq!(nodes.min(3).known(), Some(3));
        assert_eq!(nodes.max(edges), edges);
        assert_eq!((nodes - 20).known(), Some(0), "a size is never negative");
        assert_eq!(nodes.map(f64::sqrt).sure, Sureness::About);
        assert_eq!([nodes, nodes].into_iter().sum::<Size>().known(), Some(20));
    }

    #[test]
    fn what_is_laid_on_top_counts() {
        let sizes = Sizes::default().with("nodes", 10).with("edges", Size::about(9.0)).with_list("classes", vec![6, 4]);
        let seen = sizes.clone().overlaid(Sizes::default().with("edges", 8));
        assert_eq!((seen.known("nodes"), seen.known("edges"), seen.known("gone")), (Some(10), Some(8), None));
        assert_eq!(seen.list("classes"), Some(&[6, 4][..]));
        let guessed = sizes.at_most(Sureness::Guess);
        assert_eq!((guessed.known("nodes"), guessed.list("classes")), (None, None));
        assert_eq!(guessed.or_guess("nodes", 5.0), Size::guess(10.0));
        assert_eq!(guessed.or_guess("features", 5.0), Size::guess(5.0));
    }
}
