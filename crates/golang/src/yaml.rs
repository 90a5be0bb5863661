//! YAML as the Go programs around Kubernetes read and write it.
//!
//! Crossplane names revisions after a hash of such text, and templates print it and read it back. A user who comes from there must
//! find the same here, so every oddity counts: lines that are folded after 80 columns, keys in natural order, strings that are
//! quoted because YAML 1.1 took them for something else, `yes` that is `true` in one library and a word in the other.
//!
//! # Invariants
//! * Only what the originals cannot write at all (such as control characters) is written in a way of our own.
//! * No text is too deep, too long or too self-referential to read: it is an error, not a crash.
//! * Errors name the line that the originals name. Where the text is no YAML at all they say so in the words of our parser.
//!
//! Follows `sigs.k8s.io/yaml` 1.6.0, `go.yaml.in/yaml` 2.4.3, `gopkg.in/yaml.v3` 3.0.1; the files say which of their files.

mod block;
mod documents;
mod json;
mod order;
mod read;
mod resolve;
mod scalar;
mod text;
mod write;

pub use documents::{Document, DocumentError, Documents};
pub use json::to_json;
pub use read::{Node, ReadError, read};
pub use resolve::timestamp;
pub use write::{sorted, to_yaml, write, write_node};

/// A Go library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// `go.yaml.in/yaml/v2`, which `sigs.k8s.io/yaml` and with it all of Kubernetes uses.
    V2,
    /// `gopkg.in/yaml.v3`.
    V3,
}

impl Library {
    /// How far it indents.
    const fn step(self) -> usize {
        match self {
            Self::V2 => 2,
            Self::V3 => 4,
        }
    }

    const fn step_digit(self) -> char {
        match self {
            Self::V2 => '2',
            Self::V3 => '4',
        }
    }
}
