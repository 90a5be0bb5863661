//! Which fields are secret in objects of which kinds, as the definitions (XRDs) of a control plane say.
//!
//! A definition is about its composite resources and their claims. They turn up in the recordings of others, too: composed by them, required
//! by functions, or wrapped in other objects.

use std::collections::BTreeMap;

use aho_corasick::AhoCorasick;
use ferroplane_api::{Object, meta};
use serde_json::Value;

use crate::sensitive_fields::SensitiveFields;

/// The secret fields of all kinds that have some.
#[derive(Debug, Clone, Default)]
pub(crate) struct SensitiveKinds {
    /// By kind and group.
    by_kind: BTreeMap<String, BTreeMap<String, SensitiveFields>>,
    /// Finds the names of these kinds. None if there are no such kinds.
    finder: Option<AhoCorasick>,
}

impl SensitiveKinds {
    /// The same with a definition that is there now or has changed. None if that makes no difference.
    pub(crate) fn with(&self, definition: &Object) -> Option<Self> {
        let spec = definition.get("spec")?;
        let text = |pointer: &str| spec.pointer(pointer)?.as_str();
        let group = text("/group")?;
        let (fields, _) = SensitiveFields::of(definition);
        let wanted = Some(&fields).filter(|fields| !fields.is_empty());
        let kinds = ["/names/kind", "/claimNames/kind"].into_iter().filter_map(text);
        let changed: Vec<_> = kinds.filter(|kind| self.get(group, kind) != wanted).collect();
        if changed.is_empty() {
            return None;
        }
        let mut by_kind = self.by_kind.clone();
        for kind in changed {
            let groups = by_kind.entry(kind.to_owned()).or_default();
            match wanted {
                Some(fields) => groups.insert(group.to_owned(), fields.clone()),
                None => groups.remove(group),
            };
        }
        by_kind.retain(|_, groups| !groups.is_empty());
        let finder = AhoCorasick::new(by_kind.keys()).expect("names of kinds are few and short");
        Some(Self { finder: (!by_kind.is_empty()).then_some(finder), by_kind })
    }

    /// The secret fields of a kind, if it has some.
    pub(crate) fn get(&self, group: &str, kind: &str) -> Option<&SensitiveFields> {
        self.by_kind.get(kind)?.get(group)
    }

    /// The secret fields of an object, if its kind has some.
    pub(crate) fn of_object(&self, object: &Object) -> Option<&SensitiveFields> {
        // Asked of everything that is searched, and most control planes have no such kinds.
        if self.by_kind.is_empty() {
            return None;
        }
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        self.get(meta::group(text("apiVersion")?), text("kind")?)
    }

    /// Whether an object of such a kind may be in these bytes, in whatever form.
    pub(crate) fn may_be_in(&self, bytes: &[u8]) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.is_match(bytes))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        let Value::Object(object) = value else { panic!("not an object: {value}") };
        object
    }

    fn definition(paths: &str) -> Object {
        object(json!({
            "metadata": {"annotations": {"ferroplane.io/sensitive-fields": paths}},
            "spec": {"group": "example.org", "names": {"kind": "XVault"}, "claimNames": {"kind": "Vault"}},
        }))
    }

    #[test]
    fn kinds_and_their_claims_are_told_apart_from_those_of_other_groups() {
        let none = SensitiveKinds::default();
        let kinds = none.with(&definition("spec.pin")).unwrap();
        for (api_version, kind, is_sensitive) in [
            ("example.org/v1", "XVault", true),
            ("example.org/v2", "Vault", true),
            ("example.com/v1", "Vault", false),
            ("v1", "Vault", false),
            ("example.org/v1", "Safe", false),
        ] {
            let it = object(json!({"apiVersion": api_version, "kind": kind, "spec": {"pin": "1"}}));
            assert_eq!(kinds.of_object(&it).is_some(), is_sensitive, "{it:?}");
            assert!(none.of_object(&it).is_none());
        }
        assert!(kinds.may_be_in(br#"{"kind":"XVault"}"#) && !kinds.may_be_in(br#"{"kind":"Safe"}"#));
        assert!(!none.may_be_in(br#"{"kind":"XVault"}"#));
    }

    #[test]
    fn definition_counts_as_it_is_now() {
        let kinds = SensitiveKinds::default();
        assert!(kinds.with(&definition("")).is_none(), "it makes no difference");
        let kinds = kinds.with(&definition("spec.pin")).unwrap();
        assert!(kinds.with(&definition("spec.pin")).is_none());
        let kinds = kinds.with(&definition("spec.code")).unwrap();
        let (expected, _) = SensitiveFields::of(&definition("spec.code"));
        assert_eq!(kinds.get("example.org", "Vault"), Some(&expected));
        let kinds = kinds.with(&definition("")).unwrap();
        assert!(kinds.get("example.org", "Vault").is_none() && !kinds.may_be_in(b"Vault"));
    }
}
