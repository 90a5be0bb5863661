//! What identifies a request: the same content always has the same tag.
//!
//! The tag is made of the digests of the request's parts, and those are kept with the parts, so that the tag
//! of the tenth step does not cost another look at every observed resource.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::v1::credentials::Source;
use crate::v1::{Credentials, Resource, Resources, RunFunctionRequest, Schema};
use crate::{State, Struct};

/// The tag of a request, from everything in it but `meta`.
pub fn tag(request: &RunFunctionRequest) -> String {
    let mut hash = Sha256::new();
    // `meta` is left out because it carries the tag itself.
    request.observed.fingerprint(&mut hash);
    request.desired.fingerprint(&mut hash);
    request.input.fingerprint(&mut hash);
    request.context.fingerprint(&mut hash);
    request.extra_resources.fingerprint(&mut hash);
    request.credentials.fingerprint(&mut hash);
    request.required_resources.fingerprint(&mut hash);
    request.required_schemas.fingerprint(&mut hash);
    to_hex(&hash.finalize())
}

/// Lower-case hexadecimal.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// Something whose content goes into a hash. Every value says where it ends, so that no two look alike.
pub(crate) trait Fingerprint {
    fn fingerprint(&self, hash: &mut Sha256);
}

impl<T: Fingerprint> Fingerprint for Option<T> {
    fn fingerprint(&self, hash: &mut Sha256) {
        hash.update([u8::from(self.is_some())]);
        if let Some(value) = self {
            value.fingerprint(hash);
        }
    }
}

impl<T: Fingerprint> Fingerprint for &T {
    fn fingerprint(&self, hash: &mut Sha256) {
        (*self).fingerprint(hash);
    }
}

impl<T: Fingerprint> Fingerprint for BTreeMap<String, T> {
    fn fingerprint(&self, hash: &mut Sha256) {
        hash.update((self.len() as u64).to_le_bytes());
        for (key, value) in self {
            key.as_bytes().fingerprint(hash);
            value.fingerprint(hash);
        }
    }
}

impl Fingerprint for [u8] {
    fn fingerprint(&self, hash: &mut Sha256) {
        hash.update((self.len() as u64).to_le_bytes());
        hash.update(self);
    }
}

impl Fingerprint for Bytes {
    fn fingerprint(&self, hash: &mut Sha256) {
        self[..].fingerprint(hash);
    }
}

impl Fingerprint for Struct {
    fn fingerprint(&self, hash: &mut Sha256) {
        hash.update(self.digest());
    }
}

impl Fingerprint for State {
    fn fingerprint(&self, hash: &mut Sha256) {
        hash.update(self.digest());
    }
}

impl Fingerprint for Resource {
    fn fingerprint(&self, hash: &mut Sha256) {
        self.resource.fingerprint(hash);
        self.connection_details.fingerprint(hash);
        hash.update(self.ready.to_le_bytes());
    }
}

impl Fingerprint for Resources {
    fn fingerprint(&self, hash: &mut Sha256) {
        hash.update((self.items.len() as u64).to_le_bytes());
        for item in &self.items {
            item.fingerprint(hash);
        }
    }
}

impl Fingerprint for Schema {
    fn fingerprint(&self, hash: &mut Sha256) {
        self.openapi_v3.fingerprint(hash);
    }
}

impl Fingerprint for Credentials {
    fn fingerprint(&self, hash: &mut Sha256) {
        let data = self.source.as_ref().map(|Source::CredentialData(data)| &data.data);
        data.fingerprint(hash);
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value) -> Struct {
        let Value::Object(object) = value else { panic!("not an object: {value}") };
        Struct::try_from(object).unwrap()
    }

    fn resource(value: Value) -> Resource {
        Resource { resource: Some(object(value)), ..Resource::default() }
    }

    fn request() -> RunFunctionRequest {
        let resources = BTreeMap::from([("one".to_owned(), resource(json!({"kind": "One"})))]);
        RunFunctionRequest {
            observed: Some(State::new(Some(resource(json!({"kind": "XR"}))), resources)),
            desired: Some(State::default()),
            input: Some(object(json!({"kind": "Input"}))),
            ..RunFunctionRequest::default()
        }
    }

    #[test]
    fn same_content_has_same_tag_after_a_trip_over_the_wire() {
        let request = request();
        let again = RunFunctionRequest::decode(request.encode_to_vec().as_slice()).unwrap();
        assert_eq!(tag(&request), tag(&again));
        assert_eq!(tag(&request).len(), 64);
    }

    #[test]
    fn every_part_counts() {
        let tags: std::collections::BTreeSet<String> = [
            request(),
            RunFunctionRequest { observed: None, ..request() },
            RunFunctionRequest { desired: None, ..request() },
            RunFunctionRequest { input: None, ..request() },
            RunFunctionRequest { context: Some(Struct::default()), ..request() },
            RunFunctionRequest {
                required_resources: BTreeMap::from([("a".into(), Resources::default())]),
                ..request()
            },
            RunFunctionRequest {
                required_schemas: BTreeMap::from([("a".into(), Schema::default())]),
                ..request()
            },
            RunFunctionRequest {
                credentials: BTreeMap::from([("a".into(), Credentials::default())]),
                ..request()
            },
        ]
        .iter()
        .map(tag)
        .collect();
        assert_eq!(tags.len(), 8);
    }

    #[test]
    fn meta_does_not_count() {
        let mut other = request();
        other.meta = Some(crate::v1::RequestMeta { tag: "x".into(), capabilities: vec![1] });
        assert_eq!(tag(&request()), tag(&other));
    }
}
