//! How texts become one document.

use serde_json::{Value, json};

use super::super::known::{FoundText, KnownDataset};
use super::*;

/// Two built-in bases, one laid on the other.
struct Bases;

impl Known for Bases {
    fn datasets(&self) -> Vec<String> {
        Vec::new()
    }
    fn dataset(&self, _: &str) -> Option<Result<KnownDataset, PipelineError>> {
        None
    }
    fn model(&self, _: &str) -> Option<FoundText> {
        None
    }
    fn bases(&self) -> Vec<String> {
        vec!["narrow".into(), "standard".into()]
    }
    fn base(&self, name: &str) -> Option<Source> {
        let text = match name {
            "standard" => "{ppgnn: 1, x: standard, y: standard}",
            "narrow" => "{ppgnn: 1, extends: standard, y: narrow}",
            _ => return None,
        };
        Some(Source { name: format!("<built-in>/{name}"), folder: ".".into(), text: text.into() })
    }
}

/// Reads the first of some files, with a profile and `--set` options.
fn load_files(files: &[(&str, &str)], profile: Option<&str>, set: &[&str]) -> Result<Document, Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let set = set.iter().map(|s| (*s).to_owned()).collect();
    let overrides = Overrides { profile: profile.map(str::to_owned), set };
    let loaded = load(&dir.path().join(files[0].0), &overrides, &Bases, &mut Sources::default());
    let folder = format!("{}/", dir.path().display());
    let shown = |p: &super::super::problem::Problem| match &p.help {
        Some(help) => format!("{} ({help})", p.message.replace(&folder, "")),
        None => p.message.replace(&folder, ""),
    };
    loaded.map_err(|error| error.problems.iter().map(shown).collect())
}

fn document(text: &str, profile: Option<&str>, set: &[&str]) -> Value {
    load_files(&[("a.yaml", text)], profile, set).unwrap().root.value()
}

fn problems(text: &str, profile: Option<&str>, set: &[&str]) -> Vec<String> {
    load_files(&[("a.yaml", text)], profile, set).unwrap_err()
}

#[test]
fn a_file_is_laid_on_the_one_it_extends() {
    let base = "{ppgnn: 1, name: base, deep: {keep: 1, change: [1, 2], drop: 3, other: {x: 1}}, drop: {y: 1}}";
    let over = "{ppgnn: 1, extends: base.yaml, deep: {change: [9], drop: null, new: 4, absent: null}, drop: ~}";
    let merged = load_files(&[("a.yaml", over), ("base.yaml", base)], None, &[]).unwrap().root.value();
    // Mappings merge, lists are replaced, null removes and leaves no trace of itself.
    let deep = json!({"keep": 1, "change": [9], "other": {"x": 1}, "new": 4});
    assert_eq!(merged, json!({"ppgnn": 1, "name": "base", "deep": deep, "extends": "base.yaml"}));
    let order: Vec<_> = merged["deep"].as_object().unwrap().keys().collect();
    assert_eq!(order, ["keep", "change", "other", "new"], "the order is that of the file that is extended");
}

#[test]
fn a_mapping_and_another_value_do_not_mix() {
    let base = ("base.yaml", "{ppgnn: 1, a: {x: 1}, b: 5}");
    let over = ("a.yaml", "{ppgnn: 1, extends: base.yaml, a: 7, b: {y: 2}}");
    let merged = load_files(&[over, base], None, &[]).unwrap().root.value();
    assert_eq!((&merged["a"], &merged["b"]), (&json!(7), &json!({"y": 2})));
}

#[test]
fn a_chain_of_files_is_read_from_each_ones_own_folder_and_the_nearest_wins() {
    let files = [
        ("a.yaml", "{ppgnn: 1, extends: lib/b.yaml, x: a}"),
        ("lib/b.yaml", "{ppgnn: 1, extends: c.yaml, x: b, y: b}"),
        ("lib/c.yaml", "{ppgnn: 1, x: c, y: c, z: c}"),
    ];
    let merged = load_files(&files, None, &[]).unwrap().root.value();
    assert_eq!((&merged["x"], &merged["y"], &merged["z"]), (&json!("a"), &json!("b"), &json!("c")));
}

#[test]
fn a_circle_of_files_and_a_missing_one_are_refused() {
    let circle = [("a.yaml", "{ppgnn: 1, extends: b.yaml}"), ("b.yaml", "{ppgnn: 1, extends: a.yaml}")];
    assert_eq!(
        load_files(&circle, None, &[]).unwrap_err(),
        ["`a.yaml` extends itself (remove one `extends` of the cycle)"]
    );
    let missing = problems("{ppgnn: 1, extends: b.yaml}", None, &[]);
    assert!(missing.len() == 1 && missing[0].starts_with("cannot read `b.yaml`: "), "{missing:?}");
    assert_eq!(
        problems("{ppgnn: 1, extends: [b, c]}", None, &[]),
        ["expected the name of a built-in base, or the path of one other file"]
    );
}

#[test]
fn a_word_is_a_built_in_base_and_a_path_is_a_file() {
    // A file of the same name is neither taken for the base, nor hidden by it.
    let own = ("standard.yaml", "{ppgnn: 1, x: file}");
    let of = |extends: &str| {
        let text = format!("{{ppgnn: 1, extends: {extends}, z: own}}");
        load_files(&[("a.yaml", &text), own], None, &[]).unwrap().root.value()
    };
    assert_eq!((&of("standard")["x"], &of("standard")["z"]), (&json!("standard"), &json!("own")));
    assert_eq!((&of("standard.yaml")["x"], &of("./standard.yaml")["x"]), (&json!("file"), &json!("file")));
    assert_eq!((&of("narrow")["x"], &of("narrow")["y"]), (&json!("standard"), &json!("narrow")));
    // A file of that name may extend the base itself, and a path without an ending is a path.
    let itself = load_files(&[("standard.yaml", "{ppgnn: 1, extends: standard, z: 1}")], None, &[]).unwrap();
    assert_eq!(itself.root.value()["x"], "standard");
    let bare =
        load_files(&[("a.yaml", "{ppgnn: 1, extends: ./standard}"), ("standard", "{ppgnn: 1, x: bare}")], None, &[]);
    assert_eq!(bare.unwrap().root.value()["x"], "bare");
}

#[test]
fn a_base_that_is_not_built_in_is_refused_with_what_may_be_meant() {
    let known = "built-in bases are `narrow`, `standard`; the path of a file has its ending, such as";
    assert_eq!(
        problems("{ppgnn: 1, extends: standart}", None, &[]),
        [format!("there is no built-in base `standart` (did you mean `standard`? {known} `standart.yaml`)")]
    );
    assert_eq!(
        problems("{ppgnn: 1, extends: mine}", None, &[]),
        [format!("there is no built-in base `mine` ({known} `mine.yaml`)")]
    );
    let beside = [("a.yaml", "{ppgnn: 1, extends: mine}"), ("mine.yaml", "{ppgnn: 1}")];
    let help = "write `extends: mine.yaml` for the file beside this one; a word is a built-in base";
    assert_eq!(load_files(&beside, None, &[]).unwrap_err(), [format!("there is no built-in base `mine` ({help})")]);
}

#[test]
fn what_is_missing_is_missing_from_the_file_and_not_from_its_base() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.yaml");
    std::fs::write(&path, "ppgnn: 1\nextends: standard\n").unwrap();
    let mut sources = Sources::default();
    let root = load(&path, &Overrides::default(), &Bases, &mut sources).unwrap().root;
    assert_eq!(sources.position(&root.span).0, path.display().to_string());
    let (_, x) = &root.entries()[1];
    assert_eq!(sources.position(&x.span).0, "<built-in>/standard");
}

#[test]
fn a_profile_wins_over_the_file_and_an_option_over_the_profile() {
    let text = "{ppgnn: 1, tables: {t: {digits: 1, std: a}}, profiles: {quick: {tables: {t: {digits: 2, std: b}}}}}";
    let merged = document(text, Some("quick"), &["tables.t.digits=3"]);
    assert_eq!(merged["tables"], json!({"t": {"digits": 3, "std": "b"}}));
    assert_eq!(document(text, None, &[])["tables"], json!({"t": {"digits": 1, "std": "a"}}));
    let loaded = load_files(&[("a.yaml", text)], Some("quick"), &[]).unwrap();
    assert_eq!((loaded.profile.as_deref(), &loaded.profiles[..]), (Some("quick"), &["quick".to_owned()][..]));
}

#[test]
fn a_profile_that_is_unknown_or_changes_the_file_itself_is_refused() {
    let text = "{ppgnn: 1, profiles: {quick: {name: other, extends: x}}}";
    assert_eq!(
        problems(text, Some("quick"), &[]),
        ["a profile cannot change `name`", "a profile cannot change `extends`"]
    );
    assert_eq!(problems(text, Some("quik"), &[]), ["unknown profile `quik` (did you mean `quick`?)"]);
    assert_eq!(problems("{ppgnn: 1}", Some("x"), &[]), ["unknown profile `x` (the file has no `profiles`)"]);
}

#[test]
fn an_option_for_a_parameter_is_kept_apart_so_that_it_wins_over_the_sweep() {
    let text = "{ppgnn: 1, stages: {train: {params: {lr: 1}}}}";
    let loaded = load_files(&[("a.yaml", text)], None, &["train.lr=0.5", "train.word=yes no"]).unwrap();
    assert_eq!(loaded.root.value()["stages"]["train"]["params"]["lr"], 1);
    let forced: Vec<_> = loaded.forced.iter().map(|f| &f.setting).collect();
    let forced: Vec<_> = forced.iter().map(|s| (&*s.stage, &*s.param, s.value.value())).collect();
    assert_eq!(forced, [("train", "lr", json!(0.5)), ("train", "word", json!("yes no"))]);
}

#[test]
fn an_option_may_be_for_some_points_of_a_stage() {
    let text = "{ppgnn: 1, stages: {train: {params: {lr: 1}}}, datasets: {a: {seed: 1}}}";
    let loaded = load_files(&[("a.yaml", text)], None, &["train[model=gcn|mlp,seed=3].lr=0.5"]).unwrap();
    let only = &loaded.forced[0].only;
    assert_eq!((only[0].0.name.as_str(), only[0].1.len()), ("model", 2));
    assert_eq!((only[1].0.name.as_str(), only[1].1[0].value()), ("seed", json!("3")));
    let refused = problems(text, None, &["tain[model=gcn].lr=1"]);
    assert_eq!(
        refused,
        ["`tain.lr` names no stage that brackets could choose points of (brackets follow a stage: `train`)"]
    );
}

#[test]
fn an_option_replaces_adds_or_removes_what_its_path_names() {
    let text = "{ppgnn: 1, sweep: {axes: {train.lr: [1], train: {lr: 2}}}, datasets: {a: {seed: 1}}}";
    // Names may have dots: the longest name that fits is meant.
    let set = document(text, None, &["sweep.axes.train.lr=[5, 6]", "datasets.a.nodes=7", "datasets.a.seed=null"]);
    assert_eq!(set["sweep"]["axes"], json!({"train.lr": [5, 6], "train": {"lr": 2}}));
    assert_eq!(set["datasets"]["a"], json!({"nodes": 7}));
    assert_eq!(document(text, None, &["datasets.a="])["datasets"], json!({}), "nothing is null");
}

#[test]
fn an_option_that_leads_nowhere_is_refused() {
    let text = "{ppgnn: 1, stages: {train: {}}, tables: {t: 1}}";
    assert_eq!(problems(text, None, &["train.lr"]), [EXPECTED]);
    let help = "(a path starts with a stage (`train`), or with `datasets`, `sweep` or `tables`)";
    for path in ["tain.lr", "tables.t.x", "tables.u.x"] {
        assert_eq!(problems(text, None, &[&format!("{path}=1")]), [format!("`{path}` is not in the file {help}")]);
    }
}

#[test]
fn a_file_without_the_version_of_its_format_is_refused() {
    for (text, message) in [
        ("[1]", "expected a mapping (a pipeline file starts with `ppgnn: 1`)"),
        ("{name: x}", "missing `ppgnn`, the version of the file format (add `ppgnn: 1` as the first line)"),
        ("{ppgnn: 2}", "the file has format 2, this program reads format 1 (use a newer ppgnn)"),
        ("{ppgnn: 0}", "expected the format version `1`"),
        ("{ppgnn: one}", "expected the format version `1`"),
    ] {
        assert_eq!(problems(text, None, &[]), [message], "{text}");
    }
    assert_eq!(document("\u{feff}ppgnn: 1", None, &[]), json!({"ppgnn": 1}), "a byte-order mark is no text");
}
