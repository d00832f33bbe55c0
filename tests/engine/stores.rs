//! Opening stores: new, existing, read-only, newer, and in the way of something else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ppgnn::run::{NodeState, RunOptions, demand, execute};
use ppgnn::store::{Claim, Opened, Provenance, PublishedRun, Store, StoreError, TemporaryStore};
use ppgnn_stages::contract::Artifact;

use crate::toy::{Number, Seen, World};

#[test]
fn a_new_store_says_its_format_and_opens_again() {
    let world = World::new();
    world.store();
    assert_eq!(fs::read_to_string(world.root.join("store.json")).unwrap(), "{\"format\": 1}\n");
    world.store();
    assert!(world.list("tmp").is_empty());
}

#[test]
fn a_newer_store_is_refused_and_left_alone() {
    let world = World::new();
    fs::create_dir(&world.root).unwrap();
    fs::write(world.root.join("store.json"), "{\"format\": 2, \"new\": true}").unwrap();
    for opened in [Store::open(&world.root), Store::open_existing_read_only(&world.root)] {
        let error = opened.err().unwrap();
        assert!(matches!(error, StoreError::NewerFormat { found: 2, known: 1, .. }), "{error}");
    }
    assert_eq!(world.list("."), ["store.json"]);
}

#[test]
fn a_broken_store_file_is_refused() {
    let world = World::new();
    fs::create_dir(&world.root).unwrap();
    fs::write(world.root.join("store.json"), "{\"form").unwrap();
    assert!(matches!(Store::open(&world.root), Err(StoreError::Malformed { .. })));
}

#[test]
fn a_file_in_place_of_the_store_is_refused() {
    let world = World::new();
    fs::write(&world.root, "").unwrap();
    assert!(matches!(Store::open(&world.root), Err(StoreError::NotADirectory { .. })));
    assert!(matches!(Store::open_existing_read_only(&world.root), Err(StoreError::NotADirectory { .. })));
}

#[test]
fn a_link_in_place_of_a_folder_of_the_store_is_refused() {
    let world = World::new();
    fs::create_dir(&world.root).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), world.root.join("results")).unwrap();
    assert!(matches!(Store::open(&world.root), Err(StoreError::NotADirectory { .. })));
}

/// Lists every file with its content.
fn snapshot(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(snapshot(&entry.path()));
        } else {
            found.push((entry.path().display().to_string(), fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_read_only_store_is_read_and_never_written() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    world.run(&[a]);
    fs::write(world.artifact(a).join("number"), "9").unwrap();
    let before = snapshot(&world.root);

    let store = Store::open_existing_read_only(&world.root).unwrap();
    let key = world.plan.node(a).key;
    assert_eq!(demand(&world.plan, &store, &[b], &[]), [NodeState::Hit, NodeState::Miss]);
    assert!(matches!(store.open_artifact(&key, "add").unwrap(), Opened::Damaged { moved_to: None, .. }));
    assert!(matches!(store.claim(&key), Err(StoreError::ReadOnly { .. })));
    assert!(matches!(store.publish("p", None, PublishedRun::default()), Err(StoreError::ReadOnly { .. })));
    assert!(matches!(store.create_run_log("p"), Err(StoreError::ReadOnly { .. })));
    assert_eq!(store.entries(None).unwrap().len(), 1);
    assert_eq!(store.published().unwrap(), []);
    assert_eq!(snapshot(&world.root), before);
}

#[test]
fn an_absent_store_is_empty_for_readers_and_stays_absent() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let store = Store::open_existing_read_only(&world.root).unwrap();
    assert!(store.get(&world.plan.node(a).key, "add").is_none());
    assert!(store.entries(None).unwrap().is_empty());
    assert!(store.published().unwrap().is_empty());
    assert!(!world.root.exists());
}

#[test]
fn a_store_that_cannot_be_written_says_so() {
    let world = World::new();
    fs::create_dir(&world.root).unwrap();
    fs::set_permissions(&world.root, fs::Permissions::from_mode(0o555)).unwrap();
    // The superuser may write anywhere; then there is nothing to see here.
    if fs::write(world.root.join("probe"), "").is_err() {
        let error = Store::open(&world.root).err().unwrap();
        assert!(error.to_string().starts_with("cannot create the folder"), "{error}");
        assert!(error.hint().unwrap().contains("writable"));
    }
    fs::set_permissions(&world.root, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_unfinished_artifact_is_not_there_and_leaves_nothing() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let store = world.store();
    let node = world.plan.node(a);
    let Claim::Held(claim) = store.claim(&node.key).unwrap() else { panic!("busy") };
    let pending = store.begin(&claim).unwrap();
    fs::write(pending.dir().join("number"), "1").unwrap();
    assert!(store.get(&node.key, "add").is_none());
    assert!(matches!(store.open_artifact(&node.key, "add").unwrap(), Opened::Miss));
    drop(pending);
    assert!(world.list("tmp").is_empty());
    assert!(world.list("objects").is_empty());
}

#[test]
fn an_artifact_cannot_be_committed_under_another_key() {
    let mut world = World::new();
    let (a, b) = (world.node("add", 1, &[]), world.node("add", 2, &[]));
    let store = world.store();
    let Claim::Held(claim) = store.claim(&world.plan.node(a).key).unwrap() else { panic!("busy") };
    let ingredients = world.plan.node(b).ingredients.clone();
    let (node, (measured, noted, cost, remarks, said)) = ("add/2".into(), Default::default());
    let made = Provenance { node, ingredients, seconds: 0.0, threads: 1, measured, noted, cost, remarks, said };
    assert!(matches!(store.begin(&claim).unwrap().commit(made), Err(StoreError::WrongKey { .. })));
    assert!(world.list("objects").is_empty());
}

#[test]
fn the_manifest_says_how_the_artifact_was_made() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    world.run(&[b]);
    let manifest = world.store().manifest(&world.plan.node(b).key, "add").unwrap();
    assert_eq!(manifest.node, "add/2");
    assert_eq!(manifest.ingredients, world.plan.node(b).ingredients);
    assert_eq!(manifest.files.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["number", "twice"]);
    assert_eq!(manifest.bytes(), 2);
    assert!(manifest.created.ends_with('Z'));
    assert!(manifest.measured.is_empty());
    let text = fs::read_to_string(world.artifact(b).join("manifest.json")).unwrap();
    assert!(text.contains("\n  \"ingredients\": {\n    \"stage\": \"add\""), "{text}");
}

#[test]
fn what_a_stage_measured_is_in_the_manifest_and_in_no_file() {
    let mut world = World::new();
    let a = world.node("steps", 6, &[]);
    world.run(&[a]);
    let manifest = world.store().manifest(&world.plan.node(a).key, "steps").unwrap();
    let measured: Vec<_> = manifest.measured.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(measured, [("memory", 4096.0), ("steps", 6.0)], "sorted, and the last value counts");
    assert_eq!(manifest.files.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["number", "twice"]);
}

#[test]
fn names_on_disk_that_are_not_ours_are_ignored() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    world.run(&[a]);
    let objects = world.root.join("objects");
    let key = world.plan.node(a).key.to_string();
    for folder in ["add/..evil", "add/short", ".hidden", &format!("add/{}", key.to_uppercase())] {
        fs::create_dir_all(objects.join(folder)).unwrap();
    }
    fs::write(objects.join("add").join("0".repeat(64)), "a file").unwrap();
    std::os::unix::fs::symlink(world.artifact(a), objects.join("add").join("f".repeat(64))).unwrap();
    std::os::unix::fs::symlink("/", objects.join("linked")).unwrap();
    let found = world.store().entries(None).unwrap();
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [format!("add/{key}")]);
    assert!(world.store().get(&world.plan.node(a).key, "../objects/add").is_none());
}

#[test]
fn a_temporary_store_finds_what_is_behind_it_and_leaves_nothing() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    world.run(&[a]);
    let kept = world.artifact(a);
    let front = TemporaryStore::in_front_of(Store::open_existing_read_only(&world.root).unwrap()).unwrap();
    let root = front.root().to_owned();
    let never = std::sync::atomic::AtomicBool::new(false);
    let options = RunOptions {
        targets: vec![b],
        cores: 1,
        gpus: vec![],
        memory: None,
        fail_fast: true,
        commands: false,
        force: vec![],
        cancel: &never,
    };
    let report = execute(&world.plan, &front, &options, &Seen::default()).unwrap();
    assert_eq!((report.ran, report.cached), (1, 1));
    let Opened::Hit(made) = front.open_artifact(&world.plan.node(b).key, "add").unwrap() else { panic!("it is there") };
    assert_eq!(Number::load(&made.dir).unwrap().0, 3);
    assert!(made.dir.starts_with(&root) && !world.artifact(b).exists());
    // What is damaged behind it is computed again, and not touched.
    std::fs::write(kept.join("number"), "7").unwrap();
    let front_again = TemporaryStore::in_front_of(Store::open_existing_read_only(&world.root).unwrap()).unwrap();
    let report = execute(&world.plan, &front_again, &options, &Seen::default()).unwrap();
    assert!(report.ran == 2 && report.damaged > 0, "{report:?}");
    assert_eq!(std::fs::read_to_string(kept.join("number")).unwrap(), "7");
    drop((front, front_again));
    assert!(!root.exists());
}
