//! The thread that sends spans, in batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
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
    /// None if nobody wants traces.
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
                "only OTLP over gRPC is spoken, not `{protocol}`: set OTEL_EXPORTER_OTLP_PROTOCOL to grpc"
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

    fn exporter(&self, resource: &Resource) -> anyhow::Result<SpanExporter> {
        let mut builder = SpanExporter::builder().with_tonic().with_endpoint(&self.endpoint);
        if let Some(tls) = &self.tls {
            builder = builder.with_tls_config(tls.clone());
        }
        // Says what is wrong without quoting what it was given: an address can have a password in it.
        let mut exporter = builder
            .build()
            .ok()
            .context("the endpoint cannot be used: it has to be a URL such as http://localhost:4317")?;
        exporter.set_resource(resource);
        Ok(exporter)
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

/// Sends spans until it is over.
pub(super) struct Export {
    pub(super) settings: Settings,
    pub(super) resource: Resource,
    pub(super) spans: mpsc::Receiver<SpanData>,
    pub(super) counts: Arc<Counts>,
    pub(super) is_over: oneshot::Receiver<()>,
}

impl Export {
    /// Says first whether it can.
    pub(super) fn run(mut self, ready: &Sender<anyhow::Result<()>>) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error.into()))),
        };
        runtime.block_on(async {
            match self.settings.exporter(&self.resource) {
                Ok(exporter) => {
                    let _ = ready.send(Ok(()));
                    self.work(exporter).await;
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        });
    }

    async fn work(&mut self, exporter: SpanExporter) {
        let mut is_down = false;
        loop {
            let (batch, is_last) = self.batch().await;
            if !batch.is_empty() {
                self.send(&exporter, batch, &mut is_down).await;
            }
            if is_last && self.spans.is_empty() {
                return;
            }
        }
    }

    /// What has come together, and whether nothing more is to be waited for.
    async fn batch(&mut self) -> (Vec<SpanData>, bool) {
        let mut batch = Vec::new();
        let mut deadline = None;
        while batch.len() < self.settings.batch_size {
            if self.is_over.is_terminated() {
                let Ok(span) = self.spans.try_recv() else { return (batch, true) };
                batch.push(span);
                continue;
            }
            let patience = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = &mut self.is_over => {}
                () = patience => return (batch, false),
                Some(span) = self.spans.recv() => {
                    deadline = deadline.or_else(|| Some(Instant::now() + self.settings.delay));
                    batch.push(span);
                }
            }
        }
        (batch, self.is_over.is_terminated())
    }

    async fn send(&self, exporter: &SpanExporter, batch: Vec<SpanData>, is_down: &mut bool) {
        let count = batch.len() as u64;
        match exporter.export(batch).await {
            Ok(()) => {
                self.counts.exported.fetch_add(count, Ordering::Relaxed);
                if std::mem::take(is_down) {
                    info!("traces are sent again");
                }
            }
            Err(error) => {
                self.counts.failed.fetch_add(count, Ordering::Relaxed);
                // Said once: it will be the same the next time.
                if !std::mem::replace(is_down, true) {
                    warn!(%error, "cannot send traces; they are dropped until that is possible");
                }
            }
        }
    }
}
