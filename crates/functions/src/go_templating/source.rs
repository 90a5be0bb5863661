//! The text of the templates: the pieces that it is put together from, and where each line of it comes from.

use std::fmt;

/// What stands between two pieces.
const SEPARATOR: &str = "\n---\n";

/// What a piece of the text was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// The template in the input.
    Inline,
    /// One of several templates in the input, counted from zero.
    InlineList(usize),
    /// A key of the environment.
    Environment(String),
    /// A file of the directory.
    File(String),
}

/// A line of a template, as its author knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateLine {
    pub part: TemplatePart,
    /// The line in that part, from one.
    pub line: usize,
}

impl fmt::Display for TemplateLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of ", self.line)?;
        match &self.part {
            TemplatePart::Inline => f.write_str("the template"),
            TemplatePart::InlineList(index) => write!(f, "inline.templates[{index}]"),
            TemplatePart::Environment(key) => write!(f, "the template in key `{key}` of the environment"),
            TemplatePart::File(name) => write!(f, "file `{name}`"),
        }
    }
}

/// The text of the templates.
#[derive(Debug, Default)]
pub(super) struct SourceText {
    pub(super) text: String,
    pub(super) lines: Lines,
}

/// Where the lines of a text come from.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Each piece with its first line, from one.
    parts: Vec<(usize, TemplatePart)>,
}

impl SourceText {
    pub(super) fn of(part: TemplatePart, text: String) -> Self {
        Self { text, lines: Lines { parts: vec![(1, part)] } }
    }

    /// Several templates of the input, with separators between them.
    pub(super) fn of_list(texts: &[String]) -> Self {
        let mut all = Self::default();
        for (index, text) in texts.iter().enumerate() {
            if index > 0 {
                all.text.push_str(SEPARATOR);
            }
            all.add(TemplatePart::InlineList(index), text);
        }
        all
    }

    /// The files of a directory. The original puts a separator behind each, the last one included.
    pub(super) fn of_files<'f>(files: impl Iterator<Item = (&'f str, &'f str)>) -> Self {
        let mut all = Self::default();
        for (name, text) in files {
            all.add(TemplatePart::File(name.to_owned()), text);
            all.text.push_str(SEPARATOR);
        }
        all
    }

    fn add(&mut self, part: TemplatePart, text: &str) {
        let line = self.text.matches('\n').count() + 1;
        self.lines.parts.push((line, part));
        self.text.push_str(text);
    }
}

impl Lines {
    /// Whether the lines of the text are the lines that its author sees.
    pub(super) fn is_one_piece(&self) -> bool {
        matches!(&self.parts[..], [] | [(_, TemplatePart::Inline | TemplatePart::Environment(_))])
    }

    /// Where a line of the text comes from.
    pub(super) fn locate(&self, line: usize) -> Option<TemplateLine> {
        let after = self.parts.partition_point(|(first, _)| *first <= line);
        let (first, part) = self.parts.get(after.checked_sub(1)?)?;
        Some(TemplateLine { part: part.clone(), line: line - first + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_pieces() {
        let files = [("a.yaml", "one\ntwo\n"), ("b.yaml", ""), ("c.yaml", "three")];
        let source = SourceText::of_files(files.into_iter());
        assert_eq!(source.text, "one\ntwo\n\n---\n\n---\nthree\n---\n");
        let at = |line: usize| source.lines.locate(line).unwrap().to_string();
        assert_eq!(at(2), "line 2 of file `a.yaml`");
        assert_eq!(at(5), "line 1 of file `b.yaml`");
        assert_eq!(at(7), "line 1 of file `c.yaml`");

        let list = SourceText::of_list(&["a\n".to_owned(), "b\nc".to_owned()]);
        assert_eq!(list.text, "a\n\n---\nb\nc");
        assert_eq!(list.lines.locate(5).unwrap().to_string(), "line 2 of inline.templates[1]");
    }
}
