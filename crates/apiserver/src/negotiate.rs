//! Which form of an answer a client wants, and in which form it sends.

mod accept;
mod content;

pub(crate) use accept::{Discovery, Form, Presentation, discovery, presentation, wants_protobuf_of_openapi};
pub(crate) use content::{BodyForm, PatchForm};
