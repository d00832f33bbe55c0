//! A manifest: what a data set consists of, how it is loaded, and what its graph must look like.
//!
//! ```yaml
//! ppgnn: 1
//! title: Texas
//! about: One sentence.
//! licence: not stated by the publisher
//! source: https://example.org/texas      # the page of the publisher
//! folder: texas                          # below the data directory
//! metric: accuracy                       # the score that its publishers report; may be absent
//! files:                                 # every file, by its path below the folder
//!   edges.txt: { url: https://example.org/edges.txt, bytes: 325, sha256: 9f86… }
//! load:                                  # parameters of the stage `load`; paths start from the folder
//!   format: geom-gcn
//!   edges: edges.txt
//! neighbourhoods:                        # files of the stage `relate`, by the name of the embedding; may be absent
//!   poincare: ../geom_neighbourhoods/texas_poincare.txt
//! expect:                                # checked when the graph is loaded
//!   nodes: 183
//! ```
//!
//! A path may leave the folder for another one of the data directory, as those of `neighbourhoods` do above: `files` lists it so too.
//!
//! `url` and `sha256` are one value or a list: addresses are tried in order, any of the digests will do. All fields of
//! a file may be absent. `arrays-sha256` is the digest of the decoded arrays of an `.npz` file
//! ([`ppgnn_stages::reading::npz_digest`]), for files that are in circulation packed in several ways.

use std::path::{Component, Path, PathBuf};

use crate::pipeline::{
    Key, Node, PipelineError, Problems, Reader, Source, Sources, Span, check_format, one_or_many, read_yaml,
};

/// A data set as its manifest describes it.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Name that pipelines use: the name of the manifest's file.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// One sentence.
    pub about: String,
    /// The licence as published.
    pub licence: String,
    /// The page of the publisher.
    pub source: String,
    /// Folder below the data directory.
    pub folder: PathBuf,
    /// The score that its publishers report, if the manifest says.
    pub metric: Option<String>,
    /// Every file, in the order written.
    pub files: Vec<DataFile>,
    /// Parameters of the stage `load`, `expect` among them; paths in them start from [`Manifest::root`].
    pub load: Vec<(Key, Node)>,
    /// Files for other stages, by what they are called; their paths start from there too.
    pub further: Vec<(Key, Node)>,
    /// The text that places in `load` refer to.
    pub text: Source,
}

/// One file of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataFile {
    /// Path from the folder of the data set; never leads out of the data directory.
    pub path: PathBuf,
    /// Where it can be fetched, in the order to try. None: the publisher has no direct address.
    pub urls: Vec<String>,
    /// Its size.
    pub bytes: Option<u64>,
    /// Accepted SHA-256 digests, as lowercase hex.
    pub sha256: Vec<String>,
    /// Accepted digest of the decoded arrays, as lowercase hex.
    pub arrays_sha256: Option<String>,
}

/// What a look at the disk says about a file, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// There, and of the expected size if one is known.
    Here {
        /// Its size.
        bytes: u64,
    },
    /// Not there.
    Absent,
    /// There, with another size than expected.
    WrongSize {
        /// Its size.
        found: u64,
        /// The size it should have.
        expected: u64,
    },
}

impl Manifest {
    /// Returns the folder of the data set below a data directory.
    pub fn root(&self, data_dir: &Path) -> PathBuf {
        data_dir.join(&self.folder)
    }

    /// Returns the files that `load` reads: all but those for other stages.
    pub fn loaded(&self) -> impl Iterator<Item = &DataFile> {
        let others: Vec<_> =
            self.further.iter().flat_map(|(_, files)| files.entries()).map(|(_, n)| n.value()).collect();
        self.files
            .iter()
            .filter(move |file| !others.iter().any(|other| other.as_str().map(Path::new) == Some(&file.path)))
    }

    /// Looks for every file, without reading any.
    pub fn state(&self, data_dir: &Path) -> Vec<(&DataFile, FileState)> {
        let root = self.root(data_dir);
        self.files.iter().map(|file| (file, file.state(&root.join(&file.path)))).collect()
    }

    /// Returns the publisher's page, if no file has an address and the data must be got by hand.
    pub fn by_hand(&self) -> Option<String> {
        self.files.iter().all(|f| f.urls.is_empty()).then(|| self.source.clone())
    }

    /// Returns a whole number of `expect`, such as `nodes`.
    pub fn expected_count(&self, name: &str) -> Option<u64> {
        let (_, expect) = self.load.iter().find(|(key, _)| key.name == "expect")?;
        expect.get(name)?.value().as_u64()
    }
}

impl DataFile {
    /// Looks for the file at `path`, without reading it.
    pub fn state(&self, path: &Path) -> FileState {
        match std::fs::metadata(path) {
            Ok(about) if about.is_file() => match self.bytes {
                Some(expected) if expected != about.len() => FileState::WrongSize { found: about.len(), expected },
                _ => FileState::Here { bytes: about.len() },
            },
            _ => FileState::Absent,
        }
    }
}

/// Returns whether data may be fetched from an address: `https`, or this machine.
pub fn is_allowed_address(url: &str) -> bool {
    let host = |rest: &str| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned();
        // A name before `@` would hide the real host.
        if authority.contains('@') { String::new() } else { authority.split(':').next().unwrap_or_default().to_owned() }
    };
    match url.split_once("://") {
        Some(("https", rest)) => !host(rest).is_empty(),
        Some(("http", rest)) => ["127.0.0.1", "localhost"].contains(&host(rest).as_str()),
        _ => false,
    }
}

/// Reads the text of a manifest.
pub(super) fn read(name: &str, shown: &str, text: &str) -> Result<Manifest, PipelineError> {
    let mut sources = Sources::default();
    let source = sources.add(shown, Path::new("."), text);
    let mut problems = Problems::default();
    let root = read_yaml(&sources, source, &mut problems);
    let Some(root) = root.filter(|root| problems.is_empty() && check_format(root, &mut problems).is_some()) else {
        return Err(problems.into_error(&sources));
    };
    let mut reader = Reader { problems: &mut problems };
    let text = Source { name: shown.to_owned(), folder: PathBuf::new(), text: text.into() };
    let read = reader.manifest(name, &root, text);
    problems.finish(&sources)?;
    Ok(read)
}

/// Fields that hold files for other stages than `load`.
const FURTHER: [&str; 1] = ["neighbourhoods"];
const FIELDS: [&str; 11] =
    ["ppgnn", "title", "about", "licence", "source", "folder", "metric", "files", "load", FURTHER[0], "expect"];

impl Reader<'_> {
    fn manifest(&mut self, name: &str, root: &Node, text: Source) -> Manifest {
        self.only(root, &FIELDS, "a manifest");
        let folder = self.required(root, "folder", None).map(|node| (node, self.line(node)));
        let load = self.required(root, "load", None);
        let mut params = self.map(load).to_vec();
        if let Some(load) = load.filter(|n| !n.entries().is_empty()) {
            let help = "name the format of the files, such as `format: geom-gcn`";
            self.required(load, "format", Some(help.into()));
        }
        if let Some(expect) = root.get("expect") {
            self.map(Some(expect));
        }
        params.extend(root.entries().iter().filter(|(k, _)| k.name == "expect").cloned());
        let further: Vec<_> =
            root.entries().iter().filter(|(k, _)| FURTHER.contains(&k.name.as_str())).cloned().collect();
        for (_, files) in &further {
            self.map(Some(files));
        }
        let folder = folder.map(|(node, text)| self.inside(&text, &node.span, 0)).unwrap_or_default();
        let depth = folder.components().count();
        let files = self.required(root, "files", None).map(|node| (node, self.map(Some(node))));
        if let Some((node, [])) = files {
            self.problems.add(&node.span, "a data set has one file at least", None);
        }
        Manifest {
            name: name.to_owned(),
            title: self.required_line(root, "title"),
            about: self.required_line(root, "about"),
            licence: self.required_line(root, "licence"),
            source: self.required_line(root, "source"),
            metric: root.get("metric").map(|node| self.line(node)),
            folder,
            files: files.map(|(_, f)| f.iter().map(|(k, n)| self.file(k, n, depth)).collect()).unwrap_or_default(),
            load: params,
            further,
            text,
        }
    }

    fn file(&mut self, key: &Key, node: &Node, depth: usize) -> DataFile {
        self.map(Some(node));
        self.only(node, &["url", "bytes", "sha256", "arrays-sha256"], "a file");
        let bytes = node.get("bytes").and_then(|n| {
            let bytes = n.value().as_u64();
            if bytes.is_none() {
                self.expected(n, "a size in bytes");
            }
            bytes
        });
        let arrays = self.digests(node.get("arrays-sha256"));
        DataFile {
            path: self.inside(&key.name, &key.span, depth),
            urls: self.addresses(node.get("url")),
            bytes,
            sha256: self.digests(node.get("sha256")),
            arrays_sha256: arrays.into_iter().next(),
        }
    }

    /// One text or several; `wrong` says what is wrong with one, and what to do about it.
    fn lines(&mut self, node: Option<&Node>, wrong: impl Fn(&str) -> Option<(String, &str)>) -> Vec<String> {
        let mut found = Vec::new();
        for item in node.map(one_or_many).unwrap_or_default() {
            let text = self.line(item);
            if let Some((message, help)) = wrong(&text) {
                self.problems.add(&item.span, message, Some(help.into()));
            }
            found.push(text);
        }
        found
    }

    fn addresses(&mut self, node: Option<&Node>) -> Vec<String> {
        self.lines(node, |url| {
            let message = || format!("`{url}` is not an address to fetch from");
            (!url.is_empty() && !is_allowed_address(url)).then(|| (message(), "an address starts with `https://`"))
        })
    }

    fn digests(&mut self, node: Option<&Node>) -> Vec<String> {
        let found = self.lines(node, |text| {
            let fine = text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit());
            let message = || "expected a SHA-256 digest of 64 hexadecimal digits".to_owned();
            (!fine).then(|| (message(), "`sha256sum FILE` prints it"))
        });
        found.iter().map(|text| text.to_ascii_lowercase()).collect()
    }

    /// A relative path that cannot be mistaken for half a download, and that stays below the data directory: it starts from a folder
    /// that is `depth` below it, and may leave that one first of all.
    fn inside(&mut self, text: &str, span: &Span, depth: usize) -> PathBuf {
        let path = PathBuf::from(text);
        let up = path.components().take_while(|c| matches!(c, Component::ParentDir)).count();
        let rest = path.components().skip(up);
        // Only folders stand in a data directory.
        let plain = up <= depth
            && (up == 0 || rest.clone().count() > 1)
            && rest.clone().all(|c| matches!(c, Component::Normal(_)));
        let clean = !text.is_empty() && !text.contains(|c: char| c.is_control() || c == '\\');
        if !plain || !clean || text.ends_with('/') || text.ends_with(".part") {
            let help = Some("write a relative path that stays below the data directory".into());
            self.problems.add(span, format!("`{text}` cannot name a file of a data set"), help);
        }
        path
    }

    fn required_line(&mut self, root: &Node, field: &str) -> String {
        self.required(root, field, None).map(|node| self.line(node)).unwrap_or_default()
    }

    /// A text that is not empty.
    fn line(&mut self, node: &Node) -> String {
        let text = self.text(node).map(|key| key.name);
        if text.as_ref().is_some_and(String::is_empty) {
            self.expected(node, "text");
        }
        text.unwrap_or_default()
    }
}
