//! How images are named: references and digests. The one parser of the whole house; performs no I/O.

mod digest;
mod parts;
mod reference;

pub use digest::{Algorithm, Digest, InvalidDigest};
pub use parts::ImageReference;
pub use reference::{InvalidReference, Reference};
