//! What Go's standard library makes of text that users write. Upstream's functions are Go programs, so what they
//! accept, and how they say no, is part of the formats users know.

pub(crate) mod duration;
pub(crate) mod rfc3339;
