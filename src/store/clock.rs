//! Time of day for manifests and log names. It never reaches a key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_seconds;

/// Returns the present as `2026-03-01T12:00:05Z` (RFC 3339, UTC).
pub(super) fn now() -> String {
    text(SystemTime::now())
}

/// Writes a moment. A clock may stand anywhere, and four digits hold the years 1970 to 9999: others count as the nearest of them.
fn text(moment: SystemTime) -> String {
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    format_rfc3339_seconds(moment.clamp(UNIX_EPOCH, last)).to_string()
}

/// Returns the present as `20260301T120005Z`, for file names.
pub(super) fn stamp() -> String {
    now().replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_to_the_second_and_without_marks_in_a_file_name() {
        let shape = |text: String| text.replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(shape(now()), "0000-00-00T00:00:00Z");
        assert_eq!(shape(stamp()), "00000000T000000Z");
    }

    #[test]
    fn a_clock_that_is_far_off_is_no_reason_to_fail() {
        assert_eq!(text(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00Z");
        assert_eq!(text(UNIX_EPOCH + Duration::from_secs(1 << 60)), "9999-12-31T23:59:59Z");
    }
}
