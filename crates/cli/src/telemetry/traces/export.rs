//! Exports spans, and counts those that were sent and dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchConfig, BatchConfigBuilder, SpanData, SpanExporter};
use tracing::{info, warn};

use super::Counts;

/// How traces are sent, from the standard variables.
#[derive(Debug)]
pub(super) struct Settings {
    endpoint: String,
    pub(super) queue_size: usize,
    batch_size: usize,
    /// How long a batch may wait to become larger.
    delay: Duration,
    /// Whether the environment says what we are called.
    pub(super) is_named: bool,
    tls: Option<ClientTlsConfig>,
}

/// A variable of the environment, unless it is empty, which means the same as if it were not there.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// A variable for traces, or else for everything.
fn either(name: &str) -> Option<String> {
    let specific = variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
    specific.or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
}

fn number(name: &str, usual: usize) -> usize {
    variable(name).and_then(|value| value.trim().parse().ok()).filter(|number| *number > 0).unwrap_or(usual)
}

impl Settings {
    /// None if no endpoint is configured.
    pub(super) fn read(endpoint: Option<&str>) -> anyhow::Result<Option<Self>> {
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        let Some(endpoint) = endpoint.map(str::to_owned).or_else(|| either("ENDPOINT")) else {
            return Ok(None);
        };
        if is_off {
            return Ok(None);
        }
        if let Some(protocol) = either("PROTOCOL").filter(|protocol| protocol != "grpc") {
            anyhow::bail!(
                "only OTLP over gRPC is supported, not `{protocol}`: set OTEL_EXPORTER_OTLP_PROTOCOL to grpc"
            );
        }
        let endpoint = if endpoint.contains("://") { endpoint } else { format!("http://{endpoint}") };
        let is_named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|all| all.contains("service.name="));
        let delay = number("OTEL_BSP_SCHEDULE_DELAY", 5_000);
        let queue_size = number("OTEL_BSP_MAX_QUEUE_SIZE", 2_048);
        Ok(Some(Self {
            tls: endpoint.starts_with("https://").then(tls).transpose()?,
            endpoint,
            queue_size,
            batch_size: number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512).min(queue_size),
            delay: Duration::from_millis(delay.try_into().unwrap_or(u64::MAX)),
            is_named,
        }))
    }

    /// How spans come together.
    pub(super) fn batches(&self) -> BatchConfig {
        BatchConfigBuilder::default()
            .with_max_queue_size(self.queue_size)
            .with_max_export_batch_size(self.batch_size)
            .with_scheduled_delay(self.delay)
            .build()
    }

    pub(super) fn exporter(&self) -> anyhow::Result<OtlpExporter> {
        let mut builder = OtlpExporter::builder().with_tonic().with_endpoint(&self.endpoint);
        if let Some(tls) = &self.tls {
            builder = builder.with_tls_config(tls.clone());
        }
        // Says what is wrong without quoting what it was given: an address can have a password in it.
        builder
            .build()
            .ok()
            .context("the endpoint cannot be used: it has to be a URL such as http://localhost:4317")
    }
}

/// Whom to trust, and who we are, as far as the environment says so.
fn tls() -> anyhow::Result<ClientTlsConfig> {
    let read = |name: &str| {
        let file = either(name);
        file.map(|path| std::fs::read(&path).with_context(|| format!("cannot read `{path}`"))).transpose()
    };
    let mut tls = ClientTlsConfig::new();
    tls = match read("CERTIFICATE")? {
        Some(authority) => tls.ca_certificate(Certificate::from_pem(authority)),
        None => tls.with_enabled_roots(),
    };
    if let (Some(certificate), Some(key)) = (read("CLIENT_CERTIFICATE")?, read("CLIENT_KEY")?) {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    Ok(tls)
}

/// Sends spans, counts what became of them, and says when that begins or ceases to work.
#[derive(Debug)]
pub(super) struct CountingExporter {
    exporter: OtlpExporter,
    counts: Arc<Counts>,
    is_down: AtomicBool,
}

impl CountingExporter {
    pub(super) fn new(exporter: OtlpExporter, counts: Arc<Counts>) -> Self {
        Self { exporter, counts, is_down: AtomicBool::new(false) }
    }
}

impl SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        self.counts.waiting.fetch_sub(count, Ordering::Relaxed);
        let result = self.exporter.export(batch).await;
        match &result {
            Ok(()) => {
                self.counts.exported.fetch_add(count as u64, Ordering::Relaxed);
                if self.is_down.swap(false, Ordering::Relaxed) {
                    info!("traces can be sent again");
                }
            }
            Err(error) => {
                self.counts.failed.fetch_add(count as u64, Ordering::Relaxed);
                // Said once: it will be the same the next time.
                if !self.is_down.swap(true, Ordering::Relaxed) {
                    warn!(%error, "cannot send traces; they are dropped until that is possible");
                }
            }
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
