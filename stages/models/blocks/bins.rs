//! Equal-count bins: contiguous index ranges of a sorted list of eigenvalues, whose sizes differ by at most one.
//!
//! Both published drops bin the concatenation of both sides: the first leaves a short last bin and lets one bin span the
//! gap for odd totals; the second derives the width from the number of nodes, which puts nearly all eigenvalues into one
//! bin. Here each side is cut on its own, as the paper says.

use std::ops::Range;

/// The bins of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins {
    ranges: Vec<Range<usize>>,
}

impl Bins {
    /// Cuts `pairs` eigenpairs into `count` bins, or returns `None` if a bin would be empty.
    pub fn equal(pairs: usize, count: usize) -> Option<Self> {
        let fits = count > 0 && count <= pairs;
        fits.then(|| Self { ranges: (0..count).map(|b| b * pairs / count..(b + 1) * pairs / count).collect() })
    }

    /// Returns the number of bins.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns whether there is no bin.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// The bins of all kept sides, one after the other as the eigenpairs are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The index range of every bin, ascending.
    pub ranges: Vec<Range<usize>>,
    /// The bins that begin a side other than the first.
    pub gaps: Vec<usize>,
}

impl Partition {
    /// Joins the bins of sides that stand one after the other.
    pub fn join(sides: &[Bins]) -> Self {
        let mut joined = Self::default();
        for side in sides {
            let start = joined.ranges.last().map_or(0, |r| r.end);
            if start > 0 {
                joined.gaps.push(joined.ranges.len());
            }
            joined.ranges.extend(side.ranges.iter().map(|r| r.start + start..r.end + start));
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_empty_bins_partition_the_kept_spectrum() {
        for pairs in 1..40 {
            for count in 1..=pairs {
                let partition = Partition::join(&[Bins::equal(pairs, count).unwrap(), Bins::equal(pairs, 1).unwrap()]);
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
        let partition = Partition::join(&[Bins::equal(4, 2).unwrap(), Bins::equal(3, 1).unwrap()]);
        assert_eq!(partition.ranges, [0..2, 2..4, 4..7]);
    }

    #[test]
    fn empty_bins_are_refused() {
        assert_eq!(Bins::equal(3, 4), None);
        assert_eq!(Bins::equal(3, 0), None);
        assert_eq!(Bins::equal(0, 1), None);
    }
}
