//! Damage: whatever is changed in an artifact is noticed, set aside and computed again.

use std::fs;
use std::path::Path;

use ppgnn::store::{ArtifactRef, Opened};

use crate::toy::{World, wait_until};

/// Puts one file back after a test changed it.
fn with_change(path: &Path, change: impl FnOnce(&mut Vec<u8>), test: impl FnOnce()) {
    let good = fs::read(path).unwrap();
    let mut bad = good.clone();
    change(&mut bad);
    fs::write(path, bad).unwrap();
    test();
    fs::write(path, good).unwrap();
}

fn world_with_artifact() -> (World, ArtifactRef, std::path::PathBuf) {
    let mut world = World::new();
    let a = world.node("add", 41, &[]);
    world.run(&[a]);
    let artifact = ArtifactRef::new("add", world.plan.node(a).key);
    let dir = world.artifact(a);
    (world, artifact, dir)
}

#[test]
fn a_flipped_byte_anywhere_in_an_artifact_is_noticed() {
    let (world, artifact, dir) = world_with_artifact();
    let store = world.store();
    for name in ["number", "twice", "manifest.json"] {
        let path = dir.join(name);
        for position in 0..fs::read(&path).unwrap().len() {
            with_change(
                &path,
                |bytes| bytes[position] ^= 1,
                || {
                    let found = store.verify(&artifact).unwrap();
                    assert!(matches!(found, Opened::Damaged { .. }), "{name}, byte {position}");
                },
            );
        }
    }
    assert!(matches!(store.verify(&artifact).unwrap(), Opened::Hit(_)));
}

#[test]
fn a_file_cut_short_or_grown_is_noticed() {
    let (world, artifact, dir) = world_with_artifact();
    let store = world.store();
    for name in ["number", "twice", "manifest.json"] {
        let path = dir.join(name);
        let damaged = || assert!(matches!(store.verify(&artifact).unwrap(), Opened::Damaged { .. }), "{name}");
        with_change(&path, |bytes| bytes.truncate(bytes.len() - 1), damaged);
        with_change(&path, |bytes| bytes.push(b'\n'), damaged);
        with_change(&path, Vec::clear, damaged);
    }
}

#[test]
fn a_missing_an_extra_and_a_linked_file_are_noticed() {
    let (world, artifact, dir) = world_with_artifact();
    let store = world.store();
    let what = || match store.verify(&artifact).unwrap() {
        Opened::Damaged { what, .. } => what,
        other => panic!("{other:?}"),
    };
    fs::write(dir.join("stray"), "").unwrap();
    assert_eq!(what(), "`stray` is not in the manifest");
    fs::remove_file(dir.join("stray")).unwrap();

    for name in ["number", "manifest.json"] {
        fs::rename(dir.join(name), world.log.join("kept")).unwrap();
        assert_eq!(what(), format!("`{name}` is missing"));
        std::os::unix::fs::symlink(world.log.join("kept"), dir.join(name)).unwrap();
        assert_eq!(what(), format!("`{name}` is not a regular file"));
        fs::remove_file(dir.join(name)).unwrap();
        fs::rename(world.log.join("kept"), dir.join(name)).unwrap();
    }
    assert!(matches!(store.verify(&artifact).unwrap(), Opened::Hit(_)));
}

#[test]
fn a_damaged_artifact_goes_to_quarantine_and_becomes_a_miss() {
    let (world, artifact, dir) = world_with_artifact();
    fs::write(dir.join("number"), "42").unwrap();
    let store = world.store();
    let Opened::Damaged { what, moved_to } = store.open_artifact(&artifact.key, "add").unwrap() else {
        panic!("not noticed")
    };
    assert_eq!(what, "`number` does not match its digest");
    assert_eq!(fs::read_to_string(moved_to.unwrap().join("number")).unwrap(), "42");
    assert!(!dir.exists());
    assert!(matches!(store.open_artifact(&artifact.key, "add").unwrap(), Opened::Miss));
    assert_eq!(world.list("quarantine"), [format!("add-{}-0", artifact.key)]);
    assert!(world.list("claims").is_empty());
}

#[test]
fn an_artifact_is_read_once_in_the_life_of_a_store_but_looked_at_each_time() {
    let (world, artifact, dir) = world_with_artifact();
    let store = world.store();
    assert!(matches!(store.open_artifact(&artifact.key, "add").unwrap(), Opened::Hit(_)));
    fs::write(dir.join("number"), "42").unwrap();
    assert!(matches!(store.open_artifact(&artifact.key, "add").unwrap(), Opened::Hit(_)), "same size, not read");
    fs::write(dir.join("number"), "423").unwrap();
    assert!(matches!(store.open_artifact(&artifact.key, "add").unwrap(), Opened::Damaged { .. }));
}

#[test]
fn a_run_computes_a_damaged_target_again_and_says_so() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    world.run(&[b]);
    fs::write(world.artifact(b).join("number"), "4").unwrap();
    let (report, seen) = world.run(&[b]);
    assert_eq!((report.ran, report.cached, report.damaged), (1, 1, 1));
    assert_eq!(seen.damage(), [("add/2".to_owned(), "`number` does not match its digest".to_owned())]);
    assert_eq!(world.number(b), 3);
    assert_eq!(world.run(&[b]).0.cached, 2);
}

#[test]
fn a_run_computes_a_damaged_input_again_only_if_it_is_needed() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    let c = world.node("add", 3, &[b]);
    world.run(&[b]);
    for file in ["number", "manifest.json"] {
        fs::write(world.artifact(a).join(file), "9").unwrap();
    }
    let (report, seen) = world.run(&[c]);
    assert_eq!((report.ran, report.cached, report.absent), (1, 1, 1));
    assert!(seen.damage().is_empty());
    fs::remove_dir_all(world.artifact(b)).unwrap();
    fs::remove_dir_all(world.artifact(c)).unwrap();
    let (report, seen) = world.run(&[c]);
    assert_eq!(report.ran, 3);
    assert_eq!(seen.damage().len(), 1);
    assert_eq!(world.number(c), 6);
}

#[test]
fn an_input_lost_while_its_dependant_waits_is_computed_again() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let slow = world.node_with("slow", serde_json::json!({"add": 5, "sleep": 400}), &[]);
    let b = world.node("add", 2, &[a, slow]);
    world.run(&[a]);
    // `a` is found whole at the start of the run; it vanishes while `slow` is computed.
    let (dir, started) = (world.artifact(a), world.log.join("slow5"));
    let vandal = std::thread::spawn(move || {
        wait_until(|| started.exists());
        fs::remove_file(dir.join("twice")).unwrap();
    });
    let (report, seen) = world.run(&[b]);
    vandal.join().unwrap();
    assert_eq!((report.failed, report.skipped), (0, 0));
    assert_eq!(seen.damage(), [("add/1".to_owned(), "`twice` is missing".to_owned())]);
    assert_eq!(world.number(b), 8);
}

#[test]
fn an_input_that_changes_after_it_was_checked_is_noticed_when_it_cannot_be_read() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let slow = world.node_with("slow", serde_json::json!({"add": 5, "sleep": 400}), &[]);
    let b = world.node("add", 2, &[a, slow]);
    world.run(&[a]);
    let (dir, started) = (world.artifact(a), world.log.join("slow5"));
    let vandal = std::thread::spawn(move || {
        wait_until(|| started.exists());
        fs::write(dir.join("number"), "?").unwrap();
    });
    let (report, seen) = world.run(&[b]);
    vandal.join().unwrap();
    assert_eq!((report.failed, report.skipped), (0, 0), "{report:?}");
    assert_eq!(seen.damage().len(), 1);
    assert_eq!(world.number(b), 8);
}
