//! What is wrong with a definition.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/validation/validation.go`.

use std::collections::HashSet;

use ferroplane_golang::{json, strconv};

use super::definition::{DefinedVersion, Definition, Subresources};
use super::parts::{check_column, check_names, check_selectable, check_spec_names, check_subresources};
use super::strictness::{Strictness, is_structural};
use super::{approval, check_schema, conversion, defaults};
use crate::field::{BadValue, Error, Path};
use crate::names;
use crate::structural::{Props, object_meta, rules};

/// What is wrong with a new definition.
pub fn validate(definition: &Definition) -> Vec<Error> {
    let required = format!("{}.{}", definition.names.plural, definition.group);
    let name_check = |name: &str, is_prefix: bool| {
        let masked = if is_prefix { names::mask_trailing_dash(name) } else { name.to_owned() };
        let mut problems = names::subdomain(&masked);
        if name != required {
            problems.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        problems
    };
    let mut errors = object_meta::check(&definition.metadata, false, &name_check, &Path::new("metadata"));
    check_spec(definition, &Strictness::for_new(), &mut errors);
    check_rest(definition, None, &mut errors);
    errors
}

/// What is wrong with a definition that replaces an old one.
pub fn validate_update(definition: &Definition, old: &Definition) -> Vec<Error> {
    let strictness = Strictness::for_update(definition, old);
    let mut errors = object_meta::check_update(&definition.metadata, &old.metadata, &Path::new("metadata"));
    check_spec(definition, &strictness, &mut errors);
    let spec = Path::new("spec");
    let names = spec.child("names");
    let mut is_fixed = |path: &Path<'_>, new: &str, old: &str| {
        if new != old {
            // These have types of their own, which are shown as JSON.
            errors.push(Error::invalid(path, new, "field is immutable"));
        }
    };
    // Before a kind is established there can be no stored objects of it.
    if strictness.has_immutable_names {
        is_fixed(&spec.child("scope"), &definition.scope, &old.scope);
        is_fixed(&names.child("kind"), &definition.names.kind, &old.names.kind);
    }
    is_fixed(&spec.child("group"), &definition.group, &old.group);
    is_fixed(&names.child("plural"), &definition.names.plural, &old.names.plural);
    check_rest(definition, Some(old), &mut errors);
    errors
}

fn check_rest(definition: &Definition, old: Option<&Definition>, errors: &mut Vec<Error>) {
    let status = Path::new("status");
    check_names(&definition.accepted_names, &status.child("acceptedNames"), errors);
    check_stored(definition, &status.child("storedVersions"), errors);
    approval::check(definition, old, errors);
    if definition.preserve_unknown_fields && !old.is_some_and(|old| old.preserve_unknown_fields) {
        errors.push(Error::invalid(
            &Path::new("spec").child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
}

fn check_stored(definition: &Definition, path: &Path<'_>, errors: &mut Vec<Error>) {
    let stored = definition.stored_versions.as_deref().unwrap_or_default();
    let shown = || match &definition.stored_versions {
        None => BadValue::Json(serde_json::Value::Null),
        Some(stored) => BadValue::Json(stored.clone().into()),
    };
    if stored.is_empty() {
        errors.push(Error::invalid(path, shown(), "must have at least one stored version"));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for version in &definition.versions {
        let is_known = stored.contains(&version.name) && !seen.contains(&version.name.as_str());
        if version.is_storage && !is_known {
            errors.push(Error::invalid(
                path,
                shown(),
                format!("must have the storage version {}", version.name),
            ));
        }
        seen.push(&version.name);
    }
    for (index, name) in stored.iter().enumerate() {
        // Kubernetes keeps the index of the last of several equal names in a map.
        let is_last = !stored[index + 1..].contains(name);
        if is_last && !definition.versions.iter().any(|version| version.name == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(index), name, detail));
        }
    }
}

fn check_spec(definition: &Definition, strictness: &Strictness, errors: &mut Vec<Error>) {
    let path = Path::new("spec");
    let mut strictness = strictness.clone();
    strictness.versions = definition.versions.len();
    check_group(&definition.group, &path.child("group"), errors);
    one_of(&path.child("scope"), &definition.scope, &["Cluster", "Namespaced"], errors);
    // Pruning needs to know all fields.
    if !definition.preserve_unknown_fields {
        strictness.requires_structural = true;
    }
    check_schemas_there(definition, &strictness, &path.child("versions"), errors);
    // Defaults and extensions work on structural schemas only, so that using one makes all requirements
    // count.
    if definition.schemas().any(|schema| schema.has(&mut |schema| schema.default.is_some())) {
        strictness.requires_structural = true;
        if definition.preserve_unknown_fields {
            let detail = "must be false in order to use defaults in the schema";
            errors.push(Error::invalid(&path.child("preserveUnknownFields"), true, detail));
        }
    }
    if definition.schemas().any(|schema| schema.has(&mut check_schema::has_extension)) {
        strictness.requires_structural = true;
    }
    check_versions(definition, &strictness, &path, errors);
    check_spec_names(&definition.names, &path.child("names"), errors);
    check_common(definition, &strictness, &path, errors);
    if let Some(conversion) = &definition.conversion {
        let at = path.child("conversion");
        if conversion.strategy != "None" && definition.preserve_unknown_fields {
            let detail = "must be None if spec.preserveUnknownFields is true";
            errors.push(Error::invalid(&at.child("strategy"), &conversion.strategy, detail));
        }
        let rules = conversion::ConversionRules {
            requires_understood_version: strictness.requires_understood_review,
            allows_invalid_bundle: strictness.allows_invalid_bundle,
        };
        conversion::check(conversion, &rules, &at, errors);
    }
}

fn check_group(group: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    let problems = names::subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !problems.is_empty() {
        errors.push(Error::invalid(path, group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(path, group, "should be a domain with at least one dot"));
    }
}

/// Says so if the text is none of those.
pub(super) fn one_of(path: &Path<'_>, value: &str, accepted: &[&str], errors: &mut Vec<Error>) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !accepted.contains(&value) {
        errors.push(Error::not_supported(path, value, accepted));
    }
}

fn check_schemas_there(
    definition: &Definition,
    strictness: &Strictness,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    if definition.common.schema.as_ref().is_some_and(Option::is_some) {
        return;
    }
    let lacking = definition.versions.iter().enumerate();
    let lacking = lacking.filter(|(_, version)| version.schema.as_ref().is_none_or(Option::is_none));
    for (index, version) in lacking {
        let version_path = path.index(index);
        let schema_path = version_path.child("schema");
        let at = schema_path.child("openAPIV3Schema");
        if strictness.requires_schema {
            errors.push(Error::required(&at, ""));
        } else if !definition.preserve_unknown_fields && version.is_served {
            errors.push(Error::required(&at, "because otherwise all fields are pruned"));
        }
    }
}

fn check_versions(
    definition: &Definition,
    strictness: &Strictness,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let versions = &definition.versions;
    let at = path.child("versions");
    let has_own_subresources = versions.iter().any(|version| version.subresources.is_some());
    for (index, version) in versions.iter().enumerate() {
        let at = at.index(index);
        let problems = names::old_label(&version.name);
        if !problems.is_empty() {
            errors.push(Error::invalid(&at.child("name"), &version.name, problems.join(",")));
        }
        let subresources = if has_own_subresources {
            // Of versions with the same name, the first speaks for all.
            versions.iter().find(|it| it.name == version.name).and_then(|it| it.subresources.as_ref())
        } else {
            definition.common.subresources.as_ref()
        };
        let has_status = subresources.is_some_and(|subresources| subresources.has_status);
        check_version(version, has_status, &strictness.for_version(&version.name), &at, errors);
    }
    let mut seen = HashSet::with_capacity(versions.len());
    if !versions.iter().all(|version| seen.insert(&version.name)) {
        errors.push(Error::invalid(&at, definition.shown_versions(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version.is_storage).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(&at, definition.shown_versions(), detail));
    }
    // The internal form has a field `version` with the first one's name, and the same mistake is reported there again.
    if let Some(first) = versions.first().filter(|version| !version.name.is_empty()) {
        let problems = names::old_label(&first.name);
        if !problems.is_empty() {
            errors.push(Error::invalid(&path.child("version"), &first.name, problems.join(",")));
        }
    }
}

fn check_version(
    version: &DefinedVersion,
    has_status: bool,
    strictness: &Strictness,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    for problem in deprecation_problems(version) {
        let shown = serde_json::Value::from(version.deprecation_warning.as_deref());
        let shown = BadValue::Text(json::marshal(&shown));
        errors.push(Error::invalid(&path.child("deprecationWarning"), shown, problem));
    }
    check_validation(version.schema.as_ref(), has_status, strictness, &path.child("schema"), errors);
    check_subresources(version.subresources.as_ref(), &path.child("subresources"), errors);
    for (index, column) in version.columns.iter().flatten().enumerate() {
        check_column(column, &path.child("additionalPrinterColumns").index(index), errors);
    }
    let Some(fields) = version.selectable_fields.as_ref().filter(|fields| !fields.is_empty()) else { return };
    let at = path.child("selectableFields");
    match version.schema.as_ref().and_then(Option::as_ref) {
        None => errors.push(Error::invalid(
            &at,
            "",
            "may only be set when `version.schema.openAPIV3Schema` is not included",
        )),
        Some(schema) => {
            let may_be_crowded = strictness.crowded.contains(&version.name);
            check_selectable(
                fields,
                schema,
                may_be_crowded,
                &at,
                &path.child("schema.openAPIV3Schema"),
                errors,
            );
        }
    }
}

fn deprecation_problems(version: &DefinedVersion) -> Vec<String> {
    let Some(warning) = &version.deprecation_warning else { return Vec::new() };
    if !version.is_deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut problems = Vec::new();
    if warning.len() > 256 {
        problems.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        problems.push("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| !strconv::is_print(*character)) {
        problems.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
    problems
}

fn check_common(definition: &Definition, strictness: &Strictness, path: &Path<'_>, errors: &mut Vec<Error>) {
    let common = &definition.common;
    let has_status = |it: &Subresources| it.has_status;
    let has_any_status = common.subresources.as_ref().is_some_and(has_status)
        || definition.versions.iter().any(|version| version.subresources.as_ref().is_some_and(has_status));
    let first = definition.versions.first().map_or("", |version| &version.name);
    let of_version = strictness.for_version(first);
    check_validation(common.schema.as_ref(), has_any_status, &of_version, &path.child("validation"), errors);
    check_subresources(common.subresources.as_ref(), &path.child("subresources"), errors);
    for (index, column) in common.columns.iter().flatten().enumerate() {
        check_column(column, &path.child("additionalPrinterColumns").index(index), errors);
    }
    let Some(fields) = common.selectable_fields.as_ref().filter(|fields| !fields.is_empty()) else { return };
    let at = path.child("selectableFields");
    match &common.schema {
        None => errors.push(Error::invalid(&at, "", "may only be set when validations.schema is included")),
        Some(schema) => {
            let nothing = Props::default();
            let may_be_crowded = strictness.crowded.iter().any(String::is_empty);
            let schema = schema.as_ref().unwrap_or(&nothing);
            check_selectable(
                fields,
                schema,
                may_be_crowded,
                &at,
                &path.child("schema.openAPIV3Schema"),
                errors,
            );
        }
    }
}

fn check_validation(
    validation: Option<&Option<Props>>,
    has_status: bool,
    strictness: &Strictness,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let Some(Some(schema)) = validation else { return };
    let at = path.child("openAPIV3Schema");
    let before = errors.len();
    if has_status {
        let shown = || {
            let looks_at_defaults = strictness.requires_structural && is_structural(schema);
            if looks_at_defaults { defaults::coerced(schema).shown() } else { schema.shown() }
        };
        check_schema::check_root_with_status(schema, shown, path, &at, errors);
    }
    if schema.nullable {
        errors.push(Error::forbidden(
            &path.child("openAPIV3Schema.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let mut unreadable = None;
    let mut may_have_rules = false;
    if strictness.requires_structural {
        if let Some(problem) = rules::unsupported(schema) {
            unreadable = Some(Error::invalid(&at, "", problem));
        } else {
            let mut found = rules::check(schema, &at);
            if found.is_empty() {
                found = defaults::check(schema, strictness, &at);
            }
            may_have_rules = found.is_empty();
            errors.extend(found);
        }
    }
    check_schema::check(schema, strictness, may_have_rules, &at, errors);
    // That a schema cannot be converted at all is reported only if nothing more precise was found.
    if errors.len() == before {
        errors.extend(unreadable);
    }
}
