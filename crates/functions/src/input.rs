//! Reads what a step gives its function, as strictly as the originals do: an unknown field is a mistake.
//!
//! Null stands for nothing, wherever it is.

use std::fmt;
use std::marker::PhantomData;

use ferroplane_wire::Struct;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The specification in the input. Without an input, or without one in it, it is as if nothing were set.
pub(crate) fn specification<'a, Spec>(input: Option<&'a Struct>) -> Result<Spec, String>
where
    Spec: Default + Deserialize<'a>,
{
    let input: Option<Input<'a, Spec>> = input.map(read).transpose()?;
    Ok(input.and_then(|input| input.spec).unwrap_or_default())
}

/// The whole input. Without one it is as if nothing were set.
pub(crate) fn whole<'a, T: Default + Deserialize<'a>>(input: Option<&'a Struct>) -> Result<T, String> {
    Ok(input.map(read).transpose()?.unwrap_or_default())
}

fn read<'a, T: Deserialize<'a>>(input: &'a Struct) -> Result<T, String> {
    let json = input.json().map_err(|error| format!("cannot get Function input: {error}"))?;
    serde_path_to_error::deserialize(json).map_err(|error| {
        // That it is borrowed is our business.
        let error = error.to_string().replace("a borrowed string", "a string");
        format!("cannot get Function input: {error}")
    })
}

/// What every input has around its specification, which is all that matters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound = "Spec: Default + Deserialize<'de>")]
struct Input<'a, Spec> {
    #[serde(rename = "apiVersion")]
    _api_version: Option<&'a str>,
    #[serde(rename = "kind")]
    _kind: Option<&'a str>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "object")]
    spec: Option<Spec>,
}

/// Reads an object. Left to itself, serde would also take a list, for the values of its fields in order.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<AnyObject<T>>::deserialize(deserializer)?.map(|object| object.0))
}

/// Reads a list of objects.
pub(crate) fn objects<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    let objects = Option::<Vec<Option<AnyObject<T>>>>::deserialize(deserializer)?;
    let or_default = |object: Option<AnyObject<T>>| object.map(|object| object.0).unwrap_or_default();
    Ok(objects.map(|objects| objects.into_iter().map(or_default).collect()))
}

struct AnyObject<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for AnyObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, rename_all = "camelCase", deny_unknown_fields)]
    struct Spec<'a> {
        name: Option<&'a str>,
        #[serde(borrow, deserialize_with = "objects")]
        parts: Option<Vec<Part<'a>>>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, rename_all = "camelCase", deny_unknown_fields)]
    struct Part<'a> {
        path: Option<&'a str>,
    }

    fn problem(input: Value) -> String {
        let Value::Object(input) = input else { panic!("not an object: {input}") };
        specification::<Spec<'_>>(Some(&Struct::try_from(input).unwrap())).unwrap_err()
    }

    #[test]
    fn null_is_as_good_as_nothing() {
        let Value::Object(input) = json!({"kind": null, "spec": {"name": null, "parts": [null, {}]}}) else {
            unreachable!()
        };
        let input = Struct::try_from(input).unwrap();
        let spec: Spec<'_> = specification(Some(&input)).unwrap();
        assert_eq!(spec, Spec { name: None, parts: Some(vec![Part::default(), Part::default()]) });
        assert_eq!(specification::<Spec<'_>>(None), Ok(Spec::default()));
    }

    #[test]
    fn mistake_is_named_with_its_place() {
        assert_eq!(
            problem(json!({"spec": {"parts": [{}, {"path": 1}]}})),
            "cannot get Function input: spec.parts[1].path: invalid type: integer `1`, expected a string"
        );
        assert_eq!(
            problem(json!({"spec": {"parts": [{"pth": "x"}]}})),
            "cannot get Function input: spec.parts[0].pth: unknown field `pth`, expected `path`"
        );
        assert_eq!(
            problem(json!({"spec": ["x"]})),
            "cannot get Function input: spec: invalid type: sequence, expected an object"
        );
        assert_eq!(
            problem(json!({"sepc": {}})),
            "cannot get Function input: sepc: unknown field `sepc`, expected one of `apiVersion`, `kind`, \
             `metadata`, `spec`"
        );
    }
}
