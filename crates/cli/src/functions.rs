//! What there is to know about functions, without calling them.

pub(crate) mod explain;
pub(crate) mod table;
