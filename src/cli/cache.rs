//! `ppgnn cache`: lists, verifies and cleans the artifact store.

use std::time::Duration;

use serde_json::json;

use super::failure::Failure;
use super::project::StoreArgs;
use super::{exit, note, print_as};
use crate::report::{bytes_text, duration_text};
use crate::store::Opened;
use crate::store::prune::{Leftover, Limits, choose, delete};

/// List, verify or clean the artifact store
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    store: StoreArgs,
    /// Print one JSON object
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List artifacts: key, stage, size, duration, node
    Ls {
        /// Only artifacts of this stage
        stage: Option<String>,
    },
    /// Read every byte of every artifact and compare with its digest
    Verify,
    /// Show what could be deleted: artifacts that no published result needs, resume points, leftovers, quarantine
    ///
    /// A resume point is a checkpoint that an unfinished run left for the next one to continue from. Nothing is deleted
    /// without --delete, and never what a published result needs or a run is using. What a run needs that was interrupted
    /// or had failures is kept for the next one, as long as its pipeline file is there, unless --unfinished is given.
    Gc {
        /// Delete what is shown
        #[arg(long)]
        delete: bool,
        /// Only what is older than this, such as 12h or 30d
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
        /// Also what runs need that have not finished
        #[arg(long)]
        unfinished: bool,
    },
}

/// Runs the command.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.command {
        Command::Ls { stage } => ls(stage.as_deref(), &args.store, args.json),
        Command::Verify => verify(&args.store, args.json),
        Command::Gc { delete, older_than, unfinished } => {
            gc(*delete, &Limits { older_than: *older_than, unfinished: *unfinished }, &args.store, args.json)
        }
    }
}

fn ls(stage: Option<&str>, store: &StoreArgs, as_json: bool) -> Result<u8, Failure> {
    let store = store.look()?;
    let mut out = String::new();
    let mut listed = Vec::new();
    let mut total = 0;
    for artifact in store.entries(stage)? {
        let Some(m) = store.manifest(&artifact.key, &artifact.stage) else {
            out.push_str(&format!("{}  {:<10} damaged\n", artifact.key.short(), artifact.stage));
            continue;
        };
        total += m.bytes();
        let (bytes, seconds) = (bytes_text(m.bytes()), duration_text(m.seconds));
        out.push_str(&format!("{}  {:<10} {bytes:>9} {seconds:>8}  {}\n", m.key.short(), artifact.stage, m.node));
        listed.push(json!({
            "key": m.key, "stage": artifact.stage, "bytes": m.bytes(), "seconds": m.seconds, "id": m.node,
            "created": m.created, "measured": m.measured,
        }));
    }
    // Nothing says which stage a resume point belongs to.
    let points = if stage.is_none() { store.resume_points()? } else { Vec::new() };
    out.push_str(&format!("{} artifacts, {}\n", listed.len(), bytes_text(total)));
    if !points.is_empty() {
        let unfinished = points.iter().map(|p| p.bytes).sum();
        out.push_str(&format!("{} resume points, {}\n", points.len(), bytes_text(unfinished)));
    }
    let points: Vec<_> = points.iter().map(|p| json!({"key": p.key, "bytes": p.bytes})).collect();
    print_as(as_json, &json!({"version": 1, "artifacts": listed, "bytes": total, "resume-points": points}), &out)?;
    Ok(exit::DONE)
}

fn verify(store: &StoreArgs, as_json: bool) -> Result<u8, Failure> {
    let store = store.look()?;
    let (mut whole, mut damaged) = (0, Vec::new());
    for artifact in store.entries(None)? {
        match store.verify(&artifact)? {
            Opened::Hit(_) => whole += 1,
            Opened::Miss => {}
            Opened::Damaged { what, .. } => {
                if !as_json {
                    note(&format!("damaged: {} {}: {what}", artifact.stage, artifact.key.short()));
                }
                damaged.push(json!({"stage": artifact.stage, "key": artifact.key, "what": what}));
            }
        }
    }
    let count = damaged.len();
    let text = format!("{whole} artifacts whole, {count} damaged\n");
    print_as(as_json, &json!({"version": 1, "whole": whole, "damaged": damaged}), &text)?;
    if count == 0 {
        return Ok(exit::DONE);
    }
    note("hint: a run that needs a damaged artifact sets it aside and computes it again");
    Ok(exit::DATA)
}

fn gc(really: bool, limits: &Limits, store: &StoreArgs, as_json: bool) -> Result<u8, Failure> {
    let looked = store.look()?;
    if !looked.is_store() {
        let message = format!("`{}` is not an artifact store", store.artifacts.display());
        return Err(Failure::new(exit::STORE, message, Some("name the folder with --artifacts")));
    }
    let store = if really { store.open()? } else { looked };
    let kept_for = if limits.unfinished { Vec::new() } else { store.unfinished()? };
    let chosen = choose(&store, limits)?;
    let total: u64 = chosen.iter().map(|p| p.bytes).sum();
    let describe = |what: &Leftover| match what {
        Leftover::Artifact(a) => ("artifact", format!("{} {}", a.stage, a.key.short())),
        Leftover::ResumePoint(key) => ("resume point", key.short()),
        Leftover::Unfinished(name) => ("unfinished", name.clone()),
        Leftover::Quarantined(name) => ("quarantined", name.clone()),
    };
    let deleted = if really { Some(delete(&store, &chosen, limits)?) } else { None };
    let (mut out, mut listed) = (String::new(), Vec::new());
    for p in &chosen {
        let (kind, name) = describe(&p.what);
        out.push_str(&format!("{kind:<12} {:>9}  {name}\n", bytes_text(p.bytes)));
        listed.push(json!({"what": kind, "name": name, "bytes": p.bytes}));
    }
    let count = chosen.len();
    out += &match deleted {
        Some(d) => format!("deleted {} of {count}, {} freed\n", d.count, bytes_text(d.bytes)),
        None if count == 0 => "nothing to delete\n".to_owned(),
        None => format!("{count} could be deleted, {}; add --delete to delete them\n", bytes_text(total)),
    };
    for run in kept_for.iter().filter(|_| !as_json) {
        let words = &run.words;
        note(&format!(
            "note: kept what `ppgnn run {words}` of {} needs, which has not finished; --unfinished offers it",
            run.created
        ));
    }
    let freed = deleted.map(|d| d.bytes);
    let kept_for: Vec<_> =
        kept_for.iter().map(|r| json!({"pipeline": r.pipeline, "run": r.words, "created": r.created})).collect();
    let object = json!({
        "version": 1, "chosen": listed, "bytes": total, "deleted": really, "freed": freed, "kept-for": kept_for,
    });
    print_as(as_json, &object, &out)?;
    Ok(exit::DONE)
}

/// Reads an age such as `90m`, `12h`, `30d`.
fn age(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is not an age; write for example 90m, 12h or 30d");
    let unit = text.chars().last().ok_or_else(expected)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(expected()),
    };
    let count: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| expected())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(expected)
}
