//! One document out of several texts: the file, the file it extends, a profile, and `--set` options.
//!
//! There is one rule for all of them: mappings merge name by name, everything else is replaced, and `null` removes.
//! A file wins over the one it extends, a profile over the file, `--set` over everything.
//!
//! What a file extends is a built-in base if it is a word, and else the path of a file: a word has no `.`, `/` or `\`. So a file
//! `standard.yaml` beside the pipeline never stands in for the base `standard`, nor the base for the file.

mod chain;

use std::path::Path;

use ppgnn_stages::contract::params::{list, nearest_help};

use super::file::{Match, text_of};
use super::known::Known;
use super::problem::{PipelineError, Problems};
use super::reader::Reader;
use super::set_option::{EXPECTED, SetOption};
use super::source::{Source, Sources, Span};
use super::yaml::{self, Data, Key, Node};
use chain::Chain;

/// The version of the file format that this program reads.
pub const FORMAT: u64 = 1;

/// What the command line adds to a file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Name of a profile.
    pub profile: Option<String>,
    /// Settings as `path=value`.
    pub set: Vec<String>,
}

/// A value for a parameter of a stage.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Name of the stage in the pipeline.
    pub stage: String,
    /// Name of the parameter.
    pub param: String,
    /// Where the path stands.
    pub span: Span,
    /// The value.
    pub value: Node,
}

/// A setting of the command line.
#[derive(Clone, Debug)]
pub struct Forced {
    /// What it sets.
    pub setting: Setting,
    /// The points that it is for, by axes and parameters of the stage; all if there are none.
    pub only: Vec<Match>,
}

/// A pipeline file with everything merged in.
#[derive(Debug)]
pub struct Document {
    /// The merged tree.
    pub root: Node,
    /// `--set` options that name a stage's parameter; they win over the sweep too.
    pub forced: Vec<Forced>,
    /// The profile that was merged in.
    pub profile: Option<String>,
    /// All profiles there are.
    pub profiles: Vec<String>,
}

/// Reads a file and merges what it extends and what the command line adds.
///
/// # Errors
/// Everything that is wrong with the texts themselves.
pub fn load(
    path: &Path,
    overrides: &Overrides,
    known: &dyn Known,
    sources: &mut Sources,
) -> Result<Document, PipelineError> {
    let mut problems = Problems::default();
    let root = Chain { known, above: Vec::new(), sources, problems: &mut problems }.file(path, None);
    let Some(mut root) = root.filter(|_| problems.is_empty()) else { return Err(problems.into_error(sources)) };
    let profiles = names(root.get("profiles"));
    if let Some(name) = &overrides.profile {
        root = apply_profile(root, name, sources, &mut problems);
    }
    let mut forced = Vec::new();
    for option in &overrides.set {
        apply_set(&mut root, option, &mut forced, sources, &mut problems);
    }
    problems.finish(sources)?;
    Ok(Document { root, forced, profile: overrides.profile.clone(), profiles })
}

/// Reads a text that is not a file: nothing is merged into it.
///
/// # Errors
/// Everything that is wrong with the text itself.
pub fn of_text(place: &str, text: &str, sources: &mut Sources) -> Result<Document, PipelineError> {
    let mut problems = Problems::default();
    let source = sources.add(place, Path::new("."), text);
    let root = yaml::read(sources, source, &mut problems);
    let Some(root) = root.filter(|_| problems.is_empty()) else { return Err(problems.into_error(sources)) };
    Ok(Document { root, forced: Vec::new(), profile: None, profiles: Vec::new() })
}

/// Returns what a base says that it is for.
///
/// # Errors
/// Everything that is wrong with its text.
pub fn base_about(base: Source) -> Result<String, PipelineError> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let source = sources.push(base);
    let root = yaml::read(&sources, source, &mut problems);
    let about = root.as_ref().and_then(|root| Reader { problems: &mut problems }.required(root, "about", None));
    let about = about.map(|node| text_of(&node.value())).unwrap_or_default();
    problems.finish(&sources)?;
    Ok(about)
}

/// Checks that a file starts with a version of the format that this program reads.
pub fn check_format(root: &Node, problems: &mut Problems) -> Option<()> {
    let first = Span { source: root.span.source, range: 0..root.span.range.end.min(1) };
    let Data::Map(_) = root.data else {
        return problems.refuse(&first, "expected a mapping", Some("a pipeline file starts with `ppgnn: 1`".into()));
    };
    let Some(version) = root.get("ppgnn") else {
        let help = Some(format!("add `ppgnn: {FORMAT}` as the first line"));
        return problems.refuse(&first, "missing `ppgnn`, the version of the file format", help);
    };
    match version.value().as_u64() {
        Some(FORMAT) => Some(()),
        Some(newer) if newer > FORMAT => {
            let message = format!("the file has format {newer}, this program reads format {FORMAT}");
            problems.refuse(&version.span, message, Some("use a newer ppgnn".into()))
        }
        _ => problems.refuse(&version.span, format!("expected the format version `{FORMAT}`"), None),
    }
}

/// Whose place a mapping has that both sides have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// That of the side below, where it was written first.
    Below,
    /// That of the side above.
    Above,
}

/// Lays `over` on `base`.
fn merge(base: Node, over: Node, place: Place) -> Node {
    match (base.data, over.data) {
        (Data::Map(mut entries), Data::Map(new)) => {
            for (key, value) in new {
                match entries.iter().position(|(k, _)| k.name == key.name) {
                    Some(at) if value.is_null() => {
                        entries.remove(at);
                    }
                    Some(at) => {
                        let (old_key, old) = entries.remove(at);
                        let both_maps = matches!((&old.data, &value.data), (Data::Map(_), Data::Map(_)));
                        let key = if both_maps && place == Place::Below { old_key } else { key };
                        entries.insert(at, (key, merge(old, value, place)));
                    }
                    None if value.is_null() => {}
                    None => entries.push((key, value)),
                }
            }
            Node { data: Data::Map(entries), span: if place == Place::Below { base.span } else { over.span } }
        }
        (_, data) => Node { data, span: over.span },
    }
}

fn apply_profile(root: Node, name: &str, sources: &mut Sources, problems: &mut Problems) -> Node {
    let known = names(root.get("profiles"));
    let Some(profile) = root.get("profiles").and_then(|p| p.get(name)).cloned() else {
        let span = Span { source: sources.add("--profile", Path::new("."), name), range: 0..name.len() };
        let help = if known.is_empty() {
            "the file has no `profiles`".to_owned()
        } else {
            nearest_help(name, known.iter().map(String::as_str))
        };
        problems.add(&span, format!("unknown profile `{name}`"), Some(help));
        return root;
    };
    for (key, _) in profile.entries() {
        if ["ppgnn", "name", "extends", "profiles"].contains(&key.name.as_str()) {
            problems.add(&key.span, format!("a profile cannot change `{}`", key.name), None);
        }
    }
    merge(root, profile, Place::Below)
}

/// The names in a mapping.
fn names(node: Option<&Node>) -> Vec<String> {
    node.map(|n| n.entries().iter().map(|(k, _)| k.name.clone()).collect()).unwrap_or_default()
}

/// Applies one `--set path=value`.
fn apply_set(root: &mut Node, text: &str, forced: &mut Vec<Forced>, sources: &mut Sources, problems: &mut Problems) {
    let whole = sources.add("--set", Path::new("."), text);
    let Some(option) = SetOption::parse(text) else {
        let span = Span { source: whole, range: 0..text.len() };
        return problems.add(&span, EXPECTED, None);
    };
    let (path, value) = (option.path.as_str(), &text[option.value.clone()]);
    let at = Span { source: whole, range: option.at.clone() };
    let source = sources.add(format!("--set {path}"), Path::new("."), if value.is_empty() { "null" } else { value });
    let Some(value) = yaml::read(sources, source, problems) else { return };
    if let Some((stage, param)) = path.split_once('.')
        && root.get("stages").is_some_and(|s| s.get(stage).is_some())
    {
        let setting = Setting { stage: stage.to_owned(), param: param.to_owned(), span: at, value };
        return forced.push(Forced { setting, only: matches(&option, whole) });
    }
    if !option.only.is_empty() {
        let stages = names(root.get("stages"));
        let message = format!("`{path}` names no stage that brackets could choose points of");
        let help = format!("brackets follow a stage: {}", list(stages.iter().map(String::as_str)));
        return problems.add(&at, message, Some(help));
    }
    // Nothing is added beside `stages`, `datasets` and the like.
    let is_new_part = !path.contains('.') && root.get(path).is_none();
    if is_new_part || !set_path(root, path, &at, value) {
        let stages = names(root.get("stages"));
        let help = format!(
            "a path starts with a stage ({}), or with `datasets`, `sweep` or `tables`",
            list(stages.iter().map(String::as_str))
        );
        problems.add(&at, format!("`{path}` is not in the file"), Some(help));
    }
}

/// The conditions of an option, each where it stands in the text.
fn matches(option: &SetOption, source: usize) -> Vec<Match> {
    let span = |range: &std::ops::Range<usize>| Span { source, range: range.clone() };
    let value = |(text, at): &(String, std::ops::Range<usize>)| Node {
        data: Data::Scalar(text.clone().into()),
        span: span(at),
    };
    let one = |condition: &super::set_option::Condition| {
        let (name, at) = &condition.name;
        (Key { name: name.clone(), span: span(at) }, condition.values.iter().map(value).collect())
    };
    option.only.iter().map(one).collect()
}

/// Replaces or adds the value at a dotted path. Names may contain dots themselves, so the longest name wins.
fn set_path(node: &mut Node, path: &str, at: &Span, value: Node) -> bool {
    let Data::Map(entries) = &mut node.data else { return false };
    let rest = |k: &Key| path.strip_prefix(&k.name).filter(|rest| rest.is_empty() || rest.starts_with('.'));
    let steps = entries.iter().enumerate().filter_map(|(i, (k, _))| Some((i, rest(k)?)));
    match steps.min_by_key(|(_, rest)| rest.len()) {
        Some((i, "")) if value.is_null() => drop(entries.remove(i)),
        Some((i, "")) => entries[i].1 = value,
        Some((i, rest)) => return set_path(&mut entries[i].1, &rest[1..], at, value),
        None if path.contains('.') => return false,
        None => entries.push((Key { name: path.to_owned(), span: at.clone() }, value)),
    }
    true
}

#[cfg(test)]
mod tests;
