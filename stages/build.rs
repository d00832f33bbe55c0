//! Compiles the CUDA kernels to PTX where the feature `cuda` is on, and does nothing at all elsewhere.
//!
//! No architecture is named: nvcc then takes the lowest that it knows, and the driver turns the PTX into code for whatever
//! gpu there is.

use std::path::PathBuf;
use std::process::Command;

const KERNELS: &str = "tensor/cuda/kernels.cu";

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return Ok(());
    }
    println!("cargo::rerun-if-changed={KERNELS}");
    println!("cargo::rerun-if-env-changed=NVCC");
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?;
    let nvcc = std::env::var_os("NVCC").unwrap_or("nvcc".into());
    let compiled = Command::new(&nvcc)
        .args(["--ptx", "-O3", "-std=c++17", "-o"])
        .arg(PathBuf::from(out).join("kernels.ptx"))
        .arg(KERNELS)
        .output()
        .map_err(|e| format!("cannot run {}: {e}; install the CUDA toolkit, or name nvcc in NVCC", nvcc.display()))?;
    if compiled.status.success() {
        return Ok(());
    }
    Err(format!("nvcc refuses stages/{KERNELS}:\n{}", String::from_utf8_lossy(&compiled.stderr)))
}
