//! Metrics of the controllers in Prometheus' format, with the names of Crossplane and controller-runtime.
//!
//! # Guarantees
//! * Values of labels are existing functions, controllers, schedules, watches and states, so that users cannot create series without end.

mod breaker;
mod calls;
mod packages;
mod requests;
mod rollouts;
mod states;
mod work;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ferroplane_api::{ActionSetStatus, FunctionRolloutStatus, Object, PackageKind, PhaseState, RolloutState};
use ferroplane_client::{InformerEvent, Observer, RequestLabels, Resource};
use ferroplane_engine::Ran;
use ferroplane_engine::operation::operation_parent;
use ferroplane_metrics::{Exposition, NumberFamily, labels};
use ferroplane_recorder::Recorder;
use ferroplane_runner::Happening;

use breaker::Breakings;
pub(crate) use breaker::{Breaking, Passage};
pub(crate) use calls::Called;
use calls::FunctionCalls;
use packages::Packages;
use requests::{Requests, Watches};
use rollouts::Rollouts;
use states::States;
pub(crate) use states::Tally;
use work::Works;
pub(crate) use work::{Ending, Work};

/// The metrics since the start.
#[derive(Debug)]
pub struct Metrics {
    calls: FunctionCalls,
    versions: NumberFamily,
    actions: NumberFamily,
    operations: NumberFamily,
    controllers_started: NumberFamily,
    controllers_stopped: NumberFamily,
    works: Works,
    breakings: Breakings,
    states: States,
    rollouts: Rollouts,
    packages: Packages,
    api: Requests,
    watches: Watches,
    recorder: OnceLock<Recorder>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            calls: FunctionCalls::default(),
            versions: NumberFamily::counter(
                "engine_function_version_use_total",
                "Steps and phases that ran, by function, version and state of the version",
            ),
            actions: NumberFamily::counter(
                "kanister_action_set_resolutions_total",
                "Actions of ActionSets that ended, by result",
            ),
            operations: NumberFamily::counter(
                "ferroplane_operations_ended_total",
                "Operations that ended, by result and by what made them",
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
            packages: Packages::default(),
            api: Requests::default(),
            watches: Watches::default(),
            recorder: OnceLock::new(),
        }
    }
}

impl Metrics {
    /// Include the metrics of an event recorder.
    pub(crate) fn include(&self, recorder: Recorder) {
        let _ = self.recorder.set(recorder);
    }

    /// Write all metrics.
    pub fn write(&self, page: &mut Exposition) {
        self.calls.write(page);
        for numbers in [&self.versions, &self.actions, &self.operations] {
            numbers.write(page);
        }
        for numbers in [&self.controllers_started, &self.controllers_stopped] {
            numbers.write(page);
        }
        self.works.write(page);
        self.breakings.write(page);
        self.states.write(page);
        self.rollouts.write(page);
        self.packages.write(page);
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

    /// The circuit breakers of a controller.
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

    /// Start to count composite resources of a kind.
    pub(crate) fn tally(&self, resource: &Resource) -> Arc<Tally> {
        self.states.begin(resource.group(), &resource.kind)
    }

    /// Stop to count them.
    pub(crate) fn end_tally(&self, resource: &Resource, tally: &Arc<Tally>) {
        self.states.end(resource.group(), &resource.kind, tally);
    }

    /// Set the state of a rollout. If a revision was just promoted or rolled back, with how it ended.
    pub(crate) fn rollout(&self, name: &str, status: &FunctionRolloutStatus, ended: Option<RolloutState>) {
        self.rollouts.set(name, status);
        if let Some(result) = ended {
            self.rollouts.end(name, result);
        }
    }

    /// A rollout was deleted.
    pub(crate) fn forget_rollout(&self, name: &str) {
        self.rollouts.remove(name);
    }

    /// Set the state of a package.
    pub(crate) fn package(&self, kind: PackageKind, package: &Object) {
        self.packages.set(kind, package);
    }

    /// A package was deleted.
    pub(crate) fn forget_package(&self, kind: PackageKind, name: &str) {
        self.packages.remove(kind, name);
    }

    /// No controller installs packages here any more.
    pub(crate) fn forget_packages(&self) {
        self.packages.clear();
    }

    /// Count a request to a registry, with its result.
    pub(crate) fn registry_asked(&self, operation: &str, is_success: bool, took: Duration) {
        self.packages.ask(operation, is_success, took);
    }

    /// Count an event of a call.
    pub(crate) fn count(&self, called: &Called, happening: Happening<'_>) {
        self.calls.count(called, happening);
    }

    /// Count the versions of these steps.
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
    /// An operation has succeeded, or failed for good.
    pub(crate) fn count_operation(&self, operation: &Object, has_succeeded: bool) {
        let result = if has_succeeded { "Succeeded" } else { "Failed" };
        let labels = labels(&[("parent", &operation_parent(operation)), ("result", result)]);
        self.operations.add(labels, 1);
    }

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
    fn packages_are_counted_by_kind_and_condition() {
        let metrics = Metrics::default();
        let package = |name: &str, healthy: &str| {
            let conditions = serde_json::json!([
                {"type": "Installed", "status": "True"}, {"type": "Healthy", "status": healthy},
            ]);
            let package =
                serde_json::json!({"metadata": {"name": name}, "status": {"conditions": conditions}});
            package.as_object().unwrap().clone()
        };
        for (name, healthy) in [("a", "False"), ("b", "True"), ("gone", "True"), ("a", "True")] {
            metrics.package(PackageKind::Function, &package(name, healthy));
        }
        metrics.package(PackageKind::Provider, &package("a", "False"));
        metrics.forget_package(PackageKind::Function, "gone");
        metrics.registry_asked("fetch", false, Duration::from_millis(20));
        let text = text(&metrics);
        for line in [
            r#"ferroplane_packages{kind="Function",condition="Healthy",status="True"} 2"#,
            r#"ferroplane_packages{kind="Function",condition="Healthy",status="False"} 0"#,
            r#"ferroplane_packages{kind="Provider",condition="Installed",status="True"} 1"#,
            r#"ferroplane_packages{kind="Provider",condition="Healthy",status="False"} 1"#,
            r#"ferroplane_package_registry_request_seconds_count{operation="fetch",result="error"} 1"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        metrics.forget_packages();
        assert!(!self::text(&metrics).contains("ferroplane_packages{"));
    }

    #[test]
    fn what_was_never_counted_has_a_name_and_no_numbers() {
        let text = text(&Metrics::default());
        assert!(text.contains("# TYPE circuit_breaker_opens_total counter"), "{text}");
        assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
    }
}
