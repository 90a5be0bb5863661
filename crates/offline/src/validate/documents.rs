//! Splits files into documents, so that they can be read one by one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::manifest::{Error, Files, Located, Manifest, ManifestSource};

/// Documents in files.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    found: Vec<Document>,
}

/// A part of a file.
#[derive(Debug)]
pub(crate) struct Document {
    source: Arc<ManifestSource>,
    text: Arc<str>,
    start: usize,
    end: usize,
    lines_before: u64,
}

impl Documents {
    /// Add every document in a file, in a directory and all below it, or on standard input (`-`). Says which files
    /// cannot be read.
    pub(crate) fn add(&mut self, files: &mut Files, path: &Path) -> Result<Vec<Error>, Error> {
        let mut unreadable = Vec::new();
        for source in files.find(path)? {
            match files.read(&source) {
                Ok(text) => self.split(source, text),
                Err(error) => unreadable.push(error),
            }
        }
        Ok(unreadable)
    }

    /// Add everything in several places.
    pub(crate) fn add_all(&mut self, files: &mut Files, paths: &[PathBuf]) -> Result<Vec<Error>, Error> {
        let mut unreadable = Vec::new();
        for path in paths {
            unreadable.extend(self.add(files, path)?);
        }
        Ok(unreadable)
    }

    pub(crate) fn as_slice(&self) -> &[Document] {
        &self.found
    }

    fn split(&mut self, source: ManifestSource, text: String) {
        let (source, text): (_, Arc<str>) = (Arc::new(source), text.into());
        for (start, end, lines_before) in bounds(&text) {
            let (source, text) = (source.clone(), text.clone());
            self.found.push(Document { source, text, start, end, lines_before });
        }
    }
}

impl Document {
    /// The objects in it.
    pub(crate) fn read(&self) -> Result<Vec<Manifest>, Located> {
        Manifest::read_document(&self.source, self.text(), self.lines_before)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text[self.start..self.end]
    }
}

/// Where documents start and end, and how many lines come before them. A line that starts with three dashes is the
/// start of a document wherever it stands, as it is for kubectl.
fn bounds(text: &str) -> Vec<(usize, usize, u64)> {
    let mut found = Vec::new();
    let (mut start, mut lines_before, mut position, mut line) = (0, 0, 0, 0);
    // What directives mean goes beyond the line they are on.
    let is_plain = !text.starts_with('%') && !text.contains("\n%");
    for content in text.split_inclusive('\n') {
        let is_separator = content.strip_prefix("---").is_some_and(|rest| {
            rest.trim_end_matches(['\r', '\n']).is_empty() || rest.starts_with([' ', '\t'])
        });
        if is_plain && is_separator && position > start {
            found.push((start, position, lines_before));
            (start, lines_before) = (position, line);
        }
        position += content.len();
        line += 1;
    }
    found.push((start, text.len(), lines_before));
    found.retain(|(start, end, _)| !is_empty(&text[*start..*end]));
    found
}

fn is_empty(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line == "---" || line.starts_with('#')
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manifest::{Node, yaml};

    fn split(text: &str) -> Vec<(&str, u64)> {
        bounds(text).into_iter().map(|(start, end, before)| (&text[start..end], before)).collect()
    }

    #[test]
    fn documents_start_at_dashes() {
        assert_eq!(
            split("a: 1\n---\nb: 2\n--- # more\nc: 3"),
            [("a: 1\n", 0), ("---\nb: 2\n", 1), ("--- # more\nc: 3", 3)]
        );
        assert_eq!(split("---\r\na: 1\r\n---\r\nb: 2\r\n"), [("---\r\na: 1\r\n", 0), ("---\r\nb: 2\r\n", 2)]);
    }

    #[test]
    fn documents_without_content_do_not_count() {
        assert_eq!(split(""), []);
        assert_eq!(split("---\n# nothing\n---\na: 1\n---\n"), [("---\na: 1\n", 2)]);
    }

    #[test]
    fn other_dashes_do_not_separate() {
        assert_eq!(split("a: |\n  ---\nb: ---\n---x: 1\n").len(), 1);
    }

    fn values(text: &str) -> Vec<serde_json::Value> {
        yaml::parse_with_duplicates(text).unwrap().iter().map(Node::to_json).collect()
    }

    proptest! {
        #[test]
        fn documents_say_together_what_the_file_says(
            texts in prop::collection::vec(prop::collection::btree_map("[a-z]{1,3}", "[ -~\\n]{0,12}", 0..4), 0..6),
            separator in prop_oneof![Just("---\n"), Just("--- \n"), Just("# more\n---\n"), Just("---\n---\n")],
        ) {
            let texts: Vec<_> = texts.iter().map(|text| yaml::print(text).unwrap()).collect();
            let text = texts.join(separator);
            let parts: Vec<_> = split(&text).into_iter().flat_map(|(part, _)| values(part)).collect();
            prop_assert_eq!(parts, values(&text));
        }

        #[test]
        fn any_text_is_split_at_lines(text in "[-%# a:\\n\\r]{0,60}") {
            for (start, _, lines_before) in bounds(&text) {
                prop_assert_eq!(text[..start].matches('\n').count() as u64, lines_before);
            }
        }
    }

    #[test]
    fn file_with_directives_is_one_document() {
        assert_eq!(split("%YAML 1.1\n---\na: 1\n---\nb: 2\n").len(), 1);
    }
}
