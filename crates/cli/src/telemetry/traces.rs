//! Traces by OTLP. The SDK's batch processor sends spans, from a thread of its own.
//!
//! # Guarantees
//! * Who makes spans never waits: what does not fit is dropped and counted.
//! * An endpoint that is down, slow or silent delays nothing else, and the end of the process by two seconds at most.

mod export;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_metrics::{Exposition, labels};
use ferroplane_runner::grpc;
use opentelemetry::propagation::{Injector, TextMapPropagator as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SdkTracer, SdkTracerProvider, Span, SpanData, SpanProcessor,
};
use tokio::runtime::{self, Runtime};
use tracing::Subscriber;
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::registry::LookupSpan;

use export::{CountingExporter, Settings};

/// How long to wait at the end for what was seen last to be sent.
const PATIENCE: Duration = Duration::from_secs(2);

/// Traces that are sent. Dropping this sends what is left.
#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
    counts: Arc<Counts>,
    /// Where the connection lives.
    runtime: Option<Runtime>,
}

/// What became of spans.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Those that are to be sent.
    waiting: AtomicUsize,
    exported: AtomicU64,
    overflowed: AtomicU64,
    failed: AtomicU64,
}

/// Begin to send traces, if an endpoint is configured.
pub(super) fn start(endpoint: Option<&str>) -> anyhow::Result<Option<Traces>> {
    let Some(settings) = Settings::read(endpoint)? else { return Ok(None) };
    let resource = Resource::builder()
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    // Otherwise it would be called `unknown_service`.
    let resource =
        if settings.is_named { resource } else { resource.with_service_name("ferroplane") }.build();
    let counts = Arc::<Counts>::default();
    // The processor's thread knows no reactor, and there may be no runtime yet. One of its own is never busy with anything else.
    let mut runtime = runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).thread_name("traces").enable_all().build();
    let runtime = runtime.context("cannot start a thread")?;
    let context = runtime.enter();
    let exporter = CountingExporter::new(settings.exporter()?, counts.clone());
    let processor = BatchSpanProcessor::new(exporter, settings.batches());
    let queue = BoundedQueue { processor, size: settings.queue_size, counts: counts.clone() };
    let provider = SdkTracerProvider::builder().with_resource(resource).with_span_processor(queue).build();
    drop(context);
    Ok(Some(Traces { provider, counts, runtime: Some(runtime) }))
}

impl Traces {
    /// Makes spans of ours into spans that are sent.
    pub(super) fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("ferroplane"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
    }

    pub(super) fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // Whether all of it was sent is counted.
        let _ = self.provider.shutdown_with_timeout(PATIENCE);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Counts {
    pub(super) fn write(&self, page: &mut Exposition) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        page.counter("ferroplane_trace_spans_exported_total", "Spans that were exported")
            .value(load(&self.exported));
        let mut dropped =
            page.counter("ferroplane_trace_spans_dropped_total", "Spans that were dropped, by reason");
        for (reason, count) in [("queue_full", &self.overflowed), ("export_failed", &self.failed)] {
            dropped.series(&labels(&[("reason", reason)]), load(count));
        }
    }
}

/// Takes spans that have ended, as long as there is room. The processor's own queue has as much, but does not tell what it drops.
#[derive(Debug)]
struct BoundedQueue {
    processor: BatchSpanProcessor,
    size: usize,
    counts: Arc<Counts>,
}

impl SpanProcessor for BoundedQueue {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        if self.counts.waiting.fetch_add(1, Ordering::Relaxed) < self.size {
            return self.processor.on_end(span);
        }
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counts.overflowed.fetch_add(1, Ordering::Relaxed);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.processor.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.processor.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.processor.set_resource(resource);
    }
}

/// Tells functions which span they are called in.
pub(super) fn metadata() -> grpc::Metadata {
    let propagator = TraceContextPropagator::new();
    grpc::Metadata::new(move |headers| {
        let context = tracing::Span::current().context();
        propagator.inject_context(&context, &mut Headers(headers));
    })
}

struct Headers<'a>(&'a mut http::HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        let (Ok(name), Ok(value)) = (key.parse::<http::HeaderName>(), value.parse::<http::HeaderValue>())
        else {
            return;
        };
        // An empty trace state says nothing.
        if !value.is_empty() {
            self.0.insert(name, value);
        }
    }
}
