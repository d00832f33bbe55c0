//! Bins: contiguous index ranges of a sorted list of eigenvalues.
//!
//! The paper cuts each side on its own, into bins of equal numbers: [`Partition::with_side`], whose bins differ by at most
//! one eigenvalue. Both published programs cut the concatenation of both sides into slices of one length:
//! [`Partition::in_steps`]. The last may be short, and one may span the gap between the sides.

use std::ops::Range;

/// The bins of all kept sides, one after the other as the eigenpairs are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The index range of every bin, ascending.
    pub ranges: Vec<Range<usize>>,
    /// The bins that begin a side other than the first.
    pub gaps: Vec<usize>,
}

impl Partition {
    /// Cuts the `pairs` eigenpairs of a further side into `count` bins, or returns `None` if a bin would be empty.
    pub fn with_side(mut self, pairs: usize, count: usize) -> Option<Self> {
        let start = self.ranges.last().map_or(0, |r| r.end);
        if start > 0 {
            self.gaps.push(self.ranges.len());
        }
        self.ranges.extend((0..count).map(|b| start + b * pairs / count..start + (b + 1) * pairs / count));
        (1..=pairs).contains(&count).then_some(self)
    }

    /// Cuts the eigenpairs of all sides together into slices of `step`; `sides`: pairs of every kept side.
    pub fn in_steps(sides: &[usize], step: usize) -> Self {
        let pairs: usize = sides.iter().sum();
        let ranges: Vec<_> = (0..pairs).step_by(step.max(1)).map(|at| at..(at + step.max(1)).min(pairs)).collect();
        let begins = |bin: &usize| *bin > 0 && sides.first() == Some(&ranges[*bin].start);
        Self { gaps: (0..ranges.len()).filter(begins).collect(), ranges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(sides: &[(usize, usize)]) -> Option<Partition> {
        sides.iter().try_fold(Partition::default(), |cut, (pairs, count)| cut.with_side(*pairs, *count))
    }

    #[test]
    fn non_empty_bins_partition_the_kept_spectrum() {
        for pairs in 1..40 {
            for count in 1..=pairs {
                let partition = partition(&[(pairs, count), (pairs, 1)]).unwrap();
                let covered: Vec<usize> = partition.ranges.iter().cloned().flatten().collect();
                assert_eq!(covered, (0..2 * pairs).collect::<Vec<_>>());
                assert_eq!(partition.gaps, [count]);
                let sizes: Vec<usize> = partition.ranges[..count].iter().map(Range::len).collect();
                let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
                assert!(*least > 0 && most - least <= 1, "{pairs} pairs in {count} bins: {sizes:?}");
            }
        }
    }

    #[test]
    fn slices_of_both_sides_are_those_of_the_published_commands() {
        let sizes = |sides: &[usize], step| -> Vec<usize> {
            let partition = Partition::in_steps(sides, step);
            assert_eq!(partition.ranges.iter().cloned().flatten().count(), sides.iter().sum::<usize>());
            partition.ranges.iter().map(Range::len).collect()
        };
        // Chameleon: 2 · 256 pairs, four bins, two of each side.
        assert_eq!(sizes(&[256, 256], 512 / 4), [128; 4]);
        assert_eq!(Partition::in_steps(&[256, 256], 128).gaps, [2]);
        // Cora: 2 · 128 in five bins, and one that is left over; the third spans the gap.
        assert_eq!(sizes(&[128, 128], 256 / 5), [51, 51, 51, 51, 51, 1]);
        assert!(Partition::in_steps(&[128, 128], 51).gaps.is_empty());
        // One side alone has no gap.
        assert!(Partition::in_steps(&[8], 4).gaps.is_empty());
        assert_eq!(sizes(&[3], 0), [1, 1, 1]);
    }

    #[test]
    fn every_pair_is_in_its_bin() {
        let partition = partition(&[(4, 2), (3, 1)]).unwrap();
        assert_eq!(partition.ranges, [0..2, 2..4, 4..7]);
    }

    #[test]
    fn empty_bins_are_refused() {
        assert_eq!([(3, 4), (3, 0), (0, 1)].map(|side| partition(&[side])), [None, None, None]);
    }
}
