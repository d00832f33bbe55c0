//! The numeric profile: what decides the bytes of a result besides parameters and inputs.
//!
//! Precision and backend (the CPU, or CUDA on any GPU); architecture and C library (its `exp` and `ln`);
//! and the instruction set, because candle's `gemm` and faer choose their kernels at run time. They ask for different
//! features, so each is checked here as the library checks it:
//!
//! | library | widest kernel | else | else |
//! | --- | --- | --- | --- |
//! | gemm 0.19 (as built here) | `fma` | | scalar |
//! | faer 0.24, matrix products | `avx512f` | `avx2` and `fma` | scalar |
//! | faer 0.24, all else (pulp's `V3`) | `avx2`, `fma`, `bmi1`, `bmi2`, `lzcnt`, `popcnt` | | scalar |
//!
//! Usually all agree on one word: `avx512`, `fma` or `baseline`. Where they do not, the profile spells out all three.

use std::sync::LazyLock;

use super::device::Backend;

/// Returns the numeric profile of this build on this machine, such as `cpu-f32-x86_64-gnu-avx512`.
pub fn numeric_profile() -> String {
    numeric_profile_on(Backend::Cpu)
}

/// Returns the numeric profile of stages that compute on `backend`. The CPU is in it either way: it prepares what
/// a GPU computes on.
pub fn numeric_profile_on(backend: Backend) -> String {
    static HOST: LazyLock<String> =
        LazyLock::new(|| format!("{}-{}-{}", std::env::consts::ARCH, platform(), instruction_set()));
    format!("{backend}-f32-{}", *HOST)
}

/// Returns what computes in a numeric profile.
pub fn backend_of(profile: &str) -> Backend {
    let backend = profile.split('-').next();
    if backend == Some(&Backend::Cuda.to_string()) { Backend::Cuda } else { Backend::Cpu }
}

fn platform() -> &'static str {
    if cfg!(target_env = "gnu") {
        "gnu"
    } else if cfg!(target_env = "musl") {
        "musl"
    } else if cfg!(target_env = "msvc") {
        "msvc"
    } else {
        std::env::consts::OS
    }
}

/// The features that the libraries ask for.
#[derive(Clone, Copy, Default)]
struct Features {
    fma: bool,
    avx2: bool,
    avx512f: bool,
    /// What pulp's `V3` wants beyond `avx2` and `fma`.
    bits: bool,
}

#[cfg(target_arch = "x86_64")]
fn instruction_set() -> String {
    use std::arch::is_x86_feature_detected as has;
    named(Features {
        fma: has!("fma"),
        avx2: has!("avx2"),
        avx512f: has!("avx512f"),
        bits: has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt"),
    })
}

#[cfg(target_arch = "aarch64")]
fn instruction_set() -> String {
    if std::arch::is_aarch64_feature_detected!("neon") { "neon".into() } else { "baseline".into() }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn instruction_set() -> String {
    "baseline".into()
}

#[cfg_attr(not(any(test, target_arch = "x86_64")), expect(dead_code, reason = "only x86 has these levels"))]
fn named(has: Features) -> String {
    let word = |wide| if wide { "fma" } else { "baseline" };
    let gemm = word(has.fma);
    let products = if has.avx512f { "avx512" } else { word(has.avx2 && has.fma) };
    let other = word(has.avx2 && has.fma && has.bits);
    match (gemm, products, other) {
        ("fma", "avx512", "fma") => "avx512".into(),
        ("fma", "fma", "fma") => "fma".into(),
        ("baseline", "baseline", "baseline") => "baseline".into(),
        _ => format!("gemm.{gemm}.products.{products}.other.{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_levels_have_short_names() {
        let full = Features { fma: true, avx2: true, avx512f: true, bits: true };
        assert_eq!(named(full), "avx512");
        assert_eq!(named(Features { avx512f: false, ..full }), "fma");
        assert_eq!(named(Features::default()), "baseline");
    }

    #[test]
    fn a_level_that_the_libraries_disagree_on_is_spelled_out() {
        let old = Features { fma: true, ..Features::default() };
        assert_eq!(named(old), "gemm.fma.products.baseline.other.baseline");
    }

    #[test]
    fn the_profile_says_precision_backend_and_architecture() {
        let profile = numeric_profile();
        assert!(profile.starts_with(&format!("cpu-f32-{}-", std::env::consts::ARCH)));
        assert_eq!(profile, numeric_profile());
        for backend in [Backend::Cpu, Backend::Cuda] {
            assert_eq!(backend_of(&numeric_profile_on(backend)), backend);
        }
    }
}
