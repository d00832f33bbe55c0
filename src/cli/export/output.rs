//! Where an export goes: stdout, or a file that is whole or not there.

use std::path::{Path, PathBuf};

use ppgnn_stages::export::{Arrays, Frame};

use super::Format;
use crate::cli::failure::Failure;
use crate::cli::{note, print};

/// What is exported.
pub enum Content {
    /// A table.
    Table(Frame),
    /// Arrays.
    Arrays(Arrays),
}

impl Content {
    fn write(&self, format: Format, path: &Path) -> Result<(), String> {
        let file = || std::fs::File::create(path).map(std::io::BufWriter::new);
        match (self, format) {
            (Self::Table(frame), Format::Csv) => file().and_then(|f| frame.write_csv(f)).map_err(|e| e.to_string()),
            (Self::Table(frame), Format::Json) => file().and_then(|f| frame.write_json(f)).map_err(|e| e.to_string()),
            (Self::Table(frame), _) => file().and_then(|f| frame.write_parquet(f)).map_err(|e| e.to_string()),
            (Self::Arrays(arrays), Format::Npz) => arrays.write_npz(path).map_err(with_cause),
            (Self::Arrays(arrays), _) => arrays.write_safetensors(path).map_err(with_cause),
        }
    }

    fn size(&self) -> String {
        match self {
            Self::Table(frame) => format!("{} rows", frame.rows()),
            Self::Arrays(arrays) => format!("{} arrays", arrays.names().count()),
        }
    }
}

/// Writes to stdout, or to a file: under a name beside it first, then renamed, so that nobody sees half of one.
pub fn write(content: &Content, format: Format, to: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = to else {
        let mut text = Vec::new();
        if let Content::Table(frame) = content {
            let written = if format == Format::Json { frame.write_json(&mut text) } else { frame.write_csv(&mut text) };
            written.map_err(|e| Failure::unexpected(e.to_string()))?;
        }
        return print(&String::from_utf8_lossy(&text));
    };
    let refused = |why: String| Failure::usage(format!("cannot write `{}`: {why}", path.display()), None);
    let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
        return Err(refused("it is a folder, expected the name of a file".into()));
    };
    // A device or a pipe is written to, not replaced; a link stays a link.
    if path.exists() && !path.is_file() {
        content.write(format, path).map_err(refused)?;
        return Ok(());
    }
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let aside = target.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
    let written = content.write(format, &aside);
    let done = written.and_then(|()| std::fs::rename(&aside, &target).map_err(|e| e.to_string()));
    done.map_err(|why| {
        // Half a file is of no use; if it cannot be deleted either, its name says what it is.
        let _ = std::fs::remove_file(&aside);
        refused(why)
    })?;
    note(&format!("Wrote {} to {}", content.size(), path.display()));
    Ok(())
}

/// The file to write where none was named; `None` is stdout.
pub fn default_path(pipeline: &str, what: &str, format: Format) -> Option<PathBuf> {
    let to_stdout = matches!(format, Format::Csv | Format::Json);
    (!to_stdout).then(|| PathBuf::from(format!("{pipeline}-{what}.{}", format.name())))
}

fn with_cause(error: impl std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
