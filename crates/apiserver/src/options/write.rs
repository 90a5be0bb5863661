//! Options of requests that create or change one object.

use ferroplane_golang::strconv::is_print;
use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::status::Status;
use ferroplane_schema::structural::strict_json::FieldValidation;
use serde_json::{Map, Value, json};

use super::{dry_run, invalid};
use crate::request::Query;

/// The longest name of a manager.
const MAX_MANAGER: usize = 128;

/// Which options these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Create,
    Update,
    Patch,
    Apply,
}

impl WriteKind {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub(crate) manager: String,
    pub(crate) is_dry_run: bool,
    pub(crate) is_forced: bool,
    pub(crate) field_validation: FieldValidation,
    /// What of this the client has said, as webhooks see it.
    pub(crate) said: Map<String, Value>,
}

impl WriteOptions {
    /// Reads the options. A manager that is not named is known by its user agent.
    pub(crate) fn read(query: &Query, kind: WriteKind, user_agent: &str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let manager = query.get("fieldManager");
        let is_forced = query.flag("force");
        let is_patch = matches!(kind, WriteKind::Patch | WriteKind::Apply);
        if kind == WriteKind::Apply && manager.is_empty() {
            errors.push(Error::required(&Path::new("fieldManager"), "is required for apply patch"));
        }
        if is_patch && kind != WriteKind::Apply && query.has("force") {
            errors.push(Error::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
        }
        check_manager(manager, &mut errors);
        let is_dry_run = dry_run(query.all("dryRun"), &mut errors);
        let field_validation = FieldValidation::named(query.get("fieldValidation")).unwrap_or_else(|| {
            let values = ["", "Ignore", "Strict", "Warn"];
            let given = query.get("fieldValidation");
            errors.push(Error::not_supported(&Path::new("fieldValidation"), given, values));
            // Never used: the error above ends the request. All mistakes are reported at once.
            FieldValidation::Warn
        });
        if !errors.is_empty() {
            return Err(invalid(kind.name(), &errors));
        }
        // Only what was said: webhooks see options as the client sent them, without what we assume.
        let said = ["fieldManager", "fieldValidation"].into_iter().filter(|name| !query.get(name).is_empty());
        let said = said.map(|name| (name.to_owned(), query.get(name).into())).collect();
        let manager = if manager.is_empty() { from_user_agent(user_agent) } else { manager.to_owned() };
        Ok(Self { manager, is_dry_run, is_forced, field_validation, said })
    }
}

impl WriteOptions {
    /// The options as webhooks see them: whatever was asked for, in the end something is created or updated.
    pub(crate) fn to_json(&self, creates: bool) -> Value {
        let kind = if creates { WriteKind::Create } else { WriteKind::Update };
        let mut options = self.said.clone();
        options.insert("kind".to_owned(), kind.name().into());
        options.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
        if self.is_dry_run {
            options.insert("dryRun".to_owned(), json!(["All"]));
        }
        Value::Object(options)
    }
}

fn check_manager(manager: &str, errors: &mut Vec<Error>) {
    let path = Path::new("fieldManager");
    if manager.len() > MAX_MANAGER {
        errors.push(Error::too_long(&path, 128));
    }
    if let Some((index, character)) = manager.char_indices().find(|(_, character)| !is_print(*character)) {
        let words = format!("invalid character U+{:04X} (at position {index})", u32::from(character));
        errors.push(Error::invalid(&path, manager, words));
    }
}

/// The name of a program: what stands before its version.
fn from_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for character in name.chars().filter(|character| is_print(*character)) {
        if manager.len() + character.len_utf8() > MAX_MANAGER {
            break;
        }
        manager.push(character);
    }
    if manager.is_empty() { "unknown".to_owned() } else { manager }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, kind: WriteKind) -> Result<WriteOptions, String> {
        let options = WriteOptions::read(&Query::of(query), kind, "kubectl/v1.32.4 (linux/amd64)");
        options.map_err(|status| status.message)
    }

    #[test]
    fn manager_is_named_or_known_by_its_program() {
        assert_eq!(read("fieldManager=me", WriteKind::Create).unwrap().manager, "me");
        assert_eq!(read("", WriteKind::Create).unwrap().manager, "kubectl");
    }

    #[test]
    fn manager_has_only_characters_that_can_be_seen() {
        // A space that is not ASCII's, and one without width: Go prints neither.
        for (query, found) in
            [("a%C2%A0b", "U+00A0 (at position 1)"), ("ab%E2%80%8B", "U+200B (at position 2)")]
        {
            let refused = read(&format!("fieldManager={query}"), WriteKind::Create).unwrap_err();
            assert!(refused.ends_with(&format!("invalid character {found}")), "{refused}");
        }
        assert_eq!(from_user_agent("ab\u{200b}c/v1"), "abc");
    }

    #[test]
    fn who_applies_must_say_who_they_are() {
        assert_eq!(
            read("", WriteKind::Apply).unwrap_err(),
            r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#
        );
    }

    #[test]
    fn wrong_options_are_refused() {
        assert_eq!(
            read("dryRun=Some", WriteKind::Create).unwrap_err(),
            r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All""#
        );
        assert!(read("fieldValidation=Lax", WriteKind::Update).is_err());
        assert!(read("force=true", WriteKind::Patch).is_err());
        assert!(read(&format!("fieldManager={}", "x".repeat(129)), WriteKind::Patch).is_err());
    }
}
