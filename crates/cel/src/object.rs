//! Values that belong to a library, with the names that messages give them.
//!
//! Follows cel-go 0.29.2, `common/types/object.go`.

use std::fmt;

use super::library::named_format::NamedFormat;
use super::library::network::{Cidr, Ip};
use super::library::semver::Semver;
use super::library::url::Url;
use crate::quantity::Quantity;

/// Opaque outside, but it can be shown.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LibraryObject {
    #[doc(hidden)]
    Quantity(Quantity),
    #[doc(hidden)]
    Semver(Semver),
    #[doc(hidden)]
    Url(Url),
    #[doc(hidden)]
    Ip(Ip),
    #[doc(hidden)]
    Cidr(Cidr),
    #[doc(hidden)]
    Format(&'static NamedFormat),
}

impl LibraryObject {
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    pub(super) fn go_type(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "cel.Quantity",
            Self::Semver(_) => "cel.Semver",
            Self::Url(_) => "cel.URL",
            Self::Ip(_) => "cel.IP",
            Self::Cidr(_) => "cel.CIDR",
            Self::Format(_) => "cel.Format",
        }
    }

    /// How many bytes an address has. Other objects have no size.
    pub(super) fn size(&self) -> Option<usize> {
        match self {
            Self::Ip(ip) => Some(ip.size()),
            Self::Cidr(cidr) => Some(cidr.size()),
            _ => None,
        }
    }

    /// How long the pattern of a format is taken to be.
    pub(super) fn pattern_size(&self) -> u64 {
        match self {
            Self::Format(format) => format.pattern_size,
            _ => 1,
        }
    }
}

impl fmt::Display for LibraryObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(quantity) => quantity.fmt(f),
            Self::Semver(semver) => semver.fmt(f),
            Self::Url(url) => url.fmt(f),
            Self::Ip(ip) => ip.fmt(f),
            Self::Cidr(cidr) => cidr.fmt(f),
            Self::Format(format) => f.write_str(format.name),
        }
    }
}
