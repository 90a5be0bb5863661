//! Traces by OTLP, from a thread of their own.
//!
//! # Guarantees
//! * Who makes spans never waits: what does not fit is dropped and counted.
//! * An endpoint that is down, slow or silent costs nobody else anything, and at the end two seconds at most.

mod export;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_metrics::{Exposition, labels};
use ferroplane_runner::grpc;
use opentelemetry::propagation::{Injector, TextMapPropagator as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span, SpanData, SpanProcessor};
use tokio::sync::{mpsc, oneshot};
use tracing::Subscriber;
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::registry::LookupSpan;

use export::{Export, Settings};

/// How long to wait at the end for what was seen last to be sent.
const PATIENCE: Duration = Duration::from_secs(2);

/// Traces that are sent. Dropping this sends what is left.
#[derive(Debug)]
pub(super) struct Traces {
    tracer: SdkTracer,
    counts: Arc<Counts>,
    end: Option<oneshot::Sender<()>>,
    ended: Receiver<()>,
}

/// What became of spans.
#[derive(Debug, Default)]
pub(super) struct Counts {
    exported: AtomicU64,
    overflowed: AtomicU64,
    failed: AtomicU64,
}

/// Begin to send traces, if somebody says where to.
pub(super) fn start(endpoint: Option<&str>) -> anyhow::Result<Option<Traces>> {
    let Some(settings) = Settings::read(endpoint)? else { return Ok(None) };
    let resource = Resource::builder()
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    // Otherwise it would be called `unknown_service`.
    let resource =
        if settings.is_named { resource } else { resource.with_service_name("ferroplane") }.build();
    let counts = Arc::<Counts>::default();
    let (sender, spans) = mpsc::channel(settings.queue_size);
    let (end, is_over) = oneshot::channel();
    let (tell_end, ended) = channel();
    let (tell_ready, ready) = channel();
    let export = Export { settings, resource: resource.clone(), spans, counts: counts.clone(), is_over };
    let work = move || {
        export.run(&tell_ready);
        let _ = tell_end.send(());
    };
    std::thread::Builder::new().name("traces".to_owned()).spawn(work).context("cannot start a thread")?;
    ready.recv().context("the thread that sends them ended")??;
    let queue = Queue { sender, counts: counts.clone() };
    let provider = SdkTracerProvider::builder().with_resource(resource).with_span_processor(queue).build();
    Ok(Some(Traces { tracer: provider.tracer("ferroplane"), counts, end: Some(end), ended }))
}

impl Traces {
    /// Makes spans of ours into spans that are sent.
    pub(super) fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.tracer.clone())
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
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

impl Counts {
    pub(super) fn write(&self, page: &mut Exposition) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        page.counter("ferroplane_trace_spans_exported_total", "Spans that were sent.")
            .value(load(&self.exported));
        let mut dropped =
            page.counter("ferroplane_trace_spans_dropped_total", "Spans that were not sent, by why.");
        for (reason, count) in [("queue_full", &self.overflowed), ("export_failed", &self.failed)] {
            dropped.series(&labels(&[("reason", reason)]), load(count));
        }
    }
}

/// Takes spans that have ended, as long as there is room.
#[derive(Debug)]
struct Queue {
    sender: mpsc::Sender<SpanData>,
    counts: Arc<Counts>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.sender.try_send(span).is_err() {
            self.counts.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
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
