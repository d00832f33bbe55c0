//! Every file in `tests/fixtures/invalid` is refused with the message in `tests/golden/invalid`.

use std::path::Path;

use crate::support::{Project, golden};

#[test]
fn every_invalid_pipeline_gets_its_message() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/invalid");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    names.sort();
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        let project = Project::new().file(&name, &std::fs::read_to_string(folder.join(&name)).unwrap());
        let run = project.run(&["run", &name]).exit(3);
        assert!(!run.stderr.contains("panicked"), "{name}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{name} printed to stdout");
        assert!(!project.path("artifacts").exists(), "{name} touched the store");
        golden(&format!("invalid/{}.txt", name.trim_end_matches(".yaml")), &run.stderr);
    }
}
