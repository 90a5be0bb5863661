//! The OpenTelemetry Collector, and what it has received.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferroplane_testkit::free_port;
use serde_json::Value;

use crate::peers::peer;

const PATIENCE: Duration = Duration::from_mins(1);

/// A collector that runs. Ends when it is dropped.
pub(super) struct Collector {
    child: Child,
    pub(super) endpoint: String,
    lines: Arc<Mutex<Vec<String>>>,
}

/// A span, as it was received.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    pub(super) name: String,
    pub(super) attributes: BTreeMap<String, String>,
}

impl Collector {
    /// Nothing if it is not installed.
    pub(super) fn start(directory: &Path) -> Option<Self> {
        let program = peer("otel-collector")?;
        let address = format!("127.0.0.1:{}", free_port());
        let settings = format!(
            "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{address}'}}}}}}}}\n\
             exporters: {{lines: {{}}}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}}}\n  \
             pipelines: {{traces: {{receivers: [otlp], exporters: [lines]}}}}\n"
        );
        let file = directory.join("collector.yaml");
        std::fs::write(&file, settings).unwrap();
        let mut child = Command::new(program)
            .arg(format!("--config=file:{}", file.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (output, received) = (BufReader::new(child.stdout.take().unwrap()), lines.clone());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| received.lock().unwrap().push(line));
        });
        let began = Instant::now();
        while std::net::TcpStream::connect(&address).is_err() {
            assert!(began.elapsed() < PATIENCE, "the collector does not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { child, endpoint: format!("http://{address}"), lines })
    }

    /// Everything that it received, as it said it.
    pub(super) fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        let batches: Vec<Value> =
            self.lines.lock().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let resources = batches.iter().flat_map(|batch| list(&batch["resourceSpans"]));
        let scopes = resources.flat_map(|resource| list(&resource["scopeSpans"]));
        scopes.flat_map(|scope| list(&scope["spans"])).map(|span| Span::read(&span)).collect()
    }

    /// What it received once that is enough.
    pub(super) fn until(&self, is_enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let began = Instant::now();
        loop {
            let spans = self.spans();
            if is_enough(&spans) {
                return spans;
            }
            assert!(began.elapsed() < PATIENCE, "{spans:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Span {
    fn read(span: &Value) -> Self {
        let text = |field: &str| span[field].as_str().unwrap_or_default().to_owned();
        let attributes = span["attributes"].as_array().into_iter().flatten().map(|attribute| {
            let value = attribute["value"].as_object().unwrap().values().next().unwrap();
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (attribute["key"].as_str().unwrap().to_owned(), value)
        });
        Self {
            trace: text("traceId"),
            id: text("spanId"),
            parent: text("parentSpanId"),
            name: text("name"),
            attributes: attributes.collect(),
        }
    }

    pub(super) fn says(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
