//! What a collector receives, and what happens if there is none.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use ferroplane_testkit::free_port;
use tempfile::TempDir;

use super::collector::{Collector, Span};
use super::{Greeter, apply_site, bare, platform};
use crate::peers::peer;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
const QUICK: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "100");

/// It fails once, and for good.
const OPERATION: &str = "
apiVersion: ops.crossplane.io/v1alpha1
kind: Operation
metadata: {name: checked}
spec:
  mode: Pipeline
  retryLimit: 1
  pipeline:
  - step: check
    functionRef: {name: function-cel-validation}
    input:
      apiVersion: validation.fn.ferroplane.io/v1beta1
      kind: Validation
      rules: [{rule: 'false', message: it does not hold}]
";

fn roots(spans: &[Span]) -> Vec<&Span> {
    spans.iter().filter(|span| span.parent.is_empty()).collect()
}

/// The names of what is directly within a span, in no order.
fn children<'a>(spans: &'a [Span], parent: &Span) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.trace == parent.trace && span.parent == parent.id).collect()
}

fn named<'a>(spans: &[&'a Span], name: &str) -> &'a Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

#[test]
fn collector_receives_one_trace_for_each_reconcile_with_its_steps() {
    if peer("kubectl").is_none() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let Some(collector) = Collector::start(directory.path()) else { return };
    let plane = platform(
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint), ("OTEL_SERVICE_NAME", "site-plane")],
        &[],
    );
    apply_site(&plane);
    // What was seen last is sent at the end.
    plane.stop();
    let is_site = |span: &Span| span.name == "reconcile Site";
    let spans = collector.until(|spans| spans.iter().any(is_site));
    assert!(collector.text().contains("site-plane"));

    let roots = roots(&spans);
    for root in &roots {
        assert!(root.name.starts_with("reconcile "), "{root:?}");
        let others = roots.iter().filter(|other| other.trace == root.trace);
        assert_eq!(others.count(), 1, "a trace has two beginnings");
    }
    for span in spans.iter().filter(|span| !span.parent.is_empty()) {
        let has_parent = spans.iter().any(|other| other.id == span.parent && other.trace == span.trace);
        assert!(has_parent, "{span:?} has no parent");
    }

    let first = roots.iter().find(|root| is_site(root)).unwrap();
    for (attribute, value) in [
        ("kind", "Site"),
        ("namespace", "default"),
        ("name", "blog"),
        ("generation", "1"),
        ("composition", "site"),
    ] {
        assert_eq!(first.says(attribute), value, "{first:?}");
    }
    assert!(first.says("revision").starts_with("site-"), "{first:?}");
    assert!(["settled", "later"].contains(&first.says("outcome")), "{first:?}");
    let phases = children(&spans, first);
    named(&phases, "observe");
    named(&phases, "settle");
    let steps = children(&spans, named(&phases, "decide"));
    let step = named(&steps, "step paint");
    for (attribute, value) in [
        ("step", "paint"),
        ("function", "function-patch-and-transform"),
        ("runner", "builtin"),
        ("result", "Normal"),
        ("code", "OK"),
    ] {
        assert_eq!(step.says(attribute), value, "{step:?}");
    }
    assert_ne!(step.says("version"), "", "{step:?}");
    assert!(step.says("function_revision").starts_with("function-patch-and-transform"), "{step:?}");
    named(&steps, "step ready");
    let writes = children(&spans, named(&phases, "apply"));
    let write = named(&writes, "apply ConfigMap");
    assert_eq!(write.says("http.response.status_code"), "201", "{write:?}");
}

#[test]
fn collector_receives_one_trace_for_each_attempt_of_an_operation() {
    if peer("kubectl").is_none() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let Some(collector) = Collector::start(directory.path()) else { return };
    let plane = bare(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint)], &[]);
    plane.told("kubectl apply -f -", OPERATION);
    plane.says("kubectl wait operation/checked --for=condition=Succeeded=False --timeout=60s");
    // What was seen last is sent at the end.
    plane.stop();
    // A look that came too late, and was not allowed to run anything, has a trace, too.
    let is_attempt = |span: &Span| span.name == "reconcile Operation" && !span.says("failure").is_empty();
    let spans = collector.until(|spans| spans.iter().any(is_attempt));
    let attempts: Vec<_> = roots(&spans).into_iter().filter(|root| is_attempt(root)).collect();
    let [attempt] = attempts[..] else { panic!("{attempts:#?}") };
    assert_eq!((attempt.says("kind"), attempt.says("name")), ("Operation", "checked"));
    let steps = children(&spans, attempt);
    assert_eq!(named(&steps, "step check").says("function"), "function-cel-validation");
}

#[test]
fn function_on_the_go_sdk_sees_which_call_it_is_part_of() {
    let (Some(_), Some(mut greeter)) = (peer("kubectl"), Greeter::start()) else { return };
    let directory = TempDir::new().unwrap();
    let Some(collector) = Collector::start(directory.path()) else { return };
    let said = BufReader::new(greeter.words());
    let plane = platform(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &collector.endpoint), QUICK], &[]);
    plane.told("kubectl apply -f -", &greeting(greeter.port));
    apply_site(&plane);
    let line = said.lines().map_while(Result::ok).find(|line| line.contains("traceparent")).unwrap();
    // 00-TRACE-SPAN-01
    let parent: Vec<_> = line.split('"').nth(1).unwrap().split('-').collect();
    let [_, trace, id, flags] = parent[..] else { panic!("{line}") };
    assert_eq!(flags, "01", "{line}");
    let is_it = |span: &Span| span.trace == trace && span.id == id;
    let spans = collector.until(|spans| spans.iter().any(&is_it));
    let call = spans.iter().find(|span| is_it(span)).unwrap();
    assert_eq!(call.says("rpc.system"), "grpc", "{call:?}");
    let step = collector.until(|spans| spans.iter().any(|span| span.id == call.parent));
    let step = step.iter().find(|span| span.id == call.parent).unwrap();
    assert_eq!((step.says("step"), step.says("runner")), ("greet", "grpc"), "{step:?}");
}

/// Has the greeter called, wherever it is.
fn greeting(port: u16) -> String {
    format!(
        "
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata:
  name: greeter
  annotations:
    render.crossplane.io/runtime: Development
    render.crossplane.io/runtime-development-target: 127.0.0.1:{port}
spec: {{package: example.org/greeter:v1.0.0}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {{name: site}}
spec:
  compositeTypeRef: {{apiVersion: example.org/v1, kind: Site}}
  mode: Pipeline
  pipeline:
  - {{step: greet, functionRef: {{name: greeter}}}}
"
    )
}

#[test]
fn endpoint_that_never_answers_or_is_not_there_stops_nobody() {
    if peer("kubectl").is_none() {
        return;
    }
    // Connections are made, and nobody takes them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let closed = format!("http://127.0.0.1:{}", free_port());
    for (endpoint, reason) in [(silent, "queue_full"), (closed, "export_failed")] {
        let little = [("OTEL_BSP_MAX_QUEUE_SIZE", "2"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"), QUICK];
        let plane = platform(&little, &["--otlp-endpoint", &endpoint]);
        apply_site(&plane);
        let dropped = format!("ferroplane_trace_spans_dropped_total{{reason=\"{reason}\"}} ");
        let began = Instant::now();
        loop {
            let text = plane.says("kubectl get --raw /metrics");
            if text.lines().find_map(|line| line.strip_prefix(&dropped)).unwrap() != "0" {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{text}");
        }
        plane.stop();
    }
}

#[test]
fn endpoint_that_is_none_is_refused_without_being_quoted() {
    let directory = TempDir::new().unwrap();
    let mut command = super::up(&directory, &["--otlp-endpoint", "http://who:hunter2@[nowhere"]);
    let said = crate::sandbox::Ran::from(command.output().unwrap()).fails_with(1);
    assert!(said.contains("cannot send traces") && !said.contains("hunter2"), "{said}");
    let mut command = super::up(&directory, &["--otlp-endpoint", "http://127.0.0.1:1"]);
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    let said = crate::sandbox::Ran::from(command.output().unwrap()).fails_with(1);
    assert!(said.contains("only OTLP over gRPC is supported"), "{said}");
}

#[test]
fn nothing_is_sent_when_that_is_switched_off() {
    if peer("kubectl").is_none() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let Some(collector) = Collector::start(directory.path()) else { return };
    let plane = bare(
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint), ("OTEL_SDK_DISABLED", "true")],
        &["--demo"],
    );
    plane.until("The manifests are in examples/demo");
    plane.stop();
    assert_eq!(collector.text(), "");
}
