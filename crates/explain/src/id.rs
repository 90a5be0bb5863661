//! Which object.

use std::fmt;

use ferroplane_api::{Object, meta};
use serde::Serialize;

/// Identifies an object. If its kind is unknown, `api_version` is empty and `kind` is the word of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Id {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl Id {
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let [api_version, kind, namespace, name] = [api_version, kind, namespace, name].map(str::to_owned);
        Self { api_version, kind, namespace, name }
    }

    /// The one that an object is.
    pub fn of(object: &Object) -> Self {
        Self::new(meta::api_version(object), meta::kind(object), meta::namespace(object), meta::name(object))
    }

    pub fn group(&self) -> &str {
        meta::group(&self.api_version)
    }

    /// As `kubectl` takes it.
    pub fn arguments(&self) -> String {
        let kind = self.kind.to_lowercase();
        let kind = if self.group().is_empty() { kind } else { format!("{kind}.{}", self.group()) };
        let place = if self.namespace.is_empty() { String::new() } else { format!(" -n {}", self.namespace) };
        format!("{kind}/{}{place}", self.name)
    }

    /// Its name, with its namespace if it has one.
    pub fn path(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.path())
    }
}
