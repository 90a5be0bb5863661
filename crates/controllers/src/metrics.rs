//! Numbers about the controllers, as Prometheus reads them, under the names that Crossplane and controller-runtime have
//! for them.
//!
//! # Guarantees
//! * Labels are made of functions, controllers and states that there are, so that nobody can make up new series without end.

mod breaker;
mod requests;
mod rollouts;
mod states;
mod work;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ferroplane_api::{ActionSetStatus, FunctionRolloutStatus, PhaseState, RolloutState};
use ferroplane_client::{InformerEvent, Observer, RequestLabels, Resource};
use ferroplane_engine::Ran;
use ferroplane_metrics::{Exposition, HistogramFamily, NumberFamily, labels};
use ferroplane_recorder::Recorder;
use ferroplane_runner::Happening;

use breaker::Breakings;
pub(crate) use breaker::{Breaking, Passage};
use requests::{Requests, Watches};
use rollouts::Rollouts;
use states::States;
pub(crate) use states::Tally;
use work::Works;
pub(crate) use work::{Ending, Work};

/// What has been counted since the start.
#[derive(Debug)]
pub struct Metrics {
    requests: NumberFamily,
    responses: NumberFamily,
    seconds: HistogramFamily,
    cache_hits: NumberFamily,
    cache_misses: NumberFamily,
    cache_writes: NumberFamily,
    cache_bytes: NumberFamily,
    versions: NumberFamily,
    actions: NumberFamily,
    controllers_started: NumberFamily,
    controllers_stopped: NumberFamily,
    works: Works,
    breakings: Breakings,
    states: States,
    rollouts: Rollouts,
    api: Requests,
    watches: Watches,
    recorder: OnceLock<Recorder>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: NumberFamily::counter("function_run_function_request_total", "Calls of functions"),
            responses: NumberFamily::counter(
                "function_run_function_response_total",
                "Calls of functions that returned or failed, by gRPC code and worst result",
            ),
            seconds: HistogramFamily::new(
                "function_run_function_seconds",
                "Time that calls of functions took, in seconds",
            ),
            cache_hits: NumberFamily::counter(
                "function_run_function_response_cache_hits_total",
                "Function responses that came from the cache",
            ),
            cache_misses: NumberFamily::counter(
                "function_run_function_response_cache_misses_total",
                "Calls of functions for which the cache had no valid response",
            ),
            cache_writes: NumberFamily::counter(
                "function_run_function_response_cache_writes_total",
                "Function responses that were written to the cache",
            ),
            cache_bytes: NumberFamily::counter(
                "function_run_function_response_cache_bytes_written_total",
                "Size of the function responses that were written to the cache, in bytes",
            ),
            versions: NumberFamily::counter(
                "engine_function_version_use_total",
                "Steps and phases that ran, by function, version and state of the version",
            ),
            actions: NumberFamily::counter(
                "kanister_action_set_resolutions_total",
                "Actions of ActionSets that ended, by result",
            ),
            controllers_started: NumberFamily::counter(
                "engine_controllers_started_total",
                "Controllers of composite resources and claims that were started",
            ),
            controllers_stopped: NumberFamily::counter(
                "engine_controllers_stopped_total",
                "Controllers of composite resources and claims that were stopped",
            ),
            works: Works::default(),
            breakings: Breakings::default(),
            states: States::default(),
            rollouts: Rollouts::default(),
            api: Requests::default(),
            watches: Watches::default(),
            recorder: OnceLock::new(),
        }
    }
}

/// What a function is called by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Called {
    pub(crate) function: String,
    /// Empty if its revisions are not told apart.
    pub(crate) revision: String,
    pub(crate) package: String,
}

impl Metrics {
    /// From now on with what this one counts itself.
    pub(crate) fn include(&self, recorder: Recorder) {
        let _ = self.recorder.set(recorder);
    }

    /// Writes all of it.
    pub fn write(&self, page: &mut Exposition) {
        let numbers = [
            &self.requests,
            &self.responses,
            &self.cache_hits,
            &self.cache_misses,
            &self.cache_writes,
            &self.cache_bytes,
            &self.versions,
            &self.actions,
            &self.controllers_started,
            &self.controllers_stopped,
        ];
        for numbers in numbers {
            numbers.write(page);
        }
        self.seconds.write(page);
        self.works.write(page);
        self.breakings.write(page);
        self.states.write(page);
        self.rollouts.write(page);
        self.api.write(page);
        self.watches.write(page);
        if let Some(recorder) = self.recorder.get() {
            recorder.write_metrics(page);
        }
    }

    /// The work of a controller.
    pub(crate) fn work(&self, controller: &str) -> Arc<Work> {
        self.works.of(controller)
    }

    /// How often too much happened to those of a controller.
    pub(crate) fn breaking(&self, controller: &str) -> Arc<Breaking> {
        self.breakings.of(controller)
    }

    /// The controller of a kind was started.
    pub(crate) fn controller_started(&self, controller: &str) {
        self.controllers_started.add(labels(&[("controller", controller)]), 1);
    }

    /// The controller of a kind was stopped.
    pub(crate) fn controller_stopped(&self, controller: &str) {
        self.controllers_stopped.add(labels(&[("controller", controller)]), 1);
    }

    /// Begin to count composite resources of a kind.
    pub(crate) fn tally(&self, resource: &Resource) -> Arc<Tally> {
        self.states.begin(resource.group(), &resource.kind)
    }

    /// Nobody counts them any more.
    pub(crate) fn end_tally(&self, resource: &Resource, tally: &Arc<Tally>) {
        self.states.end(resource.group(), &resource.kind, tally);
    }

    /// A rollout is like this now. If a revision was promoted or rolled back just now, with how it ended.
    pub(crate) fn rollout(&self, name: &str, status: &FunctionRolloutStatus, ended: Option<RolloutState>) {
        self.rollouts.set(name, status);
        if let Some(result) = ended {
            self.rollouts.end(name, result);
        }
    }

    /// A rollout is gone.
    pub(crate) fn forget_rollout(&self, name: &str) {
        self.rollouts.remove(name);
    }

    /// Something happened to a call.
    pub(crate) fn count(&self, called: &Called, happening: Happening<'_>) {
        let Called { function, revision, package } = called;
        let function_name = ("function_name", function.as_str());
        let function_revision = ("function_revision", revision.as_str());
        let cached = || labels(&[function_name, function_revision]);
        match happening {
            Happening::Called(peer) => {
                let package = ("function_package", package.as_str());
                let labels = labels(&[
                    function_name,
                    function_revision,
                    package,
                    ("grpc_target", peer.target),
                    ("grpc_method", peer.method),
                ]);
                self.requests.add(labels, 1);
            }
            Happening::Ended { peer, code, severity, took } => {
                let labels = labels(&[
                    function_name,
                    function_revision,
                    ("function_package", package),
                    ("grpc_target", peer.target),
                    ("grpc_method", peer.method),
                    ("grpc_code", code),
                    ("result_severity", severity),
                ]);
                self.seconds.observe(labels.clone(), took);
                self.responses.add(labels, 1);
            }
            Happening::Recalled => self.cache_hits.add(cached(), 1),
            Happening::NotRecalled => self.cache_misses.add(cached(), 1),
            Happening::Kept { bytes } => {
                self.cache_writes.add(cached(), 1);
                self.cache_bytes.add(cached(), i64::try_from(bytes).unwrap_or(i64::MAX));
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

impl Metrics {
    /// All actions of an ActionSet have ended.
    pub(crate) fn count_actions(&self, status: &ActionSetStatus) {
        for (index, action) in status.actions.iter().enumerate() {
            let has_failed = status.errors.iter().any(|error| usize::try_from(error.action) == Ok(index));
            let resolution = if has_failed { "failure" } else { "success" };
            self.actions.add(labels(&[("resolution", resolution)]), 1);
            for phase in action.phases.iter().chain([&action.defer_phase]) {
                let has_run = matches!(phase.state, PhaseState::Complete | PhaseState::Failed);
                let Some(callee) = phase.function.as_ref().filter(|_| has_run) else { continue };
                let labels = labels(&[
                    ("function", &callee.name),
                    ("version", &callee.version),
                    ("state", &callee.state),
                ]);
                self.versions.add(labels, 1);
            }
        }
    }
}

impl Observer for Metrics {
    fn request(&self, request: &RequestLabels<'_>, code: Option<u16>, duration: Option<Duration>) {
        self.api.count(request, code, duration);
    }

    fn informer(&self, resource: &Resource, event: InformerEvent<'_>) {
        self.watches.count(resource, event);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferroplane_runner::Peer;

    use super::*;

    fn text(metrics: &Metrics) -> String {
        let mut page = Exposition::default();
        metrics.write(&mut page);
        page.into_text()
    }

    #[test]
    fn calls_are_counted_as_upstream_names_them() {
        let metrics = Metrics::default();
        let (function, revision) = ("f".to_owned(), "f-1".to_owned());
        let called = Called { function, revision, package: "p:\"v1\"".to_owned() };
        let peer = Peer { target: "here:1", method: "/run" };
        metrics.count(&called, Happening::Called(peer));
        let took = Duration::from_millis(20);
        metrics.count(&called, Happening::Ended { peer, code: "OK", severity: "Warning", took });
        metrics.count(&called, Happening::Recalled);
        let text = text(&metrics);
        let call = r#"function_name="f",function_revision="f-1",function_package="p:\"v1\"",grpc_target="here:1",grpc_method="/run""#;
        let end = format!(r#"{call},grpc_code="OK",result_severity="Warning""#);
        for line in [
            "# TYPE function_run_function_request_total counter".to_owned(),
            format!("function_run_function_request_total{{{call}}} 1"),
            format!("function_run_function_response_total{{{end}}} 1"),
            format!(r#"function_run_function_seconds_bucket{{{end},le="0.01"}} 0"#),
            format!(r#"function_run_function_seconds_bucket{{{end},le="0.025"}} 1"#),
            format!(r#"function_run_function_seconds_bucket{{{end},le="+Inf"}} 1"#),
            format!("function_run_function_seconds_sum{{{end}}} 0.02"),
            r#"function_run_function_response_cache_hits_total{function_name="f",function_revision="f-1"} 1"#
                .to_owned(),
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn what_was_never_counted_has_a_name_and_no_numbers() {
        let text = text(&Metrics::default());
        assert!(text.contains("# TYPE circuit_breaker_opens_total counter"), "{text}");
        assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
    }
}
