//! What scripts can call that is not written in Starlark itself.

use std::cell::RefCell;

use base64::Engine as _;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::Value;
use starlark::values::none::NoneType;

thread_local! {
    /// What `fatal()` was called with.
    static FATAL: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What `fatal()` was called with, if it was.
pub(crate) fn take_fatal() -> Option<String> {
    FATAL.take()
}

#[starlark_module]
pub(crate) fn natives(builder: &mut GlobalsBuilder) {
    /// What the script has said so far.
    fn _state<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        eval.module()
            .extra_value()
            .ok_or_else(|| anyhow::anyhow!("this can be called by the main script only"))
    }

    /// Text as base64.
    fn _base64(text: &str) -> anyhow::Result<String> {
        Ok(base64::engine::general_purpose::STANDARD.encode(text))
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
