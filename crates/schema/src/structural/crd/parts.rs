//! Parts of a definition that are checked by themselves: names, columns, subresources, selectable fields.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/validation/validation.go`.

use ferroplane_golang::json;

use super::definition::{Column, Names, Subresources};
use crate::field::{BadValue, Error, Path};
use crate::names;
use crate::structural::{Props, field_path, rules};

pub(super) const MAX_SELECTABLE_FIELDS: usize = 8;
const COLUMN_KINDS: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn check_subresources(
    subresources: Option<&Subresources>,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let Some(scale) = subresources.and_then(|subresources| subresources.scale.as_ref()) else { return };
    for (value, name, prefix, place) in [
        (&scale.spec_replicas, "scale.specReplicasPath", ".spec.", ".spec"),
        (&scale.status_replicas, "scale.statusReplicasPath", ".status.", ".status"),
    ] {
        let at = path.child(name);
        if value.is_empty() {
            errors.push(Error::required(&at, ""));
        } else {
            check_path_under(value, value.into(), &[prefix], place, &at, errors);
        }
    }
    if let Some(selector) = scale.label_selector.as_ref().filter(|selector| !selector.is_empty()) {
        // A pointer in Go, which errors print as JSON; plain strings are printed quoted. The two differ in
        // escapes.
        let shown = BadValue::Text(json::marshal(&serde_json::Value::from(selector.as_str())));
        let at = path.child("scale.labelSelectorPath");
        check_path_under(selector, shown, &[".spec.", ".status."], "either .spec or .status", &at, errors);
    }
}

fn check_path_under(
    value: &str,
    shown: BadValue,
    prefixes: &[&str],
    place: &str,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let before = errors.len();
    check_json_path(value, path, errors);
    if errors.len() == before && !prefixes.iter().any(|prefix| value.starts_with(prefix)) {
        errors.push(Error::invalid(path, shown, format!("should be a json path under {place}")));
    }
}

fn check_json_path(value: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    if value.is_empty() {
        errors.push(Error::invalid(path, value, "must not be empty"));
    } else if !value.starts_with('.') {
        errors.push(Error::invalid(path, value, "must be a simple json path starting with ."));
    }
}

pub(super) fn check_column(column: &Column, path: &Path<'_>, errors: &mut Vec<Error>) {
    if column.name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    let kinds = format!("must be one of {}", COLUMN_KINDS.join(","));
    if column.kind.is_empty() {
        errors.push(Error::required(&path.child("type"), kinds));
    } else if !COLUMN_KINDS.contains(&column.kind.as_str()) {
        errors.push(Error::invalid(&path.child("type"), &column.kind, kinds));
    }
    if !column.format.is_empty() && !COLUMN_FORMATS.contains(&column.format.as_str()) {
        let formats = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(Error::invalid(&path.child("format"), &column.format, formats));
    }
    if column.json_path.is_empty() {
        errors.push(Error::required(&path.child("JSONPath"), ""));
    } else {
        check_json_path(&column.json_path, &path.child("JSONPath"), errors);
    }
}

pub(super) fn check_selectable(
    fields: &[String],
    schema: &Props,
    may_be_crowded: bool,
    path: &Path<'_>,
    schema_path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let unreadable = rules::unsupported(schema);
    if let Some(problem) = &unreadable {
        errors.push(Error::invalid(schema_path, "", problem));
    }
    let nothing = Props::default();
    let schema = if unreadable.is_some() { &nothing } else { schema };
    let mut seen: Vec<String> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let at = path.index(index);
        let at = at.child("jsonPath");
        let Some(field_path) = check_selectable_field(field, schema, &at, errors) else { continue };
        if seen.contains(&field_path) {
            errors.push(Error::duplicate(&at, field));
        } else {
            seen.push(field_path);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS && !may_be_crowded {
        let count = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        errors.push(Error::too_many(path, count(seen.len()), count(MAX_SELECTABLE_FIELDS)));
    }
}

/// The field that a path leads to, written in one way, if it is a path.
fn check_selectable_field(
    field: &str,
    schema: &Props,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) -> Option<String> {
    const SCALAR: &str = "must point to a field of type string, boolean or integer. Enum string fields and strings \
        with formats are allowed.";
    if field.is_empty() {
        errors.push(Error::required(path, ""));
        return None;
    }
    let known = match field_path::resolve(field, schema, false) {
        Ok(known) => known,
        Err(problem) => {
            errors.push(Error::invalid(path, field, format!("is an invalid path: {problem}")));
            return None;
        }
    };
    // Names and namespaces can be selected by without being declared.
    if known.root == "metadata" {
        errors.push(Error::invalid(path, field, "must not point to fields in metadata"));
    }
    let is_scalar = |schema: &Props| matches!(schema.kind.as_str(), "string" | "boolean" | "integer");
    if !known.schema.is_some_and(is_scalar) {
        errors.push(Error::invalid(path, field, SCALAR));
    }
    Some(known.path)
}

pub(super) fn check_spec_names(names: &Names, path: &Path<'_>, errors: &mut Vec<Error>) {
    for (name, value) in [
        ("plural", &names.plural),
        ("singular", &names.singular),
        ("kind", &names.kind),
        ("listKind", &names.list_kind),
    ] {
        if value.is_empty() {
            errors.push(Error::required(&path.child(name), ""));
        }
    }
    check_names(names, path, errors);
}

pub(super) fn check_names(names: &Names, path: &Path<'_>, errors: &mut Vec<Error>) {
    let mut check = |path: &Path<'_>, value: &str, is_mixed: bool| {
        let problems = names::old_label(&if is_mixed { value.to_lowercase() } else { value.to_owned() });
        if !problems.is_empty() {
            let mixed = if is_mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(Error::invalid(path, value, format!("{mixed}{}", problems.join(","))));
        }
    };
    for (name, value, is_mixed) in [
        ("plural", &names.plural, false),
        ("singular", &names.singular, false),
        ("kind", &names.kind, true),
        ("listKind", &names.list_kind, true),
    ] {
        if !value.is_empty() {
            check(&path.child(name), value, is_mixed);
        }
    }
    for (index, name) in names.short_names.iter().enumerate() {
        check(&path.child("shortNames").index(index), name, false);
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.child("listKind"), &names.list_kind, detail));
    }
    for (index, category) in names.categories.iter().enumerate() {
        let problems = names::old_label(category);
        if !problems.is_empty() {
            let path = path.child("categories");
            errors.push(Error::invalid(&path.index(index), category, problems.join(",")));
        }
    }
}
