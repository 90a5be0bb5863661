//! Which form of an answer a client wants, and in which form it sends.

mod accept;
mod content;

pub(crate) use accept::{
    Amount, Discovery, Form, Presentation, discovery, error_form, presentation, wants_protobuf_of_openapi,
};
pub(crate) use content::{BodyForm, PatchForm};
