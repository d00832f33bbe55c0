//! Checks of values inside mappings and lists, and files that move.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::contract::{Artifact, ArtifactError, Job, Kind, Registry, Slot, Stage, StageDef};

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Inner {
    /// A count.
    #[schemars(range(min = 1, max = 9))]
    count: usize,
    /// A share.
    #[serde(default)]
    #[schemars(with = "DropoutRate")]
    share: f64,
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct Outer {
    /// A mapping.
    one: Option<Inner>,
    /// A list of mappings.
    many: Vec<Inner>,
    /// Three numbers.
    three: Option<[usize; 3]>,
    /// A file.
    file: Option<FilePath>,
    /// Files.
    files: Vec<FilePath>,
}

impl Params for Outer {}

struct Nothing;

impl Artifact for Nothing {
    const KIND: Kind = Kind("nothing");
    fn save(&self, _: &Path) -> Result<(), ArtifactError> {
        Ok(())
    }
    fn load(_: &Path) -> Result<Self, ArtifactError> {
        Ok(Self)
    }
}

struct Toy;

impl Stage for Toy {
    const NAME: &'static str = "toy";
    const ABOUT: &'static str = "Does nothing";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[];
    type Params = Outer;
    type Output = Nothing;
    fn run(_: &Outer, _: &Job) -> Result<Nothing, StageError> {
        Ok(Nothing)
    }
}

fn check(written: &Value) -> Result<Checked, Vec<Problem>> {
    StageDef::of::<Toy>().check(&Registry::default(), written.as_object().unwrap())
}

fn problems(written: &Value) -> Vec<(String, String)> {
    check(written).unwrap_err().into_iter().map(|p| (p.param, p.message)).collect()
}

#[test]
fn a_value_inside_a_mapping_is_named_by_its_path() {
    let found = problems(&json!({"one": {"count": 10, "share": 1.0}}));
    let expected = [
        ("one.count", "`one.count`: expected a whole number at least 1 and at most 9, found `10`"),
        ("one.share", "`one.share`: expected a number at least 0 and below 1, found `1.0`"),
    ];
    assert_eq!(found, expected.map(|(param, message)| (param.to_owned(), message.to_owned())));
}

#[test]
fn names_inside_a_mapping_are_known_or_missing() {
    let found = check(&json!({"one": {"cuont": 1}})).unwrap_err();
    let said: Vec<_> = found.iter().map(|p| (p.about_name, p.message.as_str(), p.help.as_deref().unwrap())).collect();
    let expected = [
        (true, "unknown parameter `one.cuont`", "did you mean `count`?"),
        (true, "missing parameter `one.count`", "count: A count."),
    ];
    assert_eq!(said, expected);
}

#[test]
fn every_entry_of_a_list_is_checked() {
    let found = problems(&json!({"many": [{"count": 0}, {"count": 1}, {"count": 2, "more": 3}], "three": [1, 2]}));
    let messages: Vec<_> = found.iter().map(|(_, message)| message.as_str()).collect();
    let expected = [
        "`many`: entry 1: `count`: expected a whole number at least 1 and at most 9, found `0`",
        "`many`: entry 3: unknown parameter `more`",
        "`three`: expected 3 entries, found 2",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn a_whole_number_written_with_an_exponent_is_one_inside_of_a_mapping_too() {
    let checked = check(&json!({"one": {"count": 0.5e1}})).unwrap();
    assert_eq!(checked.all()["one"], json!({"count": 5, "share": 0.0}));
}

#[test]
fn moved_files_are_what_the_stage_sees() {
    let mut checked = check(&json!({"file": "a", "files": ["b", "/c"]})).unwrap();
    checked.rebase(|_, path| PathBuf::from("/base").join(path)).unwrap();
    let all: Outer = checked.own().unwrap();
    assert_eq!(all.file, Some(FilePath("/base/a".into())));
    assert_eq!(all.files, [FilePath("/base/b".into()), FilePath("/c".into())]);
    assert_eq!(checked.all()["files"], json!(["/base/b", "/c"]));
}
