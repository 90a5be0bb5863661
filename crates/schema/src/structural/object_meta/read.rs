//! Reads JSON by a table of fields, with the leniency and the messages of Go's decoder.
//!
//! Follows sigs.k8s.io/json of 2025-07-30, `internal/golang/encoding/json/decode.go`.

use ferroplane_golang::json;
use serde_json::{Map, Value};

use super::time;

/// What a field holds.
#[derive(Debug, Clone, Copy)]
enum FieldKind {
    Text(&'static str),
    Integer,
    Flag,
    Time,
    TextMap,
    TextList,
    Structs(&'static Struct, &'static str),
    Anything,
}

/// When a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Omission {
    UnlessEmpty,
    UnlessNull,
    Always,
}

#[derive(Debug)]
struct Struct {
    name: &'static str,
    go_type: &'static str,
    fields: &'static [(&'static str, FieldKind, Omission)],
}

use FieldKind::{Anything, Flag, Integer, Structs, Text, TextList, TextMap, Time};
use Omission::{Always, UnlessEmpty, UnlessNull};

static OBJECT_META: Struct = Struct {
    name: "ObjectMeta",
    go_type: "v1.ObjectMeta",
    fields: &[
        ("name", Text("string"), UnlessEmpty),
        ("generateName", Text("string"), UnlessEmpty),
        ("namespace", Text("string"), UnlessEmpty),
        ("selfLink", Text("string"), UnlessEmpty),
        ("uid", Text("types.UID"), UnlessEmpty),
        ("resourceVersion", Text("string"), UnlessEmpty),
        ("generation", Integer, UnlessEmpty),
        ("creationTimestamp", Time, UnlessEmpty),
        ("deletionTimestamp", Time, UnlessNull),
        ("deletionGracePeriodSeconds", Integer, UnlessNull),
        ("labels", TextMap, UnlessEmpty),
        ("annotations", TextMap, UnlessEmpty),
        ("ownerReferences", Structs(&OWNER_REFERENCE, "[]v1.OwnerReference"), UnlessEmpty),
        ("finalizers", TextList, UnlessEmpty),
        ("managedFields", Structs(&MANAGED_FIELDS, "[]v1.ManagedFieldsEntry"), UnlessEmpty),
    ],
};

static OWNER_REFERENCE: Struct = Struct {
    name: "OwnerReference",
    go_type: "v1.OwnerReference",
    fields: &[
        ("apiVersion", Text("string"), Always),
        ("kind", Text("string"), Always),
        ("name", Text("string"), Always),
        ("uid", Text("types.UID"), Always),
        ("controller", Flag, UnlessNull),
        ("blockOwnerDeletion", Flag, UnlessNull),
    ],
};

static MANAGED_FIELDS: Struct = Struct {
    name: "ManagedFieldsEntry",
    go_type: "v1.ManagedFieldsEntry",
    fields: &[
        ("manager", Text("string"), UnlessEmpty),
        ("operation", Text("v1.ManagedFieldsOperationType"), UnlessEmpty),
        ("apiVersion", Text("string"), UnlessEmpty),
        ("time", Time, UnlessNull),
        ("fieldsType", Text("string"), UnlessEmpty),
        ("fieldsV1", Anything, UnlessNull),
        ("subresource", Text("string"), UnlessEmpty),
    ],
};

/// What is made of the sets of managed fields, which are most of what metadata says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldSets {
    Copied,
    /// They are there, and empty: for checks, none of which looks into them.
    Left,
}

/// Reads metadata.
pub(super) fn read(
    json: &Value,
    sets: FieldSets,
    unknown: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut reader = Reader { first: None, sets, unknown };
    let place = FieldLocation { owner: None, stack: "", path: "" };
    let fields = reader.structure(&OBJECT_META, json, &place)?;
    match reader.first {
        Some(error) => Err(error),
        None => Ok(fields),
    }
}

/// What Go calls the type of decoded JSON.
pub(crate) fn go_type(json: &Value) -> &'static str {
    match json {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

struct Reader<'u> {
    /// The first thing that did not fit. Reading continues, for something worse may come.
    first: Option<String>,
    sets: FieldSets,
    unknown: &'u mut Vec<String>,
}

/// Where reading is.
struct FieldLocation<'p> {
    /// The struct that has the field.
    owner: Option<&'static str>,
    /// Names of fields, as errors have them.
    stack: &'p str,
    /// The same with indices.
    path: &'p str,
}

impl FieldLocation<'_> {
    fn mismatch(&self, found: &str, wanted: &str) -> String {
        match self.owner {
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
            Some(owner) => {
                format!(
                    "json: cannot unmarshal {found} into Go struct field {owner}.{} of type {wanted}",
                    self.stack
                )
            }
        }
    }
}

impl Reader<'_> {
    fn note(&mut self, error: String) {
        self.first.get_or_insert(error);
    }

    fn mismatch(&mut self, place: &FieldLocation<'_>, found: &Value, wanted: &str) {
        self.note(place.mismatch(word(found), wanted));
    }

    /// An error that cannot be read past is returned, others are noted.
    fn structure(
        &mut self,
        of: &'static Struct,
        json: &Value,
        place: &FieldLocation<'_>,
    ) -> Result<Map<String, Value>, String> {
        let mut read = Map::new();
        let empty = Map::new();
        let fields = match json {
            Value::Object(fields) => fields,
            Value::Null => &empty,
            other => {
                self.mismatch(place, other, of.go_type);
                &empty
            }
        };
        for (name, value) in fields {
            let path = join(place.path, name);
            let Some((_, kind, written)) = of.fields.iter().find(|(known, ..)| known == name) else {
                self.unknown.push(path);
                continue;
            };
            let stack = join(place.stack, name);
            let place = FieldLocation { owner: Some(of.name), stack: &stack, path: &path };
            let value = self.value(*kind, value, &place)?;
            if is_written(*written, *kind, value.as_ref()) {
                read.insert(name.clone(), value.unwrap_or(Value::Null));
            }
        }
        for (name, ..) in of.fields.iter().filter(|(.., written)| *written == Always) {
            // Fields without `omitempty` are written even if they were not sent.
            read.entry(*name).or_insert_with(|| Value::from(""));
        }
        Ok(read)
    }

    /// The value as it is kept; nothing if it was null or did not fit.
    fn value(
        &mut self,
        kind: FieldKind,
        json: &Value,
        place: &FieldLocation<'_>,
    ) -> Result<Option<Value>, String> {
        if json.is_null() {
            return Ok(None);
        }
        Ok(match (kind, json) {
            (Anything, Value::Object(_)) if self.sets == FieldSets::Left => Some(Value::Object(Map::new())),
            (Text(_), Value::String(_)) | (Flag, Value::Bool(_)) | (Anything, _) => Some(json.clone()),
            (Text(go_type), _)
            | (
                Structs(_, go_type),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_),
            ) => self.misfit(place, json, go_type),
            (Flag, _) => self.misfit(place, json, "bool"),
            (Integer, _) => self.integer(json, place),
            (Time, Value::String(text)) => Some(time::normalize(text)?.map_or(Value::Null, Value::from)),
            // Times have their own unmarshaller in Go, whose errors end decoding at once; others are noted,
            // and the first is reported.
            (Time, _) => return Err(place.mismatch(word(json), "string")),
            (TextMap, Value::Object(map)) => Some(self.text_map(map, place)),
            (TextMap, _) => self.misfit(place, json, "map[string]string"),
            (TextList, Value::Array(list)) => Some(self.text_list(list, place)),
            (TextList, _) => self.misfit(place, json, "[]string"),
            (Structs(of, _), Value::Array(list)) => Some(self.structs(of, list, place)?),
        })
    }

    fn misfit(&mut self, place: &FieldLocation<'_>, json: &Value, wanted: &str) -> Option<Value> {
        self.mismatch(place, json, wanted);
        None
    }

    fn integer(&mut self, json: &Value, place: &FieldLocation<'_>) -> Option<Value> {
        let Value::Number(number) = json else { return self.misfit(place, json, "int64") };
        let written = json::marshal(json);
        // Go parses the text of the number: a float whose text has neither point nor exponent is an integer
        // to it.
        let integer: Option<i64> = number.as_i64().or_else(|| written.parse().ok());
        if integer.is_none() {
            self.note(place.mismatch(&format!("number {written}"), "int64"));
        }
        integer.map(Value::from)
    }

    fn text(&mut self, json: &Value, place: &FieldLocation<'_>) -> Value {
        match json {
            Value::String(_) => json.clone(),
            Value::Null => Value::from(""),
            other => {
                self.mismatch(place, other, "string");
                Value::from("")
            }
        }
    }

    fn text_map(&mut self, map: &Map<String, Value>, place: &FieldLocation<'_>) -> Value {
        Value::Object(map.iter().map(|(key, value)| (key.clone(), self.text(value, place))).collect())
    }

    fn text_list(&mut self, list: &[Value], place: &FieldLocation<'_>) -> Value {
        Value::Array(list.iter().map(|value| self.text(value, place)).collect())
    }

    fn structs(
        &mut self,
        of: &'static Struct,
        list: &[Value],
        place: &FieldLocation<'_>,
    ) -> Result<Value, String> {
        let mut read = Vec::with_capacity(list.len());
        for (index, json) in list.iter().enumerate() {
            let path = format!("{}[{index}]", place.path);
            let place = FieldLocation { owner: place.owner, stack: place.stack, path: &path };
            read.push(Value::Object(self.structure(of, json, &place)?));
        }
        Ok(Value::Array(read))
    }
}

fn is_written(written: Omission, kind: FieldKind, value: Option<&Value>) -> bool {
    let is_empty = match value {
        None => true,
        Some(Value::Null) => !matches!(kind, Anything),
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Bool(_)) => false,
    };
    match written {
        UnlessEmpty => !is_empty,
        UnlessNull | Always => value.is_some(),
    }
}

/// What the decoder calls a value that does not fit.
fn word(json: &Value) -> &'static str {
    match json {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
