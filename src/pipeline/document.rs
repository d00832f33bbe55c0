//! One document out of several texts: the file, the file it extends, a profile, and `--set` options.
//!
//! There is one rule for all of them: mappings merge name by name, everything else is replaced, and `null` removes.
//! A file wins over the one it extends, a profile over the file, `--set` over everything.

use std::path::{Path, PathBuf};

use ppgnn_stages::contract::params::{list, nearest_help};

use super::problem::{PipelineError, Problems};
use super::source::{Sources, Span};
use super::yaml::{self, Data, Key, Node};

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

/// A pipeline file with everything merged in.
#[derive(Debug)]
pub struct Document {
    /// The merged tree.
    pub root: Node,
    /// `--set` options that name a stage's parameter; they win over the sweep too.
    pub forced: Vec<Setting>,
    /// The profile that was merged in.
    pub profile: Option<String>,
    /// All profiles there are.
    pub profiles: Vec<String>,
}

/// Reads a file and merges what it extends and what the command line adds.
///
/// # Errors
/// Everything that is wrong with the texts themselves.
pub fn load(path: &Path, overrides: &Overrides, sources: &mut Sources) -> Result<Document, PipelineError> {
    let mut problems = Problems::default();
    let root = read_chain(path, None, &mut Vec::new(), sources, &mut problems);
    let Some(mut root) = root.filter(|_| problems.is_empty()) else {
        problems.finish(sources)?;
        return Err(PipelineError { problems: Vec::new(), sources: sources.clone() });
    };
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
    problems.finish(sources)?;
    let root = root.ok_or_else(|| PipelineError { problems: Vec::new(), sources: sources.clone() })?;
    Ok(Document { root, forced: Vec::new(), profile: None, profiles: Vec::new() })
}

/// Reads a file and, below it, the one it extends.
fn read_chain(
    path: &Path,
    named_at: Option<&Span>,
    chain: &mut Vec<PathBuf>,
    sources: &mut Sources,
    problems: &mut Problems,
) -> Option<Node> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let text = match std::fs::read_to_string(path) {
        // Some editors begin a file with a byte-order mark.
        Ok(text) => text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned),
        Err(error) => {
            let own = Span { source: sources.add(path.display().to_string(), folder, ""), range: 0..0 };
            problems.add(named_at.unwrap_or(&own), format!("cannot read `{}`: {error}", path.display()), None);
            return None;
        }
    };
    let source = sources.add(path.display().to_string(), folder, &text);
    let root = yaml::read(sources, source, problems)?;
    check_format(&root, problems)?;
    let Some(extends) = root.get("extends") else { return Some(root) };
    let Data::Scalar(serde_json::Value::String(base)) = &extends.data else {
        problems.add(&extends.span, "expected the path of one other file", None);
        return None;
    };
    let base = folder.join(base);
    chain.push(std::fs::canonicalize(path).unwrap_or(path.to_owned()));
    if chain.contains(&std::fs::canonicalize(&base).unwrap_or(base.clone())) {
        problems.add(
            &extends.span,
            format!("`{}` extends itself", base.display()),
            Some("remove one `extends` of the cycle".into()),
        );
        return None;
    }
    let base = read_chain(&base, Some(&extends.span), chain, sources, problems)?;
    Some(merge(base, root))
}

/// Checks that a file starts with a version of the format that this program reads.
pub fn check_format(root: &Node, problems: &mut Problems) -> Option<()> {
    let first = Span { source: root.span.source, range: 0..root.span.range.end.min(1) };
    let Data::Map(_) = root.data else {
        problems.add(&first, "expected a mapping", Some("a pipeline file starts with `ppgnn: 1`".into()));
        return None;
    };
    let Some(version) = root.get("ppgnn") else {
        problems.add(
            &first,
            "missing `ppgnn`, the version of the file format",
            Some(format!("add `ppgnn: {FORMAT}` as the first line")),
        );
        return None;
    };
    match version.value().as_u64() {
        Some(FORMAT) => Some(()),
        Some(newer) if newer > FORMAT => {
            let message = format!("the file has format {newer}, this program reads format {FORMAT}");
            problems.add(&version.span, message, Some("use a newer ppgnn".into()));
            None
        }
        _ => {
            problems.add(&version.span, format!("expected the format version `{FORMAT}`"), None);
            None
        }
    }
}

/// Lays `over` on `base`.
fn merge(base: Node, over: Node) -> Node {
    match (base.data, over.data) {
        (Data::Map(mut entries), Data::Map(new)) => {
            for (key, value) in new {
                let at = entries.iter().position(|(k, _)| k.name == key.name);
                match at {
                    Some(at) if value.is_null() => {
                        entries.remove(at);
                    }
                    Some(at) => {
                        let (old_key, old) = entries.remove(at);
                        // The place of a merged mapping is where it was written first.
                        let both_maps = matches!((&old.data, &value.data), (Data::Map(_), Data::Map(_)));
                        entries.insert(at, (if both_maps { old_key } else { key }, merge(old, value)));
                    }
                    None if value.is_null() => {}
                    None => entries.push((key, value)),
                }
            }
            Node { data: Data::Map(entries), span: base.span }
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
    merge(root, profile)
}

/// The names in a mapping.
fn names(node: Option<&Node>) -> Vec<String> {
    node.map(|n| n.entries().iter().map(|(k, _)| k.name.clone()).collect()).unwrap_or_default()
}

/// Applies one `--set path=value`.
fn apply_set(root: &mut Node, option: &str, forced: &mut Vec<Setting>, sources: &mut Sources, problems: &mut Problems) {
    let Some((path, value)) = option.split_once('=') else {
        let span = Span { source: sources.add("--set", Path::new("."), option), range: 0..option.len() };
        problems.add(&span, "expected `path=value`", Some("for example `--set train.epochs=100`".into()));
        return;
    };
    let at = Span { source: sources.add("--set", Path::new("."), option), range: 0..path.len() };
    let source = sources.add(format!("--set {path}"), Path::new("."), if value.is_empty() { "null" } else { value });
    let Some(value) = yaml::read(sources, source, problems) else { return };
    if let Some((stage, param)) = path.split_once('.')
        && root.get("stages").is_some_and(|s| s.get(stage).is_some())
    {
        forced.push(Setting { stage: stage.to_owned(), param: param.to_owned(), span: at, value });
        return;
    }
    if !set_path(root, path, &at, value) {
        let stages = names(root.get("stages"));
        let help = format!(
            "a path starts with a stage ({}), or with `datasets`, `sweep` or `tables`",
            list(stages.iter().map(String::as_str))
        );
        problems.add(&at, format!("`{path}` is not in the file"), Some(help));
    }
}

/// Replaces or adds the value at a dotted path. Names may contain dots themselves, so the longest name wins.
fn set_path(node: &mut Node, path: &str, at: &Span, value: Node) -> bool {
    let Data::Map(entries) = &mut node.data else { return false };
    let step = entries
        .iter_mut()
        .filter(|(k, _)| path == k.name || path.strip_prefix(&k.name).is_some_and(|rest| rest.starts_with('.')))
        .max_by_key(|(k, _)| k.name.len());
    match step {
        Some((key, _)) if path == key.name && value.is_null() => {
            let name = key.name.clone();
            entries.retain(|(k, _)| k.name != name);
            true
        }
        Some((key, inner)) if path == key.name => {
            *inner = value;
            true
        }
        Some((key, inner)) => {
            let rest = path[key.name.len() + 1..].to_owned();
            match &inner.data {
                Data::Map(_) if !rest.contains('.') && inner.get(&rest).is_none() => {
                    let key = Key { name: rest, span: at.clone() };
                    if let Data::Map(entries) = &mut inner.data {
                        entries.push((key, value));
                    }
                    true
                }
                _ => set_path(inner, &rest, at, value),
            }
        }
        None => false,
    }
}

#[cfg(test)]
mod tests;
