//! Prepares a cluster before controllers start: rights, our kinds, certificates, webhooks, and a check for other control planes.

pub(crate) mod credentials;
pub(crate) mod install;
pub(crate) mod inventory;
pub(crate) mod neighbours;
pub(crate) mod rights;
pub(crate) mod webhook;
