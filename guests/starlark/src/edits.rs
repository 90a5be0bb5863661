//! Changes to the text of a script, and where each place of the changed text was before.

/// Changes to one text.
#[derive(Default)]
pub(crate) struct Edits(Vec<Edit>);

struct Edit {
    begin: usize,
    end: usize,
    text: String,
}

impl Edits {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at, at, text);
    }

    pub(crate) fn replace(&mut self, begin: usize, end: usize, text: impl Into<String>) {
        self.0.push(Edit { begin, end, text: text.into() });
    }

    /// These changes as well.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The changed text. Of two insertions at one place, the one that was asked for first comes first.
    pub(crate) fn apply(&mut self, source: &str) -> String {
        self.0.sort_by_key(|edit| (edit.begin, edit.end));
        let mut changed = String::with_capacity(source.len() * 2);
        let mut done = 0;
        for edit in &self.0 {
            changed.push_str(&source[done..edit.begin]);
            changed.push_str(&edit.text);
            done = edit.end;
        }
        changed.push_str(&source[done..]);
        changed
    }

    /// Where a place of the changed text was. Asked after [`Edits::apply`], which sorts.
    pub(crate) fn origin(&self, offset: usize) -> usize {
        let (mut old, mut new) = (0, 0);
        for edit in &self.0 {
            let kept = edit.begin - old;
            if offset < new + kept {
                break;
            }
            new += kept + edit.text.len();
            old = edit.end;
            if offset < new {
                return edit.begin;
            }
        }
        old + (offset - new)
    }
}
