//! How much memory there is: what the machine has, and what its control groups (of both versions) and limits leave of it.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that the program takes before any stage does.
pub const BASE: u64 = 96 << 20;
/// What is left to everything else: a tenth, and not less or more than this.
const MARGIN: std::ops::RangeInclusive<u64> = 64 << 20..=2 << 30;
/// Address space that is reserved and never used: stacks of threads, and arenas of the allocator.
const RESERVED: u64 = 1 << 30;

/// Memory that nodes may take together, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// At any time.
    pub most: u64,
    /// Now, beside what other programs have.
    pub now: u64,
}

impl Allowed {
    /// What a person allows.
    pub fn of(bytes: u64) -> Self {
        Self { most: bytes, now: bytes }
    }
}

/// Returns what this machine allows; `None` where it does not say.
pub fn allowed() -> Option<Allowed> {
    allowed_below(Path::new("/"))
}

/// The same, of a machine whose files are below `root`.
fn allowed_below(root: &Path) -> Option<Allowed> {
    let machine = of_machine(root);
    let (limit, free) = machine
        .into_iter()
        .chain(of_groups(root))
        .chain(of_limits(root))
        .fold(None::<(u64, u64)>, |least, (limit, free)| {
            Some(least.map_or((limit, free), |(l, f)| (l.min(limit), f.min(free))))
        })?;
    let most = limit - (limit / 10).clamp(*MARGIN.start(), *MARGIN.end()).min(limit);
    Some(Allowed { most, now: most.min(free - free / 20) })
}

/// All memory and what is free of it.
fn of_machine(root: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let all = field("MemTotal")?;
    Some((all, field("MemAvailable").unwrap_or(all)))
}

/// The limits of the control groups that this process is in, and what is free below each.
fn of_groups(root: &Path) -> Vec<(u64, u64)> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (folders, files): (&[&str], [&str; 3]) = if controllers.split(',').any(|name| name == "memory") {
            (&["sys/fs/cgroup/memory"], ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"])
        } else if controllers.is_empty() {
            (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], ["memory.max", "memory.current", "inactive_file"])
        } else {
            continue;
        };
        for folder in folders.iter().map(|folder| root.join(folder)) {
            // A container may see its own group as the root, under a path of the host.
            let groups = ancestors(&folder, path);
            found.extend(groups.iter().filter_map(|group| of_group(group, files)));
        }
    }
    found
}

/// The folder of a group and those of all groups around it.
fn ancestors(folder: &Path, path: &str) -> Vec<PathBuf> {
    let inside = folder.join(path.trim_start_matches('/'));
    inside.ancestors().take_while(|group| group.starts_with(folder)).map(Path::to_owned).collect()
}

fn of_group(group: &Path, [limit, usage, cached]: [&str; 3]) -> Option<(u64, u64)> {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    // `max`, or a number of nine exabytes, is no limit.
    let limit = number(limit).filter(|limit| *limit < 1 << 60)?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = stat.lines().find_map(|line| line.strip_prefix(cached)?.trim().parse::<u64>().ok()).unwrap_or(0);
    let used = number(usage).unwrap_or(0).saturating_sub(cached);
    Some((limit, limit.saturating_sub(used)))
}

/// Limits of the process (`ulimit -v`, `ulimit -d`).
fn of_limits(root: &Path) -> Vec<(u64, u64)> {
    let text = fs::read_to_string(root.join("proc/self/limits")).unwrap_or_default();
    let limit = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let limit = line.split_whitespace().next()?.parse::<u64>().ok()?;
        Some(limit.saturating_sub(RESERVED))
    };
    let all = ["Max address space", "Max data size"];
    all.iter().filter_map(|name| limit(name)).map(|limit| (limit, limit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine with these files allows.
    fn of(files: &[(&str, &str)]) -> Option<Allowed> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        allowed_below(root.path())
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:  10485760 kB\nMemFree: 1 kB\nMemAvailable:  5242880 kB\n");
    const GIB: u64 = 1 << 30;

    #[test]
    fn a_machine_without_groups_allows_what_it_has() {
        let allowed = of(&[MEMINFO]).unwrap();
        assert_eq!(allowed, Allowed { most: 9 * GIB, now: 5 * GIB - 5 * GIB / 20 });
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("proc/meminfo", "MemTotal: many\n")]), None);
    }

    #[test]
    fn a_group_of_version_2_and_those_around_it_count() {
        let group = ("proc/self/cgroup", "0::/user.slice/job\n");
        let limited = [
            MEMINFO,
            group,
            ("sys/fs/cgroup/user.slice/memory.max", "2147483648\n"),
            ("sys/fs/cgroup/user.slice/job/memory.max", "max\n"),
        ];
        assert_eq!(of(&limited).unwrap().most, 2 * GIB - 2 * GIB / 10);
        assert_eq!(of(&limited[..2]).unwrap().most, 9 * GIB, "no limit, or none that can be seen");
        // What the group has in use counts, but not the cache of files.
        let used = [
            MEMINFO,
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/memory.current", "3221225472\n"),
            ("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 2147483648\n"),
        ];
        assert_eq!(of(&used).unwrap().now, 3 * GIB - 3 * GIB / 20);
    }

    #[test]
    fn a_group_of_version_1_counts() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/abc\n0::/\n"),
            ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(of(&files).unwrap().most, GIB - GIB / 10);
        // In a container the path is that of the host, and its own group is the root.
        let inside = [MEMINFO, files[1], ("sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n")];
        assert_eq!(of(&inside).unwrap().most, 3 * GIB - 3 * GIB / 10);
    }

    #[test]
    fn limits_of_the_process_count() {
        let limits = "Limit   Soft Limit  Hard Limit  Units\nMax address space   3221225472   unlimited   bytes\n\
                      Max data size  unlimited unlimited bytes\n";
        assert_eq!(of(&[MEMINFO, ("proc/self/limits", limits)]).unwrap().most, 2 * GIB - 2 * GIB / 10);
    }
}
