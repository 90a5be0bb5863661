//! The licences of everything in the program that others have written, with their texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::packages::{Package, Packages};

/// How the names of files with licences begin, in lower case.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];
/// How many directories down they are looked for: packages with C in them have a licence beside that.
const DEPTH: usize = 2;
const APACHE: &str = "Apache-2.0";
/// Texts that are the same for everybody but for the authors, by their names in SPDX.
const STANDARD: [(&str, &str); 2] =
    [("MIT", include_str!("licences/MIT.txt")), ("BSD-2-Clause", include_str!("licences/BSD-2-Clause.txt"))];
/// What stands in the place of the authors there.
const AUTHORS: &str = "AUTHORS";
/// What is in the program beside packages.
const OPENING: &str = "\
Ferroplane contains the packages of others that are listed here, under the licences below. It also contains the standard library of Rust
(MIT OR Apache-2.0) and, linked statically, the GNU C Library (LGPL-2.1-or-later). To link it with another version of that, build it from
its sources: `cargo xtask dist`.
";
const RULE: &str = "================================================================================";

pub(super) fn write(root: &Path, packages: &Packages) -> Result<String> {
    let shipped: Vec<_> = packages.foreign().into_iter().filter(|package| package.is_shipped).collect();
    let mut by_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut list = String::new();
    for package in &shipped {
        let name = format!("{} {}", package.name, package.version);
        writeln!(list, "{name}: {}", package.licence)?;
        for text in texts(root, package, &shipped)? {
            by_text.entry(text).or_default().insert(name.clone());
        }
    }
    let mut notices = format!("{OPENING}\n{list}");
    // By the first package: the order of texts would change with every letter.
    let mut by_name: Vec<_> = by_text.into_iter().map(|(text, names)| (names, text)).collect();
    by_name.sort();
    for (names, text) in by_name {
        let names: Vec<_> = names.into_iter().collect();
        write!(notices, "\n{RULE}\n{}\n{RULE}\n\n{}\n", names.join(", "), text.trim_end())?;
    }
    Ok(notices)
}

/// The texts that come with a package or, if it has none, those of the project that it is part of.
fn texts(root: &Path, package: &Package, all: &[&Package]) -> Result<BTreeSet<String>> {
    let own = texts_in(&package.directory, DEPTH)?;
    if !own.is_empty() {
        return Ok(own);
    }
    let siblings =
        all.iter().filter(|other| other.repository.is_some() && other.repository == package.repository);
    for sibling in siblings {
        let texts = texts_in(&sibling.directory, 0)?;
        if !texts.is_empty() {
            return Ok(texts);
        }
    }
    if package.licence.contains(APACHE) {
        // The same for everybody, and our own.
        let text = fs::read_to_string(root.join("LICENSE")).context("cannot read LICENSE")?;
        return Ok([text].into());
    }
    let Some(text) = standard_text(package) else {
        bail!(
            "{} {} comes without the text of its licence, {}",
            package.name,
            package.version,
            package.licence
        );
    };
    Ok([text].into())
}

/// The text of the licence that a package names, with those whom it names as its authors.
fn standard_text(package: &Package) -> Option<String> {
    let (_, text) = STANDARD.iter().find(|(name, _)| *name == package.licence)?;
    // Without them the text says nothing.
    (!package.authors.is_empty()).then(|| text.replacen(AUTHORS, &package.authors.join(", "), 1))
}

fn texts_in(directory: &Path, depth: usize) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().to_lowercase());
        if path.is_dir() {
            if depth > 0 {
                found.extend(texts_in(&path, depth - 1)?);
            }
        } else if NAMES.iter().any(|start| name.starts_with(start)) && path.extension() != Some("rs".as_ref())
        {
            // A few names are not in UTF-8.
            found.insert(String::from_utf8_lossy(&fs::read(&path)?).replace("\r\n", "\n"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(directory: &Path, name: &str, licence: &str, repository: &str) -> Package {
        let directory = directory.join(name);
        fs::create_dir_all(&directory).unwrap();
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.to_owned(),
            repository: Some(repository.to_owned()),
            directory,
            checksum: Some(String::new()),
            is_shipped: true,
            ..Package::default()
        }
    }

    #[test]
    fn every_package_is_listed_with_a_text_and_equal_texts_are_there_once() {
        let root = tempfile::tempdir().unwrap();
        let of =
            |name: &str, licence: &str, repository: &str| package(root.path(), name, licence, repository);
        fs::write(root.path().join("LICENSE"), "our Apache text").unwrap();
        let (one, two) = (of("one", "MIT", "a"), of("two", "MIT", "b"));
        for package in [&one, &two] {
            fs::write(package.directory.join("LICENSE-MIT"), "the text\r\n").unwrap();
        }
        let (part, bare) = (of("part", "MIT", "a"), of("bare", "Apache-2.0", "c"));
        let packages = Packages([one, two, part, bare].map(|it| (it.name.clone(), it)).into());
        let notices = write(root.path(), &packages).unwrap();
        assert_eq!(notices.matches("the text").count(), 1, "{notices}");
        assert!(
            notices.contains(&format!("{RULE}\none 1.0.0, part 1.0.0, two 1.0.0\n{RULE}\n\nthe text\n")),
            "{notices}"
        );
        assert!(notices.contains("bare 1.0.0\n") && notices.contains("our Apache text"), "{notices}");
        let without = Packages([("x".to_owned(), of("x", "MIT", "d"))].into());
        let error = write(root.path(), &without).unwrap_err().to_string();
        assert_eq!(error, "x 1.0.0 comes without the text of its licence, MIT");
    }

    #[test]
    fn package_without_a_text_has_the_standard_one_with_its_authors() {
        let root = tempfile::tempdir().unwrap();
        for (licence, words) in [("MIT", "free of charge"), ("BSD-2-Clause", "with or without modification")]
        {
            let mut bare = package(root.path(), licence, licence, "a");
            bare.authors = vec!["Ann <ann@example.org>".to_owned(), "Ben".to_owned()];
            let notices = write(root.path(), &Packages([(licence.to_owned(), bare)].into())).unwrap();
            assert!(notices.contains("Copyright (c) Ann <ann@example.org>, Ben\n"), "{notices}");
            assert!(notices.contains(words) && notices.contains("THE AUTHORS") == (licence == "MIT"));
        }
    }
}
