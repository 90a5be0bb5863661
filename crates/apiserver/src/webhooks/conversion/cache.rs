//! Objects that were converted a moment ago.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Converted objects, by the bytes that they were made of.
#[derive(Debug)]
pub(super) struct Cache {
    kept: Mutex<Kept>,
    /// How many bytes are kept. More than that, and all is forgotten.
    most: usize,
}

#[derive(Debug, Default)]
struct Kept {
    /// By where the bytes are and how many. They are kept, so that nothing else can come to be there.
    objects: HashMap<(usize, usize), Vec<Converted>>,
    size: usize,
}

#[derive(Debug)]
struct Converted {
    api_version: String,
    bytes: Bytes,
    _stored: Bytes,
}

impl Cache {
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Mutex::default(), most }
    }

    pub(super) fn get(&self, stored: &Bytes, api_version: &str) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let versions = kept.objects.get(&place(stored))?;
        let converted = versions.iter().find(|converted| converted.api_version == api_version)?;
        Some(converted.bytes.clone())
    }

    pub(super) fn put(&self, stored: &Bytes, api_version: &str, bytes: Bytes) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.size += stored.len() + bytes.len();
        // All at once: what is asked for again is converted again, and to know what was used last would cost every read a write.
        if kept.size > self.most {
            *kept = Kept { size: stored.len() + bytes.len(), ..Kept::default() };
        }
        let converted = Converted { api_version: api_version.to_owned(), bytes, _stored: stored.clone() };
        kept.objects.entry(place(stored)).or_default().push(converted);
    }
}

fn place(stored: &Bytes) -> (usize, usize) {
    (stored.as_ptr() as usize, stored.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_in_its_version_and_is_bounded() {
        let cache = Cache::new(1000);
        let stored = Bytes::from("a".repeat(300));
        cache.put(&stored, "v1", Bytes::from_static(b"one"));
        assert_eq!(cache.get(&stored, "v1").unwrap(), "one");
        assert!(cache.get(&stored, "v2").is_none());
        let others = [(); 3].map(|()| Bytes::from("a".repeat(300)));
        assert!(cache.get(&others[0], "v1").is_none());
        for other in &others {
            cache.put(other, "v1", Bytes::from_static(b"two"));
        }
        assert!(cache.get(&stored, "v1").is_none());
        assert_eq!(cache.get(&others[2], "v1").unwrap(), "two");
    }
}
