//! The command line: one file per command, each an `Args` struct and one function.
//!
//! Results go to stdout, everything else to stderr. Only this module and `report` write to the terminal.

mod artifacts;
mod cache;
mod check;
mod completions;
mod dag;
mod data;
mod device;
mod drawing;
mod evidence;
pub mod exit;
mod export;
mod failure;
mod graphs;
mod interrupt;
mod list;
mod machine;
mod new;
mod outputs;
mod overview;
mod permission;
mod plan;
mod project;
mod publishing;
mod readiness;
mod report;
mod reporting;
mod run;
mod runs;
mod schema;
mod search;
mod serve;
mod show;
mod so_far;
mod stored;
mod table;
mod table_key;
mod targets;
mod tolerance;
mod trace;
mod traced;
mod trials;
mod tried;
mod trust;
mod trusted;
mod why;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::{Parser, Subcommand};
use ppgnn_stages::contract::Registry;

use crate::report::Page;
use failure::Failure;

/// Declarative experiment pipelines on graphs
///
/// A YAML file describes stages (load, featurize, normalize, evd, split, train, evaluate) and the sweep over their
/// parameters; `ppgnn run FILE` computes what is missing and writes the tables. Results go to stdout, everything
/// else to stderr.
///
/// Exit codes: 0 done; 1 unexpected; 2 wrong usage; 3 pipeline invalid; 4 data or result missing or changed; 5 a stage
/// failed; 6 results outside of --fail-outside; 7 the artifact store cannot be used; 130 interrupted.
#[derive(Parser)]
#[command(name = "ppgnn", version = device::VERSION, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Plan(plan::Args),
    Why(why::Args),
    Check(check::Args),
    Dag(dag::Args),
    Table(table::Args),
    Trace(trace::Args),
    Report(report::Args),
    Serve(serve::Args),
    Export(export::Args),
    Show(show::Args),
    Cache(cache::Args),
    Data(data::Args),
    Search(search::Args),
    List(list::Args),
    New(new::Args),
    Trust(trust::Args),
    Schema(schema::Args),
    Completions(completions::Args),
}

/// Parses a command line (program name first), runs the command and returns the exit code.
pub fn main(registry: &Registry, args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let command = match Cli::try_parse_from(&args) {
        Ok(cli) => cli.command,
        Err(said) if said.use_stderr() && args.iter().take_while(|a| *a != "--").any(|a| a == "--json") => {
            let text = said.render().to_string();
            let failure = Failure::usage(text.trim_start_matches("error: ").trim_end(), None);
            let _ = print_json(&failure.json());
            return failure.show();
        }
        Err(said) => {
            // Help and version are results; if stdout is closed, there is nowhere to report that.
            let _ = said.print();
            return if said.use_stderr() { exit::USAGE } else { exit::DONE };
        }
    };
    start_tracing();
    let json = command.wants_json();
    // A panic is a bug, and a bug is told like any other failure.
    let outcome = catch_unwind(AssertUnwindSafe(|| perform(command, registry))).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        Err(Failure::unexpected(format!("a bug in ppgnn: it panicked with `{}`", text.unwrap_or("no message"))))
    });
    outcome.unwrap_or_else(|failure: Failure| {
        if json {
            // If stdout is gone, the message on stderr and the exit code remain.
            let _ = print_json(&failure.json());
        }
        failure.show()
    })
}

/// Runs a command.
fn perform(command: Command, registry: &Registry) -> Result<u8, Failure> {
    match command {
        Command::Run(args) => run::run(&args, registry),
        Command::Plan(args) => plan::run(&args, registry),
        Command::Why(args) => why::run(&args, registry),
        Command::Check(args) => check::run(&args, registry),
        Command::Dag(args) => dag::run(&args, registry),
        Command::Table(args) => table::run(&args, registry),
        Command::Trace(args) => trace::run(&args, registry),
        Command::Report(args) => report::run(&args, registry),
        Command::Serve(args) => serve::run(&args, registry),
        Command::Export(args) => export::run(&args, registry),
        Command::Show(args) => show::run(&args, registry),
        Command::Cache(args) => cache::run(&args),
        Command::Data(args) => data::run(&args, registry),
        Command::Search(args) => search::run(&args, registry),
        Command::List(args) => list::run(&args, registry),
        Command::New(args) => new::run(&args, registry),
        Command::Trust(args) => trust::run(&args),
        Command::Schema(args) => schema::run(&args, registry),
        Command::Completions(args) => completions::run(&args),
    }
}

impl Command {
    /// Whether stdout must end with one JSON object, whatever happens.
    fn wants_json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Plan(args) => args.json,
            Self::Why(args) => args.json,
            Self::Check(args) => args.json,
            Self::Cache(args) => args.json,
            Self::Data(args) => args.json,
            Self::Search(args) => args.json,
            Self::List(args) => args.json,
            Self::Show(args) => args.json,
            Self::Trace(args) => args.json,
            Self::Dag(_)
            | Self::Table(_)
            | Self::Report(_)
            | Self::Serve(_)
            | Self::Export(_)
            | Self::New(_)
            | Self::Trust(_)
            | Self::Schema(_)
            | Self::Completions(_) => false,
        }
    }
}

/// Diagnostics for developers: `PPGNN_LOG=info` says how long each part took, `debug` and `trace` say more, on stderr.
fn start_tracing() {
    let Some(level) = std::env::var("PPGNN_LOG").ok().filter(|level| !level.is_empty()) else { return };
    let Ok(level) = level.parse::<tracing::Level>() else {
        return note(&format!("warning: PPGNN_LOG is `{level}`, expected error, warn, info, debug or trace"));
    };
    // A span says how long it was open when it closes: that is where the time went.
    let spans = tracing_subscriber::fmt::format::FmtSpan::CLOSE;
    // A program that runs several commands has started it before.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_span_events(spans)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr)
        .try_init();
}

/// Writes a result to stdout. A reader that stopped reading is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::unexpected(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a result to stdout as one line of JSON.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}

/// Writes a result to stdout as JSON or as text for people.
pub(crate) fn print_as(json: bool, object: &serde_json::Value, text: &str) -> Result<(), Failure> {
    if json { print_json(object) } else { print(text) }
}

/// Writes a note to stderr.
pub(crate) fn note(text: &str) {
    use std::io::Write;
    // If stderr is closed, there is nowhere left to report it.
    let text = Page::stderr().map_or_else(|| text.to_owned(), |page| page.folded(text, 4));
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
