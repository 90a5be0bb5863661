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
    /// The composite resource, as it was read.
    pub composite: Struct,
    pub layout: Layout,
    /// What the composite resource's connection secret holds.
    pub connection_details: BTreeMap<String, Bytes>,
    /// The composed resources that exist, by the name the composition knows them by.
    pub observed: BTreeMap<String, Observed>,
    pub pipeline: Arc<Pipeline>,
    /// What the steps asked for the last time: they get it up front.
    pub remembered: Vec<Requirement>,
    /// What the first step finds in its context.
    pub context: Option<Struct>,
    /// What the steps may read besides what every composite resource may: [`Grants::about`] it.
    pub grants: Arc<Grants>,
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
