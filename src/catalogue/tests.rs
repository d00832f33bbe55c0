use super::*;
use serde_json::Value;
use std::collections::BTreeSet;

const SMALL: &str = "ppgnn: 1
title: Small
about: A small one.
licence: none
source: https://example.org
folder: small
files:
  a.txt: { url: https://example.org/a.txt, bytes: 3, sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad }
load:
  format: geom-gcn
expect:
  nodes: 7
";

fn read(text: &str) -> Result<Manifest, String> {
    manifest::read("small", "small.yaml", text).map_err(|e| e.to_string())
}

#[test]
fn the_tables_are_the_folders() {
    for (kind, table) in [("datasets", DATASETS), ("models", MODELS), ("bases", BASES)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER).join(kind);
        let files = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let listed: BTreeSet<String> = table.iter().map(|(name, _)| format!("{name}.yaml")).collect();
        assert_eq!(listed, files.collect(), "the table of {kind} (left) must name every file");
    }
}

#[test]
fn every_manifest_of_the_project_is_valid_and_complete() {
    let catalogue = Catalogue::new(&[]);
    let mut folders = BTreeSet::new();
    for name in catalogue.names() {
        let manifest = catalogue.get(&name).unwrap().unwrap_or_else(|e| panic!("{e}"));
        assert!(folders.insert(manifest.folder.clone()), "{name} shares its folder");
        assert!(manifest.about.ends_with('.') && manifest.source.starts_with("https://"), "{name}");
        assert!(manifest.expected_count("nodes").is_some(), "{name}");
        // What stages are told of is what there is, and all of it.
        let files: BTreeSet<String> = manifest.files.iter().map(|f| f.path.display().to_string()).collect();
        let mut named = BTreeSet::new();
        let further = manifest.further.iter().flat_map(|(_, files)| files.entries());
        for (_, node) in manifest.load.iter().chain(further) {
            let value = node.value();
            let items = value.as_array().cloned().unwrap_or(vec![value]);
            named.extend(items.iter().filter_map(Value::as_str).filter(|t| t.contains('.')).map(str::to_owned));
        }
        assert_eq!(files, named, "{name}");
        let whole = manifest.files.iter().all(|f| f.bytes.is_some() && f.sha256.len() == 1);
        let known = ["computers", "photo", "cora-full", "ogbn-arxiv", "wiki-cs", "flickr"];
        assert!(whole || known.contains(&name.as_str()) || name.ends_with("-filtered"), "{name} has no digest");
        assert!(manifest.files.iter().all(|f| !f.urls.is_empty()) || name == "flickr", "{name} has no address");
    }
}

#[test]
fn a_folder_adds_to_the_project_and_overrides_it() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = |folder: &tempfile::TempDir, name: &str, text: &str| {
        let folder = folder.path().join("datasets");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
    };
    write(&one, "texas.yaml", &SMALL.replace("Small", "First"));
    write(&two, "texas.yaml", SMALL);
    write(&two, "mine.yaml", SMALL);
    write(&two, "notes.txt", "");
    let folders = [one.path().to_owned(), two.path().to_owned(), PathBuf::from("not-there")];
    let catalogue = Catalogue::new(&folders);
    assert_eq!(catalogue.names().len(), DATASETS.len() + 1);
    assert_eq!(catalogue.get("texas").unwrap().unwrap().title, "First");
    assert_eq!(catalogue.get("mine").unwrap().unwrap().title, "Small");
    assert!(catalogue.get("../texas").is_none() && catalogue.get("notes").is_none());
}

#[test]
fn mistakes_are_reported_together_each_at_its_place() {
    let text = SMALL.replace("licence", "license").replace("bytes: 3", "size: 3");
    assert_eq!(
        read(&text).unwrap_err(),
        "small.yaml:4:1: a manifest has no `license`
small.yaml:1:1: missing `licence`
small.yaml:8:44: a file has no `size`"
    );
    assert!(read("ppgnn: 2\n").unwrap_err().contains("the file has format 2"));
    assert!(read("").unwrap_err().contains("empty"));
    assert!(read(&SMALL.replace("ba7816", "xyz")).unwrap_err().contains("64 hexadecimal digits"));
    assert!(read(&SMALL.replace("format: geom-gcn", "path: a")).unwrap_err().contains("missing `format`"));
    assert!(read(&SMALL.replace("https://example.org/a", "ftp://a/a")).unwrap_err().contains("not an address"));
}

#[test]
fn a_file_may_stand_in_another_folder_of_the_data_directory() {
    let text = SMALL.replace("  a.txt", "  ../others/a.txt");
    let text = format!("{text}neighbourhoods: {{ poincare: ../others/a.txt }}\n");
    let manifest = super::manifest::read("small", "small.yaml", &text).unwrap();
    assert_eq!(manifest.files[0].path, Path::new("../others/a.txt"));
    assert_eq!((manifest.files.len(), manifest.loaded().count()), (1, 0));
    assert!(read(&text.replace("../others", "../../others")).unwrap_err().contains("cannot name a file"));
}

#[test]
fn a_file_cannot_lead_out_of_its_folder() {
    for path in ["../a.txt", "/etc/passwd", "a/../../b", "./a", "a\\b", "a/", "a.part", "\"\"", "\"a\\nb\""] {
        let found = read(&SMALL.replace("  a.txt", &format!("  {path}")));
        assert!(found.unwrap_err().contains("cannot name a file"), "{path}");
        let found = read(&SMALL.replace("folder: small", &format!("folder: {path}")));
        assert!(found.is_err(), "{path}");
    }
}

#[test]
fn only_secure_addresses_and_this_machine_are_allowed() {
    for fine in ["https://example.org/x", "http://127.0.0.1:8080/x", "http://localhost/x"] {
        assert!(is_allowed_address(fine), "{fine}");
    }
    for bad in [
        "http://example.org/x",
        "http://127.0.0.1.example.org/x",
        "http://127.0.0.1:80@example.org/x",
        "https:///x",
        "file:///etc/passwd",
        "example.org",
    ] {
        assert!(!is_allowed_address(bad), "{bad}");
    }
}

#[test]
fn a_file_is_compared_with_everything_that_is_known_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = read(SMALL).unwrap();
    let file = &manifest.files[0];
    let path = manifest.root(folder.path()).join(&file.path);
    assert_eq!(manifest.state(folder.path())[0].1, FileState::Absent);
    assert!(matches!(file.verify(&path).unwrap_err().misfit, Misfit::Unreadable(_)));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // SHA-256 of `abc`, the first example of the standard that defines it.
    std::fs::write(&path, "abc").unwrap();
    assert_eq!(manifest.state(folder.path())[0].1, FileState::Here { bytes: 3 });
    assert_eq!(file.verify(&path).unwrap(), Verified::Digest);
    let unknown = DataFile { path: file.path.clone(), ..DataFile::default() };
    let sha256 = file.sha256[0].clone();
    assert_eq!(unknown.verify(&path).unwrap(), Verified::NoDigestKnown { sha256 });
    std::fs::write(&path, "abd").unwrap();
    assert!(matches!(file.verify(&path).unwrap_err().misfit, Misfit::Digest { .. }));
    std::fs::write(&path, "abcd").unwrap();
    assert_eq!(manifest.state(folder.path())[0].1, FileState::WrongSize { found: 4, expected: 3 });
    assert!(matches!(file.verify(&path).unwrap_err().misfit, Misfit::Size { found: 4, expected: 3 }));
    std::fs::write(&path, "<html>").unwrap();
    assert!(file.verify(&path).unwrap_err().to_string().ends_with("is a web page, expected the data"));
}

/// A pipeline of one model on every known data set.
fn pipeline_of(model: &str, more: &str) -> crate::pipeline::Pipeline {
    let catalogue = Catalogue::new(&[]);
    let known = DataFolder { catalogue: &catalogue, data_dir: Path::new("data") };
    let text = format!(
        "ppgnn: 1
name: p
stages:
  load: {{params: {{dataset: texas}}}}
  featurize: {{inputs: {{graph: load}}}}
  normalize: {{inputs: {{graph: load}}}}
  evd: {{inputs: {{operator: normalize}}}}
  relate: {{inputs: {{graph: load}}, params: {{embedding: poincare}}}}
  separate: {{inputs: {{operator: normalize}}}}
  split: {{inputs: {{graph: load}}}}
  pretrain: {{uses: train, inputs: {{operator: normalize, nodes: featurize, splits: split}}, params: {{model: adagnn}}}}
  train: {{inputs: {{operator: normalize, nodes: featurize, splits: split}}, params: {{model: {model}}}}}
  evaluate: {{inputs: {{trained: train, nodes: featurize, splits: split}}}}
{more}
"
    );
    crate::pipeline::Pipeline::of_text("p.yaml", &text, &ppgnn_stages::built_in(), &known)
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Checks parameters of a stage beside the name of a model.
fn check(pipeline: &crate::pipeline::Pipeline, model: &str, stage: &str, params: serde_json::Map<String, Value>) {
    // Its parameter is a name that stands for a file of the data set.
    if stage == "relate" {
        return;
    }
    let used = pipeline.stages.iter().find(|used| used.name.name == stage).unwrap_or_else(|| panic!("{stage}"));
    let mut all: serde_json::Map<String, Value> = params;
    match stage {
        "train" => drop(all.insert("model".into(), model.into())),
        "pretrain" => drop(all.insert("model".into(), "adagnn".into())),
        _ => {}
    }
    let found = used.def.check(&ppgnn_stages::built_in(), &all);
    assert!(found.is_ok(), "{model}, {stage} {all:?}: {:?}", found.err());
}

#[test]
fn every_published_setting_is_one_that_its_model_has() {
    let catalogue = Catalogue::new(&[]);
    let datasets = catalogue.names().join(", ");
    let mut seen = 0;
    for (model, text) in MODELS.iter().filter(|(_, text)| text.contains("\nsettings:\n")) {
        // Forms of a model that have settings of their own.
        let forms = match *model {
            "pp-gnn" => "{A: {train.filters: features, train.binning: joint}, B: {train.filters: output}}",
            "tdgnn" => "{A: {train.weighted: true}, B: {train.weighted: false}}",
            "adagnn" => "{A: {train.pretrained: true}, B: {train.pretrained: false}}",
            "supergat" => "{A: {train.kind: mx}, B: {train.kind: sd}}",
            _ => "{A: {train.model: MODEL}}",
        };
        let forms = forms.replace("MODEL", model);
        let more = format!("settings: published\nsweep: {{axes: {{load.dataset: [{datasets}], form: {forms}}}}}");
        let pipeline = pipeline_of(model, &more);
        for preset in &pipeline.presets {
            let form = preset.matches.iter().find(|(axis, _)| pipeline.sweep.axes[*axis].name == "form");
            let form = form.map(|(axis, at)| &pipeline.sweep.axes[*axis].values[at[0]].settings);
            let stages: BTreeSet<&str> = preset.settings.iter().map(|setting| setting.stage.as_str()).collect();
            for stage in stages {
                let of_form = form.into_iter().flatten();
                let of_stage = preset.settings.iter().chain(of_form).filter(|setting| setting.stage == stage);
                check(&pipeline, model, stage, of_stage.map(|s| (s.param.clone(), s.value.value())).collect());
            }
            seen += preset.settings.len();
        }
        // Data sets that the file names are known ones.
        let root: Value = serde_yaml::from_str(text).unwrap();
        let sets = root["settings"]["published"]
            .as_array()
            .cloned()
            .unwrap_or_else(|| vec![root["settings"]["published"].clone()]);
        for name in sets.iter().filter_map(|set| set["datasets"].as_object()).flat_map(|names| names.keys()) {
            assert!(catalogue.names().contains(name), "{model}: `{name}` is no data set");
        }
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
fn every_space_is_one_that_its_model_has() {
    for (model, text) in MODELS.iter().filter(|(model, _)| *model != "shared") {
        let root: Value = serde_yaml::from_str(text).unwrap();
        for space in root["spaces"].as_object().unwrap().keys() {
            let pipeline = pipeline_of(model, &format!("search: {{space: {space}, trials: 5}}"));
            for param in pipeline.search.as_ref().unwrap().groups[0].space.params() {
                let (stage, name) = param.path.split_once('.').unwrap();
                for value in param.domain.probes() {
                    check(&pipeline, model, stage, [(name.to_owned(), value)].into_iter().collect());
                }
            }
        }
    }
}
