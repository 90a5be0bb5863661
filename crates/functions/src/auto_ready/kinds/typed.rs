//! An object read as its type: absent and null are the same, and anything of another type is malformed.

use serde_json::{Map, Value};

use ferroplane_golang::time::rfc3339::{self, Moment};

/// Some field has a value of the wrong type.
#[derive(Debug)]
pub(super) struct Malformed;

/// An object, or one that is not there, which reads as if no field were set.
#[derive(Clone, Copy)]
pub(super) struct Typed<'a>(Option<&'a Map<String, Value>>);

impl<'a> Typed<'a> {
    /// A whole object. Its metadata, specification and status must be objects if they are there.
    pub(super) fn new(object: &'a Map<String, Value>) -> Result<Self, Malformed> {
        let typed = Self(Some(object));
        typed.object("metadata")?;
        typed.spec()?;
        typed.status()?;
        Ok(typed)
    }

    pub(super) fn spec(self) -> Result<Self, Malformed> {
        self.object("spec")
    }

    pub(super) fn status(self) -> Result<Self, Malformed> {
        self.object("status")
    }

    pub(super) fn object(self, name: &str) -> Result<Self, Malformed> {
        self.get(name)
            .map(Value::as_object)
            .map_or(Ok(Self(None)), |object| Ok(Self(Some(object.ok_or(Malformed)?))))
    }

    /// Text, empty if it is not there.
    pub(super) fn text(self, name: &str) -> Result<&'a str, Malformed> {
        self.get(name).map_or(Ok(""), |value| value.as_str().ok_or(Malformed))
    }

    pub(super) fn boolean(self, name: &str) -> Result<Option<bool>, Malformed> {
        self.get(name).map(|value| value.as_bool().ok_or(Malformed)).transpose()
    }

    pub(super) fn list(self, name: &str) -> Result<&'a [Value], Malformed> {
        self.get(name).map_or(Ok(&[]), |value| value.as_array().map(Vec::as_slice).ok_or(Malformed))
    }

    pub(super) fn integer(self, name: &str) -> Result<Option<i64>, Malformed> {
        self.get(name).map(whole).transpose()
    }

    /// An integer of 32 bits. Go drops the upper half of one that is larger.
    #[expect(clippy::cast_possible_truncation, reason = "Go drops the upper half of a larger number")]
    pub(super) fn small_integer(self, name: &str) -> Result<Option<i32>, Malformed> {
        Ok(self.integer(name)?.map(|number| number as i32))
    }

    pub(super) fn time(self, name: &str) -> Result<Option<Moment>, Malformed> {
        let moment = |value: &Value| value.as_str().and_then(rfc3339::moment).ok_or(Malformed);
        self.get(name).map(moment).transpose()
    }

    /// The type and the status of each condition.
    pub(super) fn conditions(self) -> Result<Vec<(&'a str, &'a str)>, Malformed> {
        let conditions = self.list("conditions")?.iter();
        conditions
            .map(|condition| match condition {
                // Go decodes null into a condition without fields.
                Value::Null => Ok(("", "")),
                Value::Object(condition) => Self(Some(condition)).condition(),
                _ => Err(Malformed),
            })
            .collect()
    }

    fn condition(self) -> Result<(&'a str, &'a str), Malformed> {
        self.time("lastTransitionTime")?;
        self.text("reason")?;
        self.text("message")?;
        Ok((self.text("type")?, self.text("status")?))
    }

    fn get(self, name: &str) -> Option<&'a Value> {
        self.0?.get(name).filter(|value| !value.is_null())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the number is whole; one that is too large saturates")]
fn whole(value: &Value) -> Result<i64, Malformed> {
    if let Some(number) = value.as_i64() {
        return Ok(number);
    }
    // Numbers come as doubles from the wire; apimachinery's `fromUnstructured` takes those that are whole.
    let number = value.as_f64().filter(|number| number.fract() == 0.0).ok_or(Malformed)?;
    Ok(number as i64)
}
