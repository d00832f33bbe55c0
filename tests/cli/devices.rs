//! `--device` and `device:`: which keys depend on it, and what is said where it is not there. Needs no GPU.

use std::collections::BTreeMap;

use crate::support::{Project, TINY};

/// The key of every node, by name.
fn keys(project: &Project, file: &str, options: &[&str]) -> BTreeMap<String, String> {
    let plan = project.run(&[&["plan", file, "--json"], options].concat()).exit(0).json();
    let text = |node: &serde_json::Value, field: &str| node[field].as_str().unwrap().to_owned();
    plan["nodes"].as_array().unwrap().iter().map(|n| (text(n, "id"), text(n, "key"))).collect()
}

fn with_device(device: &str) -> String {
    TINY.replace("name: tiny\n", &format!("name: tiny\ndevice: {device}\n"))
}

#[test]
fn the_device_is_in_the_keys_of_training_and_of_what_stands_on_it() {
    let project = Project::tiny();
    let cpu = keys(&project, "tiny.yaml", &[]);
    let cuda = keys(&project, "tiny.yaml", &["--device", "cuda:0"]);
    assert_eq!(cpu.len(), cuda.len());
    for (name, key) in &cpu {
        let depends = ["train", "evaluate", "tabulate"].iter().any(|stage| name.starts_with(stage));
        assert_eq!(cuda[name] != *key, depends, "{name}");
    }
    assert_eq!(keys(&project, "tiny.yaml", &["--device", "cpu"]), cpu);
}

#[test]
fn which_card_is_in_no_key() {
    let project = Project::tiny();
    let first = keys(&project, "tiny.yaml", &["--device", "cuda:0"]);
    for other in ["cuda:1", "cuda", "cuda:0,cuda:1"] {
        assert_eq!(keys(&project, "tiny.yaml", &["--device", other]), first, "{other}");
    }
}

#[test]
fn the_file_and_its_profiles_may_name_the_device_and_the_command_line_wins() {
    let profiles = "\n  gpu: {device: cuda}\n";
    let project = Project::tiny()
        .file("on-cuda.yaml", &with_device("cuda:1"))
        .file("profile.yaml", &TINY.replace("profiles:\n", &format!("profiles:{profiles}")));
    let (cpu, cuda) = (keys(&project, "tiny.yaml", &[]), keys(&project, "tiny.yaml", &["--device", "cuda"]));
    assert_ne!(cpu, cuda);
    assert_eq!(keys(&project, "on-cuda.yaml", &[]), cuda);
    assert_eq!(keys(&project, "on-cuda.yaml", &["--device", "cpu"]), cpu);
    assert_eq!(keys(&project, "on-cuda.yaml", &["--set", "device=cpu"]), cpu);
    assert_eq!(keys(&project, "profile.yaml", &[]), cpu);
    assert_eq!(keys(&project, "profile.yaml", &["--profile", "gpu"]), cuda);
    project.run(&["check", "on-cuda.yaml"]).exit(0);
}

#[test]
fn a_device_that_does_not_exist_is_wrong_usage() {
    let project = Project::tiny();
    for device in ["gpu", "cuda:", "cuda:0,cuda:0"] {
        project.run(&["plan", "tiny.yaml", "--device", device]).exit(2).says("--device <DEVICE>");
    }
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_program_without_cuda_says_so_before_anything_runs() {
    let project = Project::tiny().file("on-cuda.yaml", &with_device("cuda"));
    for (args, asked) in
        [(&["run", "tiny.yaml", "--device", "cuda:0"][..], "cuda:0"), (&["run", "on-cuda.yaml"], "cuda")]
    {
        let run = project.run(args).exit(2).says("--features cuda").says("--device cpu");
        let said = format!("device `{asked}` was requested, but this program was built without CUDA");
        assert!(run.stderr.contains(&said), "{}", run.stderr);
    }
    assert!(!project.path("artifacts").exists());
    project.run(&["--version"]).exit(0).prints("(cpu)");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn auto_without_a_gpu_is_the_processor_and_finds_its_results() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let report = project.run(&["run", "tiny.yaml", "--device", "auto", "--json"]).exit(0).json();
    assert_eq!((&report["ran"], &report["cached"]), (&0.into(), &19.into()));
    // The same results, so the same place: nothing is published beside them.
    assert!(report["tables"][0].as_str().unwrap().ends_with("results/tiny/accuracy.md"), "{report}");
    let started = project.events("artifacts").into_iter().find(|e| e["event"] == "node-started").unwrap();
    assert_eq!(started["device"], "cpu");
    project.run(&["table", "tiny.yaml", "--device", "cuda"]).exit(4).says("--device cuda");
}
