//! What has to be known before a pipeline can run.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::ResourceSelector;

use crate::access::Grants;
use crate::pipeline::Pipeline;

/// Everything a pipeline run starts from.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub subject: Subject,
    pub pipeline: Arc<Pipeline>,
    /// What the steps asked for the last time: they get it up front.
    pub remembered: Vec<Requirement>,
    /// What the first step finds in its context.
    pub context: Option<Struct>,
    /// What the steps may read besides what every composite resource may: [`Grants::about`] it.
    pub grants: Arc<Grants>,
}

/// What a pipeline runs for.
#[derive(Debug, Clone)]
pub enum Subject {
    /// It becomes what the pipeline composes.
    Composite(CompositeSubject),
    /// It is done once the pipeline has run and what that wants is applied. Functions observe nothing.
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
    /// What its connection secret holds.
    pub connection_details: BTreeMap<String, Bytes>,
    /// The composed resources that exist, by the name the composition knows them by.
    pub observed: BTreeMap<String, Observed>,
}

impl CompositeSubject {
    /// One that composes nothing yet, and has no connection details.
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

    /// The resources that functions observe, by the name the composition knows them by.
    pub fn observed(&self) -> &BTreeMap<String, Observed> {
        static NOTHING: BTreeMap<String, Observed> = BTreeMap::new();
        self.composite().map_or(&NOTHING, |composite| &composite.observed)
    }
}

/// Where the machinery of a composite resource lies.
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

/// Something a step needs to see.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    pub step: String,
    pub name: String,
    pub selector: ResourceSelector,
}
