//! Files of the store as memory: the operating system reads a page when it is used, and may drop it again.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

/// Maps a whole file.
pub(super) fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    #[expect(
        unsafe_code,
        reason = "sound while the file is not changed: artifacts are written in a folder of their own, renamed into the \
                  store, and never modified there; deleting one leaves what is mapped as it is"
    )]
    unsafe {
        Mmap::map(&file)
    }
}

/// Numbers in memory of their own, or in place in a file that is too large to copy.
#[derive(Clone)]
pub struct Vectors(Held);

#[derive(Clone)]
enum Held {
    Own(Vec<f32>),
    /// Bytes of the file that are numbers as they stand: checked by [`Vectors::mapped`].
    Mapped(Arc<Mmap>, Range<usize>),
}

impl Vectors {
    /// Takes little-endian numbers where they are; `None` if this machine cannot read them there.
    pub(super) fn mapped(file: &Arc<Mmap>, bytes: Range<usize>) -> Option<Self> {
        let fits = bytemuck::try_cast_slice::<u8, f32>(file.get(bytes.clone())?).is_ok();
        fits.then(|| Self(Held::Mapped(Arc::clone(file), bytes)))
    }

    /// Returns some of the numbers, which stay where they are if they are in a file.
    #[must_use]
    pub fn part(&self, numbers: Range<usize>) -> Self {
        match &self.0 {
            Held::Own(all) => all[numbers].to_vec().into(),
            Held::Mapped(file, bytes) => {
                let at = |number: usize| (bytes.start + number * size_of::<f32>()).min(bytes.end);
                Self(Held::Mapped(Arc::clone(file), at(numbers.start)..at(numbers.end)))
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.0, Held::Mapped(..))
    }
}

impl Deref for Vectors {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &self.0 {
            Held::Own(numbers) => numbers,
            Held::Mapped(file, bytes) => bytemuck::cast_slice(&file[bytes.clone()]),
        }
    }
}

impl Default for Vectors {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<f32>> for Vectors {
    fn from(numbers: Vec<f32>) -> Self {
        Self(Held::Own(numbers))
    }
}

impl FromIterator<f32> for Vectors {
    fn from_iter<I: IntoIterator<Item = f32>>(numbers: I) -> Self {
        numbers.into_iter().collect::<Vec<_>>().into()
    }
}

impl<'a> IntoIterator for &'a Vectors {
    type Item = &'a f32;
    type IntoIter = std::slice::Iter<'a, f32>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Vectors {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<[f32]> for Vectors {
    fn eq(&self, other: &[f32]) -> bool {
        **self == *other
    }
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
