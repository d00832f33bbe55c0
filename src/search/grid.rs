//! All points of a space of lists and whole numbers, one after the other.

use super::space::{Domain, Settings, Space};

/// Returns how many different settings a space has; `None` if a range has no end of them.
pub fn count(space: &Space) -> Option<u64> {
    walk(space, 0, &mut Settings::new(), &mut |_| true, u64::MAX).map(|(count, _)| count)
}

/// Returns the settings number `first` and after, at most `most`; the last parameter changes fastest.
pub fn points(space: &Space, first: u64, most: u64) -> Vec<Settings> {
    let (mut found, mut at) = (Vec::new(), 0);
    let mut visit = |settings: &Settings| {
        if at >= first {
            found.push(settings.clone());
        }
        at += 1;
        at < first.saturating_add(most)
    };
    walk(space, 0, &mut Settings::new(), &mut visit, first.saturating_add(most));
    found
}

/// Visits the settings of the parameters from `at` on beside those before, until `visit` says no. Returns how many there are,
/// and whether to go on. Parameters that no condition names are counted without being visited where `visit` needs none.
fn walk(
    space: &Space,
    at: usize,
    settings: &mut Settings,
    visit: &mut dyn FnMut(&Settings) -> bool,
    most: u64,
) -> Option<(u64, bool)> {
    let Some(param) = space.params().get(at) else { return Some((1, visit(settings))) };
    if !param.exists(settings) {
        return walk(space, at + 1, settings, visit, most);
    }
    let decides =
        space.params()[at + 1..].iter().any(|later| later.when.as_ref().is_some_and(|c| c.path == param.path));
    let values = param.domain.count()?;
    // Without an end of visits only the number counts, and equal branches are as many.
    if most == u64::MAX && !decides {
        let (each, go_on) = walk(space, at + 1, settings, visit, most)?;
        return Some((each.saturating_mul(values), go_on));
    }
    let mut total: u64 = 0;
    for place in 0..values {
        settings.insert(param.path.clone(), nth(&param.domain, place));
        let (count, go_on) = walk(space, at + 1, settings, visit, most)?;
        total = total.saturating_add(count);
        if !go_on {
            settings.remove(&param.path);
            return Some((total, false));
        }
    }
    settings.remove(&param.path);
    Some((total, true))
}

fn nth(domain: &Domain, place: u64) -> serde_json::Value {
    match domain {
        Domain::Choice(values) => values[usize::try_from(place).unwrap_or(0)].clone(),
        Domain::Int { from, .. } => from.saturating_add_unsigned(place).into(),
        Domain::Float { from, .. } => (*from).into(),
    }
}
