//! The labels an object has to have, some of them taken from the composite resource.

use std::collections::BTreeMap;

use ferroplane_golang::strconv::quote;
use serde::Deserialize;

use super::JsonObject;
use crate::fieldpath::Path;

/// A label an object has to have.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LabelMatcher<'a> {
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    key: Option<&'a str>,
    value_from_field_path: Option<&'a str>,
    from_field_path_policy: Option<&'a str>,
    value: Option<&'a str>,
}

/// The labels that all of these ask for.
pub(super) fn resolve(
    matchers: &[LabelMatcher<'_>],
    xr: &JsonObject,
) -> Result<BTreeMap<String, String>, String> {
    let mut labels = BTreeMap::new();
    for matcher in matchers {
        if let Some(value) = matcher.value(xr)? {
            labels.insert(matcher.key.unwrap_or_default().to_owned(), value.to_owned());
        }
    }
    Ok(labels)
}

impl LabelMatcher<'_> {
    /// The value the label has to have. Nothing if it does not matter.
    fn value<'s>(&'s self, xr: &'s JsonObject) -> Result<Option<&'s str>, String> {
        match self.kind.unwrap_or_default() {
            "" | "FromCompositeFieldPath" => self.value_in(xr),
            "Value" => self.value.map(Some).ok_or_else(|| "Value cannot be nil for type 'Value'".to_owned()),
            _ => Ok(None),
        }
    }

    fn value_in<'s>(&'s self, xr: &'s JsonObject) -> Result<Option<&'s str>, String> {
        let path = self
            .value_from_field_path
            .ok_or_else(|| "ValueFromFieldPath cannot be nil for type 'FromCompositeFieldPath'".to_owned())?;
        match Path::parse(path).and_then(|path| path.get_string(xr)) {
            Ok(value) => Ok(Some(value)),
            // Whatever the error is, even a path that is none: so it is in the originals.
            Err(_) if self.from_field_path_policy == Some("Optional") => Ok(None),
            Err(error) => Err(format!("cannot get value from field path {}: {error}", quote(path))),
        }
    }
}
