//! Wildcards: `spec.containers[*].name` stands for every container there is.

use serde_json::{Map, Value};

use super::{Error, Nulls, Path, Segment, Segments, get, parse};

impl Path {
    /// The paths this path stands for in this object, without those that lead nowhere.
    ///
    /// The original prints every path and reads it again, so a key with brackets in it is an error, and a key
    /// in quotes is not found.
    pub(crate) fn expand(&self, object: &Map<String, Value>) -> Result<Vec<Path>, Error> {
        let mut found = Vec::new();
        expand(object, self.segments.clone(), 0, self.nulls, &mut found).map_err(|error| {
            let segments = ferroplane_golang::strconv::quote(&Segments(&self.segments).to_string());
            error.wrap(format!("cannot expand wildcards for segments: {segments}"))
        })?;
        // Through text on purpose, with everything that does not survive it.
        let parse = |segments: &Vec<Segment>| {
            Ok(Path { nulls: self.nulls, ..Path::parse(&Segments(segments).to_string())? })
        };
        found.iter().map(parse).collect()
    }
}

/// Replace the first wildcard from `start` on by everything it stands for, and continue behind it. Going on, not
/// starting over: a key that is itself `*` is only a key.
fn expand(
    object: &Map<String, Value>,
    segments: Vec<Segment>,
    start: usize,
    nulls: Nulls,
    found: &mut Vec<Vec<Segment>>,
) -> Result<(), Error> {
    let is_wildcard = |segment: &Segment| matches!(segment, Segment::Field(name) if name == "*");
    let Some(at) = segments[start..].iter().position(is_wildcard).map(|offset| start + offset) else {
        match get(object, &segments, nulls) {
            Ok(_) => found.push(segments),
            // An item that has no such field is passed over, so that a wildcard may lead into lists of unlike
            // items.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        return Ok(());
    };
    for segment in choices(object, &segments[..at], nulls)? {
        let mut expanded = segments.clone();
        expanded[at] = segment;
        let text = Segments(&expanded).to_string();
        expand(object, expanded, at + 1, nulls, found).map_err(|error| {
            error.wrap(format!("{}: cannot expand wildcards", ferroplane_golang::strconv::quote(&text)))
        })?;
    }
    Ok(())
}

/// What a wildcard behind these segments stands for.
fn choices(object: &Map<String, Value>, before: &[Segment], nulls: Nulls) -> Result<Vec<Segment>, Error> {
    let keys = |object: &Map<String, Value>| object.keys().map(|key| parse::field(key)).collect();
    if before.is_empty() {
        return Ok(keys(object));
    }
    let quoted = || ferroplane_golang::strconv::quote(&Segments(before).to_string());
    match get(object, before, nulls) {
        Ok(Value::Array(items)) => Ok((0..items.len()).map(Segment::Index).collect()),
        Ok(Value::Object(object)) => Ok(keys(object)),
        Ok(Value::Null) if nulls == Nulls::Missing => {
            Err(Error::not_found(format!("wildcard field {} is not found in the path", quoted())))
        }
        Ok(_) => Err(Error::new(format!("{}: unexpected wildcard usage", quoted()))),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::object;
    use super::*;

    fn expand(path: &str, value: Value) -> Result<Vec<String>, String> {
        let paths = Path::parse(path).unwrap().expand(&object(value));
        paths
            .map(|paths| paths.iter().map(|path| path.text().to_owned()).collect())
            .map_err(|e| e.to_string())
    }

    fn paths(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn wildcard_stands_for_every_element_and_field() {
        let value =
            json!({"a": [{"x": [1, 2]}, {"x": [3]}, {"y": 1}], "m": {"k": {"v": 1}, "l.m": {"v": 2}}});
        assert_eq!(expand("a[*].x[*]", value.clone()), Ok(paths(&["a[0].x[0]", "a[0].x[1]", "a[1].x[0]"])));
        assert_eq!(expand("m[*].v", value.clone()), Ok(paths(&["m.k.v", "m[l.m].v"])));
        assert_eq!(expand("*", value.clone()), Ok(paths(&["a", "m"])));
        assert_eq!(expand("missing[*].v", value), Ok(paths(&[])));
    }

    #[test]
    fn wildcard_where_nothing_can_be_many_is_an_error() {
        let error = "cannot expand wildcards for segments: \"a[*].b\": \"a\": unexpected wildcard usage";
        assert_eq!(expand("a[*].b", json!({"a": 1})), Err(error.into()));

        let missing = Path::parse("a[*]").unwrap().expand(&object(json!({"a": null}))).unwrap_err();
        assert!(missing.is_not_found());
        let error =
            "cannot expand wildcards for segments: \"a[*]\": wildcard field \"a\" is not found in the path";
        assert_eq!(missing.to_string(), error);
    }

    #[test]
    fn key_that_is_a_wildcard_is_only_a_key() {
        assert_eq!(expand("a[*].b", json!({"a": {"*": {"b": 1}}})), Ok(paths(&["a[*].b"])));
    }

    #[test]
    fn key_that_cannot_be_printed_as_a_path_is_an_error() {
        let error = "cannot parse path \"a.x]\": unexpected ']' at position 3";
        assert_eq!(expand("a[*]", json!({"a": {"x]": 1}})), Err(error.into()));
    }
}
