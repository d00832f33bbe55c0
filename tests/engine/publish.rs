//! Publishing files of artifacts.

use std::fs;

use ppgnn::plan::ArtifactKey;
use ppgnn::store::{ArtifactRef, PublishedOutput, PublishedRun, Source, StoreError};

use crate::toy::World;

fn key(digit: &str) -> ArtifactKey {
    digit.repeat(64).parse().unwrap()
}

/// A table to publish, whose files hold `text`.
fn table(world: &World, name: &str, digit: &str, text: &str) -> PublishedOutput {
    let file = world.log.join(format!("{name}-{digit}"));
    fs::write(&file, text).unwrap();
    PublishedOutput {
        name: name.into(),
        key: key(digit),
        needs: vec![ArtifactRef::new("tabulate", key(digit)), ArtifactRef::new("train", key("e"))],
        files: vec![
            (format!("{name}.md"), Source::Artifact(file.clone())),
            (format!("{name}.csv"), Source::Artifact(file)),
        ],
    }
}

fn run(outputs: Vec<PublishedOutput>) -> PublishedRun {
    PublishedRun { outputs, overrides: vec!["train.epochs=5".into()], ..PublishedRun::default() }
}

#[test]
fn tables_and_their_record_stand_side_by_side() {
    let world = World::new();
    let store = world.store();
    let folder = store.publish("paper", None, run(vec![table(&world, "one", "1", "# one")])).unwrap();
    assert_eq!(folder, world.root.join("results/paper"));
    assert_eq!(world.list("results/paper"), ["one.csv", "one.md", "published.json"]);
    let record = store.published().unwrap().remove(0);
    assert_eq!(record.outputs["one"].key, key("1"));
    assert_eq!(record.outputs["one"].files[0].blake3, blake3::hash(b"# one").to_hex().to_string());
    assert_eq!(record.roots().count(), 2);
    assert_eq!(record.overrides, ["train.epochs=5"]);
    assert!(world.list("tmp").is_empty());
}

#[test]
fn profiles_are_published_apart() {
    let world = World::new();
    let store = world.store();
    store.publish("paper", None, run(vec![table(&world, "one", "1", "full")])).unwrap();
    store.publish("paper", Some("quick"), run(vec![table(&world, "one", "2", "quick")])).unwrap();
    assert_eq!(fs::read_to_string(world.root.join("results/paper/one.md")).unwrap(), "full");
    assert_eq!(fs::read_to_string(world.root.join("results/paper/quick/one.md")).unwrap(), "quick");
    assert_eq!(store.published().unwrap().len(), 2);
}

#[test]
fn publishing_one_table_again_leaves_the_others() {
    let world = World::new();
    let store = world.store();
    store
        .publish("paper", None, run(vec![table(&world, "one", "1", "old"), table(&world, "two", "2", "old")]))
        .unwrap();
    store.publish("paper", None, run(vec![table(&world, "one", "3", "new")])).unwrap();
    let record = store.published().unwrap().remove(0);
    assert_eq!((record.outputs["one"].key, record.outputs["two"].key), (key("3"), key("2")));
    let roots: Vec<_> = record.roots().map(|r| r.key).collect();
    assert!(!roots.contains(&key("1")) && roots.contains(&key("2")) && roots.contains(&key("3")));
    assert_eq!(fs::read_to_string(world.root.join("results/paper/one.md")).unwrap(), "new");
    assert_eq!(fs::read_to_string(world.root.join("results/paper/two.md")).unwrap(), "old");
}

#[test]
fn a_table_is_never_seen_half_written() {
    let world = World::new();
    let store = world.store();
    let texts = ["a".repeat(300_000), "b".repeat(300_000)];
    store.publish("paper", None, run(vec![table(&world, "one", "1", &texts[0])])).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20 {
                store
                    .publish(
                        "paper",
                        None,
                        run(vec![table(&world, "one", &(round % 2).to_string(), &texts[round % 2])]),
                    )
                    .unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let seen = fs::read_to_string(world.root.join("results/paper/one.md")).unwrap();
            assert!(texts.contains(&seen), "{} bytes", seen.len());
            store.published().unwrap();
        }
    });
}

#[test]
fn names_that_leave_the_results_are_refused() {
    let world = World::new();
    let store = world.store();
    let mut escaping = table(&world, "one", "1", "x");
    escaping.files[0].0 = "../../one.md".into();
    let mut record = table(&world, "one", "1", "x");
    record.files[0].0 = "published.json".into();
    let mut report = table(&world, "one", "1", "x");
    report.files[0].0 = "report.html".into();
    let good = || run(vec![table(&world, "one", "1", "x")]);
    for result in [
        store.publish("paper", None, run(vec![escaping])),
        store.publish("paper", None, run(vec![record])),
        store.publish("paper", None, run(vec![report])),
        store.put_report("..", None, b"x"),
        store.put_report("paper", Some("../x"), b"x"),
        store.publish("..", None, good()),
        store.publish("a/b", None, good()),
        store.publish("paper", Some("../x"), good()),
    ] {
        assert!(matches!(result, Err(StoreError::BadName { .. })), "{result:?}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), world.root.join("results/linked")).unwrap();
    assert!(matches!(store.publish("linked", None, good()), Err(StoreError::NotADirectory { .. })));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn a_report_stands_beside_what_is_published_and_in_no_record() {
    let world = World::new();
    let store = world.store();
    assert_eq!(store.report_at("paper", None).unwrap(), None);
    let path = store.put_report("paper", Some("quick"), b"<p>").unwrap();
    assert_eq!(path, world.root.join("results/paper/quick/report.html"));
    assert_eq!(store.report_at("paper", Some("quick")).unwrap().unwrap(), b"<p>");
    assert!(store.has_report("paper", Some("quick")) && !store.has_report("paper", None));
    assert!(store.report_at("../paper", None).is_err() && !store.has_report("..", None));
    assert_eq!(store.published().unwrap(), []);
}

#[test]
fn a_run_log_is_named_by_time_pipeline_and_process() {
    let world = World::new();
    let store = world.store();
    let (first, _) = store.create_run_log("paper").unwrap();
    let (second, _) = store.create_run_log("paper").unwrap();
    assert_ne!(first, second);
    let name = first.file_name().unwrap().to_str().unwrap();
    assert!(name.ends_with(&format!("Z-paper-{}.jsonl", std::process::id())), "{name}");
    assert!(store.create_run_log("../paper").is_err());
}
