//! Choosing what may be deleted, and deleting it.

use std::fs;
use std::time::Duration;

use ppgnn::plan::NodeId;
use ppgnn::store::prune::{Leftover, Limits, choose, delete};
use ppgnn::store::{ArtifactRef, Claim, PublishedOutput, PublishedRun, Source, Store, StoreError};

use crate::toy::World;

fn artifact(world: &World, id: NodeId) -> ArtifactRef {
    ArtifactRef::new(world.plan.node(id).stage.name, world.plan.node(id).key)
}

/// Publishes a table with everything behind it.
fn publish(world: &World, store: &Store, node: NodeId) {
    publish_as(world, store, "t", node);
}

fn publish_as(world: &World, store: &Store, name: &str, node: NodeId) {
    let needed = world.plan.ancestors(&[node]);
    let needs = world.plan.iter().filter(|(id, _)| needed[id.0]).map(|(id, _)| artifact(world, id)).collect();
    let key = world.plan.node(node).key;
    let files = vec![(format!("{name}.md"), Source::Artifact(world.artifact(node).join("number")))];
    let output = PublishedOutput { name: name.into(), key, needs, files };
    store.publish("toy", None, PublishedRun { outputs: vec![output], ..PublishedRun::default() }).unwrap();
}

fn chosen_artifacts(store: &Store) -> Vec<ArtifactRef> {
    let chosen = choose(store, &Limits::default()).unwrap().into_iter();
    chosen.filter_map(|p| if let Leftover::Artifact(a) = p.what { Some(a) } else { None }).collect()
}

#[test]
fn what_a_published_result_needs_is_never_offered() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    let table = world.node("add", 3, &[b]);
    let spare = world.node("add", 4, &[a]);
    world.run(&[table, spare]);
    let store = world.store();
    assert_eq!(chosen_artifacts(&store).len(), 4);
    publish(&world, &store, table);
    assert_eq!(chosen_artifacts(&store), [artifact(&world, spare)]);
    let pruned = delete(&store, &choose(&store, &Limits::default()).unwrap(), &Limits::default()).unwrap();
    assert_eq!(pruned.count, 1);
    assert!(pruned.bytes > 0);
    let (report, _) = world.run(&[a, b, table]);
    assert_eq!(report.cached, 3);
}

#[test]
fn a_record_of_an_earlier_program_protects_what_it_names() {
    let mut world = World::new();
    let (table, spare) = (world.node("add", 1, &[]), world.node("add", 2, &[]));
    world.run(&[table, spare]);
    let (key, needs) = (world.plan.node(table).key, artifact(&world, table));
    // As ppgnn 0.1 wrote it when all it published were tables.
    let record = serde_json::json!({
        "format": 1, "pipeline": "toy", "profile": null, "created": "2026-11-01T12:00:00Z", "ppgnn": "0.1.0",
        "overrides": [], "tables": {"t": {"key": key, "files": [{"name": "t.md", "blake3": "00"}], "needs": [needs]}},
        "keys": [],
    });
    fs::create_dir_all(world.root.join("results/toy")).unwrap();
    fs::write(world.root.join("results/toy/published.json"), record.to_string()).unwrap();
    let store = world.store();
    assert_eq!(chosen_artifacts(&store), [artifact(&world, spare)]);
    // Publishing something else keeps it, in the same words.
    publish_as(&world, &store, "other", spare);
    let written = fs::read_to_string(world.root.join("results/toy/published.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["tables"]["t"], record["tables"]["t"]);
    assert_eq!((&written["format"], &written["keys"]), (&record["format"], &record["keys"]));
    assert!(chosen_artifacts(&store).is_empty());
}

#[test]
fn choosing_deletes_nothing() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    world.run(&[a]);
    choose(&world.store(), &Limits::default()).unwrap();
    assert_eq!(world.run(&[a]).0.cached, 1);
}

#[test]
fn what_was_published_after_the_choice_is_kept() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    world.run(&[a]);
    let store = world.store();
    let chosen = choose(&store, &Limits::default()).unwrap();
    publish(&world, &store, a);
    assert_eq!(delete(&store, &chosen, &Limits::default()).unwrap().count, 0);
    assert!(world.artifact(a).exists());
}

#[test]
fn a_record_that_cannot_be_read_stops_the_choice() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    world.run(&[a]);
    let store = world.store();
    publish(&world, &store, a);
    fs::write(world.root.join("results/toy/published.json"), "{").unwrap();
    assert!(matches!(choose(&store, &Limits::default()), Err(StoreError::Malformed { .. })));
}

#[test]
fn age_limits_the_choice() {
    let mut world = World::new();
    let (old, new) = (world.node("add", 1, &[]), world.node("add", 2, &[]));
    world.run(&[old, new]);
    let manifest = fs::File::options().write(true).open(world.artifact(old).join("manifest.json")).unwrap();
    manifest.set_modified(std::time::SystemTime::now() - Duration::from_secs(7200)).unwrap();
    let chosen =
        choose(&world.store(), &Limits { older_than: Some(Duration::from_secs(3600)), ..Limits::default() }).unwrap();
    assert_eq!(chosen.iter().map(|p| p.what.clone()).collect::<Vec<_>>(), [Leftover::Artifact(artifact(&world, old))]);
}

#[test]
fn leftovers_are_offered_unless_they_are_in_use() {
    let mut world = World::new();
    let (a, b) = (world.node("add", 1, &[]), world.node("add", 2, &[]));
    let (dead, alive) = (world.plan.node(a).key, world.plan.node(b).key);
    let store = world.store();
    let Claim::Held(claim) = store.claim(&alive).unwrap() else { panic!("busy") };
    let pending = store.begin(&claim).unwrap();
    fs::create_dir(world.root.join("tmp").join(format!("{dead}.1.0"))).unwrap();
    fs::write(world.root.join("tmp/file.1.0"), "half").unwrap();
    fs::write(world.root.join("claims").join(dead.to_string()), "").unwrap();
    fs::create_dir(world.root.join("quarantine/add-x-0")).unwrap();
    let chosen = choose(&store, &Limits::default()).unwrap();
    let what: Vec<_> = chosen.iter().map(|p| p.what.clone()).collect();
    let expected = [
        Leftover::Unfinished(format!("{dead}.1.0")),
        Leftover::Unfinished("file.1.0".into()),
        Leftover::Quarantined("add-x-0".into()),
    ];
    assert_eq!(what.len(), 3);
    assert!(expected.iter().all(|e| what.contains(e)), "{what:?}");
    assert_eq!(delete(&store, &chosen, &Limits::default()).unwrap().count, 3);
    assert!(pending.dir().exists());
    assert!(world.list("quarantine").is_empty());
    assert_eq!(world.list("claims"), [alive.to_string()], "the dead claim is gone");
}

#[test]
fn names_that_try_to_escape_are_never_deleted() {
    let world = World::new();
    let store = world.store();
    let outside = world.log.join("precious");
    fs::write(&outside, "keep").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("precious"), "keep").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), world.root.join("quarantine/linked")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), world.root.join("tmp/linked.1.0")).unwrap();
    let mut chosen = choose(&store, &Limits::default()).unwrap();
    for name in ["../../log/precious", "..", "linked/precious"] {
        for what in [Leftover::Unfinished(name.into()), Leftover::Quarantined(name.into())] {
            chosen.push(ppgnn::store::prune::Prunable { what, bytes: 0 });
        }
    }
    let stage = ArtifactRef::new("../../log", "0".repeat(64).parse().unwrap());
    chosen.push(ppgnn::store::prune::Prunable { what: Leftover::Artifact(stage), bytes: 0 });
    fs::create_dir(world.log.join("0".repeat(64))).unwrap();
    delete(&store, &chosen, &Limits::default()).unwrap();
    assert!(outside.exists());
    assert!(world.log.join("0".repeat(64)).exists());
    assert!(elsewhere.path().join("precious").exists());
}
