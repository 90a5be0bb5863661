//! Finds the schema of a kind in an OpenAPI v3 document, and inlines its references.

use ferroplane_api::meta;
use serde_json::{Map, Value, json};

/// The maximum depth of a schema.
const MAX_DEPTH: usize = 64;
/// The maximum size of a schema: in values, and bytes of text.
const MAX_SIZE: usize = 16 << 20;

/// A schema whose references cannot be inlined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the schema is too large or too deep once its references are followed")]
pub struct SchemaTooLarge;

/// The schema of a kind with every reference replaced by its target. Where a schema contains itself, it becomes a plain object.
pub fn inlined_schema(
    document: &Value,
    api_version: &str,
    kind: &str,
) -> Result<Option<Value>, SchemaTooLarge> {
    let schemas = document.get("components").and_then(|components| components.get("schemas")?.as_object());
    let Some(schemas) = schemas else { return Ok(None) };
    let version = meta::version(api_version);
    let group = meta::group(api_version);
    let is_it = |(_, schema): &(&String, &Value)| {
        let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        // Types that serve several kinds, such as `DeleteOptions`, are no kind's schema.
        let Some([only]) = kinds.map(Vec::as_slice) else { return false };
        let text = |key| only.get(key).and_then(Value::as_str).unwrap_or_default();
        text("group") == group && text("version") == version && text("kind") == kind
    };
    let Some((name, schema)) = schemas.iter().find(is_it) else { return Ok(None) };
    Inliner { schemas, within: vec![name], room: MAX_SIZE }.inline(schema, MAX_DEPTH).map(Some)
}

struct Inliner<'a> {
    schemas: &'a Map<String, Value>,
    /// The names of the schemas that are being inlined, from the outermost to the current one.
    within: Vec<&'a str>,
    /// How much larger the schema may become: references to references multiply.
    room: usize,
}

impl<'a> Inliner<'a> {
    fn inline(&mut self, schema: &'a Value, depth: usize) -> Result<Value, SchemaTooLarge> {
        let depth = depth.checked_sub(1).ok_or(SchemaTooLarge)?;
        self.take(1)?;
        Ok(match schema {
            Value::Object(object) => {
                if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
                    return self.follow(reference, depth);
                }
                let fields = object.iter().map(|(key, value)| {
                    self.take(key.len())?;
                    Ok((key.clone(), self.inline(value, depth)?))
                });
                Value::Object(flatten_all_of(fields.collect::<Result<_, _>>()?))
            }
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.inline(item, depth)).collect::<Result<_, _>>()?)
            }
            Value::String(text) => {
                self.take(text.len())?;
                Value::String(text.clone())
            }
            other => other.clone(),
        })
    }

    fn take(&mut self, size: usize) -> Result<(), SchemaTooLarge> {
        self.room = self.room.checked_sub(size).ok_or(SchemaTooLarge)?;
        Ok(())
    }

    fn follow(&mut self, reference: &'a str, depth: usize) -> Result<Value, SchemaTooLarge> {
        let name = reference.rsplit('/').next().unwrap_or_default();
        // Only this chain is checked: the same type may occur any number of times side by side.
        if self.within.contains(&name) {
            return Ok(json!({"type": "object"}));
        }
        let Some(target) = self.schemas.get(name) else { return Ok(Value::Object(Map::new())) };
        self.within.push(name);
        let inlined = self.inline(target, depth);
        self.within.pop();
        inlined
    }
}

/// Kubernetes writes a reference with a description or default as `allOf` of one.
fn flatten_all_of(mut object: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Array(parts)) = object.get("allOf") else { return object };
    if !matches!(parts.as_slice(), [Value::Object(_)]) {
        return object;
    }
    let Some(Value::Array(parts)) = object.remove("allOf") else { return object };
    for part in parts {
        if let Value::Object(part) = part {
            for (key, value) in part {
                // Keywords beside the reference are kept, such as a description.
                object.entry(key).or_insert(value);
            }
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_by_what_they_refer_to() {
        let document = json!({"components": {"schemas": {
            "ConfigMap": {
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}],
                "properties": {"metadata": {"$ref": "#/components/schemas/Meta"}}
            },
            "Meta": {"type": "object", "properties": {"self": {"$ref": "#/components/schemas/Name"}}},
            "Name": {"type": "string"}
        }}});
        let schema = inlined_schema(&document, "v1", "ConfigMap").unwrap().unwrap();
        assert_eq!(
            schema["properties"]["metadata"],
            json!({"type": "object", "properties": {"self": {"type": "string"}}})
        );
        assert_eq!(inlined_schema(&document, "v2", "ConfigMap"), Ok(None));
        assert_eq!(inlined_schema(&document, "v1", "configmap"), Ok(None));
    }

    #[test]
    fn references_that_multiply_are_refused() {
        let mut schemas = Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
            schemas.insert(format!("L{level}"), json!({"allOf": [next, next, next]}));
        }
        schemas["L0"]["x-kubernetes-group-version-kind"] =
            json!([{"group": "", "version": "v1", "kind": "Bomb"}]);
        let document = json!({"components": {"schemas": schemas}});
        assert_eq!(inlined_schema(&document, "v1", "Bomb"), Err(SchemaTooLarge));
    }

    #[test]
    fn schema_that_contains_itself_ends() {
        let document = json!({"components": {"schemas": {
            "Tree": {
                "x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "Tree"}],
                "properties": {"child": {"$ref": "#/components/schemas/Tree"}, "leaf": {"$ref": "#/components/schemas/Leaf"}}
            },
            "Leaf": {"properties": {"tree": {"$ref": "#/components/schemas/Tree"}, "next": {"$ref": "#/components/schemas/Leaf"}}}
        }}});
        let object = json!({"type": "object"});
        assert_eq!(
            inlined_schema(&document, "g/v1", "Tree").unwrap().unwrap()["properties"],
            json!({"child": object, "leaf": {"properties": {"tree": object, "next": object}}})
        );
    }
}
