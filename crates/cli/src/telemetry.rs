//! Log lines, traces, and metrics of the process.
//!
//! A command that runs for long flattens [`Telemetry`] into its arguments, calls [`Telemetry::install`] once, and
//! keeps the [`Installed`] until its end.
//!
//! # Guarantees
//! * Only our own lines and spans are written at all levels. Libraries, which may quote headers, log warnings and errors only.
//! * Without an endpoint for traces there are no spans at all.

mod lines;
mod process;
mod traces;

use std::io::IsTerminal as _;

use anyhow::Context as _;
use ferroplane_metrics::Exposition;
use ferroplane_runner::grpc;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use lines::Lines;
use traces::Traces;

/// How to see what happens
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Telemetry")]
pub(crate) struct Telemetry {
    /// Log level: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", env = "FERROPLANE_LOG")]
    pub(crate) log_level: Option<LevelFilter>,

    /// Format of everything on standard error [default: text]
    #[arg(long, value_name = "FORMAT", env = "FERROPLANE_LOG_FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,

    /// OTLP/gRPC endpoint to send traces to, such as `http://localhost:4317`
    ///
    /// The default is `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`; without any of them, no traces are sent.
    /// The other standard variables are read, too: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
    /// `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_SDK_DISABLED` and more.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
}

/// What log lines look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For programs: an object each
    Json,
}

/// Telemetry that continues until this is dropped. Then what has been seen is sent, if that does not take long.
#[derive(Debug)]
pub(crate) struct Installed {
    traces: Option<Traces>,
}

impl Telemetry {
    /// Whether log lines are JSON. A process without a terminal logs for programs, unless it also prints for users.
    pub(crate) fn is_json(&self, speaks_to_people: bool) -> bool {
        let usual = if speaks_to_people || std::io::stderr().is_terminal() {
            LogFormat::Text
        } else {
            LogFormat::Json
        };
        self.log_format.unwrap_or(usual) == LogFormat::Json
    }

    /// Begins to log and, if an endpoint is configured, to send traces. The level is `usual` unless another one is configured.
    pub(crate) fn install(&self, usual: LevelFilter, is_json: bool) -> anyhow::Result<Installed> {
        let traces = traces::start(self.otlp_endpoint.as_deref()).context("cannot send traces")?;
        let level = self.log_level.unwrap_or(usual);
        let lines = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(lines(is_json))
            .with_writer(std::io::stderr)
            .with_filter(FilterFn::new(move |it| is_line(it, level)).with_max_level_hint(level));
        let spans = traces.as_ref().map(|traces| {
            let is_span = |it: &Metadata<'_>| it.is_span() && is_ours(it) && *it.level() <= Level::DEBUG;
            traces.layer().with_filter(FilterFn::new(is_span).with_max_level_hint(LevelFilter::DEBUG))
        });
        // A test may have set a subscriber of its own already.
        let _ = tracing_subscriber::registry().with(lines).with(spans).try_init();
        Ok(Installed { traces })
    }
}

fn lines(is_json: bool) -> Lines {
    let is_terminal = std::io::stderr().is_terminal();
    Lines { is_json, is_colourful: is_terminal && std::env::var_os("NO_COLOR").is_none() }
}

impl Installed {
    /// The metadata that is sent to functions with requests: the trace context. Empty if there are no traces.
    pub(crate) fn metadata(&self) -> Option<grpc::Metadata> {
        self.traces.as_ref().map(|_| traces::metadata())
    }

    /// Writes metrics of the process and of traces. Can be called at any time.
    pub(crate) fn metrics(&self) -> impl Fn(&mut Exposition) + Send + Sync + 'static {
        let counts = self.traces.as_ref().map(Traces::counts).unwrap_or_default();
        move |page| {
            process::write(page);
            counts.write(page);
        }
    }
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("ferroplane")
}

fn is_line(metadata: &Metadata<'_>, level: LevelFilter) -> bool {
    // Errors about sending traces are logged once, by us.
    let may_speak = is_ours(metadata)
        || (*metadata.level() <= Level::WARN && !metadata.target().starts_with("opentelemetry"));
    *metadata.level() <= level && may_speak
}
