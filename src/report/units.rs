//! Durations and sizes as people read them.

/// Writes a duration: `0.3 s`, `9 m 02 s`, `3 h 07 m`.
pub fn duration_text(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    let whole = nearest(seconds);
    if whole < 3600 {
        format!("{} m {:02} s", whole / 60, whole % 60)
    } else {
        format!("{} h {:02} m", whole / 3600, whole % 3600 / 60)
    }
}

/// Writes a size: `512 B`, `1.5 kB`, `2.0 GB`.
pub fn bytes_text(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    // Tenths of a unit, in whole numbers: exact, and free of conversions.
    let units = [("kB", 1000u64), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)];
    let fitting = units.iter().rev().find(|(_, size)| bytes >= *size).unwrap_or(&units[0]);
    let tenths = bytes / (fitting.1 / 10);
    format!("{}.{} {}", tenths / 10, tenths % 10, fitting.0)
}

/// Writes what a stage measured, by the convention for names: bytes for `memory`, a duration for `…seconds`, else a number.
pub fn measured_text(name: &str, value: f64) -> String {
    match name {
        "memory" => format!("{name} {}", bytes_text(nearest(value))),
        _ if name.ends_with("seconds") => format!("{name} {}", duration_text(value)),
        _ => format!("{name} {value}"),
    }
}

/// Returns the nearest whole number, without a conversion that could truncate.
fn nearest(value: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(value.round()).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_change_unit_where_people_do() {
        for (seconds, text) in [
            (0.04, "0.0 s"),
            (41.23, "41.2 s"),
            (59.94, "59.9 s"),
            (59.96, "1 m 00 s"),
            (542.0, "9 m 02 s"),
            (3599.6, "1 h 00 m"),
            (11_220.0, "3 h 07 m"),
        ] {
            assert_eq!(duration_text(seconds), text);
        }
    }

    #[test]
    fn sizes_are_decimal() {
        for (bytes, text) in [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000_000, "2.0 GB")] {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn measures_have_units_by_name() {
        for (name, value, text) in [
            ("memory", 1.5e9, "memory 1.5 GB"),
            ("filter-seconds", 542.0, "filter-seconds 9 m 02 s"),
            ("products", 1234.0, "products 1234"),
            ("memory", -1.0, "memory 0 B"),
        ] {
            assert_eq!(measured_text(name, value), text);
        }
    }
}
