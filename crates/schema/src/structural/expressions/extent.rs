//! How large a schema lets values become, in a request that is not too large.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/cel/common/schemas.go`; apiextensions-apiserver 0.36.4,
//! `pkg/apiserver/schema/cel/compilation.go`.

use std::collections::{BTreeMap, HashSet};

use ferroplane_cel::{Extent, escape};
use serde_json::Value;

use super::declare;
use crate::structural::Props;

/// So many bytes a request can have.
// Kubernetes' limit for a request (`DefaultMaxRequestSizeBytes`): a value cannot be larger than what brought
// it.
const REQUEST: i64 = 3 * 1024 * 1024;

/// How many values of at least this size fit into a request.
pub(super) fn most_in_a_request(least: i64) -> u64 {
    (REQUEST / least.saturating_add(1).max(1)).unsigned_abs()
}

/// How large such a value can be, and the least number of bytes that it takes as JSON. Nothing if expressions cannot see
/// it.
pub(super) fn of(props: &Props, is_resource: bool) -> Option<(Extent, i64)> {
    if props.int_or_string {
        return Some((of_text(props), 1));
    }
    match props.kind.as_str() {
        "array" => {
            let item = declare::item(props, is_resource)?;
            let (element, least) = of(item, item.embedded_resource)?;
            // Two bytes for the brackets, and a comma after each item.
            let most = props.max_items.unwrap_or((REQUEST - 2) / (least + 1));
            Some((Extent { element: Some(Box::new(element)), ..up_to(most) }, 2))
        }
        "object" => match props.additional_schema() {
            Some(value) => {
                let (element, least) = of(value, value.embedded_resource)?;
                // An entry has at least an empty name in quotes, a colon, a comma, and the value.
                let most = props.max_properties.unwrap_or((REQUEST - 2) / (least + 6));
                Some((Extent { element: Some(Box::new(element)), has_keys: true, ..up_to(most) }, 2))
            }
            None => Some(of_fields(props, is_resource)),
        },
        "string" => Some(match props.format.as_str() {
            "byte" => (up_to(props.max_length.unwrap_or(REQUEST - 2)), 2),
            "duration" => (up_to(32), 3),
            "date" => (up_to(12), 12),
            "date-time" => (up_to(32), 21),
            _ => (of_text(props), 2),
        }),
        "boolean" => Some((Extent::default(), 4)),
        "number" | "integer" => Some((Extent::default(), 1)),
        _ => None,
    }
}

fn up_to(most: i64) -> Extent {
    Extent { most: most.max(0).unsigned_abs(), ..Extent::default() }
}

/// Lengths are in characters, each of which may take four bytes.
fn of_text(props: &Props) -> Extent {
    if let Some(length) = props.max_length {
        // Wrapping, because Go multiplies without a check; a huge limit makes a rule cheap there, too.
        return Extent { most: length.max(0).wrapping_mul(4).cast_unsigned(), ..Extent::default() };
    }
    let values = props.values.as_deref().unwrap_or_default();
    if values.is_empty() || props.int_or_string {
        return up_to(REQUEST - 2);
    }
    let longest = values.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0);
    Extent { most: longest as u64, ..Extent::default() }
}

fn of_fields(props: &Props, is_resource: bool) -> (Extent, i64) {
    let mut fields = BTreeMap::new();
    // Braces, and all fields that must be sent: those with a default need not be.
    let mut bytes: i64 = 2;
    let required: HashSet<_> = props.required().iter().collect();
    for (name, property) in declare::fields(props, is_resource) {
        let Some((extent, least)) = of(property, property.embedded_resource) else { continue };
        if required.contains(name) && property.default.is_none() {
            let name = i64::try_from(name.len()).unwrap_or(REQUEST);
            bytes = bytes.saturating_add(name).saturating_add(least).saturating_add(4);
        }
        if let Some(name) = escape(name) {
            fields.insert(name, extent);
        }
    }
    (Extent { fields, ..Extent::default() }, bytes)
}
