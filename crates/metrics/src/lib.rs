//! Metrics, and the one writer of the text that Prometheus reads: version 0.0.4 of its text format.
//!
//! A caller that counts something writes it to an [`Exposition`] when it is asked; a process makes one for each scrape and hands it around.
//! [`NumberFamily`] and [`HistogramFamily`] count by labels; code with a structure of its own writes its series itself. ADR 15 says why
//! this is not `prometheus-client`.
//!
//! # Invariants
//! * A family has 4096 series at most; whatever would be more is counted in one series with the label `overflow="true"`.
//! * Series of a family are written in the order of their labels, so that two scrapes can be compared.

mod exposition;
mod family;
mod histogram;

pub use exposition::{Exposition, Labels, Samples, labels};
pub use family::{HistogramFamily, NumberFamily};
pub use histogram::Histogram;
