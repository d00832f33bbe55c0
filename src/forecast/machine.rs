//! What a duration was measured on: it tells nothing about another processor or another build.

use std::sync::LazyLock;

/// Returns the name of what this program computes on: the model of the processor, and whether the build is slow.
pub fn machine() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let build = if cfg!(debug_assertions) { ", debug build" } else { "" };
        format!("{}{build}", model(&about).unwrap_or_else(|| std::env::consts::ARCH.to_owned()))
    });
    &NAME
}

/// Returns what tells this machine, with this program on it, from all others.
pub fn machine_id() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().filter(|text| !text.trim().is_empty());
    let own = ["/etc/machine-id", "/proc/sys/kernel/hostname"].into_iter().find_map(read).unwrap_or_default();
    // Who knows the identity of a machine should keep it to himself; a digest tells machines apart as well.
    let own = &blake3::hash(own.trim().as_bytes()).to_hex()[..12];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores, {own}, ppgnn {}", machine(), env!("CARGO_PKG_VERSION"))
}

/// Finds the model in `/proc/cpuinfo`.
fn model(about: &str) -> Option<String> {
    let field = |name: &str| {
        let line = about.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        let value = line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" ");
        (!value.is_empty()).then_some(value)
    };
    // Processors without a name of their own have numbers.
    field("model name").or_else(|| Some(format!("CPU {} {}", field("CPU implementer")?, field("CPU part")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_goes_by_its_model() {
        let text = "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Intel(R)  Xeon(R) CPU @ 2.7GHz\n";
        assert_eq!(model(text), Some("Intel(R) Xeon(R) CPU @ 2.7GHz".into()));
        assert_eq!(model("CPU implementer : 0x41\nCPU part\t: 0xd0c\n"), Some("CPU 0x41 0xd0c".into()));
        assert_eq!(model(""), None);
        assert_eq!(machine_id(), machine_id());
        assert!(machine_id().starts_with(machine()));
    }
}
