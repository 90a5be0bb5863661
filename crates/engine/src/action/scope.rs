//! The data that templates of an action can use, and how text is rendered with it.
//!
//! Follows Kanister 0.119, pkg/param: a missing key is an error; text, lists and maps are rendered (keys of maps, too), everything else
//! stays as it is. Data of Secrets is bytes, as in Go, so that templates say `toString`.
//!
//! Rendering is repeatable: the same data renders the same text every time, `now` and `randAlphaNum` included. A phase that continues
//! after a restart has the arguments that it began with.
//!
//! # Invariants
//! * All texts that are rendered with one scope share one budget, however many there are.
//! * The data is converted to template values once, and only if there is a template. As in Kanister, a change of a map by one text
//!   (`set`) is visible to the texts after it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use ferroplane_api::Object;
use ferroplane_golang::fmt::Numbers;
use ferroplane_golang::time::rfc3339::Moment;
use ferroplane_template::{Budget, Functions, Heap, Host, MissingKey, Options, Templates, Type, sprig};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The budget of all texts of a scope together. A phase has few texts, and users wait for them.
const BUDGET: Budget = Budget { steps: 1_000_000, memory: 64 << 20, output: 4 << 20, depth: 200 };

/// The most levels of nesting of arguments.
const MAX_DEPTH: usize = 64;

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(sprig::functions);

/// The data for templates, with a fixed clock and repeatable randomness. May contain Secrets.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// `Object`, `Options`, `Phases`, and so on. Bytes are text in base64.
    data: Object,
    /// Milliseconds since 1970.
    now: i64,
    seed: [u8; 32],
    shared: Shared,
}

/// The state that the texts of a scope share. A clone of the scope starts with a new one.
struct Shared {
    /// The remaining budget.
    left: Cell<Budget>,
    /// The data as template values, once a template was executed.
    value: RefCell<Option<(ferroplane_template::Value, Heap)>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { left: Cell::new(BUDGET), value: RefCell::new(None) }
    }
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may contain themselves.
        f.debug_struct("Shared").field("left", &self.left.get()).finish_non_exhaustive()
    }
}

/// Why something cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot render `{field}`: {message}")]
pub struct RenderError {
    /// The path to the text, like `args.command[2]`.
    pub field: String,
    pub message: String,
}

impl Scope {
    /// A scope with this data. `seed` determines the randomness: only the plane knows it.
    pub fn new(data: Object, now: i64, seed: [u8; 32]) -> Self {
        Self { data, now, seed, shared: Shared::default() }
    }

    /// The data as JSON. Bytes are text in base64.
    pub fn data(&self) -> &Object {
        &self.data
    }

    pub(crate) fn into_data(self) -> Object {
        self.data
    }

    /// The time that templates see, in milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    pub(crate) fn data_mut(&mut self) -> &mut Object {
        *self.shared.value.get_mut() = None;
        &mut self.data
    }

    /// The data as template values, for functions that execute templates with other functions or more data.
    pub fn value(&self, heap: &Heap) -> ferroplane_template::Value {
        let fields = self.data.iter().map(|(key, value)| (key.as_str().into(), root(heap, key, value)));
        ferroplane_template::Value::Map(heap.map(&Type::Any, fields.collect()))
    }

    /// The clock and the randomness of this scope, for functions that execute templates themselves.
    pub fn host(&self) -> ScopeHost {
        ScopeHost { now: self.now, seed: self.seed, block: 0, rest: Vec::new() }
    }

    /// Render a text. `field` is the path that an error names.
    pub fn render(&self, field: &str, text: &str) -> Result<String, RenderError> {
        // Most texts are no templates.
        if !text.contains("{{") {
            return Ok(text.to_owned());
        }
        let failed = |message: String| RenderError { field: field.to_owned(), message };
        let options = Options { missing_key: MissingKey::Error, ..Options::default() };
        let templates = Templates::parse(field, text, &options, &FUNCTIONS);
        let templates = templates.map_err(|error| failed(error.to_string()))?;
        let output = self.execute(&templates).map_err(failed)?;
        String::from_utf8(output).map_err(|_| failed("the result is not UTF-8".to_owned()))
    }

    fn execute(&self, templates: &Templates) -> Result<Vec<u8>, String> {
        let mut shared = self.shared.value.borrow_mut();
        let (value, heap) = shared.get_or_insert_with(|| {
            let heap = Heap::new();
            (self.value(&heap), heap)
        });
        let mut left = self.shared.left.get();
        let output = templates.execute_within(value.clone(), heap, &mut self.host(), &mut left);
        self.shared.left.set(left);
        output.map_err(|error| {
            let is_exhausted = error.exhausted.is_some();
            let note =
                if is_exhausted { " (all texts that are rendered at once share this limit)" } else { "" };
            format!("{error}{note}")
        })
    }

    /// Render all text in a value, keys of maps included.
    pub fn render_value(&self, field: &str, value: &Value) -> Result<Value, RenderError> {
        self.render_nested(field, value, 0)
    }

    /// Render all text in an object.
    pub fn render_object(&self, field: &str, object: &Object) -> Result<Object, RenderError> {
        self.render_map(field, object, 0)
    }

    fn render_nested(&self, field: &str, value: &Value, depth: usize) -> Result<Value, RenderError> {
        if depth > MAX_DEPTH {
            let message = format!("it is nested deeper than {MAX_DEPTH} levels");
            return Err(RenderError { field: field.to_owned(), message });
        }
        match value {
            Value::String(text) => self.render(field, text).map(Value::String),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items
                    .map(|(index, item)| self.render_nested(&format!("{field}[{index}]"), item, depth + 1));
                items.collect::<Result<_, _>>().map(Value::Array)
            }
            Value::Object(object) => self.render_map(field, object, depth).map(Value::Object),
            other => Ok(other.clone()),
        }
    }

    fn render_map(&self, field: &str, object: &Object, depth: usize) -> Result<Object, RenderError> {
        let mut rendered = Object::new();
        for (key, value) in object {
            let path = format!("{field}.{key}");
            let key = self.render(&path, key)?;
            rendered.insert(key, self.render_nested(&path, value, depth + 1)?);
        }
        Ok(rendered)
    }
}

/// Convert a field of the root. Only Secrets contain bytes; phases have some of their own.
fn root(heap: &Heap, key: &str, value: &Value) -> ferroplane_template::Value {
    match (key, value) {
        ("Secrets", Value::Object(secrets)) => map(heap, secrets, |_, secret| secret_value(heap, secret)),
        ("Phases", Value::Object(phases)) => map(heap, phases, |_, phase| phase_value(heap, phase)),
        ("CurrentPhase" | "DeferPhase", phase) => phase_value(heap, phase),
        _ => plain(heap, value),
    }
}

fn phase_value(heap: &Heap, phase: &Value) -> ferroplane_template::Value {
    let Value::Object(fields) = phase else { return plain(heap, phase) };
    map(heap, fields, |key, value| match (key, value) {
        ("Secrets", Value::Object(secrets)) => map(heap, secrets, |_, secret| secret_value(heap, secret)),
        _ => plain(heap, value),
    })
}

fn secret_value(heap: &Heap, secret: &Value) -> ferroplane_template::Value {
    let Value::Object(fields) = secret else { return plain(heap, secret) };
    map(heap, fields, |key, value| match (key, value) {
        ("Data", Value::Object(data)) => map(heap, data, |_, value| bytes(value)),
        _ => plain(heap, value),
    })
}

fn bytes(value: &Value) -> ferroplane_template::Value {
    let text = value.as_str().unwrap_or_default();
    let decoded = ferroplane_golang::base64::decode(text.as_bytes()).unwrap_or_default();
    ferroplane_template::Value::Bytes(decoded.as_slice().into())
}

fn plain(heap: &Heap, value: &Value) -> ferroplane_template::Value {
    ferroplane_template::Value::from_json(heap, value, Numbers::AsWritten)
}

fn map(
    heap: &Heap,
    fields: &Object,
    convert: impl Fn(&str, &Value) -> ferroplane_template::Value,
) -> ferroplane_template::Value {
    let fields: BTreeMap<_, _> =
        fields.iter().map(|(key, value)| (key.as_str().into(), convert(key, value))).collect();
    ferroplane_template::Value::Map(heap.map(&Type::Any, fields))
}

/// A fixed clock and repeatable randomness.
#[derive(Debug)]
pub struct ScopeHost {
    now: i64,
    seed: [u8; 32],
    block: u64,
    rest: Vec<u8>,
}

impl Host for ScopeHost {
    fn now(&mut self) -> Option<Moment> {
        let nanoseconds = u32::try_from(self.now.rem_euclid(1000) * 1_000_000).unwrap_or_default();
        Some(Moment { seconds: self.now.div_euclid(1000), nanoseconds })
    }

    fn random(&mut self, buffer: &mut [u8]) -> bool {
        for byte in buffer {
            if self.rest.is_empty() {
                let block = Sha256::new().chain_update(self.seed).chain_update(self.block.to_le_bytes());
                self.rest = block.finalize().to_vec();
                self.block += 1;
            }
            *byte = self.rest.pop().unwrap_or_default();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        let data = json!({
            "Options": {"database": "shop"},
            "Secrets": {"login": {"Name": "login", "Data": {"password": "aHVudGVyMg=="}}},
            "Phases": {"dump": {"Output": {"path": "/a"}, "Secrets": {"login": {"Data": {"user": "bWU="}}}}},
            "Object": {"metadata": {"name": "db", "generation": 3}},
        });
        Scope::new(data.as_object().unwrap().clone(), 1_767_323_045_000, [7; 32])
    }

    #[test]
    fn text_keys_and_lists_are_rendered_and_the_rest_stays() {
        let value =
            json!({"{{ .Options.database }}": ["{{ .Object.metadata.name }}", 3, true, null, {"a": "b"}]});
        let rendered = scope().render_value("args", &value).unwrap();
        assert_eq!(rendered, json!({"shop": ["db", 3, true, null, {"a": "b"}]}));
    }

    #[test]
    fn data_of_secrets_is_bytes_wherever_secrets_are() {
        let render = |text: &str| scope().render("args.x", text).unwrap();
        assert_eq!(render("{{ .Secrets.login.Data.password | toString }}"), "hunter2");
        assert_eq!(render("{{ index .Phases.dump.Secrets.login.Data \"user\" | toString }}"), "me");
        assert_eq!(render("{{ toJson .Phases.dump.Output }}"), r#"{"path":"/a"}"#);
    }

    #[test]
    fn missing_key_is_an_error_that_names_the_field_and_the_key() {
        let error = scope().render_value("args", &json!({"command": ["a", "{{ .Options.nothing }}"]}));
        let error = error.unwrap_err();
        assert_eq!(error.field, "args.command[1]");
        assert!(error.message.contains("map has no entry for key \"nothing\""), "{error}");
    }

    #[test]
    fn rendering_repeats() {
        let text = "{{ now | unixEpoch }} {{ randAlphaNum 12 }}";
        let one = scope().render("args.x", text).unwrap();
        assert_eq!(one, scope().render("args.x", text).unwrap());
        assert!(one.starts_with("1767323045 "), "{one}");
        let other = Scope::new(Object::new(), 0, [8; 32]).render("args.x", text).unwrap();
        assert_ne!(one, other);
    }

    #[test]
    fn many_texts_cost_no_more_than_one_may() {
        let text = "{{ range until 10000 }}x{{ end }}";
        assert!(scope().render_value("args", &json!([text, text])).is_ok());
        let error = scope().render_value("args", &json!(vec![text; 1000])).unwrap_err();
        assert!(error.message.ends_with("share this limit)"), "{error}");
    }

    #[test]
    fn data_becomes_values_once() {
        let text = r#"{{ $x := set .Options "seen" "yes" }}"#;
        let scope = scope();
        let rendered = scope.render_value("args", &json!([text, "{{ .Options.seen }}"])).unwrap();
        assert_eq!(rendered, json!(["", "yes"]));
        // Another call of the phase starts with the original data.
        assert!(scope.clone().render("args.x", "{{ .Options.seen }}").is_err());
    }

    #[test]
    fn template_that_never_ends_is_stopped() {
        let text = "{{ range until 100000000 }}x{{ end }}";
        assert!(scope().render("args.x", text).is_err());
    }
}
