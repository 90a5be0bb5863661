//! How packages are, and how long their registries take to answer.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Object, PackageKind, Status, meta};
use ferroplane_engine::conditions_in;
use ferroplane_metrics::{Exposition, HistogramFamily, labels};
use serde_json::Value;

const CONDITIONS: [&str; 2] = ["Installed", "Healthy"];
const STATUSES: [(Status, &str); 3] =
    [(Status::True, "True"), (Status::False, "False"), (Status::Unknown, "Unknown")];

/// The status of each of the conditions.
type Standing = [Status; CONDITIONS.len()];

#[derive(Debug)]
pub(super) struct Packages {
    /// By kind and name.
    standings: Mutex<BTreeMap<(&'static str, String), Standing>>,
    registry_requests: HistogramFamily,
}

impl Default for Packages {
    fn default() -> Self {
        let registry_requests = HistogramFamily::new(
            "ferroplane_package_registry_request_seconds",
            "Time that requests for packages took, by operation and result, in seconds",
        );
        Self { standings: Mutex::default(), registry_requests }
    }
}

impl Packages {
    /// A package is like this now.
    pub(super) fn set(&self, kind: PackageKind, package: &Object) {
        let written = package.get("status").and_then(|status| status.get("conditions"));
        let conditions = conditions_in(written.unwrap_or(&Value::Null));
        let status_of = |kind: &str| {
            let found = conditions.iter().find(|condition| condition.kind == kind);
            found.map_or(Status::Unknown, |condition| condition.status)
        };
        let key = (kind.name(), meta::name(package).to_owned());
        let standing = CONDITIONS.map(status_of);
        self.standings.lock().unwrap_or_else(PoisonError::into_inner).insert(key, standing);
    }

    /// A package is gone.
    pub(super) fn remove(&self, kind: PackageKind, name: &str) {
        let key = (kind.name(), name.to_owned());
        self.standings.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// Nothing installs packages here any more.
    pub(super) fn clear(&self) {
        self.standings.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A registry has answered, or not.
    pub(super) fn ask(&self, operation: &str, is_success: bool, took: Duration) {
        let result = if is_success { "success" } else { "error" };
        self.registry_requests.observe(labels(&[("operation", operation), ("result", result)]), took);
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        let standings = self.standings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut counts: BTreeMap<(&str, usize), [u64; STATUSES.len()]> = BTreeMap::new();
        for ((kind, _), standing) in &standings {
            for (condition, status) in standing.iter().enumerate() {
                let count = counts.entry((*kind, condition)).or_default();
                let known = STATUSES.iter().position(|(known, _)| known == status).unwrap_or_default();
                count[known] += 1;
            }
        }
        let help = "Packages, by the status of their conditions Installed and Healthy";
        let mut samples = page.gauge("ferroplane_packages", help);
        for ((kind, condition), counts) in counts {
            for ((_, status), count) in STATUSES.iter().zip(counts) {
                let labels =
                    labels(&[("kind", kind), ("condition", CONDITIONS[condition]), ("status", status)]);
                samples.series(&labels, count);
            }
        }
        self.registry_requests.write(page);
    }
}
