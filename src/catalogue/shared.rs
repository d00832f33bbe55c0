//! Files that several data sets have in common, as far as the digests of their manifests tell.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::manifest::Manifest;

/// One file that stands in several data sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// Its digest.
    pub sha256: String,
    /// The data sets, and what each calls the file.
    pub places: Vec<(String, PathBuf)>,
}

/// Finds files that have the same digest in several of the data sets, by digest. Data sets that mean the same place, such as two ways to
/// load one folder, do so on purpose.
pub fn shared_files<'m>(manifests: impl IntoIterator<Item = &'m Manifest>) -> Vec<SharedFile> {
    let mut places: BTreeMap<&str, BTreeMap<PathBuf, (&str, &Path)>> = BTreeMap::new();
    for manifest in manifests {
        for file in &manifest.files {
            let place = plain(&manifest.folder.join(&file.path));
            for digest in &file.sha256 {
                let of_digest = places.entry(digest).or_default();
                of_digest.entry(place.clone()).or_insert((&manifest.name, &file.path));
            }
        }
    }
    let several = places.into_iter().filter(|(_, of_digest)| {
        let names: BTreeSet<&str> = of_digest.values().map(|(name, _)| *name).collect();
        names.len() > 1
    });
    several
        .map(|(digest, of_digest)| SharedFile {
            sha256: digest.to_owned(),
            places: of_digest.into_values().map(|(name, path)| (name.to_owned(), path.to_owned())).collect(),
        })
        .collect()
}

/// A path without steps back.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::super::Catalogue;
    use super::super::manifest::read;
    use super::*;

    fn manifest(name: &str, folder: &str, files: &[(&str, char)]) -> Manifest {
        let file = |(path, digit): &(&str, char)| format!("  {path}: {{ sha256: {} }}\n", digit.to_string().repeat(64));
        let files: String = files.iter().map(file).collect();
        let text = format!(
            "ppgnn: 1\ntitle: T\nabout: A.\nlicence: none\nsource: https://example.org\nfolder: {folder}\nfiles:\n{files}load: {{ format: csbm }}\n"
        );
        read(name, name, &text).unwrap()
    }

    #[test]
    fn a_file_in_two_data_sets_is_found_and_one_that_both_mean_is_not() {
        let one = manifest("one", "one", &[("a.txt", 'a'), ("b.txt", 'b'), ("copy.txt", 'b')]);
        let other = manifest("other", "deep/other", &[("x.txt", 'a'), ("../../one/b.txt", 'c')]);
        let again = manifest("again", "one", &[("a.txt", 'a'), ("b.txt", 'c')]);
        let found = shared_files([&one, &other, &again]);
        // Two files of one data set are its own affair, and `again` is the folder of `one`.
        let places = vec![("other".to_owned(), "x.txt".into()), ("one".to_owned(), "a.txt".into())];
        assert_eq!(found, [SharedFile { sha256: "a".repeat(64), places }]);
    }

    #[test]
    fn of_the_data_sets_that_are_built_in_texas_and_cornell_share_a_file() {
        let all: Vec<_> = Catalogue::new(&[]).all().map(|(_, found)| found.unwrap()).collect();
        let found = shared_files(all.iter().map(|manifest| &**manifest));
        let [only] = &found[..] else { panic!("{found:?}") };
        let file = PathBuf::from("out1_node_feature_label.txt");
        assert_eq!(only.places, [("cornell".to_owned(), file.clone()), ("texas".to_owned(), file)]);
    }
}
