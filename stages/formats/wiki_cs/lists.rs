//! Lists of lists and truth values, as `data.json` has them, read as a stream.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use crate::reading::json::List;

/// A list of lists whose items go to `take` with row and column. Its value is the length of every row.
pub struct Lists<T, F> {
    take: F,
    item: PhantomData<T>,
}

impl<T, F: FnMut(usize, usize, T) -> Result<(), String>> Lists<T, F> {
    /// Hands over the items of lists.
    pub fn new(take: F) -> Self {
        Self { take, item: PhantomData }
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(usize, usize, T) -> Result<(), String>> DeserializeSeed<'de> for Lists<T, F> {
    type Value = Vec<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<usize>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(usize, usize, T) -> Result<(), String>> Visitor<'de> for Lists<T, F> {
    type Value = Vec<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of lists")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut rows: A) -> Result<Vec<usize>, A::Error> {
        let mut lengths = Vec::new();
        loop {
            let row = lengths.len();
            let take = &mut self.take;
            match rows.next_element_seed(List::new(|column, item: T| take(row, column, item)))? {
                Some(length) => lengths.push(length),
                None => return Ok(lengths),
            }
        }
    }
}

/// `true` or `false`, or 1 or 0 instead.
pub struct Truth(pub bool);

impl<'de> Deserialize<'de> for Truth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Truth;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true` or `false`")
            }
            fn visit_bool<E>(self, truth: bool) -> Result<Truth, E> {
                Ok(Truth(truth))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Truth, E> {
                match number {
                    0 | 1 => Ok(Truth(number == 1)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Unsigned(number), &self)),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}
