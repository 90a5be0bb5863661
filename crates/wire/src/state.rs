//! A composite resource and the resources it is composed of, shared by every request of a pipeline run.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message};
use sha2::{Digest as _, Sha256};

use crate::tag::Fingerprint;
use crate::v1::Resource;

/// A composite resource and the resources it is composed of. Cloning shares; it is encoded at most once.
#[derive(Clone, Debug, Default)]
pub struct State(Arc<Forms>);

#[derive(Clone, Debug, Default)]
struct Forms {
    fields: Fields,
    wire: OnceLock<Bytes>,
    digest: OnceLock<[u8; 32]>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Fields {
    #[prost(message, optional, tag = "1")]
    composite: Option<Resource>,
    #[prost(btree_map = "string, message", tag = "2")]
    resources: BTreeMap<String, Resource>,
}

impl State {
    /// A state of these parts.
    pub fn new(composite: Option<Resource>, resources: BTreeMap<String, Resource>) -> Self {
        Self::from(Fields { composite, resources })
    }

    /// The composite resource.
    pub fn composite(&self) -> Option<&Resource> {
        self.0.fields.composite.as_ref()
    }

    /// The composed resources, by the name the composition gives them.
    pub fn resources(&self) -> &BTreeMap<String, Resource> {
        &self.0.fields.resources
    }

    /// The parts, to change them. Copies what is shared: not the objects themselves.
    pub fn into_parts(self) -> (Option<Resource>, BTreeMap<String, Resource>) {
        let fields = Arc::unwrap_or_clone(self.0).fields;
        (fields.composite, fields.resources)
    }

    /// Identifies the content, whatever order it arrived in.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        self.0.digest.get_or_init(|| {
            let mut hash = Sha256::new();
            self.composite().fingerprint(&mut hash);
            self.resources().fingerprint(&mut hash);
            hash.finalize().into()
        })
    }

    fn wire(&self) -> &Bytes {
        self.0.wire.get_or_init(|| self.0.fields.encode_to_vec().into())
    }
}

impl From<Fields> for State {
    fn from(fields: Fields) -> Self {
        Self(Arc::new(Forms { fields, ..Forms::default() }))
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.fields == other.0.fields
    }
}

impl Message for State {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(self.wire());
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let forms = Arc::make_mut(&mut self.0);
        // What was derived from the fields is out of date with the first one that is merged.
        forms.wire.take();
        forms.digest.take();
        forms.fields.merge_field(tag, wire_type, buf, ctx)
    }

    fn encoded_len(&self) -> usize {
        self.wire().len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}
