//! `Live`: a run as it happens, on a terminal. Tables fill in, a line says how far the run is, others what runs now; only
//! failures and warnings scroll.
//!
//! One thread draws, a few times a second, and has the tables made; the threads that compute never wait for it.

mod frame;
mod progress;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ppgnn_stages::kinds::PlainTable;

use super::page::Page;
use super::screen::Screen;
use super::terminal::{Style, Terminal};
use crate::plan::ArtifactKey;
use crate::run::{Event, EventSink};
use frame::frame;
use progress::Progress;

/// How often the view is drawn.
const EVERY: Duration = Duration::from_millis(150);
/// A draw that comes so much later than it should: the program was stopped, and the shell has written to the terminal.
const STOPPED: Duration = Duration::from_secs(1);
/// How much of the time making tables may take: a part in this many.
const SHARE: u32 = 20;

/// What failed, by key, and why: what tables do without.
pub type Failures = BTreeMap<ArtifactKey, String>;

/// A sink that shows a run on a terminal while it happens.
pub struct Live {
    terminal: Terminal,
    screen: Arc<Mutex<Screen>>,
    progress: Mutex<Progress>,
    over: Mutex<bool>,
    changed: Condvar,
}

impl Live {
    /// Shows a run on stderr, which must be a terminal ([`Page::stderr`]).
    pub fn stderr(style: Style) -> Self {
        let size = || Page::stderr().map_or((80, 24), |page| (page.width, page.height));
        let screen = Arc::new(Mutex::new(Screen::new(Box::new(io::stderr()), size)));
        let above = Above(Arc::clone(&screen));
        Self {
            terminal: Terminal::new(Box::new(above), Style { live: true, ..style }),
            screen,
            progress: Mutex::default(),
            over: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Draws while something is done. `tables` makes the tables of what is there without what failed; if it cannot, the last ones
    /// stay.
    pub fn during<R>(
        &self,
        tables: impl FnMut(&Failures) -> Option<Vec<PlainTable>> + Send,
        work: impl FnOnce() -> R,
    ) -> R {
        thread::scope(|scope| {
            let drawing = thread::Builder::new().name("live".to_owned()).spawn_scoped(scope, || self.draw(tables));
            let over = Over(self);
            let done = work();
            drop(over);
            // Neither a thread that cannot be started nor one that panics is worth the run.
            let _ = drawing.map(thread::ScopedJoinHandle::join);
            done
        })
    }

    fn draw(&self, mut tables: impl FnMut(&Failures) -> Option<Vec<PlainTable>>) {
        let (mut made, mut version, mut due) = (Vec::new(), 0, Instant::now());
        loop {
            let (begun, over) = (Instant::now(), lock(&self.over));
            let (over, _) =
                self.changed.wait_timeout_while(over, EVERY, |over| !*over).unwrap_or_else(|e| e.into_inner());
            if *over {
                return;
            }
            drop(over);
            let gap = begun.elapsed();
            if gap >= STOPPED {
                lock(&self.progress).was_stopped(gap);
                lock(&self.screen).forget();
            }
            let (now, failures) = {
                let progress = lock(&self.progress);
                (
                    progress.version,
                    (progress.version != version && Instant::now() >= due).then(|| progress.failures.clone()),
                )
            };
            if let Some(failures) = failures {
                let begun = Instant::now();
                made = tables(&failures).unwrap_or(made);
                version = now;
                due = Instant::now() + begun.elapsed() * SHARE;
            }
            self.refresh(&made);
        }
    }

    fn refresh(&self, tables: &[PlainTable]) {
        let Some(page) = Page::stderr() else { return };
        let lines = frame(&lock(&self.progress), tables, page);
        let over = lock(&self.over);
        if !*over {
            lock(&self.screen).draw(lines);
        }
    }

    /// Ends the view and clears it.
    fn end(&self) {
        *lock(&self.over) = true;
        self.changed.notify_all();
        lock(&self.screen).draw(Vec::new());
    }
}

impl EventSink for Live {
    fn event(&self, event: &Event) {
        lock(&self.progress).take(event);
        if let Event::RunFinished { .. } = event {
            self.end();
        }
        self.terminal.event(event);
    }
}

/// Ends the view when the work is done, whatever ends it.
struct Over<'l>(&'l Live);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Where lines go that stay.
struct Above(Arc<Mutex<Screen>>);

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write_above(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
