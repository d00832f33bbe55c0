//! `make gpu-check`: what it decides, with stand-ins for the programs of driver and toolkit, for cargo and for ppgnn. Needs Python.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

const PASSED: &str = "echo 'test result: ok. 31 passed; 0 failed'";
const TABLE: &str = "echo 'MLP 70.1'";

/// A folder with programs that say what they are told to.
struct Machine {
    folder: TempDir,
    emulated: bool,
}

impl Machine {
    /// A card, a driver that knows CUDA 12.4, a toolkit, and builds and tests that end well.
    fn new(toolkit: &str) -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap(), emulated: false };
        let card = "echo '0, NVIDIA RTX, 8.6, 24576, 550.54'";
        machine.program("nvidia-smi", &format!("[ -n \"$1\" ] && {card} || echo '| CUDA Version: 12.4 |'"));
        machine.program("nvcc", &format!("echo 'Cuda compilation tools, release {toolkit}, V{toolkit}.1'"));
        machine.with("true", PASSED, TABLE)
    }

    /// What cargo does to build and to test, and what ppgnn does.
    fn with(self, build: &str, test: &str, ppgnn: &str) -> Self {
        self.program("cargo", &format!("case $1 in build) {build};; test) {test};; esac"));
        fs::create_dir_all(self.folder.path().join("target/quick")).unwrap();
        self.program("target/quick/ppgnn", ppgnn);
        self
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the check. Returns its exit code and the report; nothing where there is no Python.
    fn check(&self) -> Option<(i32, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let report = self.folder.path().join("report.txt");
        let python = std::env::var_os("PPGNN_PYTHON").unwrap_or("python3".into());
        // Where it is, since it is to be started with another PATH.
        let Ok(found) = Command::new(python).args(["-c", "import sys; print(sys.executable)"]).output() else {
            eprintln!("skipped: there is no Python to check GPUs with");
            return None;
        };
        let python = String::from_utf8(found.stdout).unwrap();
        let path = format!("{}:/usr/bin:/bin", self.folder.path().display());
        let mut command = Command::new(python.trim());
        command.arg(root.join("benches/gpu_check.py")).arg(&report).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("PATH", path).env("CARGO_TARGET_DIR", self.folder.path().join("target"));
        command.env("PPGNN_GPU_CHECK", if self.emulated { "emulated" } else { "" });
        let done = command.output().unwrap();
        Some((done.status.code()?, fs::read_to_string(report).unwrap_or_default()))
    }
}

#[test]
fn a_toolkit_that_is_newer_than_the_driver_is_refused_before_anything_is_built() {
    let machine = Machine::new("13.0").with("touch built", PASSED, TABLE);
    let Some((code, report)) = machine.check() else { return };
    assert_eq!(code, 1, "{report}");
    assert!(report.contains("FAILED   cards, driver and toolkit"), "{report}");
    assert!(
        report.contains("the toolkit is of CUDA 13.0, the driver knows 12.4 at most: update the driver"),
        "{report}"
    );
    assert!(report.contains("Nothing was built") && !machine.folder.path().join("built").exists(), "{report}");
}

#[test]
fn a_machine_without_a_driver_is_told_what_is_missing() {
    let machine = Machine::new("12.4");
    fs::remove_file(machine.folder.path().join("nvidia-smi")).unwrap();
    let Some((code, report)) = machine.check() else { return };
    assert_eq!(code, 1);
    assert!(report.contains("there is no `nvidia-smi`: install NVIDIA's driver and the CUDA toolkit"), "{report}");
}

#[test]
fn a_build_is_for_the_oldest_card_and_one_that_fails_ends_the_check() {
    let Some((code, report)) = Machine::new("12.1").with("echo $CUDA_COMPUTE_CAP; exit 3", PASSED, TABLE).check()
    else {
        return;
    };
    assert_eq!(code, 1);
    assert!(report.contains("cuda:0 NVIDIA RTX, 8.6, 24576 MiB, driver 550.54"), "{report}");
    assert!(report.contains("FAILED   build") && report.contains("ended with 3:\n         86"), "{report}");
    assert!(!report.contains("out of memory"), "{report}");
}

#[test]
fn an_emulated_check_reports_tests_and_tables_and_skips_what_only_a_card_shows() {
    let machine = Machine { emulated: true, ..Machine::new("12.4") };
    let Some((code, report)) = machine.check() else { return };
    assert_eq!(code, 0, "{report}");
    assert!(report.contains("31 tests") && report.contains("MLP 70.1"), "{report}");
    assert!(report.contains("skipped  a graph of the size of OGBN-arXiv"), "{report}");
    assert!(report.ends_with("0 steps failed; the report is report.txt\n"), "{report}");
}

#[test]
fn failing_tests_and_tables_that_differ_are_found() {
    let machine = Machine { emulated: true, ..Machine::new("12.4") };
    let machine = machine.with("true", "echo 'filter differs by 0.1'; exit 101", "echo $$");
    let Some((code, report)) = machine.check() else { return };
    assert_eq!(code, 1);
    assert!(report.contains("FAILED   kernels, operations and models") && report.contains("filter differs by 0.1"));
    assert!(report.contains("two runs on cpu differ"), "{report}");
    assert!(report.ends_with("2 steps failed; the report is report.txt\n"), "{report}");
}
