//! A Go string: bytes, usually but not always UTF-8, that are cheap to share.
//!
//! Our own design: Rust's `str` cannot hold what `slice "é" 1` or `b64dec` give.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;
use std::str;
use std::sync::Arc;

use ferroplane_golang::fmt::to_text;

/// A Go string. Compares by bytes, as Go's do.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<[u8]>);

impl Text {
    /// The text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }

    /// The text, with a replacement character for every byte that is no UTF-8, as ranging over a Go string gives.
    pub fn to_str(&self) -> Cow<'_, str> {
        self.as_str().map_or_else(|| Cow::Owned(to_text(&self.0)), Cow::Borrowed)
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

// Maps are asked for keys that are parts of a template, which must not be copied for it.
impl Borrow<[u8]> for Text {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_str(), f)
    }
}
