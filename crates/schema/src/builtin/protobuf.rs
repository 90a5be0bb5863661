//! Objects in Kubernetes' protobuf form, as clients send them: a magic number, an envelope that names the kind, and the
//! object. Nothing is ever written in this form.
//!
//! Whatever the bytes are, the answer is an object or an error; the size of the object is bounded by theirs.
//!
//! Follows apimachinery 0.36.4, `pkg/runtime/serializer/protobuf/protobuf.go`.

mod message;
mod wire;

use serde_json::Value;

use super::BuiltinKind;

/// What every body starts with.
const MAGIC: &[u8] = b"k8s\0";

/// An object that came as protobuf.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// Empty if the envelope does not say.
    pub api_version: String,
    /// Empty if the envelope does not say.
    pub kind: String,
    /// The bytes of the object.
    raw: Vec<u8>,
}

/// Why bytes are no object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    #[error("unexpected end of protobuf message")]
    Truncated,
    #[error("protobuf message has a number that does not fit into 64 bits")]
    Overflow,
    #[error("protobuf message has a field with an illegal tag {0}")]
    Tag(u64),
    #[error("protobuf message has a value of another wire type in field `{0}`")]
    WireType(&'static str),
    #[error("protobuf message is nested too deeply")]
    TooDeep,
    #[error("protobuf message has embedded JSON that cannot be read: {0}")]
    Json(String),
}

/// Takes the envelope off a body.
pub fn open(body: &[u8]) -> Result<Decoded, Error> {
    let envelope = body.strip_prefix(MAGIC).ok_or(Error::NoMagic)?;
    let mut decoded = Decoded { api_version: String::new(), kind: String::new(), raw: Vec::new() };
    let mut reader = wire::Reader::new(envelope);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, wire::Value::Bytes(names)) => read_names(names, &mut decoded)?,
            // The last one counts, as in every protobuf decoder. Encoding and content type, which follow, are
            // always empty.
            (2, wire::Value::Bytes(raw)) => decoded.raw = raw.to_vec(),
            (1 | 2, _) => return Err(Error::WireType("envelope")),
            _ => {}
        }
    }
    Ok(decoded)
}

fn read_names(bytes: &[u8], decoded: &mut Decoded) -> Result<(), Error> {
    let mut reader = wire::Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, wire::Value::Bytes(text)) => decoded.api_version = message::text(text),
            (2, wire::Value::Bytes(text)) => decoded.kind = message::text(text),
            (1 | 2, _) => return Err(Error::WireType("envelope")),
            _ => {}
        }
    }
    Ok(())
}

impl Decoded {
    /// The object as JSON, with what the envelope says about its kind. It still has to be read: see [`BuiltinKind::read`].
    pub fn object(&self, kind: BuiltinKind) -> Result<Value, Error> {
        let mut object = message::read(kind.of, &self.raw)?;
        for (name, value) in [("apiVersion", &self.api_version), ("kind", &self.kind)] {
            if !value.is_empty() {
                object.insert(name.to_owned(), Value::from(value.as_str()));
            }
        }
        Ok(Value::Object(object))
    }
}
