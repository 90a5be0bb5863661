//! What controllers log, for tests that read it.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Level, Metadata, Subscriber};

/// As long as there is only one subscriber, `tracing` asks that of the thread which logs from a place in the code first. If that thread is
/// one of another test, which has none, nothing is logged from there any more.
static SECOND: LazyLock<Dispatch> =
    LazyLock::new(|| Dispatch::new(LogRecords { lines: Arc::default(), level: Level::ERROR }));

/// Collects what is logged on this thread, one line each.
#[derive(Clone)]
pub(crate) struct LogRecords {
    lines: Arc<Mutex<Vec<String>>>,
    level: Level,
}

impl LogRecords {
    /// Collect warnings and errors until the guard is dropped. Everything that a test with one thread does is logged on its thread.
    pub(crate) fn collect() -> (Self, DefaultGuard) {
        Self::collect_to(Level::WARN)
    }

    /// The same, down to this level.
    pub(crate) fn collect_to(level: Level) -> (Self, DefaultGuard) {
        let records = Self { lines: Arc::default(), level };
        LazyLock::force(&SECOND);
        let guard = set_default(records.clone());
        (records, guard)
    }

    pub(crate) fn containing(&self, words: &str) -> Vec<String> {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(words)).cloned().collect()
    }
}

impl Subscriber for LogRecords {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let metadata = event.metadata();
        let mut line = LogLine(format!("{} {}:", metadata.level(), metadata.target()));
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A level, a target, and fields as `name=value`.
struct LogLine(String);

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}
