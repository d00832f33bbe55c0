//! Fetching a file over HTTPS: into `<file>.part`, which is continued where it was left, compared with its manifest,
//! flushed, and only then renamed into place.
//!
//! A part is continued only where mixing two versions of a file would be noticed: where a digest is known, or where
//! the server gave the version a name (an `ETag`, kept in `<file>.part.etag`) and is asked for the rest of that one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::{Agent, Body, ResponseExt};

use super::manifest::{DataFile, is_allowed_address};
use super::place::{beside, make_parent, put};
use super::verify::{Misfit, Verified};

/// The most bytes of a file whose size is not known.
pub const SIZE_LIMIT: u64 = 8 << 30;
/// How often a request is repeated after a temporary failure.
const RETRIES: u32 = 3;
/// How long to wait before the first repetition; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Bytes that a request must have received to count as progress although the connection broke off.
const GOOD_BIT: u64 = 1 << 20;
/// How long a server may be silent until the next address is tried.
const PATIENCE: Duration = Duration::from_secs(20);
/// A variable of the environment with another number of seconds, for networks that are slower and for tests.
const PATIENCE_SET: &str = "PPGNN_FETCH_TIMEOUT";

/// Receives the progress of a download.
pub trait FetchProgress {
    /// It starts, or starts again, with `have` bytes on disk.
    fn started(&self, have: u64, total: Option<u64>);
    /// There are `have` bytes on disk.
    fn received(&self, have: u64);
    /// It failed for a reason that may be temporary, and is tried again after a while.
    fn retrying(&self, why: &str, wait: Duration);
}

/// Why a file was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Ctrl-C. What has been received stays and is continued.
    #[error("interrupted")]
    Interrupted,
    /// The manifest names no address.
    #[error("the publisher has no direct download address for it")]
    NoAddress,
    /// The server refuses the request.
    #[error("{url}: the server answers {status}")]
    Status {
        /// The address.
        url: String,
        /// Its answer.
        status: StatusCode,
    },
    /// The server cannot be reached, or breaks off repeatedly.
    #[error("{url}: {why}")]
    Connection {
        /// The address.
        url: String,
        /// What happened.
        why: String,
    },
    /// The server sends a web page instead of the file.
    #[error("{url}: the server sends a web page, not the file")]
    WebPage {
        /// The address.
        url: String,
    },
    /// The server redirects to an address that is not secure.
    #[error("{url}: the server redirects to `{to}`, which is not secure")]
    Insecure {
        /// The address.
        url: String,
        /// Where it redirects to.
        to: String,
    },
    /// The file is larger than it can be.
    #[error("{url}: the file has more than {limit} bytes")]
    TooLarge {
        /// The address.
        url: String,
        /// The most bytes it may have.
        limit: u64,
    },
    /// What was received is not the file.
    #[error("{url}: what was received {misfit}; it was deleted")]
    Wrong {
        /// The address.
        url: String,
        /// What is wrong.
        misfit: Misfit,
    },
    /// It cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl FetchError {
    /// Returns what to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Wrong { misfit: Misfit::Digest { .. } | Misfit::Size { .. }, .. } | Self::TooLarge { .. } => Some(
                "the publisher may have changed the file: get the expected one elsewhere and `ppgnn data import` it, \
                 or, if you trust the new one, write its digest into a manifest of your own",
            ),
            Self::WebPage { .. } | Self::Wrong { .. } => {
                Some("open the address in a browser: the file may have moved, or the page may ask for a confirmation")
            }
            Self::Status { .. } => Some("the file may have moved: see the publisher's page"),
            Self::Connection { .. } => Some(
                "run the same command again to continue where it broke off; for a machine without a network, fetch the \
                 files on another one and `ppgnn data import` them",
            ),
            _ => None,
        }
    }
}

/// Fetches a file to `target`, from the first of its addresses that serves it.
///
/// # Errors
/// Why the last address did not give it. A part that can be continued stays beside `target`, nothing else does.
pub fn fetch(
    file: &DataFile,
    target: &Path,
    cancel: &AtomicBool,
    watch: &dyn FetchProgress,
) -> Result<Verified, FetchError> {
    let (mut outcome, patience) = (Err(FetchError::NoAddress), patience());
    for url in &file.urls {
        let download = Download { file, url, part: beside(target, ".part"), cancel, watch, patience };
        outcome = download.run(target);
        match outcome {
            Ok(_) | Err(FetchError::Interrupted | FetchError::Disk { .. }) => break,
            Err(_) => {}
        }
    }
    outcome
}

struct Download<'d> {
    file: &'d DataFile,
    url: &'d str,
    part: PathBuf,
    cancel: &'d AtomicBool,
    watch: &'d dyn FetchProgress,
    patience: Duration,
}

/// How one request ended.
enum Ended {
    /// The part is as long as the server says.
    Whole,
    /// The part was of no use and has been deleted; request the whole file.
    StartOver,
    /// A failure that may be temporary.
    BrokeOff(String),
    /// Nothing came for so long that asking again is a waste of time.
    Silent(String),
}

impl Download<'_> {
    fn run(&self, target: &Path) -> Result<Verified, FetchError> {
        make_parent(&self.part).map_err(|e| self.disk(e))?;
        let mut continued = self.part_length() > 0;
        self.receive()?;
        loop {
            match self.file.compare(&self.part) {
                Ok(verified) => {
                    put(&self.part, target).map_err(|e| self.disk(e))?;
                    self.forget()?;
                    return Ok(verified);
                }
                // The part that it began with may have been at fault.
                Err(_) if continued => {
                    continued = false;
                    self.forget()?;
                    self.receive()?;
                }
                Err(misfit) => {
                    self.forget()?;
                    return Err(FetchError::Wrong { url: self.url.to_owned(), misfit });
                }
            }
        }
    }

    /// Sends requests until the part is complete.
    fn receive(&self) -> Result<(), FetchError> {
        let agent = self.agent();
        let (mut failures, mut wait) = (0, FIRST_WAIT);
        loop {
            let have = self.part_length();
            if self.file.bytes == Some(have) && have > 0 {
                return Ok(());
            }
            match self.request(&agent)? {
                Ended::Whole => return Ok(()),
                Ended::StartOver if failures < RETRIES => failures += 1,
                Ended::BrokeOff(why) if failures < RETRIES => {
                    // Retry as long as each request makes good progress.
                    if self.part_length() >= have.saturating_add(GOOD_BIT) {
                        (failures, wait) = (0, FIRST_WAIT);
                    }
                    failures += 1;
                    self.watch.retrying(&why, wait);
                    self.sleep(wait)?;
                    wait *= 2;
                }
                Ended::StartOver => return Err(self.gave_up("the server cannot continue the file".into())),
                Ended::BrokeOff(why) | Ended::Silent(why) => return Err(self.gave_up(why)),
            }
        }
    }

    fn request(&self, agent: &Agent) -> Result<Ended, FetchError> {
        self.check_cancelled()?;
        let (have, etag) = self.resumable()?;
        let mut request = agent.get(self.url);
        if have > 0 {
            request = request.header("Range", format!("bytes={have}-"));
            if let Some(etag) = etag {
                request = request.header("If-Range", etag);
            }
        }
        let response = match request.call() {
            Ok(response) => response,
            Err(error) => return self.refused(error),
        };
        let to = response.get_uri().to_string();
        if !is_allowed_address(&to) {
            return Err(FetchError::Insecure { url: self.url.to_owned(), to });
        }
        match response.status() {
            StatusCode::OK => self.store(response, 0),
            StatusCode::PARTIAL_CONTENT if continues_at(response.headers(), have) => self.store(response, have),
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                self.forget()?;
                Ok(Ended::StartOver)
            }
            status if may_pass(status) => Ok(Ended::BrokeOff(format!("the server answers {status}"))),
            status => Err(FetchError::Status { url: self.url.to_owned(), status }),
        }
    }

    /// Writes the body behind the first `have` bytes of the part.
    fn store(&self, response: Response<Body>, have: u64) -> Result<Ended, FetchError> {
        if response.body().mime_type().is_some_and(|t| t.eq_ignore_ascii_case("text/html")) {
            return Err(FetchError::WebPage { url: self.url.to_owned() });
        }
        let total = response.body().content_length().map(|rest| have.saturating_add(rest)).or(self.file.bytes);
        let limit = self.file.bytes.unwrap_or(SIZE_LIMIT);
        let too_large = || FetchError::TooLarge { url: self.url.to_owned(), limit };
        if total.is_some_and(|total| total > limit) {
            self.forget()?;
            return Err(too_large());
        }
        let mut part = self.open_part(have, response.headers()).map_err(|e| self.disk(e))?;
        self.watch.started(have, total);
        let mut body = response.into_body().into_reader();
        let (mut at, mut buffer) = (have, vec![0; 1 << 16]);
        loop {
            self.check_cancelled()?;
            let count = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if timed_out(&e) => return Ok(self.silent(&format!(" after {at} bytes"))),
                Err(e) => return Ok(Ended::BrokeOff(format!("the connection broke off after {at} bytes ({e})"))),
            };
            at = at.saturating_add(count as u64);
            if at > limit {
                self.forget()?;
                return Err(too_large());
            }
            part.write_all(buffer.get(..count).unwrap_or_default()).map_err(|e| self.disk(e))?;
            self.watch.received(at);
        }
        if total.is_some_and(|total| at < total) {
            return Ok(Ended::BrokeOff(format!("the connection broke off after {at} bytes")));
        }
        Ok(Ended::Whole)
    }

    /// Opens the part, truncated to `have` bytes, and records which version of the file it belongs to.
    fn open_part(&self, have: u64, headers: &HeaderMap) -> io::Result<File> {
        if have > 0 {
            return File::options().append(true).open(&self.part);
        }
        // A weak tag does not promise the same bytes.
        let etag = headers.get("etag").and_then(|t| t.to_str().ok()).filter(|t| t.starts_with('"'));
        match etag {
            Some(etag) => fs::write(self.etag_path(), format!("{}\n{etag}\n", self.url))?,
            None => remove(&self.etag_path())?,
        }
        File::create(&self.part)
    }

    /// How many bytes of the part can be continued, and which version they belong to. A useless part is deleted.
    fn resumable(&self) -> Result<(u64, Option<String>), FetchError> {
        let have = self.part_length();
        let noted = ppgnn_stages::contract::bounded::text(&self.etag_path()).unwrap_or_default();
        let etag = noted.split_once('\n').filter(|(url, _)| *url == self.url).map(|(_, tag)| tag.trim().to_owned());
        let checked = !self.file.sha256.is_empty() || self.file.arrays_sha256.is_some();
        if have > 0 && (self.file.bytes.is_some_and(|bytes| have > bytes) || (etag.is_none() && !checked)) {
            self.forget()?;
            return Ok((0, None));
        }
        Ok((have, etag))
    }

    fn agent(&self) -> Agent {
        let local = self.url.starts_with("http://");
        let config = Agent::config_builder()
            .https_only(!local)
            .http_status_as_error(false)
            .accept_encoding("identity")
            .user_agent(concat!("ppgnn/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(self.patience))
            .timeout_connect(Some(self.patience))
            .timeout_send_request(Some(self.patience))
            .timeout_recv_response(Some(self.patience))
            .timeout_per_read(Some(self.patience));
        // No proxy can reach this machine.
        if local { config.proxy(None).build().into() } else { config.build().into() }
    }

    /// Whether a request that got no answer should be repeated.
    fn refused(&self, error: ureq::Error) -> Result<Ended, FetchError> {
        let why = error.to_string();
        match error {
            ureq::Error::RequireHttpsOnly(to) => Err(FetchError::Insecure { url: self.url.to_owned(), to }),
            ureq::Error::Timeout(_) => Ok(self.silent("")),
            ureq::Error::Io(e) if timed_out(&e) => Ok(self.silent("")),
            ureq::Error::Io(_) | ureq::Error::ConnectionFailed => Ok(Ended::BrokeOff(why)),
            _ => Err(FetchError::Connection { url: self.url.to_owned(), why }),
        }
    }

    fn silent(&self, after: &str) -> Ended {
        Ended::Silent(format!("the server sent nothing for {} s{after}", self.patience.as_secs_f64()))
    }

    fn gave_up(&self, why: String) -> FetchError {
        FetchError::Connection { url: self.url.to_owned(), why }
    }

    fn sleep(&self, wait: Duration) -> Result<(), FetchError> {
        let begun = Instant::now();
        while begun.elapsed() < wait {
            self.check_cancelled()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<(), FetchError> {
        if self.cancel.load(Ordering::SeqCst) { Err(FetchError::Interrupted) } else { Ok(()) }
    }

    fn part_length(&self) -> u64 {
        fs::metadata(&self.part).map_or(0, |about| about.len())
    }

    fn etag_path(&self) -> PathBuf {
        beside(&self.part, ".etag")
    }

    /// Deletes the part and what is known of it.
    fn forget(&self) -> Result<(), FetchError> {
        remove(&self.part).and_then(|()| remove(&self.etag_path())).map_err(|e| self.disk(e))
    }

    fn disk(&self, source: io::Error) -> FetchError {
        FetchError::Disk { path: self.part.clone(), source }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// How long to wait for a server.
fn patience() -> Duration {
    let set = std::env::var(PATIENCE_SET).ok().and_then(|seconds| seconds.parse().ok());
    let set = set.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    set.filter(|wait| !wait.is_zero()).unwrap_or(PATIENCE)
}

fn timed_out(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
        || matches!(inner, Some(ureq::Error::Timeout(_)))
}

/// Whether the answer begins where the part ends: `Content-Range: bytes 100-199/200`.
fn continues_at(headers: &HeaderMap, have: u64) -> bool {
    let range = headers.get("content-range").and_then(|r| r.to_str().ok());
    range.is_some_and(|r| r.strip_prefix(&format!("bytes {have}-")).is_some())
}

fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT
}
