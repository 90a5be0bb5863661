//! Numbers about the server, as Prometheus reads them, under the names that kube-apiserver has for them.
//!
//! # Guarantees
//! * Values of labels are existing resources, so that clients cannot create series without end.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferroplane_metrics::{Exposition, Histogram, labels};

use crate::audit::AuditLog;
use crate::flow_control::{FlowControl, RequestClass};
use crate::store::Store;

/// The upper bounds of the durations that are counted apart, in seconds: those of kube-apiserver.
const BOUNDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
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

#[derive(Debug)]
struct Series {
    codes: BTreeMap<u16, u64>,
    durations: Histogram,
}

impl Default for Series {
    fn default() -> Self {
        Self { codes: BTreeMap::new(), durations: Histogram::new(&BOUNDS) }
    }
}

impl Metrics {
    /// Counts a request. That of a watch takes as long as it wants, so that its time is not counted.
    pub(crate) fn count(&self, labels: Labels, code: u16, took: Option<Duration>) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let series = requests.entry(labels).or_default();
        *series.codes.entry(code).or_default() += 1;
        if let Some(took) = took {
            series.durations.observe(took);
        }
    }

    /// Writes all of it.
    pub(crate) fn write(
        &self,
        page: &mut Exposition,
        store: &Store,
        flow_control: &FlowControl,
        audit: Option<&AuditLog>,
    ) {
        self.write_requests(page);
        write_load(page, flow_control);
        write_store(page, store);
        if let Some(audit) = audit {
            page.counter("apiserver_audit_event_total", "Events that were sent to the audit log")
                .value(audit.recorded());
            page.counter("ferroplane_audit_lost_total", "Audit events that could not be written")
                .value(audit.lost());
        }
    }

    fn write_requests(&self, page: &mut Exposition) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut samples =
            page.counter("apiserver_request_total", "Requests that the API server answered, by status code");
        for (request, series) in requests.iter() {
            for (code, count) in &series.codes {
                let code = code.to_string();
                let pairs: Vec<_> = request.pairs().into_iter().chain([("code", code.as_str())]).collect();
                samples.series(&labels(&pairs), count);
            }
        }
        let mut samples =
            page.histogram("apiserver_request_duration_seconds", "Time that requests took, in seconds");
        for (request, series) in requests.iter().filter(|(_, series)| series.durations.count() > 0) {
            samples.histogram(&labels(&request.pairs()), &series.durations);
        }
    }
}

impl Labels {
    fn pairs(&self) -> [(&str, &str); 6] {
        [
            ("verb", self.verb),
            ("group", &self.group),
            ("version", &self.version),
            ("resource", &self.resource),
            ("subresource", &self.subresource),
            ("scope", self.scope),
        ]
    }
}

fn write_load(page: &mut Exposition, flow_control: &FlowControl) {
    let kinds = [("readOnly", RequestClass::ReadOnly), ("mutating", RequestClass::Mutating)];
    let mut samples = page.gauge("apiserver_current_inflight_requests", "Requests that are being processed");
    for (kind, class) in kinds {
        samples.series(&labels(&[("request_kind", kind)]), flow_control.load(class).0);
    }
    let mut samples =
        page.gauge("apiserver_current_inqueue_requests", "Requests that wait in the queues of flow control");
    for (kind, class) in kinds {
        samples.series(&labels(&[("request_kind", kind)]), flow_control.load(class).1);
    }
    let mut samples = page.gauge("apiserver_longrunning_requests", "Open watches");
    samples.series(&labels(&[("verb", "WATCH")]), flow_control.load(RequestClass::Watch).0);
}

fn write_store(page: &mut Exposition, store: &Store) {
    let mut samples = page.gauge("apiserver_storage_objects", "Stored objects");
    for collection in store.collections() {
        let count = store.snapshot(&collection).len();
        let (group, plural) = collection.name().split_once('/').unwrap_or_default();
        let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        if count > 0 {
            samples.series(&labels(&[("resource", &resource)]), count);
        }
    }
    page.gauge("ferroplane_store_revision", "Revision of the newest change in the store")
        .value(store.revision());
    page.gauge("ferroplane_store_queue_bytes", "Data that waits to be written to the store, in bytes")
        .value(store.waiting() * 1024);
}
