//! What names may look like.
//!
//! Follows apimachinery 0.36.4, `pkg/api/validation/generic.go`.

use crate::names;

/// A rule for names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// A subdomain of DNS, RFC 1123: most kinds.
    Subdomain,
    /// A label of DNS, RFC 1123: for example namespaces.
    Label,
    /// A label of DNS, RFC 1035: for example services.
    OldLabel,
    /// Whatever can be a part of a path: for example roles.
    PathSegment,
}

impl NameRule {
    /// What is wrong with a name, or with the prefix of one to be generated.
    pub fn problems(self, name: &str, is_prefix: bool) -> Vec<String> {
        let masked = || if is_prefix { names::mask_trailing_dash(name) } else { name.to_owned() };
        match self {
            Self::Subdomain => names::subdomain(&masked()),
            Self::Label => names::label(&masked()),
            Self::OldLabel => names::old_label(&masked()),
            Self::PathSegment => names::path_segment(name, is_prefix),
        }
    }
}
