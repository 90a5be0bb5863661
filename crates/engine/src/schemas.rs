//! Finds the schema of a kind in an OpenAPI v3 document, and makes it stand on its own.

use ferroplane_api::meta;
use serde_json::{Map, Value, json};

/// How deep a schema may be.
const MAX_DEPTH: usize = 64;
/// How large a schema may become.
const MAX_NODES: usize = 1_000_000;

/// The schema of a kind with every reference replaced by what it refers to. Where a schema contains itself, it
/// says only that there is an object.
pub fn inlined_schema(document: &Value, api_version: &str, kind: &str) -> Option<Value> {
    let schemas = document.get("components")?.get("schemas")?.as_object()?;
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let group = meta::group(api_version);
    let is_it = |(_, schema): &(&String, &Value)| {
        let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        let Some([only]) = kinds.map(Vec::as_slice) else { return false };
        let text = |key| only.get(key).and_then(Value::as_str).unwrap_or_default();
        text("group") == group && text("version") == version && text("kind") == kind
    };
    let (name, schema) = schemas.iter().find(is_it)?;
    Some(Inliner { schemas, within: vec![name], room: MAX_NODES }.inline(schema, MAX_DEPTH))
}

struct Inliner<'a> {
    schemas: &'a Map<String, Value>,
    /// The names of the schemas that what is being inlined is part of.
    within: Vec<&'a str>,
    /// How many more values the schema may have: references to references multiply.
    room: usize,
}

impl<'a> Inliner<'a> {
    fn inline(&mut self, schema: &'a Value, depth: usize) -> Value {
        let (Some(depth), Some(room)) = (depth.checked_sub(1), self.room.checked_sub(1)) else {
            return Value::Object(Map::new());
        };
        self.room = room;
        match schema {
            Value::Object(object) => {
                if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
                    return self.follow(reference, depth);
                }
                let fields = object.iter().map(|(key, value)| (key.clone(), self.inline(value, depth)));
                Value::Object(flatten_all_of(fields.collect()))
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.inline(item, depth)).collect()),
            other => other.clone(),
        }
    }

    fn follow(&mut self, reference: &'a str, depth: usize) -> Value {
        let name = reference.rsplit('/').next().unwrap_or_default();
        if self.within.contains(&name) {
            return json!({"type": "object"});
        }
        let Some(target) = self.schemas.get(name) else { return Value::Object(Map::new()) };
        self.within.push(name);
        let inlined = self.inline(target, depth);
        self.within.pop();
        inlined
    }
}

/// Kubernetes writes a reference with a description or default as `allOf` of one.
fn flatten_all_of(mut object: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Array(parts)) = object.get("allOf") else { return object };
    let [Value::Object(only)] = parts.as_slice() else { return object };
    let only = only.clone();
    object.remove("allOf");
    for (key, value) in only {
        object.entry(key).or_insert(value);
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
        let schema = inlined_schema(&document, "v1", "ConfigMap").unwrap();
        assert_eq!(
            schema["properties"]["metadata"],
            json!({"type": "object", "properties": {"self": {"type": "string"}}})
        );
        assert_eq!(inlined_schema(&document, "v2", "ConfigMap"), None);
        assert_eq!(inlined_schema(&document, "v1", "configmap"), None);
    }

    #[test]
    fn references_that_multiply_end() {
        let mut schemas = Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
            schemas.insert(format!("L{level}"), json!({"allOf": [next, next, next]}));
        }
        schemas["L0"]["x-kubernetes-group-version-kind"] =
            json!([{"group": "", "version": "v1", "kind": "Bomb"}]);
        assert!(inlined_schema(&json!({"components": {"schemas": schemas}}), "v1", "Bomb").is_some());
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
            inlined_schema(&document, "g/v1", "Tree").unwrap()["properties"],
            json!({"child": object, "leaf": {"properties": {"tree": object, "next": object}}})
        );
    }
}
