//! One number of an untrusted file, whatever type it is stored in, and why it may be refused.

use std::fmt;

use super::watched::MOST_CLASSES;
use crate::contract::StageError;

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

    /// The number as features are stored.
    ///
    /// # Errors
    /// When it is not finite.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "features are stored as f32")]
    pub fn finite(self, at: impl fmt::Display) -> Result<f32, BadValue> {
        let value = match self {
            Self::Float(x) => x as f32,
            Self::Whole(x) => x as f32,
        };
        let refused = || BadValue::new(at, format!("`{self}` is not a finite 32-bit number"));
        value.is_finite().then_some(value).ok_or_else(refused)
    }

    /// The truth value.
    ///
    /// # Errors
    /// When it is neither 0 nor 1.
    pub fn truth(self, at: impl fmt::Display) -> Result<bool, BadValue> {
        let refused = || BadValue::new(at, format!("`{self}` is not a truth value, expected 0 or 1"));
        self.below(2).map(|truth| truth == 1).ok_or_else(refused)
    }

    /// The class of a node; none for −1 and for what is not a number.
    ///
    /// # Errors
    /// When it is neither a whole number from 0 to 65535 nor one of these.
    pub fn label(self, node: usize) -> Result<Option<u32>, BadValue> {
        let whole = match self {
            Self::Float(x) if x.is_nan() => return Ok(None),
            #[expect(clippy::cast_possible_truncation, reason = "whole, and a float cast saturates")]
            Self::Float(x) if x.fract() == 0.0 => Self::Whole(x as i128),
            _ => self,
        };
        if whole == Self::Whole(-1) {
            return Ok(None);
        }
        whole.below(MOST_CLASSES).map(Some).ok_or_else(|| {
            let what = format!("label {self} is not a class, expected 0 to {}, or -1 for none", MOST_CLASSES - 1);
            BadValue::new(format_args!("node {node}"), what)
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
    /// Its place, such as `edge 7`; empty if it is about the whole file.
    pub at: String,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl BadValue {
    /// Says what is wrong at a place.
    pub fn new(at: impl fmt::Display, what: impl Into<String>) -> Self {
        Self { at: at.to_string(), what: what.into() }
    }

    /// The error that it is, in a file or a member of one.
    pub fn error(self, place: impl fmt::Display) -> StageError {
        let between = if self.at.is_empty() { "" } else { ", " };
        StageError::data(format_args!("{place}{between}{}", self.at), self.what)
    }
}
