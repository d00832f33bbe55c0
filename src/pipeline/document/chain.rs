//! A file and what it extends: another file, or a built-in base.

use std::path::{Path, PathBuf};

use ppgnn_stages::contract::bounded;
use ppgnn_stages::contract::params::{list, nearest};
use serde_json::Value;

use super::{Place, check_format, merge};
use crate::pipeline::known::Known;
use crate::pipeline::problem::Problems;
use crate::pipeline::source::{Sources, Span};
use crate::pipeline::yaml::{self, Data, Node};

/// The longest chain of texts of which each extends the next.
const MOST_EXTENDED: usize = 100;

/// Reads a text and, below it, the one it extends.
pub(super) struct Chain<'c> {
    pub known: &'c dyn Known,
    /// What was read so far, each of which extends the next.
    pub above: Vec<Link>,
    pub sources: &'c mut Sources,
    pub problems: &'c mut Problems,
}

/// What a text can extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// A file, by its canonical path.
    File(PathBuf),
    /// A built-in base, by its name.
    Base(String),
}

impl Chain<'_> {
    /// Reads a file; `named_at` says where it is named.
    pub fn file(&mut self, path: &Path, named_at: Option<&Span>) -> Option<Node> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let text = match bounded::text(path) {
            Ok(text) => text,
            Err(error) => {
                let own = Span { source: self.sources.add(path.display().to_string(), folder, ""), range: 0..0 };
                let message = format!("cannot read `{}`: {error}", path.display());
                return self.problems.refuse(named_at.unwrap_or(&own), message, None);
            }
        };
        let source = self.sources.add(path.display().to_string(), folder, &text);
        self.text(source, link_of(path), folder)
    }

    /// Reads a built-in base.
    fn base(&mut self, name: &str, folder: &Path, named_at: &Span) -> Option<Node> {
        let Some(found) = self.known.base(name) else {
            let message = format!("there is no built-in base `{name}`");
            return self.problems.refuse(named_at, message, Some(self.help(name, folder)));
        };
        let folder = found.folder.clone();
        let source = self.sources.push(found);
        self.text(source, Link::Base(name.to_owned()), &folder)
    }

    /// What somebody may have meant by the name of a base that there is not.
    fn help(&self, name: &str, folder: &Path) -> String {
        let files = [format!("{name}.yaml"), format!("{name}.yml"), format!("./{name}")];
        if let Some(file) = files.iter().find(|file| folder.join(file).is_file()) {
            return format!("write `extends: {file}` for the file beside this one; a word is a built-in base");
        }
        let bases = self.known.bases();
        let known = list(bases.iter().map(String::as_str));
        let near = nearest(name, bases.iter().map(String::as_str));
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        format!("{near}built-in bases are {known}; the path of a file has its ending, such as `{name}.yaml`")
    }

    /// Reads a text of the chain and lays it on what it extends.
    fn text(&mut self, source: usize, own: Link, folder: &Path) -> Option<Node> {
        let root = yaml::read(self.sources, source, self.problems)?;
        check_format(&root, self.problems)?;
        let Some(extends) = root.get("extends") else { return Some(root) };
        let Data::Scalar(Value::String(name)) = &extends.data else {
            let message = "expected the name of a built-in base, or the path of one other file";
            return self.problems.refuse(&extends.span, message, None);
        };
        self.above.push(own);
        if self.above.len() == MOST_EXTENDED {
            let message = format!("more than {MOST_EXTENDED} files extend one another");
            return self.problems.refuse(&extends.span, message, None);
        }
        let next = if is_word(name) { Link::Base(name.clone()) } else { link_of(&folder.join(name)) };
        if self.above.contains(&next) {
            let shown = if is_word(name) { name.clone() } else { folder.join(name).display().to_string() };
            let help = Some("remove one `extends` of the cycle".into());
            return self.problems.refuse(&extends.span, format!("`{shown}` extends itself"), help);
        }
        let below = match next {
            Link::Base(_) => self.base(name, folder, &extends.span),
            Link::File(_) => self.file(&folder.join(name), Some(&extends.span)),
        }?;
        // What is missing is missing from the file that was asked for.
        Some(merge(below, root, Place::Above))
    }
}

/// Whether a name is that of a built-in base and not a path.
fn is_word(name: &str) -> bool {
    !name.is_empty() && !name.contains(['.', '/', '\\'])
}

fn link_of(path: &Path) -> Link {
    Link::File(std::fs::canonicalize(path).unwrap_or(path.to_owned()))
}
