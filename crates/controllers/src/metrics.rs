//! Numbers about the controllers, as Prometheus reads them, under the names that Crossplane and controller-runtime have
//! for them.
//!
//! # Guarantees
//! * Labels are made of functions, controllers and states that there are, so that nobody can make up new series without end.

mod series;
mod work;

use std::fmt::Write as _;
use std::sync::Arc;

use ferroplane_engine::Ran;
use ferroplane_recorder::Recorder;
use ferroplane_runner::Happening;

use series::{Counters, Histograms, labels};
use work::Works;
pub(crate) use work::{Ending, Work};

/// What has been counted since the start.
#[derive(Debug)]
pub struct Metrics {
    requests: Counters,
    responses: Counters,
    seconds: Histograms,
    cache_hits: Counters,
    cache_misses: Counters,
    cache_writes: Counters,
    cache_bytes: Counters,
    versions: Counters,
    works: Works,
    recorder: Recorder,
}

impl Default for Metrics {
    fn default() -> Self {
        let cache =
            |name| Counters::new(name, "Answers of functions that are kept for as long as they hold.");
        Self {
            requests: Counters::new("function_run_function_request_total", "Calls of functions."),
            responses: Counters::new(
                "function_run_function_response_total",
                "Calls of functions that ended.",
            ),
            seconds: Histograms::new("function_run_function_seconds", "How long calls of functions took."),
            cache_hits: cache("function_run_function_response_cache_hits_total"),
            cache_misses: cache("function_run_function_response_cache_misses_total"),
            cache_writes: cache("function_run_function_response_cache_writes_total"),
            cache_bytes: cache("function_run_function_response_cache_bytes_written_total"),
            versions: Counters::new(
                "engine_function_version_use_total",
                "Steps that ran, by what they called.",
            ),
            works: Works::default(),
            recorder: Recorder::off(),
        }
    }
}

/// What a function is called by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Called {
    pub(crate) function: String,
    pub(crate) package: String,
}

impl Metrics {
    /// With what this one counts itself.
    pub(crate) fn with(recorder: Recorder) -> Self {
        Self { recorder, ..Self::default() }
    }

    /// All numbers as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let counters = [
            &self.requests,
            &self.responses,
            &self.cache_hits,
            &self.cache_misses,
            &self.cache_writes,
            &self.cache_bytes,
            &self.versions,
        ];
        for counters in counters {
            counters.write(&mut text);
        }
        self.seconds.write(&mut text);
        self.works.write(&mut text);
        text.push_str(&self.recorder.metrics());
        text
    }

    /// The work of a controller.
    pub(crate) fn work(&self, controller: &str) -> Arc<Work> {
        self.works.of(controller)
    }

    /// Something happened to a call.
    pub(crate) fn count(&self, called: &Called, happening: Happening<'_>) {
        let Called { function, package } = called;
        let function_name = ("function_name", function.as_str());
        match happening {
            Happening::Called(peer) => {
                let package = ("function_package", package.as_str());
                let labels = labels(&[
                    function_name,
                    package,
                    ("grpc_target", peer.target),
                    ("grpc_method", peer.method),
                ]);
                self.requests.add(labels, 1);
            }
            Happening::Ended { peer, code, severity, took } => {
                let labels = labels(&[
                    function_name,
                    ("function_package", package),
                    ("grpc_target", peer.target),
                    ("grpc_method", peer.method),
                    ("grpc_code", code),
                    ("result_severity", severity),
                ]);
                self.seconds.add(labels.clone(), took);
                self.responses.add(labels, 1);
            }
            Happening::Recalled => self.cache_hits.add(labels(&[function_name]), 1),
            Happening::NotRecalled => self.cache_misses.add(labels(&[function_name]), 1),
            Happening::Kept { bytes } => {
                self.cache_writes.add(labels(&[function_name]), 1);
                self.cache_bytes.add(labels(&[function_name]), bytes as u64);
            }
        }
    }

    /// These steps ran.
    pub(crate) fn count_versions(&self, ran: &[Ran]) {
        for ran in ran {
            let Some(callee) = &ran.callee else { continue };
            let version = callee.version.as_ref().map(ToString::to_string).unwrap_or_default();
            let labels = labels(&[
                ("function", &ran.function),
                ("version", &version),
                ("state", callee.state.as_str()),
            ]);
            self.versions.add(labels, 1);
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferroplane_runner::Peer;

    use super::*;

    #[test]
    fn calls_are_counted_as_upstream_names_them() {
        let metrics = Metrics::default();
        let called = Called { function: "f".to_owned(), package: "p:\"v1\"".to_owned() };
        let peer = Peer { target: "here:1", method: "/run" };
        metrics.count(&called, Happening::Called(peer));
        let took = Duration::from_millis(20);
        metrics.count(&called, Happening::Ended { peer, code: "OK", severity: "Warning", took });
        metrics.count(&called, Happening::Recalled);
        let text = metrics.text();
        let call = r#"function_name="f",function_package="p:\"v1\"",grpc_target="here:1",grpc_method="/run""#;
        let end = format!(r#"{call},grpc_code="OK",result_severity="Warning""#);
        for line in [
            "# TYPE function_run_function_request_total counter".to_owned(),
            format!("function_run_function_request_total{{{call}}} 1"),
            format!("function_run_function_response_total{{{end}}} 1"),
            format!(r#"function_run_function_seconds_bucket{{{end},le="0.01"}} 0"#),
            format!(r#"function_run_function_seconds_bucket{{{end},le="0.025"}} 1"#),
            format!(r#"function_run_function_seconds_bucket{{{end},le="+Inf"}} 1"#),
            format!("function_run_function_seconds_sum{{{end}}} 0.02"),
            r#"function_run_function_response_cache_hits_total{function_name="f"} 1"#.to_owned(),
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn what_was_never_counted_is_not_there() {
        assert_eq!(Metrics::default().text(), "");
    }
}
