//! What `Resource()` returns.

use std::fmt;

use allocative::Allocative;
use starlark::starlark_simple_value;
use starlark::values::{Heap, NoSerialize, ProvidesStaticType, StarlarkValue, Value, starlark_value};

/// A resource that a script composes, or skips. Others can depend on it. It is false if it is skipped, and its text is its name.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative)]
pub(crate) struct ResourceRef {
    pub(crate) name: String,
    pub(crate) skipped: bool,
    pub(crate) optional: bool,
}

starlark_simple_value!(ResourceRef);

impl fmt::Display for ResourceRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

#[starlark_value(type = "ResourceRef")]
impl<'v> StarlarkValue<'v> for ResourceRef {
    fn to_bool(&self) -> bool {
        !self.skipped
    }

    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        match attribute {
            "name" => Some(heap.alloc(self.name.as_str())),
            "skipped" => Some(Value::new_bool(self.skipped)),
            "optional" => Some(Value::new_bool(self.optional)),
            _ => None,
        }
    }

    fn dir_attr(&self) -> Vec<String> {
        ["name", "optional", "skipped"].map(String::from).to_vec()
    }
}
