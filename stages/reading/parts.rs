//! The parts of a split while its nodes are read one by one.

use crate::kinds::Part;

/// What a source calls training, validation and test nodes.
pub type PartNames = [(&'static str, Part); 3];

/// The parts of one split while it is read: a node is in one part at most.
#[derive(Clone, Debug)]
pub struct PartsBuilder {
    parts: Vec<Part>,
    names: PartNames,
}

impl PartsBuilder {
    /// No node is in any part.
    pub fn new(nodes: usize, names: PartNames) -> Self {
        Self { parts: vec![Part::None; nodes], names }
    }

    /// Puts a node into a part.
    ///
    /// # Errors
    /// The name of the other part that it is in already.
    pub fn put(&mut self, node: usize, part: Part) -> Result<(), &'static str> {
        match self.parts.get_mut(node) {
            Some(there) if *there != Part::None && *there != part => {
                Err(self.names.iter().find(|(_, part)| part == there).map_or("", |(name, _)| name))
            }
            there => {
                there.into_iter().for_each(|there| *there = part);
                Ok(())
            }
        }
    }

    /// Ends the split.
    pub fn finish(self) -> Vec<Part> {
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_in_one_part() {
        let mut parts = PartsBuilder::new(2, [("train", Part::Train), ("val", Part::Val), ("test", Part::Test)]);
        assert_eq!(parts.put(0, Part::Train), Ok(()));
        assert_eq!(parts.put(0, Part::Test), Err("train"));
        assert_eq!(parts.finish(), [Part::Train, Part::None]);
    }
}
