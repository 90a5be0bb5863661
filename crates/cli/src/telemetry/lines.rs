//! Log lines: readable for people, JSON for programs. A line carries what the spans around it say it is about.

use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::terminal::harmless::harmless;

/// What spans say about a line. The outermost span is right: within a reconcile, a line is about its composite resource.
const CONTEXT: [&str; 5] = ["kind", "namespace", "name", "step", "function"];

/// How lines are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines {
    pub(super) is_json: bool,
    pub(super) is_colourful: bool,
}

impl<S> FormatEvent<S, JsonFields> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut said = LineFields::default();
        event.record(&mut said);
        for span in ctx.event_scope().into_iter().flat_map(tracing_subscriber::registry::Scope::from_root) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<JsonFields>>();
            let fields: Option<Map<String, Value>> =
                fields.and_then(|fields| serde_json::from_str(&fields.fields).ok());
            said.complete(fields.unwrap_or_default());
        }
        said.put_context_first();
        let metadata = event.metadata();
        if self.is_json {
            said.write_json(&mut writer, *metadata.level(), metadata.target())
        } else {
            said.write_text(&mut writer, *metadata.level(), self.is_colourful)
        }
    }
}

/// What a line says.
#[derive(Debug, Default)]
struct LineFields {
    message: String,
    fields: Vec<(String, Value)>,
}

impl LineFields {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(message)) => self.message = message,
            (name, value) => self.fields.push((name.to_owned(), value)),
        }
    }

    /// Add the fields of a span, unless they are there.
    fn complete(&mut self, mut fields: Map<String, Value>) {
        for name in CONTEXT {
            if let Some(value) = fields.remove(name)
                && !self.fields.iter().any(|(known, _)| known == name)
            {
                self.fields.push((name.to_owned(), value));
            }
        }
    }

    fn put_context_first(&mut self) {
        let place = |name: &str| CONTEXT.iter().position(|known| *known == name).unwrap_or(CONTEXT.len());
        self.fields.sort_by_key(|(name, _)| place(name));
    }

    fn write_json(self, writer: &mut Writer<'_>, level: Level, target: &str) -> fmt::Result {
        let mut object = Map::new();
        for (name, value) in self.fields {
            object.insert(name, value);
        }
        object.insert("timestamp".to_owned(), now().into());
        object.insert("level".to_owned(), level.as_str().into());
        object.insert("target".to_owned(), target.into());
        object.insert("message".to_owned(), self.message.into());
        // JSON leaves some characters that terminals obey as they are.
        writeln!(writer, "{}", harmless(&Value::Object(object).to_string()))
    }

    fn write_text(self, writer: &mut Writer<'_>, level: Level, is_colourful: bool) -> fmt::Result {
        let (dim, bold, plain) = if is_colourful { ("\x1b[2m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
        let colour = match level {
            _ if !is_colourful => "",
            Level::ERROR => "\x1b[31m",
            Level::WARN => "\x1b[33m",
            Level::INFO => "\x1b[32m",
            _ => "\x1b[2m",
        };
        write!(
            writer,
            "{dim}{}{plain} {colour}{level:>5}{plain} {bold}{}{plain}",
            now(),
            harmless(&printable(&self.message))
        )?;
        for (name, value) in self.fields {
            match value {
                // Kinds without namespaces have none.
                Value::String(text) if text.is_empty() => {}
                Value::String(text) if is_word(&text) => {
                    write!(writer, " {dim}{name}={plain}{}", harmless(&text))?;
                }
                // It is shown as JSON, which escapes less than a terminal obeys.
                value => write!(writer, " {dim}{name}={plain}{}", harmless(&value.to_string()))?,
            }
        }
        writeln!(writer)
    }
}

impl Visit for LineFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// Whether it reads well without quotes.
fn is_word(text: &str) -> bool {
    text.chars().all(|character| !character.is_whitespace() && !character.is_control() && character != '"')
}

/// Messages are ours, but their values need not be: they must not move the cursor of a terminal that shows the log.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing::{debug_span, warn};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is logged by this, without times.
    fn logged(is_json: bool, log: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let lines = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(Lines { is_json, is_colourful: false })
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    fn story() {
        let _story = debug_span!("reconcile", kind = "Site", namespace = "", name = "blog").entered();
        let _step = debug_span!("step", step = "paint", function = "function-paint", result = 3).entered();
        let _write = debug_span!("write", kind = "Bucket", name = "other").entered();
        warn!(
            error = "no \x1b[2J luck",
            tries = 3,
            path = "a\u{202e}b",
            output = "c\u{9b}2Jd",
            "cannot paint\u{202e}"
        );
    }

    #[test]
    fn line_says_what_it_is_about_before_anything_else() {
        let line = logged(false, story);
        let (_, said) = line.split_once(' ').unwrap();
        let wanted = " WARN cannot paint\\u202e kind=Site name=blog step=paint function=function-paint \
                      error=\"no \\u001b[2J luck\" tries=3 path=a\\u202eb output=\"c\\u009b2Jd\"\n";
        assert_eq!(said, wanted);
    }

    #[test]
    fn line_for_programs_has_everything_as_fields() {
        let line: Value = serde_json::from_str(&logged(true, story)).unwrap();
        for (field, value) in [
            ("message", "cannot paint\u{202e}"),
            ("level", "WARN"),
            ("kind", "Site"),
            ("name", "blog"),
            ("step", "paint"),
            ("error", "no \u{1b}[2J luck"),
            ("path", "a\u{202e}b"),
            ("output", "c\u{9b}2Jd"),
        ] {
            assert_eq!(line[field], value, "{line}");
        }
    }
}
