//! The parts of a split while its nodes are read one by one.

use crate::kinds::Part;

/// The parts of one split while it is read: a node is in one part at most.
#[derive(Clone, Debug)]
pub struct PartsBuilder(Vec<Part>);

impl PartsBuilder {
    /// No node is in any part.
    pub fn new(nodes: usize) -> Self {
        Self(vec![Part::None; nodes])
    }

    /// Puts a node into a part; says which other part it is in already.
    ///
    /// # Errors
    /// The other part, if there is one.
    pub fn put(&mut self, node: usize, part: Part) -> Result<(), Part> {
        match self.0.get_mut(node) {
            Some(there) if *there == Part::None || *there == part => {
                *there = part;
                Ok(())
            }
            Some(there) => Err(*there),
            None => Ok(()),
        }
    }

    /// Ends the split.
    pub fn finish(self) -> Vec<Part> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_in_one_part() {
        let mut parts = PartsBuilder::new(2);
        assert_eq!(parts.put(0, Part::Train), Ok(()));
        assert_eq!(parts.put(0, Part::Test), Err(Part::Train));
        assert_eq!(parts.finish(), [Part::Train, Part::None]);
    }
}
