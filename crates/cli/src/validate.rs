//! Validation of manifests without a cluster: what would an API server say to them?
//!
//! Files are split into documents, and documents are read twice: first those that define kinds, then all of them, one
//! after the other on every processor. So no more objects are in memory than are looked at, however many there are.
//!
//! Whatever is wrong is told with its file, line and field; what cannot be read keeps nothing else from being
//! validated.

mod bases;
mod builtin;
mod custom;
mod definitions;
mod documents;
mod finding;
mod inputs;
mod judge;
mod kinds;
pub(crate) mod output;
mod packages;
mod parallel;
mod patches;
mod pipelines;
mod split;

pub(crate) use documents::Documents;
pub(crate) use finding::Report;
pub(crate) use judge::Judge;
pub(crate) use packages::Cache;
