//! Time of day for manifests and log names. It never reaches a key.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in UTC, split into the parts people write.
struct Moment {
    date: (u64, u64, u64),
    time: (u64, u64, u64),
}

/// Returns the present as `2026-03-01T12:00:05Z` (RFC 3339).
pub(super) fn now() -> String {
    rfc3339(seconds_since_1970())
}

/// Returns the present as `20260301T120005Z`, for file names.
pub(super) fn stamp() -> String {
    let Moment { date: (year, month, day), time: (hour, minute, second) } = split(seconds_since_1970());
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn rfc3339(seconds: u64) -> String {
    let Moment { date: (year, month, day), time: (hour, minute, second) } = split(seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Counts years and months down from the days since 1970; a few dozen steps, and plainly right.
fn split(seconds: u64) -> Moment {
    let mut days = seconds / 86_400;
    let mut year = 1970;
    while days >= days_in_year(year) {
        days -= days_in_year(year);
        year += 1;
    }
    let mut month = 1;
    while days >= days_in_month(year, month) {
        days -= days_in_month(year, month);
        month += 1;
    }
    let of_day = seconds % 86_400;
    Moment { date: (year, month, days + 1), time: (of_day / 3600, of_day / 60 % 60, of_day % 60) }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_as_rfc_3339() {
        // From `date -u -d @SECONDS +%FT%TZ`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_210_096, "2024-02-29T12:34:56Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
