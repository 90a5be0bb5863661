//! Names of entries, split into parts that the file system gets one at a time.

use super::{Limits, Refusal};

/// The parts of a name, none of which can lead upwards. A leading `/` means the root of the image, as everywhere.
pub(super) fn components<'a>(name: &'a [u8], limits: &Limits) -> Result<Vec<&'a [u8]>, Refusal> {
    if name.is_empty() {
        return Err(Refusal::EmptyName);
    }
    if name.contains(&0) {
        return Err(Refusal::ZeroByte);
    }
    if name.len() > limits.path_bytes {
        return Err(Refusal::PathTooLong { found: name.len(), limit: limits.path_bytes });
    }
    let parts = name.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let parts: Vec<&[u8]> = parts.collect();
    if parts.contains(&&b".."[..]) {
        return Err(Refusal::ParentDirectory);
    }
    if parts.len() > limits.depth {
        return Err(Refusal::TooDeep { found: parts.len(), limit: limits.depth });
    }
    if let Some(part) = parts.iter().find(|part| part.len() > limits.component_bytes) {
        return Err(Refusal::ComponentTooLong { found: part.len(), limit: limits.component_bytes });
    }
    Ok(parts)
}

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const OLD_METADATA: &[u8] = b".wh..wh.";

/// What the last part of a name means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leaf<'a> {
    Name(&'a [u8]),
    /// Hides a file or directory of the layers below.
    Whiteout(&'a [u8]),
    /// Hides everything that the layers below have in the directory.
    Opaque,
    /// Metadata of an old storage driver, which is not used.
    Ignored,
}

impl<'a> Leaf<'a> {
    pub(super) fn of(name: &'a [u8]) -> Result<Self, Refusal> {
        match name {
            OPAQUE => Ok(Self::Opaque),
            name if name.starts_with(OLD_METADATA) => Ok(Self::Ignored),
            name => match name.strip_prefix(WHITEOUT) {
                None => Ok(Self::Name(name)),
                Some(b"" | b"." | b"..") => Err(Refusal::BadWhiteout),
                Some(hidden) => Ok(Self::Whiteout(hidden)),
            },
        }
    }
}

/// Whether a directory on the way is called like a whiteout, which other readers understand in different ways.
pub(super) fn has_whiteout(parents: &[&[u8]]) -> bool {
    parents.iter().any(|part| part.starts_with(WHITEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whiteouts_are_told_from_names() {
        assert_eq!(Leaf::of(b"a").unwrap(), Leaf::Name(b"a"));
        assert_eq!(Leaf::of(b".wh.a").unwrap(), Leaf::Whiteout(b"a"));
        assert_eq!(Leaf::of(b".wh..wh..opq").unwrap(), Leaf::Opaque);
        assert_eq!(Leaf::of(b".wh..wh.plnk").unwrap(), Leaf::Ignored);
        assert_eq!(Leaf::of(b".wh").unwrap(), Leaf::Name(b".wh"));
        for bad in [&b".wh."[..], b".wh..", b".wh..."] {
            assert!(Leaf::of(bad).is_err());
        }
    }
}
