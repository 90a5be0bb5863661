//! What is kept of an object beside its bytes, so that questions asked of many objects need no parsing.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// What the store knows of an object's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMetadata {
    pub uid: Uid,
    /// The uids of the object's owners.
    pub owners: Owners,
    pub labels: Pairs,
    /// Fields that can be selected by, if a user who writes supplies them.
    pub fields: Option<Box<Pairs>>,
    /// Whether deletion has begun: there is a `deletionTimestamp`.
    pub is_terminating: bool,
}

/// An object's metadata, and where its resource version is written.
pub(super) struct Read<'a> {
    pub(super) metadata: ObjectMetadata,
    pub(super) resource_version: &'a str,
    /// Where the text of the resource version begins in the object's bytes.
    pub(super) offset: usize,
    /// What the object says that it is called, and in which namespace. None if it does not.
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) namespace: Option<Cow<'a, str>>,
}

/// Read the metadata from an object's bytes.
pub(super) fn read(object: &[u8]) -> Result<Read<'_>, serde_json::Error> {
    // The rest of the object is skipped, not parsed: objects of a megabyte are read for their labels.
    let StoredObject { metadata: parsed } = serde_json::from_slice(object)?;
    let metadata = ObjectMetadata {
        uid: Uid::from(parsed.uid.as_deref().unwrap_or_default()),
        owners: parsed.owner_references.iter().flatten().map(|owner| Uid::from(&*owner.uid)).collect(),
        labels: parsed.labels.unwrap_or_default(),
        fields: None,
        is_terminating: parsed.deletion_timestamp.is_some(),
    };
    // The text is borrowed from the bytes, so this is its place in them.
    let offset = parsed.resource_version.as_ptr().addr() - object.as_ptr().addr();
    let [name, namespace] = [parsed.name, parsed.namespace].map(|text| text.map(|Text(text)| text));
    Ok(Read { metadata, resource_version: parsed.resource_version, offset, name, namespace })
}

#[derive(Deserialize)]
struct StoredObject<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    // Borrowed, never owned: a version is digits and needs no escapes, and its place in the bytes is where the next
    // version is written.
    resource_version: &'a str,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    owner_references: Option<Vec<Owner<'a>>>,
    #[serde(default)]
    labels: Option<Pairs>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
}

/// The uids of an object's owners. Most have one at most, which takes no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(Uids);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Uids {
    #[default]
    None,
    One(Uid),
    Many(Box<[Uid]>),
}

impl Deref for Owners {
    type Target = [Uid];

    fn deref(&self) -> &[Uid] {
        match &self.0 {
            Uids::None => &[],
            Uids::One(uid) => std::slice::from_ref(uid),
            Uids::Many(uids) => uids,
        }
    }
}

impl FromIterator<Uid> for Owners {
    fn from_iter<I: IntoIterator<Item = Uid>>(uids: I) -> Self {
        let mut uids: Vec<_> = uids.into_iter().collect();
        Self(match (uids.pop(), uids.is_empty()) {
            (None, _) => Uids::None,
            (Some(only), true) => Uids::One(only),
            // It was taken out only to see whether it is the only one.
            (Some(last), false) => {
                uids.push(last);
                Uids::Many(uids.into())
            }
        })
    }
}

/// An object's uid: 16 bytes if it is a UUID as we write them, text if a client chose another form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self(Form::Text(Box::default()))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(uuid(text.as_bytes()).map_or_else(|| Form::Text(text.into()), Form::Uuid))
    }
}

/// Read a UUID, in lower case with its hyphens: the one form that is written again as it was read.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (index, character) in text.iter().enumerate() {
        let digit = match (index, character) {
            // Lower case with hyphens only: any other form would be written differently than it was read, and a uid
            // is compared as text by clients.
            (8 | 13 | 18 | 23, b'-') => continue,
            (8 | 13 | 18 | 23, _) => return None,
            (_, b'0'..=b'9') => character - b'0',
            (_, b'a'..=b'f') => character - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = bytes[digits / 2] << 4 | digit;
        digits += 1;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text),
            Form::Uuid(bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    let hyphen = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
                    write!(f, "{hyphen}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Pairs of text, in one allocation: each as its length, a colon, and itself.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pairs(Box<str>);

impl Pairs {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (key, after) = take(rest)?;
            let (value, after) = take(after)?;
            rest = after;
            Some((key, value))
        })
    }

    pub fn get(&self, wanted: &str) -> Option<&str> {
        self.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value)
    }
}

fn write_pair(text: &mut String, key: &str, value: &str) {
    // Lengths instead of separators: labels may hold anything, and nothing has to be escaped.
    text.push_str(&format!("{}:{key}{}:{value}", key.len(), value.len()));
}

fn take(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut text = String::new();
        for (key, value) in pairs {
            write_pair(&mut text, key.as_ref(), value.as_ref());
        }
        Self(text.into())
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// Reads pairs without a map in between.
struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut text = String::new();
        while let Some((Text(key), Text(value))) = map.next_entry()? {
            write_pair(&mut text, &key, &value);
        }
        Ok(Pairs(text.into()))
    }
}

/// A string, borrowed if it is written without escapes. In an option, a `Cow` alone would always be copied.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pairs_give_back_what_they_were_made_of(pairs in prop::collection::vec((".*", ".*"), 0..5)) {
            let compact: Pairs = pairs.iter().map(|(key, value)| (key, value)).collect();
            let again: Vec<_> = compact.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            prop_assert_eq!(again, pairs);
        }

        #[test]
        fn owners_give_back_what_they_were_made_of(uids in prop::collection::vec(".{0,3}", 0..4)) {
            let owners: Owners = uids.iter().map(|uid| Uid::from(&**uid)).collect();
            prop_assert_eq!(owners.iter().map(Uid::to_string).collect::<Vec<_>>(), uids);
        }

        #[test]
        fn uids_are_written_as_they_were_read(text in "[0-9a-fA-F]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|.{0,40}") {
            prop_assert_eq!(Uid::from(&*text).to_string(), text);
        }
    }

    #[test]
    fn facts_are_read_from_the_metadata_alone() {
        let object =
            br#"{"data":{"resourceVersion":"1"},"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z",
            "labels":{"a":"b\n"},"name":"n\"1","namespace":"s","ownerReferences":[{"name":"x","uid":"u"}],
            "resourceVersion":"42","uid":"v"}}"#;
        let read = read(object).unwrap();
        assert_eq!((read.name.as_deref(), read.namespace.as_deref()), (Some("n\"1"), Some("s")));
        assert!(
            matches!(read.namespace, Some(Cow::Borrowed(_))),
            "loading a store copies nothing that is only compared"
        );
        assert_eq!(&object[read.offset..][..2], b"42");
        assert_eq!(&*read.metadata.owners, [Uid::from("u")]);
        assert_eq!(read.metadata.labels.get("a"), Some("b\n"));
        assert_eq!(read.metadata.uid, Uid::from("v"));
        assert!(read.metadata.is_terminating);
    }
}
