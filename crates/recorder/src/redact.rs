//! Redacts secrets in recordings.
//!
//! Secret is what is in `data` and `stringData` of a Secret, wherever one turns up; credentials; connection details; texts and numbers in
//! fields, or in pairs of `name` and `value`, that are named like a password, token or key, also in lists and maps ([`below`]); and fields of
//! composite resources and claims that their definitions call secret. All of it becomes a placeholder, which is the same for the same value. The same values are then looked for in
//! every other text, for functions pass on what they were given.

mod below;
mod field_name;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_engine::composite::decode_secret;
use ferroplane_wire::{Struct, to_hex};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::below::{Description, is_word, stands_alone};
pub use self::field_name::{BadFieldName, FieldName};
use self::field_name::{FieldNames, counts};
use crate::sensitive_fields::SensitiveFields;
use crate::sensitive_kinds::SensitiveKinds;

/// Shorter values are not looked for in other text: they would be found where they are not meant.
const SHORTEST: usize = 6;
/// How placeholders begin.
const PLACEHOLDER: &str = "redacted-";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Makes placeholders: equal ones for equal values of one plane, and different ones on every other plane.
#[derive(Clone)]
pub(crate) struct Redactor {
    key: [u8; 32],
    /// Names of fields with secrets.
    names: FieldNames,
    /// Fields that definitions call secret.
    kinds: SensitiveKinds,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    pub(crate) fn new(key: [u8; 32], names: &[FieldName]) -> Self {
        Self { key, names: FieldNames::new(names), kinds: SensitiveKinds::default() }
    }

    /// The same with a definition (XRD) that is there now or has changed. None if that makes no difference.
    pub(crate) fn with(&self, definition: &Object) -> Option<Self> {
        let kinds = self.kinds.with(definition)?;
        Some(Self { kinds, ..self.clone() })
    }

    /// The fields of a kind that its definition calls secret.
    pub(crate) fn sensitive_fields(&self, api_version: &str, kind: &str) -> Option<&SensitiveFields> {
        self.kinds.get(meta::group(api_version), kind)
    }

    /// What stands for a value.
    fn placeholder(&self, value: &[u8]) -> String {
        // Keyed: without the key, a short password cannot be found by hashing guesses.
        let digest = Sha256::new().chain_update(self.key).chain_update(value).finalize();
        format!("{PLACEHOLDER}{}", to_hex(&digest[..8]))
    }

    /// Whether something may hold secrets.
    pub(crate) fn is_suspicious(&self, bytes: &[u8]) -> bool {
        self.names.may_be_in(bytes) || self.kinds.may_be_in(bytes)
    }

    /// The one rule for what is secret in an object by itself.
    fn judge(&self, object: &Object) -> Judgement<'_> {
        // Environment variables, parameters and the like: an object that gives a name to a value.
        let name = ["name", "key"].into_iter().find_map(|key| object.get(key)?.as_str());
        let has_secret_value = name.is_some_and(|name| self.names.has(name));
        Judgement { redactor: self, is_secret: is_secret(object), has_secret_value }
    }
}

/// What is known of an object before its fields are checked.
struct Judgement<'r> {
    redactor: &'r Redactor,
    is_secret: bool,
    has_secret_value: bool,
}

/// What a field is, as far as secrets are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sensitivity {
    /// Its entries are those of a Secret.
    Data,
    /// It is metadata of a Secret.
    MetadataOfSecret,
    /// Its text or number is a secret.
    Scalar,
    /// The texts and numbers in its list or map are.
    Several,
    /// It is a copy of an object, as JSON.
    Copy,
    /// Something below it may be.
    None,
}

impl Judgement<'_> {
    fn of(&self, key: &str, value: &Value) -> Sensitivity {
        match value {
            Value::Object(_) if self.is_secret && holds_data(key) => Sensitivity::Data,
            Value::Object(_) if self.is_secret && key == "metadata" => Sensitivity::MetadataOfSecret,
            Value::String(text) if text.is_empty() => Sensitivity::None,
            Value::String(_) | Value::Number(_) if self.is_named(key) => Sensitivity::Scalar,
            Value::Array(_) | Value::Object(_) if self.names_several(key) => Sensitivity::Several,
            Value::String(_) if key == LAST_APPLIED => Sensitivity::Copy,
            _ => Sensitivity::None,
        }
    }

    /// Whether a name says that this is a secret.
    fn is_named(&self, key: &str) -> bool {
        self.redactor.names.has(key) || self.has_secret_value && key == "value"
    }

    /// The same for a list or map.
    fn names_several(&self, key: &str) -> bool {
        self.redactor.names.has_several(key) || self.has_secret_value && key == "value"
    }
}

/// The secrets of one reconcile.
#[derive(Debug)]
pub(crate) struct Secrets<'r> {
    redactor: &'r Redactor,
    values: BTreeSet<Vec<u8>>,
    /// What names an object is no secret.
    names: BTreeSet<String>,
    replacements: Option<(AhoCorasick, Vec<String>)>,
    /// Whether there are more than can be looked for.
    pub(crate) are_too_many: bool,
    /// Whether values are also looked for line by line, in every alphabet of base64, and, if they are short, as whole texts.
    is_thorough: bool,
}

impl<'r> Secrets<'r> {
    pub(crate) fn new(redactor: &'r Redactor) -> Self {
        let (values, names) = (BTreeSet::new(), BTreeSet::new());
        Self { redactor, values, names, replacements: None, are_too_many: false, is_thorough: false }
    }

    pub(crate) fn are_there(&self) -> bool {
        !self.values.is_empty()
    }

    pub(crate) fn learn_details(&mut self, details: &BTreeMap<String, Bytes>) {
        self.values.extend(details.values().filter(|value| !value.is_empty()).map(|value| value.to_vec()));
    }

    /// A value that is known to be a secret.
    pub(crate) fn learn_bytes(&mut self, value: &[u8]) {
        // Templates usually trim what they take from a Secret.
        let forms = [value, value.trim_ascii()].into_iter().filter(|value| !value.is_empty());
        self.values.extend(forms.map(<[u8]>::to_vec));
    }

    /// Look for values in more forms. Commands and their output have them in many.
    pub(crate) fn be_thorough(&mut self) {
        self.is_thorough = true;
    }

    pub(crate) fn learn_name(&mut self, name: &str) {
        if name.len() >= SHORTEST {
            self.names.insert(name.to_owned());
        }
    }

    /// Learn the secrets in an object.
    pub(crate) fn learn(&mut self, object: &Struct) {
        // Searches the bytes before anything is decoded; most objects hold nothing that sounds like a secret.
        if self.redactor.is_suspicious(object.wire())
            && let Ok(json) = object.json()
        {
            self.learn_fields(json);
        }
    }

    pub(crate) fn learn_value(&mut self, value: &Value) {
        match value {
            Value::Object(object) => self.learn_fields(object),
            Value::Array(items) => items.iter().for_each(|item| self.learn_value(item)),
            _ => {}
        }
    }

    fn learn_fields(&mut self, object: &Object) {
        if let Some(fields) = self.redactor.kinds.of_object(object) {
            self.learn_sensitive_fields(object, fields);
        }
        let judgement = self.redactor.judge(object);
        for (key, value) in object {
            match (judgement.of(key, value), value) {
                (Sensitivity::Data, Value::Object(data)) => {
                    let values = data.values().filter_map(Value::as_str).filter(|text| !text.is_empty());
                    self.values.extend(values.map(|text| plain(key, text)));
                }
                (Sensitivity::Scalar, value) => {
                    self.values.insert(plain_text(value).into_bytes());
                }
                (Sensitivity::Several, value) => self.learn_several(value, counts(key)),
                // It may be all that is left of a secret.
                (Sensitivity::Copy, Value::String(text)) => {
                    self.learn_value(&serde_json::from_str(text).unwrap_or_default());
                }
                (_, other) => self.learn_value(other),
            }
        }
    }

    /// Learn the secrets in a list or map of secrets. Numbers may be none of them.
    fn learn_several(&mut self, value: &Value, has_counts: bool) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn_several(item, has_counts)),
            Value::Object(object) if stands_alone(object) => self.learn_fields(object),
            Value::Object(object) => {
                let (judgement, description) = (self.redactor.judge(object), Description::of(object));
                for (key, value) in object {
                    match judgement.of(key, value) {
                        Sensitivity::Scalar => {
                            self.values.insert(plain_text(value).into_bytes());
                        }
                        _ if description.keeps(key) => self.learn_value(value),
                        _ => self.learn_several(value, has_counts),
                    }
                }
            }
            Value::String(text) if is_word(text) => {}
            Value::Number(_) if has_counts => {}
            Value::String(_) | Value::Number(_) => {
                self.values.insert(plain_text(value).into_bytes());
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Learn what is secret in a composite resource because its definition says so.
    pub(crate) fn learn_sensitive(&mut self, composite: &Struct, fields: &SensitiveFields) {
        if let Ok(json) = composite.json() {
            self.learn_sensitive_fields(json, fields);
        }
    }

    fn learn_sensitive_fields(&mut self, object: &Object, fields: &SensitiveFields) {
        let values = &mut self.values;
        fields.each(&mut object.clone(), &mut |value| {
            let text = plain_text(value);
            if !text.is_empty() {
                values.insert(text.into_bytes());
            }
        });
    }

    /// From now on, what was learned is looked for.
    pub(crate) fn close(&mut self) {
        let mut replacements = BTreeMap::new();
        for value in &self.values {
            if self.is_thorough {
                self.add_forms(value, &mut replacements);
            }
            let Ok(text) = std::str::from_utf8(value) else { continue };
            // Secrets often end in a line break that is not there where the value is used.
            let text = text.trim();
            if text.len() < SHORTEST || self.names.iter().any(|name| name.contains(text)) {
                continue;
            }
            let placeholder = self.redactor.placeholder(value);
            // Functions pass values on encoded as well as plain. Other encodings are not looked for.
            replacements.insert(STANDARD.encode(value), STANDARD.encode(&placeholder));
            replacements.insert(text.to_owned(), placeholder);
        }
        if replacements.is_empty() {
            return;
        }
        let (texts, placeholders): (Vec<_>, Vec<_>) = replacements.into_iter().unzip();
        let searcher = AhoCorasick::builder()
            // A secret that contains another one is replaced as a whole, or its rest would stay.
            .match_kind(MatchKind::LeftmostLongest)
            // Built for every reconcile and used a few times: a DFA would cost more to build than it saves.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(texts);
        match searcher {
            Ok(searcher) => self.replacements = Some((searcher, placeholders)),
            Err(_) => self.are_too_many = true,
        }
    }

    /// Further forms in which programs print a value: its lines, and all alphabets of base64, also of what is no UTF-8.
    fn add_forms(&self, value: &[u8], replacements: &mut BTreeMap<String, String>) {
        let is_name = |text: &str| self.names.iter().any(|name| name.contains(text));
        if value.trim_ascii().len() < SHORTEST || std::str::from_utf8(value).is_ok_and(is_name) {
            return;
        }
        let placeholder = self.redactor.placeholder(value);
        for alphabet in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
            replacements.entry(alphabet.encode(value)).or_insert_with(|| alphabet.encode(&placeholder));
        }
        let lines = std::str::from_utf8(value).unwrap_or_default().lines().map(str::trim);
        for line in lines.filter(|line| line.len() >= SHORTEST && !is_name(line)) {
            let placeholder = self.redactor.placeholder(line.as_bytes());
            replacements.entry(line.to_owned()).or_insert(placeholder);
        }
    }

    /// Whether a text is a secret that is too short to be looked for in others.
    fn is_short_secret(&self, text: &str) -> bool {
        self.is_thorough && text.len() < SHORTEST && self.values.contains(text.as_bytes())
    }

    /// Text without secrets.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.replacements {
            Some((searcher, placeholders)) if searcher.is_match(text) => {
                Cow::Owned(searcher.replace_all(text, placeholders))
            }
            _ => Cow::Borrowed(text),
        }
    }

    pub(crate) fn details(&self, details: &BTreeMap<String, Bytes>) -> BTreeMap<String, Bytes> {
        let redact = |(key, value): (&String, &Bytes)| (key.clone(), self.bytes(value));
        details.iter().map(redact).collect()
    }

    fn bytes(&self, value: &Bytes) -> Bytes {
        if value.is_empty() { value.clone() } else { self.redactor.placeholder(value).into() }
    }

    /// An object without secrets. None if it has none.
    pub(crate) fn object(&self, object: &Struct) -> Option<Struct> {
        let is_hit = |(searcher, _): &(AhoCorasick, _)| searcher.is_match(&object.wire()[..]);
        if !self.redactor.is_suspicious(object.wire()) && !self.replacements.as_ref().is_some_and(is_hit) {
            return None;
        }
        // Secrets cannot be removed from text that cannot be parsed: then nothing of it is kept.
        let Ok(json) = object.json() else { return Some(Struct::default()) };
        let mut json = json.clone();
        self.fields(&mut json).then(|| Struct::try_from(json).unwrap_or_default())
    }

    /// A composite resource of a kind with these secret fields, without secrets. Functions may leave its kind out. None if it has none.
    pub(crate) fn composite(&self, object: &Struct, fields: &SensitiveFields) -> Option<Struct> {
        let Ok(json) = object.json() else { return Some(Struct::default()) };
        let mut json = json.clone();
        let is_hit = self.sensitive(&mut json, fields) | self.fields(&mut json);
        is_hit.then(|| Struct::try_from(json).unwrap_or_default())
    }

    /// Takes out what a definition calls secret. Returns whether there was any.
    fn sensitive(&self, object: &mut Object, fields: &SensitiveFields) -> bool {
        let mut is_hit = false;
        fields.each(object, &mut |value| {
            is_hit = true;
            self.hide_scalar(value);
        });
        is_hit
    }

    /// Replaces a secret.
    fn hide_scalar(&self, value: &mut Value) {
        match value {
            // A field may be secret for two reasons, and equal values must have equal placeholders.
            Value::String(text) if !text.is_empty() && !is_placeholder(text) => {
                *text = self.redactor.placeholder(text.as_bytes());
            }
            // A caller that reads a number must find one.
            Value::Number(_) => *value = 0.into(),
            _ => {}
        }
    }

    /// Takes secrets out of what kubectl notes of an object: by their names and places, and then by their values, as in any text.
    fn copy(&self, text: &mut String) -> bool {
        let mut is_hit = false;
        if let Ok(mut copy) = serde_json::from_str::<Value>(text)
            && self.value(&mut copy)
        {
            *text = copy.to_string();
            is_hit = true;
        }
        match self.text(text) {
            Cow::Borrowed(_) => is_hit,
            Cow::Owned(redacted) => {
                *text = redacted;
                true
            }
        }
    }

    /// What a run came to, without secrets. The status of its composite resource is of a kind with these secret fields.
    pub(crate) fn outcome(&self, text: &[u8], fields: Option<&SensitiveFields>) -> Vec<u8> {
        let text = self.json(text);
        let Some(fields) = fields else { return text };
        let Ok(mut value) = serde_json::from_slice::<Value>(&text) else { return text };
        let Some(status) = value.pointer_mut("/plan/status") else { return text };
        let mut composite = Object::from_iter([("status".to_owned(), status.take())]);
        self.sensitive(&mut composite, fields);
        *status = composite.remove("status").unwrap_or_default();
        serde_json::to_vec(&value).unwrap_or_default()
    }

    /// JSON text without secrets. In a plan, connection details are known by their place.
    pub(crate) fn json(&self, text: &[u8]) -> Vec<u8> {
        if text.is_empty() || !self.are_there() {
            return text.to_vec();
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return Vec::new() };
        // Taken out first: as base64 in a field of any name, they would be found by value only.
        let details = value.pointer_mut("/plan/connectionDetails").map(Value::take);
        self.value(&mut value);
        if let Some(Value::Object(mut details)) = details {
            for detail in details.values_mut() {
                let bytes = detail.as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
                *detail = STANDARD.encode(self.bytes(&bytes.into())).into();
            }
            value["plan"]["connectionDetails"] = Value::Object(details);
        }
        serde_json::to_vec(&value).unwrap_or_default()
    }

    /// Takes secrets out of a value. Returns whether there were any.
    pub(crate) fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::Object(object) => self.fields(object),
            // Not `any`, which would stop at the first hit and leave the rest as it is.
            Value::Array(items) => items.iter_mut().fold(false, |is_hit, item| self.value(item) | is_hit),
            Value::String(text) if self.is_short_secret(text) => {
                *text = self.redactor.placeholder(text.as_bytes());
                true
            }
            Value::String(text) => match self.text(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(redacted) => {
                    *text = redacted;
                    true
                }
            },
            _ => false,
        }
    }

    fn fields(&self, object: &mut Object) -> bool {
        let sensitive = self.redactor.kinds.of_object(object);
        let mut is_hit = sensitive.is_some_and(|fields| self.sensitive(object, fields));
        let judgement = self.redactor.judge(object);
        for (key, value) in object.iter_mut() {
            is_hit |= match (judgement.of(key, value), value) {
                (Sensitivity::Data, Value::Object(data)) => self.data(key, data),
                (Sensitivity::MetadataOfSecret, Value::Object(metadata)) => {
                    self.last_applied(metadata) | self.fields(metadata)
                }
                (Sensitivity::Scalar, value) => {
                    self.hide_scalar(value);
                    true
                }
                (Sensitivity::Several, value) => self.hide_several(value, counts(key)),
                (Sensitivity::Copy, Value::String(text)) => self.copy(text),
                (_, other) => self.value(other),
            };
        }
        is_hit | (self.is_thorough && self.keys(object))
    }

    /// Takes secrets out of a list or map of secrets. Returns whether there were any. Numbers may be none of them.
    fn hide_several(&self, value: &mut Value, has_counts: bool) -> bool {
        match value {
            Value::Array(items) => {
                items.iter_mut().fold(false, |is_hit, item| self.hide_several(item, has_counts) | is_hit)
            }
            Value::Object(object) if stands_alone(object) => self.fields(object),
            Value::Object(object) => {
                let (judgement, description) = (self.redactor.judge(object), Description::of(object));
                let mut is_hit = false;
                for (key, value) in object.iter_mut() {
                    is_hit |= match judgement.of(key, value) {
                        Sensitivity::Scalar => {
                            self.hide_scalar(value);
                            true
                        }
                        _ if description.keeps(key) => self.value(value),
                        _ => self.hide_several(value, has_counts),
                    };
                }
                is_hit | (self.is_thorough && self.keys(object))
            }
            Value::String(text) if text.is_empty() => false,
            Value::Number(_) if has_counts => false,
            Value::String(_) | Value::Number(_) => {
                self.hide_scalar(value);
                true
            }
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Takes secrets out of the names of fields. Templates of phases may have written them.
    fn keys(&self, object: &mut Object) -> bool {
        let has_secret = |key: &&String| matches!(self.text(key), Cow::Owned(_));
        let hits: Vec<_> = object.keys().filter(has_secret).cloned().collect();
        for key in &hits {
            if let Some(value) = object.remove(key) {
                object.insert(self.text(key).into_owned(), value);
            }
        }
        !hits.is_empty()
    }

    fn data(&self, key: &str, data: &mut Object) -> bool {
        for value in data.values_mut() {
            let Some(text) = value.as_str().filter(|text| !text.is_empty()) else { continue };
            let placeholder = self.redactor.placeholder(&plain(key, text));
            *value = if key == "data" { STANDARD.encode(placeholder) } else { placeholder }.into();
        }
        !data.is_empty()
    }

    /// What kubectl notes of a Secret holds all of it.
    fn last_applied(&self, metadata: &mut Object) -> bool {
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let Some(Value::String(text)) = annotations.and_then(|all| all.get_mut(LAST_APPLIED)) else {
            return false;
        };
        *text = self.redactor.placeholder(text.as_bytes());
        true
    }
}

fn is_placeholder(text: &str) -> bool {
    let digest = text.strip_prefix(PLACEHOLDER).unwrap_or_default();
    digest.len() == 16 && digest.bytes().all(|letter| letter.is_ascii_hexdigit())
}

fn is_secret(object: &Object) -> bool {
    let is = |key: &str, text: &str| object.get(key).is_some_and(|value| value == text);
    is("kind", "Secret") && is("apiVersion", "v1")
}

fn holds_data(key: &str) -> bool {
    key == "data" || key == "stringData"
}

/// What an entry of a Secret is.
fn plain(key: &str, text: &str) -> Vec<u8> {
    // As leniently as an API server: what it takes for a value must be recognised as that value here.
    let decoded = if key == "data" { decode_secret(text) } else { None };
    decoded.map_or_else(|| text.as_bytes().to_vec(), |bytes| bytes.to_vec())
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
