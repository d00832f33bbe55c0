//! `ppgnn data fetch`.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::{DataContext, exit, files_text, note, print, print_json, title};
use crate::catalogue::fetch::{FetchError, FetchProgress, fetch};
use crate::catalogue::{DataFile, FileState, Manifest, Verified};
use crate::cli::failure::Failure;
use crate::cli::interrupt::interruptible;
use crate::report::bytes_text;

const SAY_EVERY: Duration = Duration::from_secs(5);
const BAR: &str =
    "    Fetching [{elapsed:>7} ] {prefix}  {bar:8} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}";
const OPEN_BAR: &str = "    Fetching [{elapsed:>7} ] {prefix}  {decimal_bytes} {decimal_bytes_per_sec}";

/// Fetch data sets from their publishers
///
/// Files are downloaded to `<file>.part` in the data directory; an interrupted download is continued the next time. A
/// file is accepted only if its digest matches; a file that is already here and matches is not fetched again. All names
/// are tried, and failures are listed at the end. Exit code 4 if something failed.
#[derive(clap::Args)]
pub struct Args {
    /// Data sets to fetch
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Fetch every data set that has an address
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

/// What became of a data set.
#[derive(Default)]
struct Outcome {
    fetched: usize,
    bytes: u64,
    here: usize,
    failed: Vec<(String, String)>,
    files: Vec<Value>,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &DataContext) -> Result<u8, Failure> {
    let has = |m: &Manifest, f: &DataFile| matches!(f.state(&context.path(m, f)), FileState::Here { .. });
    let obtainable = |m: &Manifest| m.files.iter().any(|f| !f.urls.is_empty() || has(m, f));
    let manifests = context.chosen(&args.names, obtainable)?;
    let _hold = context.hold()?;
    let cancel = interruptible();
    let (mut listed, mut failed) = (Vec::new(), Vec::new());
    for manifest in &manifests {
        let outcome = one(manifest, context, cancel);
        if !context.json && outcome.failed.is_empty() {
            let fetched = match outcome.fetched {
                0 => "all here already".to_owned(),
                count => format!("{} fetched, {}", files_text(count), bytes_text(outcome.bytes)),
            };
            print(&format!("{:<20} {fetched}\n", manifest.name))?;
        }
        let state = if outcome.failed.is_empty() { "here" } else { "failed" };
        listed.push(json!({
            "name": manifest.name, "state": state, "folder": manifest.root(&context.dir).display().to_string(), "fetched": outcome.fetched,
            "bytes": outcome.bytes, "here-already": outcome.here, "files": outcome.files,
        }));
        failed.extend(outcome.failed);
        if cancel.load(Ordering::SeqCst) {
            break;
        }
    }
    let code = match (cancel.load(Ordering::SeqCst), failed.is_empty()) {
        (true, _) => exit::INTERRUPTED,
        (false, true) => exit::DONE,
        (false, false) => exit::DATA,
    };
    if context.json {
        print_json(&json!({"version": 1, "datasets": listed, "exit-code": code}))?;
    }
    if code == exit::INTERRUPTED {
        note("interrupted; run the same command again to continue");
    } else if !failed.is_empty() {
        note("error: not everything could be fetched");
        for (what, why) in &failed {
            note(&format!("  {what}: {why}"));
        }
    }
    Ok(code)
}

/// Fetches what is missing of one data set.
fn one(manifest: &Manifest, context: &DataContext, cancel: &AtomicBool) -> Outcome {
    let mut outcome = Outcome::default();
    let (mut without_address, mut unreachable) = (Vec::new(), false);
    for file in &manifest.files {
        if cancel.load(Ordering::SeqCst) {
            break;
        }
        let target = context.path(manifest, file);
        let left_alone = if file.verify(&target).is_ok() {
            outcome.here += 1;
            Some("here")
        } else if file.urls.is_empty() {
            without_address.push(file);
            Some("no address")
        } else {
            unreachable.then_some("not tried")
        };
        if let Some(state) = left_alone {
            outcome.files.push(json!({"file": file.path, "state": state}));
            continue;
        }
        let shown = Shown::new(&title(manifest, file));
        let fetched = fetch(file, &target, cancel, &shown);
        shown.end();
        match fetched {
            Ok(verified) => {
                let bytes = std::fs::metadata(&target).map_or(0, |about| about.len());
                outcome.fetched += 1;
                outcome.bytes += bytes;
                shown.fetched(bytes, &verified);
                outcome.files.push(json!({"file": file.path, "state": "fetched", "bytes": bytes}));
            }
            Err(FetchError::Interrupted) => outcome.files.push(json!({"file": file.path, "state": "interrupted"})),
            Err(error) => {
                // The next file would fail after the same wait.
                unreachable = matches!(error, FetchError::Connection { .. });
                let hint = error.hint().map(|h| format!("\n    hint: {h}")).unwrap_or_default();
                outcome.files.push(json!({"file": file.path, "state": "failed", "error": error.to_string()}));
                outcome.failed.push((title(manifest, file), format!("{error}{hint}")));
            }
        }
    }
    if !without_address.is_empty() {
        outcome.failed.push((manifest.name.clone(), by_hand(manifest, context, &without_address)));
    }
    outcome
}

/// What to do where the publisher has no address for each file.
fn by_hand(manifest: &Manifest, context: &DataContext, files: &[&DataFile]) -> String {
    let names: Vec<String> = files.iter().map(|f| f.path.display().to_string()).collect();
    format!(
        "the publisher has no direct download address for {}\n    hint: get them by hand from {} and put them into {}, or \
         use `ppgnn data import DIR {}` with the folder they are in",
        names.join(", "),
        manifest.source,
        manifest.root(&context.dir).display(),
        manifest.name
    )
}

/// Shows a download: a progress bar on a terminal, otherwise a line now and then.
struct Shown {
    title: String,
    begun: Instant,
    said: Cell<Instant>,
    total: Cell<Option<u64>>,
    bar: RefCell<Option<ProgressBar>>,
}

impl Shown {
    fn new(title: &str) -> Self {
        let now = Instant::now();
        let (said, total, bar) = (Cell::new(now), Cell::new(None), RefCell::new(None));
        Self { title: title.to_owned(), begun: now, said, total, bar }
    }

    /// Takes the bar away.
    fn end(&self) {
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }

    fn line(&self, word: &str, detail: &str) -> String {
        let seconds = self.begun.elapsed().as_secs_f64();
        format!("{word:>12} [{seconds:>6.1}s ] {:<40} {detail}", self.title).trim_end().to_owned()
    }

    fn fetched(&self, bytes: u64, verified: &Verified) {
        let doubt = match verified {
            Verified::NoDigestKnown { sha256 } => format!("  (no digest known; it has SHA-256 {sha256})"),
            Verified::Digest | Verified::Arrays => String::new(),
        };
        note(&self.line("Fetched", &format!("{:>9}{doubt}", bytes_text(bytes))));
    }
}

impl FetchProgress for Shown {
    fn started(&self, have: u64, total: Option<u64>) {
        self.total.set(total);
        let terminal = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        if !terminal {
            return;
        }
        let template = if total.is_some() { BAR } else { OPEN_BAR };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(10)).with_style(style);
        bar.set_prefix(self.title.clone());
        bar.set_position(have);
        // The rate is of what is received, not of what was there before.
        bar.reset_eta();
        if let Some(old) = self.bar.borrow_mut().replace(bar) {
            old.finish_and_clear();
        }
    }

    fn received(&self, have: u64) {
        if let Some(bar) = self.bar.borrow().as_ref() {
            bar.set_position(have);
        } else if self.said.get().elapsed() >= SAY_EVERY {
            self.said.set(Instant::now());
            let total = self.total.get().map(|t| format!(" of {}", bytes_text(t))).unwrap_or_default();
            note(&self.line("Fetching", &format!("{}{total}", bytes_text(have))));
        }
    }

    fn retrying(&self, why: &str, wait: Duration) {
        self.end();
        note(&self.line("Waiting", &format!("{why}; trying again in {:.1} s", wait.as_secs_f64())));
    }
}
