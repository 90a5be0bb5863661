//! What has to be there before controllers start: rights, our kinds, certificates, webhooks, and nobody else at work.

pub(crate) mod credentials;
pub(crate) mod install;
pub(crate) mod inventory;
pub(crate) mod neighbours;
pub(crate) mod rights;
pub(crate) mod webhook;
