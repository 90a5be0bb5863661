//! Prepares a cluster before controllers start: rights, our kinds, certificates, webhooks, and a check for other control planes.

pub(crate) mod credentials;
pub(crate) mod install;
pub(crate) mod object_counts;
pub(crate) mod other_control_planes;
pub(crate) mod rights;
pub(crate) mod webhook;
