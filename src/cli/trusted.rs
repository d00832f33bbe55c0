//! Folders whose pipelines may start commands: a list of paths, one a line, in the folder where a user's settings are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::failure::Failure;
use ppgnn_stages::contract::bounded;

/// The list.
pub struct Trusted {
    file: PathBuf,
    folders: BTreeSet<PathBuf>,
}

impl Trusted {
    /// Reads the list; none means that nothing is trusted.
    pub fn read() -> Result<Self, Failure> {
        let Some(folder) = settings() else {
            let hint = "set `XDG_CONFIG_HOME` or `HOME`, or use --allow-commands";
            return Err(Failure::usage("there is no folder for settings", Some(hint)));
        };
        let file = folder.join("ppgnn").join("trusted");
        let text = match bounded::text(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot("read", &file, &error)),
            text => text.unwrap_or_default(),
        };
        Ok(Self { file, folders: text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect() })
    }

    /// Returns whether a file or folder is in one of the folders, whatever links lead to it.
    pub fn has(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|path| path.ancestors().any(|above| self.folders.contains(above)))
    }

    /// Returns the folders, sorted.
    pub fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.folders.iter()
    }

    /// Adds a folder, or takes it away. Returns the path that is in the list.
    pub fn set(&mut self, folder: &Path, trusted: bool) -> Result<PathBuf, Failure> {
        let real = match fs::canonicalize(folder) {
            // One that is gone can still be taken away.
            Err(_) if !trusted && self.folders.contains(folder) => folder.to_owned(),
            Err(error) => return Err(Failure::usage(format!("cannot use `{}`: {error}", folder.display()), None)),
            Ok(real) => real,
        };
        let is_line = real.to_str().is_some_and(|text| !text.contains('\n'));
        if trusted && !(is_line && real.is_dir()) {
            let what = format!("`{}` is no folder with a name that is a line of text", folder.display());
            return Err(Failure::usage(what, Some("name the folder that the pipeline is in")));
        }
        let changed = if trusted { self.folders.insert(real.clone()) } else { self.folders.remove(&real) };
        if changed {
            self.write().map_err(|error| cannot("write", &self.file, &error))?;
        }
        Ok(real)
    }

    fn write(&self) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let text: String = self.folders.iter().map(|folder| format!("{}\n", folder.display())).collect();
        let part = self.file.with_extension("part");
        fs::write(&part, text)?;
        fs::rename(&part, &self.file)
    }
}

/// The folder where settings of the user are.
fn settings() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || folder("HOME").map(|home| home.join(".config"));
    folder("XDG_CONFIG_HOME").or_else(|| if cfg!(windows) { folder("APPDATA") } else { home() })
}

fn cannot(what: &str, file: &Path, error: &io::Error) -> Failure {
    Failure::unexpected(format!("cannot {what} `{}`: {error}", file.display()))
}
