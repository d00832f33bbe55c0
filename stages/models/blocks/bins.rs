//! Equal-count bins: contiguous index ranges of a sorted list of eigenvalues, whose sizes differ by at most one.
//!
//! Both published drops bin the concatenation of both sides: the first leaves a short last bin and lets one bin span the
//! gap for odd totals; the second derives the width from the number of nodes, which puts nearly all eigenvalues into one
//! bin. Here each side is cut on its own, as the paper says.

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
    fn every_pair_is_in_its_bin() {
        let partition = partition(&[(4, 2), (3, 1)]).unwrap();
        assert_eq!(partition.ranges, [0..2, 2..4, 4..7]);
    }

    #[test]
    fn empty_bins_are_refused() {
        assert_eq!([(3, 4), (3, 0), (0, 1)].map(|side| partition(&[side])), [None, None, None]);
    }
}
