//! By which of their fields objects can be selected.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/registry/customresource/strategy.go`.

use std::borrow::Cow;

use ferroplane_golang::{fmt, strconv};
use serde_json::Value;

use super::FieldSelector;
use crate::jsonpath::JsonPath;

/// The fields of a kind that a field selector may name: its name, its namespace, and those that its definition lists.
#[derive(Debug, Clone, Default)]
pub struct SelectableFields {
    /// Where the values are. The first place that has one counts.
    paths: Vec<(String, Vec<JsonPath>)>,
    /// Kinds of Kubernetes that have nothing but name and namespace to select by refuse the rest in words of their own.
    is_plain: bool,
}

impl SelectableFields {
    /// Reads the paths of a definition's `selectableFields`.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self, String> {
        let read =
            |path: &'p str| Ok((path.strip_prefix('.').unwrap_or(path).to_owned(), vec![parse(path)?]));
        Ok(Self { paths: paths.into_iter().map(read).collect::<Result<_, String>>()?, is_plain: false })
    }

    /// The fields of one of Kubernetes' own kinds.
    pub fn of_builtin<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self, String> {
        let fields = Self::new(paths)?;
        Ok(Self { is_plain: fields.paths.is_empty(), ..fields })
    }

    /// The same, and a field whose value is at the first of some places that has one.
    pub fn with(mut self, name: &str, places: &[&str]) -> Result<Self, String> {
        let places = places.iter().map(|place| parse(place)).collect::<Result<_, String>>()?;
        self.paths.push((name.to_owned(), places));
        Ok(self)
    }

    /// Refuses a selector that names other fields.
    pub fn check(&self, selector: &FieldSelector) -> Result<(), String> {
        let is_known = |field: &str| self.paths.iter().any(|(name, _)| name == field);
        let is_known =
            |field: &str| matches!(field, "metadata.name" | "metadata.namespace") || is_known(field);
        let unknown = selector.requirements().iter().find(|requirement| !is_known(&requirement.field));
        if let (true, Some(unknown)) = (self.is_plain, unknown) {
            return Err(format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                strconv::quote(&unknown.field)
            ));
        }
        selector.check_supported(is_known)
    }

    /// Whether an object is selected.
    pub fn matches(&self, selector: &FieldSelector, object: &Value) -> bool {
        selector.requirements().iter().all(|requirement| {
            (self.value(object, &requirement.field) == requirement.value) == requirement.is_equal
        })
    }

    /// The value of a field as text, empty if there is none.
    fn value<'o>(&self, object: &'o Value, field: &str) -> Cow<'o, str> {
        let metadata = |name: &str| object.get("metadata").and_then(|metadata| metadata.get(name)?.as_str());
        match field {
            "metadata.name" => return metadata("name").unwrap_or_default().into(),
            "metadata.namespace" => return metadata("namespace").unwrap_or_default().into(),
            _ => {}
        }
        let places = self.paths.iter().find(|(name, _)| name == field).map(|(_, places)| places);
        let values = places.into_iter().flatten().map(|place| text_at(place, object));
        values.into_iter().find(|text| !text.is_empty()).unwrap_or_default().into()
    }
}

fn parse(path: &str) -> Result<JsonPath, String> {
    JsonPath::parse(path).map_err(|error| format!("unexpected error parsing jsonPath: {error}"))
}

fn text_at(place: &JsonPath, object: &Value) -> String {
    let found = place.find(object).unwrap_or_default();
    match found.first().and_then(|found| found.first()?.as_json()) {
        None | Some(Value::Null) => String::new(),
        // Booleans and integers are compared as text, as the paths of a definition may point to them.
        Some(value) => fmt::plain(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_selected_by_their_fields() {
        let fields = SelectableFields::new([".spec.size", ".spec.on"]).unwrap();
        let object = json!({"metadata": {"name": "a"}, "spec": {"size": 3, "on": true}});
        let is_selected = |text: &str| {
            let selector = FieldSelector::parse(text).unwrap();
            fields.check(&selector).unwrap();
            fields.matches(&selector, &object)
        };
        assert!(is_selected("metadata.name=a,spec.size=3,spec.on=true,metadata.namespace="));
        assert!(!is_selected("spec.size!=3"));
    }

    #[test]
    fn other_fields_are_refused() {
        let selector = FieldSelector::parse("spec.color=red").unwrap();
        let error = SelectableFields::default().check(&selector).unwrap_err();
        assert_eq!(error, "field label not supported: spec.color");
        let selector = FieldSelector::parse("spec.color=red").unwrap();
        let error = SelectableFields::of_builtin([]).unwrap().check(&selector).unwrap_err();
        let expected =
            r#""spec.color" is not a known field selector: only "metadata.name", "metadata.namespace""#;
        assert_eq!(error, expected);
    }
}
