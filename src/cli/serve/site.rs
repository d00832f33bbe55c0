//! What is answered: all pipelines of a folder, a run, its log, and reports.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use percent_encoding::percent_decode_str;
use ppgnn_stages::contract::Registry;
use ppgnn_stages::kinds::PlainTable;

use super::guard::{Answer, Asked};
use super::logs::{Logs, row};
use crate::cli::failure::Failure;
use crate::cli::project::{DataArgs, PipelineArgs, StoreArgs};
use crate::cli::publishing::Place;
use crate::cli::so_far;
use crate::pipeline::Overrides;
use crate::report::Followed;
use crate::report::html::live::{Overview, PipelineRow, RunPage, address};
use crate::store::Store;

/// Runs that are listed.
const MOST_RUNS: usize = 50;
/// Files of a folder that are looked at.
const MOST_FILES: usize = 500;
/// What is shown of the end of a log.
const LOG_END: u64 = 1 << 20;
/// How much of the time making tables may take: a part in this many.
const SHARE: u32 = 100;
/// The folders that pipelines are in.
const FOLDERS: [&str; 2] = ["", "pipelines"];

/// Everything that can be asked for.
pub struct Site<'r> {
    folder: PathBuf,
    store: StoreArgs,
    data: DataArgs,
    registry: &'r Registry,
    logs: Logs,
    /// What files of pipelines are, by path, as they were at a time.
    known: HashMap<PathBuf, (Option<SystemTime>, PipelineRow)>,
    /// The tables of the run that was looked at last.
    tables: Option<Tables>,
}

/// The tables of a run.
struct Tables {
    log: String,
    version: u64,
    made: Result<Made, String>,
    due: Instant,
}

/// What was made of a run, and the folder of its results below those of the pipeline.
struct Made {
    tables: Vec<PlainTable>,
    folder: Option<String>,
}

impl<'r> Site<'r> {
    /// Shows the pipelines of a folder.
    pub fn new(folder: PathBuf, store: StoreArgs, data: DataArgs, registry: &'r Registry) -> Self {
        Self { folder, store, data, registry, logs: Logs::default(), known: HashMap::new(), tables: None }
    }

    /// Answers a request that may be answered.
    pub fn answer(&mut self, asked: &Asked) -> Answer {
        // A panic is a bug, and no reason to stop serving.
        let answered = catch_unwind(AssertUnwindSafe(|| self.found(asked)));
        match answered {
            Ok(Ok(Some(answer))) => answer,
            Ok(Ok(None)) => Answer::text(404, "there is nothing here"),
            Ok(Err(failure)) => Answer::text(500, &failure.message()),
            Err(_) => Answer::text(500, "a bug in ppgnn: it panicked"),
        }
    }

    fn found(&mut self, asked: &Asked) -> Result<Option<Answer>, Failure> {
        let store = self.store.look()?;
        let words: Option<Vec<String>> = asked.path.split('/').skip(1).map(decoded).collect();
        let words = words.unwrap_or_default();
        let part = asked.query == "part";
        match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [""] => {
                let overview = self.overview(&store)?;
                Ok(Some(if part { Answer::page(overview.part_html()) } else { Answer::live(overview.html()) }))
            }
            ["run", log] => self.run(&store, log, part),
            // A name that would leave its folder is no log.
            ["log", log] => {
                let part = store.read_log(log, 0, 0).ok().flatten();
                let Some(length) = part.map(|part| part.length) else { return Ok(None) };
                let end = store.read_log(log, length.saturating_sub(LOG_END), LOG_END)?;
                Ok(end.map(|part| Answer::text(200, &String::from_utf8_lossy(&part.bytes))))
            }
            ["report", pipeline] => Ok(store.report_at(pipeline, None).ok().flatten().map(Answer::page)),
            ["report", pipeline, folder] => {
                Ok(store.report_at(pipeline, Some(folder)).ok().flatten().map(Answer::page))
            }
            _ => Ok(None),
        }
    }

    fn overview(&mut self, store: &Store) -> Result<Overview, Failure> {
        let all = store.run_logs()?;
        let shown = &all[..all.len().min(MOST_RUNS)];
        let mut runs = Vec::new();
        for log in shown {
            runs.extend(self.logs.row(store, log)?);
        }
        self.logs.keep(shown);
        let mut pipelines = self.pipelines();
        let mut reports: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for published in store.published()? {
            let (pipeline, folder) = (published.pipeline, published.profile);
            let link = report(store, &pipeline, folder.as_deref());
            let name = folder.unwrap_or_else(|| "as the file says".to_owned());
            reports.entry(pipeline).or_default().extend(link.map(|link| (name, link)));
        }
        for row in &mut pipelines {
            row.latest = runs.iter().find(|run| run.pipeline == row.name).cloned();
            row.reports = reports.get(&row.name).cloned().unwrap_or_default();
        }
        // Where something happens comes first.
        pipelines.sort_by_key(|row| {
            (row.latest.is_none(), row.latest.as_ref().map(|run| std::cmp::Reverse(run.log.clone())))
        });
        let folder = self.folder.display().to_string();
        Ok(Overview { folder, pipelines, more_runs: all.len() - shown.len(), runs })
    }

    /// The pipelines of the folder by the names of their files. A file is read again when it has changed.
    fn pipelines(&mut self) -> Vec<PipelineRow> {
        let mut files: Vec<PathBuf> = FOLDERS.iter().flat_map(|name| yaml_files(&self.folder.join(name))).collect();
        files.sort();
        files.truncate(MOST_FILES);
        self.known.retain(|path, _| files.contains(path));
        let mut rows = Vec::new();
        for path in files {
            let changed = std::fs::metadata(&path).and_then(|meta| meta.modified()).ok();
            let row = match self.known.get(&path) {
                Some((at, row)) if *at == changed => row.clone(),
                _ => {
                    let row = self.pipeline(&path);
                    self.known.insert(path, (changed, row.clone()));
                    row
                }
            };
            rows.push(row);
        }
        rows
    }

    fn pipeline(&self, path: &Path) -> PipelineRow {
        let file = path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        let args = self.args(path.to_owned(), Overrides::default());
        let read = args.pipeline(&args.catalogue(), self.registry);
        let (name, problem) = match read {
            Ok(pipeline) => (pipeline.name, None),
            Err(failure) => (file.clone(), Some(failure.message().trim_start_matches([' ', '×']).to_owned())),
        };
        PipelineRow { name, file, problem, reports: Vec::new(), latest: None }
    }

    fn args(&self, file: PathBuf, Overrides { profile, set }: Overrides) -> PipelineArgs {
        PipelineArgs { file, profile, set, device: None, data: self.data.clone(), store: self.store.clone() }
    }

    fn run(&mut self, store: &Store, log: &str, part: bool) -> Result<Option<Answer>, Failure> {
        let Ok(is_running) = store.is_running(log) else { return Ok(None) };
        let Some((run, bytes)) = self.logs.follow(store, log)? else { return Ok(None) };
        let (run, row) = (run.clone(), row(log, run, is_running));
        self.make_tables(log, &run);
        let (tables, no_tables, report): (&[PlainTable], _, _) = match self.tables.as_ref().map(|tables| &tables.made) {
            Some(Ok(made)) => {
                let no_tables = made.tables.is_empty().then_some("None of their runs is there yet.");
                (made.tables.as_slice(), no_tables, report(store, &row.pipeline, made.folder.as_deref()))
            }
            Some(Err(why)) => (&[], Some(why.as_str()), None),
            None => (&[], None, None),
        };
        let page = RunPage { row, run: &run, bytes, tables, no_tables, report };
        Ok(Some(if part { Answer::page(page.part_html()) } else { Answer::live(page.html()) }))
    }

    /// Makes the tables of a run of what is there, if they may have changed and it is time to.
    fn make_tables(&mut self, log: &str, run: &Followed) {
        let known = self.tables.as_ref().filter(|tables| tables.log == log);
        if known.is_some_and(|tables| tables.version == run.version || Instant::now() < tables.due) {
            return;
        }
        let begun = Instant::now();
        let made = self.tables_of(run);
        let due = Instant::now() + begun.elapsed() * SHARE;
        self.tables = Some(Tables {
            log: log.to_owned(),
            version: run.version,
            made,
            due: due.max(begun + Duration::from_secs(1)),
        });
    }

    fn tables_of(&self, run: &Followed) -> Result<Made, String> {
        let asked = &run.asked;
        let file = asked.file.as_ref().and_then(|file| std::fs::canonicalize(file).ok());
        let Some(file) = file.filter(|file| file.starts_with(&self.folder)) else {
            return Err("The pipeline file of this run is not in the folder that is served.".to_owned());
        };
        let mut args = self.args(file, Overrides { profile: asked.profile.clone(), set: asked.set.clone() });
        args.device = asked.device.as_ref().and_then(|device| device.parse().ok());
        let made = args.plan(self.registry).and_then(|plan| {
            let failed = run.failures.iter().filter_map(|told| Some((told.key.parse().ok()?, told.lines.join(": "))));
            let tables = so_far::tables((&plan, self.registry), &plan.leaves(), &self.store, &failed.collect())?;
            Ok(Made { tables, folder: Place::of(&plan, &args).folder })
        });
        made.map_err(|failure| failure.message().trim_start_matches([' ', '×']).to_owned())
    }
}

/// Where a report is, if there is one.
fn report(store: &Store, pipeline: &str, folder: Option<&str>) -> Option<String> {
    let words: Vec<&str> = ["report", pipeline].into_iter().chain(folder).collect();
    store.has_report(pipeline, folder).then(|| address(&words))
}

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "yaml" || e == "yml") && path.is_file()).collect()
}

/// A word of a path as it was before it was encoded; nothing if that is no text.
fn decoded(word: &str) -> Option<String> {
    percent_decode_str(word).decode_utf8().ok().map(|word| word.into_owned())
}
