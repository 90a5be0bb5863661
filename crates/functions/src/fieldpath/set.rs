//! Setting a value, and making what leads there.

use ferroplane_wire::MAX_DEPTH;
use serde_json::{Map, Value};

use super::{Error, MAX_INDEX, Path, Segment, Segments};

impl Path {
    /// Put a value here. Missing objects and arrays on the way are made; what is there of another kind is not
    /// replaced. Null in an array gives way, null in an object does not: so it is in the original.
    pub(crate) fn set(&self, object: &mut Map<String, Value>, value: Value) -> Result<(), Error> {
        // Before anything is made: a path that fails in the middle must leave nothing behind.
        check_limits(&self.segments)?;
        let Some((first, rest)) = self.segments.split_first() else { return Ok(()) };
        let Segment::Field(name) = first else { return Err(Error::new(" is not an array".to_owned())) };
        if rest.is_empty() {
            *field(object, name, || Value::Null) = value;
            return Ok(());
        }
        let mut target = prepare_field(object, name, &rest[0]);
        for (at, segment) in rest.iter().enumerate() {
            let before = &self.segments[..=at];
            let next = rest.get(at + 1);
            target = match (segment, target) {
                (Segment::Field(name), Value::Object(object)) => match next {
                    Some(next) => prepare_field(object, name, next),
                    None => field(object, name, || Value::Null),
                },
                (Segment::Index(index), Value::Array(items)) => {
                    // In bounds: the step into the array has lengthened it for this index.
                    let item = &mut items[*index];
                    if let Some(next) = next {
                        prepare_item(item, next);
                    }
                    item
                }
                (Segment::Field(_), _) => {
                    return Err(Error::new(format!("{} is not an object", Segments(before))));
                }
                (Segment::Index(_), _) => {
                    return Err(Error::new(format!("{} is not an array", Segments(before))));
                }
            };
        }
        *target = value;
        Ok(())
    }
}

fn check_limits(segments: &[Segment]) -> Result<(), Error> {
    for segment in segments {
        if let Segment::Index(index) = segment
            && *index > MAX_INDEX
        {
            return Err(Error::new(format!("index {index} is greater than max allowed index {MAX_INDEX}")));
        }
    }
    if segments.len() > MAX_DEPTH {
        return Err(Error::new(format!("the path is more than {MAX_DEPTH} levels deep")));
    }
    Ok(())
}

fn prepare_field<'a>(object: &'a mut Map<String, Value>, name: &str, next: &Segment) -> &'a mut Value {
    let value = field(object, name, || empty_for(next));
    lengthen(value, next);
    value
}

/// The field of this name, made if it is not there. The name is copied only if it is new.
fn field<'a>(object: &'a mut Map<String, Value>, name: &str, make: impl FnOnce() -> Value) -> &'a mut Value {
    if !object.contains_key(name) {
        object.insert(name.to_owned(), make());
    }
    object.get_mut(name).expect("it is there, or was just put there")
}

fn prepare_item(item: &mut Value, next: &Segment) {
    if item.is_null() {
        *item = empty_for(next);
    }
    lengthen(item, next);
}

fn empty_for(next: &Segment) -> Value {
    match next {
        Segment::Field(_) => Value::Object(Map::new()),
        Segment::Index(_) => Value::Array(Vec::new()),
    }
}

fn lengthen(value: &mut Value, next: &Segment) {
    if let (Value::Array(items), Segment::Index(index)) = (value, next)
        && *index >= items.len()
    {
        items.resize(index + 1, Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::tests::object;
    use super::*;

    fn set(path: &str, into: Value) -> Result<Value, String> {
        let mut into = object(into);
        let set = Path::parse(path).and_then(|path| path.set(&mut into, json!("v")));
        set.map(|()| Value::Object(into)).map_err(|error| error.to_string())
    }

    #[test]
    fn what_leads_to_the_value_is_made() {
        assert_eq!(set("a", json!({})), Ok(json!({"a": "v"})));
        assert_eq!(set("a.b.c", json!({"a": {"x": 1}})), Ok(json!({"a": {"x": 1, "b": {"c": "v"}}})));
        assert_eq!(set("a[2]", json!({})), Ok(json!({"a": [null, null, "v"]})));
        assert_eq!(set("a[1].b", json!({"a": [1]})), Ok(json!({"a": [1, {"b": "v"}]})));
        assert_eq!(set("a[0][1]", json!({"a": [[]]})), Ok(json!({"a": [[null, "v"]]})));
        assert_eq!(set("a[0][0]", json!({"a": [null]})), Ok(json!({"a": [["v"]]})));
        assert_eq!(set("a", json!({"a": {"old": true}})), Ok(json!({"a": "v"})));
        assert_eq!(set("", json!({"a": 1})), Ok(json!({"a": 1})));
    }

    #[test]
    fn what_is_in_the_way_is_kept_and_named() {
        assert_eq!(set("a.b", json!({"a": 1})), Err("a is not an object".into()));
        assert_eq!(set("a.b", json!({"a": null})), Err("a is not an object".into()));
        assert_eq!(set("a[0]", json!({"a": {}})), Err("a is not an array".into()));
        assert_eq!(set("a.b[0].c", json!({"a": {"b": [1]}})), Err("a.b[0] is not an object".into()));
        assert_eq!(set("[0]", json!({})), Err(" is not an array".into()));
    }

    #[test]
    fn nothing_is_made_past_the_limits() {
        let error = "index 1025 is greater than max allowed index 1024".to_owned();
        assert_eq!(set("a[1025]", json!({})), Err(error));
        assert!(set("a[1024]", json!({})).is_ok());
        assert!(set(&["a"; 129].join("."), json!({})).unwrap_err().contains("levels deep"));
    }

    proptest! {
        #[test]
        fn what_was_set_can_be_got(text in r"[ab](\.[ab]|\[[0-3]\]){0,5}", into in "[ab]") {
            let mut target = object(json!({ into: [{"a": 1}, ["x"]] }));
            let path = Path::parse(&text).unwrap();
            if path.set(&mut target, json!("v")).is_ok() {
                prop_assert_eq!(path.get(&target).unwrap(), &json!("v"));
            }
        }
    }
}
