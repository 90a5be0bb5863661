//! The inputs of a pipeline run.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::ResourceSelector;

use crate::access::Grants;
use crate::pipeline::Pipeline;

/// Everything that a pipeline run starts from.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub subject: Subject,
    pub pipeline: Arc<Pipeline>,
    /// The requirements of the last run: they are resolved before the first call.
    pub remembered: Vec<Requirement>,
    /// The initial context.
    pub context: Option<Struct>,
    /// The grants that apply to the composite resource: [`Grants::about`].
    pub grants: Arc<Grants>,
}

/// What a pipeline runs for.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A composite resource: the pipeline composes its resources.
    Composite(CompositeSubject),
    /// An operation. It is done once its plan is applied. Functions observe nothing.
    Operation {
        /// As it was read.
        object: Struct,
    },
}

/// A composite resource that a pipeline runs for.
#[derive(Debug, Clone)]
pub struct CompositeSubject {
    /// As it was read.
    pub object: Struct,
    pub layout: Layout,
    /// The data of its connection secret.
    pub connection_details: BTreeMap<String, Bytes>,
    /// The composed resources that exist, by resource name.
    pub observed: BTreeMap<String, Observed>,
}

impl CompositeSubject {
    /// A composite resource without composed resources and connection details.
    pub fn new(object: Struct, layout: Layout) -> Self {
        Self { object, layout, connection_details: BTreeMap::new(), observed: BTreeMap::new() }
    }
}

impl From<CompositeSubject> for Subject {
    fn from(composite: CompositeSubject) -> Self {
        Self::Composite(composite)
    }
}

impl Subject {
    /// The object that the pipeline runs for, as it was read.
    pub fn object(&self) -> &Struct {
        match self {
            Self::Composite(composite) => &composite.object,
            Self::Operation { object } => object,
        }
    }

    /// The composite resource, if it is one.
    pub fn composite(&self) -> Option<&CompositeSubject> {
        match self {
            Self::Composite(composite) => Some(composite),
            Self::Operation { .. } => None,
        }
    }

    /// The resources that functions observe, by resource name.
    pub fn observed(&self) -> &BTreeMap<String, Observed> {
        // An operation observes nothing; an empty map costs no allocation, and callers need no special case.
        static NOTHING: BTreeMap<String, Observed> = BTreeMap::new();
        self.composite().map_or(&NOTHING, |composite| &composite.observed)
    }
}

/// Where the plane's own fields of a composite resource are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Under `spec.crossplane`.
    Modern,
    /// Directly under `spec`; with claims and connection secrets.
    Legacy,
}

/// A composed resource that exists.
#[derive(Debug, Clone)]
pub struct Observed {
    pub object: Struct,
    pub connection_details: BTreeMap<String, Bytes>,
}

/// A requirement of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    pub step: String,
    pub name: String,
    pub selector: ResourceSelector,
}
