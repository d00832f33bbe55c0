//! What the publisher calls nodes and classes: the tables of the folder `mapping`, if they are there.

use super::{Zip, is_folder};
use crate::contract::{Job, StageError};
use crate::kinds::Names;
use crate::reading::text::{shown, whole};

/// Reads the names; without tables there are none.
///
/// # Errors
/// When a table is damaged, is there twice, names something that is not there, or leaves a node without a name.
pub fn names(zip: &mut Zip, job: &Job, nodes: usize, classes: usize) -> Result<Names, StageError> {
    let ids = read(zip, job, "nodeidx2", |node| node < nodes, nodes)?;
    let ids = match ids {
        None => Vec::new(),
        Some((place, ids)) => match ids.iter().position(Option::is_none) {
            Some(node) => {
                let what = format!("has no line for node {node}, expected one for each of {nodes} nodes");
                return Err(StageError::data(place, what));
            }
            None => ids.into_iter().flatten().collect(),
        },
    };
    let named = read(zip, job, "labelidx2", |_| true, classes)?;
    let number = |(class, name): (usize, Option<String>)| name.unwrap_or_else(|| class.to_string());
    let classes = named.map(|(_, names)| names.into_iter().enumerate().map(number).collect()).unwrap_or_default();
    Ok(Names { ids, classes })
}

/// The place of a table in words, and the names of numbers below `count` in it.
type Table = (String, Vec<Option<String>>);

fn read(
    zip: &mut Zip,
    job: &Job,
    start: &str,
    known: impl Fn(usize) -> bool,
    count: usize,
) -> Result<Option<Table>, StageError> {
    let wanted = |name: &str| is_mapping(name, start);
    if !zip.names.iter().any(|name| wanted(name)) {
        return Ok(None);
    }
    let index = zip.find(&format!("mapping/{start}….csv.gz"), wanted)?;
    let place = zip.place(index);
    let mut names = vec![None; count];
    let mut first = true;
    zip.lines_at(job, index)?.each(|line| {
        let header = std::mem::take(&mut first);
        let at = line.iter().position(|b| *b == b',').ok_or("has one field, expected a number and a name")?;
        let (number, name) = (&line[..at], &line[at + 1..]);
        let Some(at) = whole(number, u32::MAX).map(|n| n as usize).filter(|n| known(*n)) else {
            let what = format!("`{}` is not a number of a node or class", shown(number));
            return if header && !number.iter().any(u8::is_ascii_digit) { Ok(()) } else { Err(what) };
        };
        let name = field(name).ok_or_else(|| {
            format!("`{}` is not a name: its quotes do not match, or it is not UTF-8 text", shown(name))
        })?;
        match names.get_mut(at).map(|slot| slot.replace(name)) {
            Some(Some(_)) => Err(format!("{at} has a name already, expected one line each")),
            _ => Ok(()),
        }
    })?;
    Ok(Some((place, names)))
}

/// Whether a path ends in `mapping/<start>….csv.gz`.
fn is_mapping(path: &str, start: &str) -> bool {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    file.starts_with(start) && file.ends_with(".csv.gz") && folder.strip_suffix("mapping").is_some_and(is_folder)
}

/// The first field of a line: up to a comma, or in double quotes, where two of them stand for one.
fn field(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).ok()?;
    let Some(quoted) = text.strip_prefix('"') else {
        return Some(text.split(',').next().unwrap_or_default().trim_ascii().to_owned());
    };
    let (mut name, mut rest) = (String::new(), quoted);
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        let Some(after) = after.strip_prefix('"') else {
            return (after.is_empty() || after.starts_with(',')).then_some(name);
        };
        name.push('"');
        rest = after;
    }
}
