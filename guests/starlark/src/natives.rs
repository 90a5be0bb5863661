//! What scripts can call that is not written in Starlark itself.

use std::cell::RefCell;

use base64::Engine as _;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::dict::{AllocDict, DictRef};
use starlark::values::list::{AllocList, ListRef};
use starlark::values::none::NoneType;
use starlark::values::{Heap, Value};

use crate::references::ResourceRef;

/// How deep the body of a resource may be.
const DEPTH: usize = 64;

thread_local! {
    /// What `fatal()` was called with.
    static FATAL: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What `fatal()` was called with, if it was.
pub(crate) fn take_fatal() -> Option<String> {
    FATAL.take()
}

/// A copy of the body of a resource, without fields that are `None`. The script may change the original afterwards.
fn copy<'v>(value: Value<'v>, depth: usize, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
    anyhow::ensure!(depth < DEPTH, "a body is deeper than {DEPTH} levels");
    if let Some(fields) = DictRef::from_value(value) {
        let fields = fields.iter().filter(|(_, field)| !field.is_none());
        let fields = fields.map(|(name, field)| Ok((name, copy(field, depth + 1, heap)?)));
        return Ok(heap.alloc(AllocDict(fields.collect::<anyhow::Result<Vec<_>>>()?)));
    }
    if let Some(items) = ListRef::from_value(value) {
        let items = items.iter().map(|item| copy(item, depth + 1, heap));
        return Ok(heap.alloc(AllocList(items.collect::<anyhow::Result<Vec<_>>>()?)));
    }
    Ok(value)
}

#[starlark_module]
pub(crate) fn natives(builder: &mut GlobalsBuilder) {
    /// What the script has said so far.
    fn _state<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        eval.module().extra_value().ok_or_else(|| {
            anyhow::anyhow!("a script that defines `main` returns a response instead of calling this")
        })
    }

    /// What `object.name` means in a script: a field of an object that may be missing, a method, or an attribute.
    fn _attr<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(require = pos)] name: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        if let Some(found) = object.get_attr(name, heap)? {
            return Ok(found);
        }
        match DictRef::from_value(object) {
            Some(fields) => Ok(fields.get_str(name).unwrap_or_else(Value::new_none)),
            // In the words of the language.
            None => Err(starlark::Error::new_other(anyhow::anyhow!(
                "Object of type `{}` has no attribute `{name}`",
                object.get_type()
            ))),
        }
    }

    /// What `Resource()` returns.
    fn _ref(name: String, skipped: bool, optional: bool) -> anyhow::Result<ResourceRef> {
        Ok(ResourceRef { name, skipped, optional })
    }

    /// A copy of the body of a resource, without fields that are `None`.
    fn _body<'v>(value: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        copy(value, 0, eval.heap())
    }

    /// Text as base64.
    fn _base64(text: &str) -> anyhow::Result<String> {
        Ok(base64::engine::general_purpose::STANDARD.encode(text))
    }

    /// Text in the letters of an alphabet.
    fn _encode(alphabet: &str, data: &str) -> anyhow::Result<String> {
        crate::alphabets::encode(alphabet, data)
    }

    /// The text that letters of an alphabet stand for.
    fn _decode(alphabet: &str, data: &str) -> anyhow::Result<String> {
        crate::alphabets::decode(alphabet, data)
    }

    /// A duration such as `1m30s`, as JSON has it.
    fn _seconds(text: &str) -> anyhow::Result<String> {
        crate::duration::to_json(text)
    }

    /// Stop the pipeline.
    fn fatal(message: &str) -> anyhow::Result<NoneType> {
        FATAL.set(Some(message.to_owned()));
        Err(anyhow::anyhow!("{message}"))
    }
}
