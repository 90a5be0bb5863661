//! Where a right holds.

use std::fmt;

use serde::Serialize;

/// Where a right holds, or how far an actor reaches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "scope", content = "namespace", rename_all = "camelCase")]
pub enum Reach {
    /// Cluster-scoped objects; of an actor, everything.
    Cluster,
    /// Every namespace.
    Namespaces,
    Namespace(String),
}

impl Reach {
    pub(super) fn namespace(name: &str) -> Self {
        Self::Namespace(name.to_owned())
    }

    /// What is left of a right for an actor who does not reach further than this.
    pub(super) fn confine(&self, right: &Self) -> Option<Self> {
        match (self, right) {
            (Self::Cluster, _) => Some(right.clone()),
            (_, Self::Cluster) => None,
            (Self::Namespaces, _) => Some(right.clone()),
            (Self::Namespace(_), Self::Namespaces) => Some(self.clone()),
            (Self::Namespace(own), Self::Namespace(other)) => (own == other).then(|| self.clone()),
        }
    }

    /// Whether this implies the other one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.confine(other).as_ref() == Some(other)
    }

    /// The words after "objects" or "service accounts".
    pub(super) fn words(&self) -> String {
        match self {
            Self::Cluster => "in the whole cluster".to_owned(),
            Self::Namespaces => "in every namespace".to_owned(),
            Self::Namespace(name) => format!("in namespace {name}"),
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => output.write_str("cluster"),
            Self::Namespaces => output.write_str("all namespaces"),
            Self::Namespace(name) => output.write_str(name),
        }
    }
}
