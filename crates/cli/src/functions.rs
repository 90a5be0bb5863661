//! Information about functions, without calling them.

pub(crate) mod discovery;
pub(crate) mod explain;
pub(crate) mod table;
