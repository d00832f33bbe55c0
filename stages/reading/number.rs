//! One number of an untrusted file, whatever type it is stored in, and why it may be refused.

use std::fmt;

use super::watched::MOST_CLASSES;

/// One number of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Floating point.
    Float(f64),
    /// Whole; every stored type fits.
    Whole(i128),
}

impl Number {
    /// The number, if it is whole and below `bound`.
    pub fn below(self, bound: u32) -> Option<u32> {
        let Self::Whole(number) = self else { return None };
        u32::try_from(number).ok().filter(|n| *n < bound)
    }

    /// The number as features are stored, if it is finite.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "features are stored as f32")]
    pub fn finite(self) -> Option<f32> {
        let value = match self {
            Self::Float(x) => x as f32,
            Self::Whole(x) => x as f32,
        };
        value.is_finite().then_some(value)
    }

    /// The class of a node.
    ///
    /// # Errors
    /// When it is not a whole number from 0 to 65535.
    pub fn class(self, node: usize) -> Result<u32, BadValue> {
        self.below(MOST_CLASSES).ok_or_else(|| BadValue {
            at: format!("node {node}"),
            what: format!("label {self} is not a class, expected 0 to {}", MOST_CLASSES - 1),
        })
    }

    /// A feature of a node.
    ///
    /// # Errors
    /// When it is not finite.
    pub fn feature(self, node: usize, feature: usize) -> Result<f32, BadValue> {
        self.finite().ok_or_else(|| BadValue {
            at: format!("node {node}, feature {feature}"),
            what: format!("`{self}` is not a finite 32-bit number"),
        })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(x) => write!(f, "{x}"),
            Self::Whole(x) => write!(f, "{x}"),
        }
    }
}

/// A number that cannot be used: where it stands, and what is wrong with it.
pub struct BadValue {
    /// Its place, such as `edge 7`.
    pub at: String,
    /// What is wrong, and what was expected.
    pub what: String,
}
