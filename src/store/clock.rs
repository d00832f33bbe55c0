//! Time of day for manifests and log names. It never reaches a key.

use std::time::SystemTime;

use humantime::format_rfc3339_seconds;

/// Returns the present as `2026-03-01T12:00:05Z` (RFC 3339, UTC).
pub(super) fn now() -> String {
    format_rfc3339_seconds(SystemTime::now()).to_string()
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
}
