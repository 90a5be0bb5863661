//! Numbers about the server, as Prometheus reads them, under the names that kube-apiserver has for them.
//!
//! # Guarantees
//! * Labels are made of resources that there are, so that nobody can make up new series without end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::audit::AuditLog;
use crate::flow_control::{FlowControl, RequestClass};
use crate::store::Store;

/// The upper bounds of the durations that are counted apart, in milliseconds.
const BOUNDS: [u64; 23] = [
    5, 25, 50, 100, 200, 400, 600, 800, 1_000, 1_250, 1_500, 2_000, 3_000, 4_000, 5_000, 6_000, 8_000,
    10_000, 15_000, 20_000, 30_000, 45_000, 60_000,
];

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: &'static str,
}

/// What has been counted since the start.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<Labels, Series>>,
}

#[derive(Debug, Default)]
struct Series {
    codes: BTreeMap<u16, u64>,
    durations: [u64; BOUNDS.len()],
    count: u64,
    total: Duration,
}

impl Metrics {
    /// Counts a request. That of a watch takes as long as it wants, so that its time is not counted.
    pub(crate) fn count(&self, labels: Labels, code: u16, took: Option<Duration>) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let series = requests.entry(labels).or_default();
        *series.codes.entry(code).or_default() += 1;
        let Some(took) = took else { return };
        series.count += 1;
        series.total += took;
        let bound = BOUNDS.iter().position(|bound| took <= Duration::from_millis(*bound));
        if let Some(bound) = bound {
            series.durations[bound] += 1;
        }
    }

    /// All numbers as text.
    pub(crate) fn text(&self, store: &Store, flow_control: &FlowControl, audit: Option<&AuditLog>) -> String {
        let mut text = String::new();
        self.write_requests(&mut text);
        write_load(&mut text, flow_control);
        write_store(&mut text, store);
        if let Some(audit) = audit {
            head(
                &mut text,
                "ferroplane_audit_lost_total",
                "counter",
                "Events that the audit log could not keep.",
            );
            line(&mut text, "ferroplane_audit_lost_total", "", audit.lost());
        }
        text
    }

    fn write_requests(&self, text: &mut String) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "apiserver_request_total";
        head(text, name, "counter", "Requests that were answered.");
        for (labels, series) in requests.iter() {
            for (code, count) in &series.codes {
                line(text, name, &format!("{},code=\"{code}\"", labels.text()), count);
            }
        }
        let name = "apiserver_request_duration_seconds";
        head(text, name, "histogram", "How long requests took.");
        for (labels, series) in requests.iter().filter(|(_, series)| series.count > 0) {
            series.write(text, name, &labels.text());
        }
    }
}

impl Series {
    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut sum = 0;
        for (bound, count) in BOUNDS.iter().zip(&self.durations) {
            sum += count;
            let bound = Duration::from_millis(*bound).as_secs_f64();
            line(text, &format!("{name}_bucket"), &format!("{labels},le=\"{bound}\""), sum);
        }
        line(text, &format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), self.count);
        line(text, &format!("{name}_sum"), labels, self.total.as_secs_f64());
        line(text, &format!("{name}_count"), labels, self.count);
    }
}

impl Labels {
    fn text(&self) -> String {
        let Self { verb, group, version, resource, subresource, scope } = self;
        format!(
            "verb=\"{verb}\",group=\"{group}\",version=\"{version}\",resource=\"{resource}\",\
             subresource=\"{subresource}\",scope=\"{scope}\""
        )
    }
}

fn write_load(text: &mut String, flow_control: &FlowControl) {
    let kinds = [("readOnly", RequestClass::ReadOnly), ("mutating", RequestClass::Mutating)];
    let name = "apiserver_current_inflight_requests";
    head(text, name, "gauge", "Requests that are being answered.");
    for (kind, class) in kinds {
        line(text, name, &format!("request_kind=\"{kind}\""), flow_control.load(class).0);
    }
    let name = "apiserver_current_inqueue_requests";
    head(text, name, "gauge", "Requests that wait for their turn.");
    for (kind, class) in kinds {
        line(text, name, &format!("request_kind=\"{kind}\""), flow_control.load(class).1);
    }
    head(text, "apiserver_longrunning_requests", "gauge", "Watches.");
    line(text, "apiserver_longrunning_requests", "verb=\"WATCH\"", flow_control.load(RequestClass::Watch).0);
}

fn write_store(text: &mut String, store: &Store) {
    head(text, "apiserver_storage_objects", "gauge", "Objects that are stored.");
    for collection in store.collections() {
        let count = store.snapshot(&collection).len();
        let (group, plural) = collection.name().split_once('/').unwrap_or_default();
        let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        if count > 0 {
            line(text, "apiserver_storage_objects", &format!("resource=\"{resource}\""), count);
        }
    }
    head(text, "ferroplane_store_revision", "gauge", "The revision of the newest change.");
    line(text, "ferroplane_store_revision", "", store.revision());
    head(text, "ferroplane_store_queue_bytes", "gauge", "How much waits to be written.");
    line(text, "ferroplane_store_queue_bytes", "", store.waiting() * 1024);
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = if labels.is_empty() {
        writeln!(text, "{name} {value}")
    } else {
        writeln!(text, "{name}{{{labels}}} {value}")
    };
}
