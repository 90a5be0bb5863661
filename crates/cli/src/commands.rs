//! One file per command: arguments, one call, one answer.

pub(crate) mod actionset;
pub(crate) mod apply;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod blueprint;
pub(crate) mod certificates;
pub(crate) mod completions;
pub(crate) mod composition;
pub(crate) mod diff;
pub(crate) mod functions;
pub(crate) mod intercept;
pub(crate) mod internal;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod operation;
pub(crate) mod render;
pub(crate) mod replay;
pub(crate) mod resource;
pub(crate) mod rollout;
pub(crate) mod start;
pub(crate) mod trace;
pub(crate) mod up;
pub(crate) mod validate;
pub(crate) mod version;
pub(crate) mod why;
pub(crate) mod xpkg;
