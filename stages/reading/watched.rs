//! What readers of large files share: limits, progress and cancellation.

use std::io::{self, Read};

use crate::contract::{Job, Progress, StageError};

/// The most classes; a larger label is refused as a mistake.
pub const MOST_CLASSES: u32 = 1 << 16;
/// The most features that a sparse file may claim without storing a value for each.
pub const MOST_FEATURES: u32 = 1 << 24;
/// The most bytes that a member of an archive may hold when it is decoded.
pub const MEMBER_LIMIT: u64 = 4 << 30;
/// How much is read between two checks for cancellation, unless a hundredth of the whole is more.
const STRIDE: u64 = 100_000;

/// Counts what has been read. Now and then it checks for cancellation and reports progress.
pub struct Steps<'j> {
    job: Job<'j>,
    done: u64,
    total: u64,
    next: u64,
    note: String,
}

impl<'j> Steps<'j> {
    /// Starts to count up to `total` of anything: numbers, rows, bytes.
    pub fn new(job: &Job<'j>, total: u64, note: impl Into<String>) -> Self {
        Self { job: *job, done: 0, total, next: STRIDE.max(total / 100), note: note.into() }
    }

    /// Counts `more`.
    ///
    /// # Errors
    /// [`StageError::Cancelled`].
    #[inline]
    pub fn add(&mut self, more: u64) -> Result<(), StageError> {
        self.done += more;
        if self.done < self.next { Ok(()) } else { self.look() }
    }

    fn look(&mut self) -> Result<(), StageError> {
        self.next = self.done + STRIDE.max(self.total / 100);
        self.job.check_cancelled()?;
        let done = self.done.min(self.total);
        self.job.progress(&Progress { done, total: self.total, note: self.note.clone() });
        Ok(())
    }
}

/// A reader whose bytes are counted. A cancelled run shows as an error of the reader, so check the job before reporting it.
pub struct Watched<'j, R> {
    inner: R,
    steps: Steps<'j>,
}

impl<'j, R: Read> Watched<'j, R> {
    /// Watches a reader.
    pub fn new(inner: R, steps: Steps<'j>) -> Self {
        Self { inner, steps }
    }
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.steps.add(read as u64).map_err(|e| io::Error::other(e.to_string()))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::contract::ProgressSink;

    struct Notes(Mutex<Vec<u64>>);

    impl ProgressSink for Notes {
        fn progress(&self, progress: &Progress) {
            self.0.lock().unwrap().push(progress.done);
        }
    }

    #[test]
    fn progress_is_modest_and_an_interruption_is_seen() {
        let (notes, cancel) = (Notes(Mutex::default()), AtomicBool::new(false));
        let job = Job { progress: &notes, ..Job::alone(&cancel) };
        let mut steps = Steps::new(&job, 250_000, "rows");
        assert!((0..250_000).all(|_| steps.add(1).is_ok()));
        assert_eq!(*notes.0.lock().unwrap(), [100_000, 200_000]);
        cancel.store(true, Ordering::Relaxed);
        assert!(matches!(steps.add(50_000), Err(StageError::Cancelled)));
        let mut watched = Watched::new(io::repeat(0), Steps::new(&job, 1 << 40, "bytes"));
        assert!(io::copy(&mut watched, &mut io::sink()).is_err());
    }
}
