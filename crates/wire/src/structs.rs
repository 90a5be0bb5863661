//! A JSON object that is encoded at most once and decoded at most once, however often it is shared.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, encode_key, encode_varint, skip_field};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::codec::{self, StructError};

/// A JSON object that crosses the wire as `google.protobuf.Struct`.
///
/// Cloning shares. Bytes that came from a peer are kept as they are and are looked into when asked; until
/// [`Struct::json`] or [`crate::check`] has said so, they may turn out not to be an object at all.
#[derive(Clone, Default)]
pub struct Struct(Arc<Forms>);

/// The forms the object is known in. One of the first two is always there.
#[derive(Clone, Default)]
struct Forms {
    json: OnceLock<Result<Map<String, Value>, StructError>>,
    wire: OnceLock<Bytes>,
    /// Whether the bytes are an object, and if so whether equal objects would have equal bytes.
    is_canonical: OnceLock<Result<bool, StructError>>,
    digest: OnceLock<[u8; 32]>,
    /// What its reader made of it.
    reading: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Struct {
    /// The object as JSON.
    pub fn json(&self) -> Result<&Map<String, Value>, StructError> {
        self.0
            .json
            .get_or_init(|| codec::decode(self.0.wire.get().map_or(&[], |wire| wire)))
            .as_ref()
            .map_err(|error| *error)
    }

    /// The object as JSON, for the one who is the last to need it. Copies only if it is shared.
    pub fn into_json(self) -> Result<Map<String, Value>, StructError> {
        self.json()?;
        match Arc::try_unwrap(self.0) {
            // `json` above has put it there.
            Ok(forms) => forms.json.into_inner().unwrap_or_else(|| Ok(Map::new())),
            Err(shared) => shared.json.get().cloned().unwrap_or_else(|| Ok(Map::new())),
        }
    }

    /// The bytes of the `google.protobuf.Struct`, without tag and length.
    pub fn wire(&self) -> &Bytes {
        self.0.wire.get_or_init(|| {
            let json = self.0.json.get().and_then(|json| json.as_ref().ok());
            // These bytes are what others are compared with: they need not be decoded again.
            let _ = self.0.is_canonical.set(Ok(true));
            // `try_from` has checked the depth, the only thing that can be wrong with a JSON object.
            json.map(|json| codec::encode(json).unwrap_or_default()).unwrap_or_default()
        })
    }

    /// What `read` makes of the object: made once and kept with it, however often the object is shared.
    ///
    /// For readers to whom the same object comes again and again, such as the input of a step. Only the first
    /// kind of reading is kept.
    pub fn reading<T: Any + Send + Sync>(&self, read: impl Fn(&Self) -> T) -> Arc<T> {
        let kept = self.0.reading.get_or_init(|| Arc::new(read(self)));
        // A second kind of reader reads each time instead of failing.
        Arc::clone(kept).downcast().unwrap_or_else(|_| Arc::new(read(self)))
    }

    /// Identifies the content: equal objects have equal digests, no matter who encoded them.
    pub fn digest(&self) -> &[u8; 32] {
        self.0.digest.get_or_init(|| {
            let wire = self.wire();
            if self.is_canonical() == Ok(true) {
                return Sha256::digest(wire).into();
            }
            // Some languages write maps in any order: two equal answers must still have one digest.
            let canonical = self.json().and_then(codec::encode);
            Sha256::digest(canonical.as_ref().unwrap_or(wire)).into()
        })
    }

    /// Whether the bytes are a JSON object.
    pub(crate) fn check(&self) -> Result<(), StructError> {
        match (self.0.json.get(), self.0.wire.get()) {
            (Some(json), _) => json.as_ref().map(|_| ()).map_err(|error| *error),
            (None, Some(_)) => self.is_canonical().map(|_| ()),
            (None, None) => Ok(()),
        }
    }

    fn is_canonical(&self) -> Result<bool, StructError> {
        *self.0.is_canonical.get_or_init(|| codec::check(self.wire()))
    }
}

impl TryFrom<Map<String, Value>> for Struct {
    type Error = StructError;

    fn try_from(json: Map<String, Value>) -> Result<Self, StructError> {
        if !is_shallow_map(&json, codec::MAX_DEPTH) {
            return Err(StructError::TooDeep);
        }
        Ok(Self(Arc::new(Forms { json: OnceLock::from(Ok(json)), ..Forms::default() })))
    }
}

fn is_shallow_map(object: &Map<String, Value>, depth: usize) -> bool {
    depth > 0 && object.values().all(|value| is_shallow(value, depth - 1))
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    match value {
        Value::Object(object) => is_shallow_map(object, depth),
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_shallow(item, depth - 1)),
        _ => true,
    }
}

impl From<Bytes> for Struct {
    fn from(wire: Bytes) -> Self {
        Self(Arc::new(Forms { wire: OnceLock::from(wire), ..Forms::default() }))
    }
}

impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        // From cheap to expensive: most comparisons are of objects that are shared, or came in the same
        // bytes.
        Arc::ptr_eq(&self.0, &other.0) || self.wire() == other.wire() || self.json() == other.json()
    }
}

impl fmt::Debug for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.json() {
            Ok(json) => f.debug_tuple("Struct").field(json).finish(),
            Err(error) => f.debug_tuple("Struct").field(&error).finish(),
        }
    }
}

impl prost::Message for Struct {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(self.wire());
    }

    /// Keeps the bytes of each entry. A field that arrives in two pieces is the two pieces, one after the
    /// other: that is how protobuf merges messages.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        if tag != 1 || wire_type != WireType::LengthDelimited {
            return skip_field(wire_type, tag, buf, ctx);
        }
        let mut entry = Bytes::new();
        prost::encoding::bytes::merge(wire_type, &mut entry, buf, ctx)?;
        // Make the bytes first, if there is only JSON: they are what is added to.
        self.wire();
        // Taken out rather than copied: an object with n entries arrives in n calls, which would copy n²/2
        // entries.
        let mut wire = match Arc::get_mut(&mut self.0) {
            Some(forms) => std::mem::take(forms).wire.into_inner().unwrap_or_default(),
            None => self.wire().clone(),
        }
        .try_into_mut()
        .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        encode_key(1, WireType::LengthDelimited, &mut wire);
        encode_varint(entry.len() as u64, &mut wire);
        wire.put_slice(&entry);
        *self = Self::from(wire.freeze());
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.wire().len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use serde_json::json;

    use super::*;

    pub(super) fn from(value: Value) -> Struct {
        let Value::Object(object) = value else { panic!("not an object: {value}") };
        Struct::try_from(object).unwrap()
    }

    #[test]
    fn survives_the_wire() {
        let object = from(json!({"a": 1, "b": {"c": [true, null]}}));
        let decoded = Struct::decode(object.encode_to_vec().as_slice()).unwrap();
        assert_eq!(decoded, object);
        assert_eq!(decoded.json().unwrap(), object.json().unwrap());
    }

    #[test]
    fn is_encoded_once() {
        let object = from(json!({"a": 1}));
        let clone = object.clone();
        assert_eq!(object.wire().as_ptr(), clone.wire().as_ptr());
    }

    #[test]
    fn same_content_has_same_digest_whatever_its_order() {
        let ordered = from(json!({"a": 1, "b": 2}));
        let mut bytes = from(json!({"b": 2})).encode_to_vec();
        bytes.extend(from(json!({"a": 1})).encode_to_vec());
        let unordered = Struct::decode(bytes.as_slice()).unwrap();
        assert_ne!(unordered.wire(), ordered.wire());
        assert_eq!(unordered.digest(), ordered.digest());
        assert_eq!(unordered, ordered);
    }

    #[test]
    fn bytes_that_were_written_here_are_not_read_again() {
        let object = from(json!({"b": [1, {"z": null, "a": "x"}], "a": 1.5, "": {}}));
        object.wire();
        assert_eq!(object.0.is_canonical.get(), Some(&Ok(true)));
        // As who reads them finds.
        assert_eq!(codec::check(object.wire()), Ok(true));
        assert_eq!(Struct::from(object.wire().clone()).digest(), object.digest());
    }

    #[test]
    fn reading_is_kept_with_the_object_and_not_with_another() {
        let object = from(json!({"a": 1}));
        let clone = object.clone();
        assert_eq!(*object.reading(|object| object.json().unwrap().len()), 1);
        assert_eq!(*clone.reading::<usize>(|_| panic!("read twice")), 1);
        assert_eq!(*clone.reading(|_| "another kind"), "another kind");

        let mut other = clone;
        other.merge(from(json!({"b": 2})).encode_to_vec().as_slice()).unwrap();
        assert_eq!(*other.reading(|object| object.json().unwrap().len()), 2);
    }

    #[test]
    fn garbage_is_an_error_when_looked_at() {
        let garbage = Struct::from(Bytes::from_static(b"\x0a\x03abc"));
        assert_eq!(garbage.check(), Err(StructError::Malformed));
        assert_eq!(garbage.json().unwrap_err(), StructError::Malformed);
    }

    #[test]
    fn merging_into_an_object_that_was_never_encoded_keeps_it() {
        let mut object = from(json!({"a": 1}));
        object.merge(from(json!({"b": 2})).encode_to_vec().as_slice()).unwrap();
        assert_eq!(object, from(json!({"a": 1, "b": 2})));
    }

    #[test]
    fn merging_into_a_shared_object_leaves_the_other_alone() {
        let one = from(json!({"a": 1}));
        let mut two = one.clone();
        two.merge(from(json!({"b": 2})).encode_to_vec().as_slice()).unwrap();
        assert_eq!(one, from(json!({"a": 1})));
        assert_eq!(two, from(json!({"a": 1, "b": 2})));
    }
}
