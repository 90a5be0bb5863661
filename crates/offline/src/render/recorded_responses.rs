//! A function that returns recorded responses from a file.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use ferroplane_runner::{AsyncFunction, CallError};
use ferroplane_wire::from_json;
use ferroplane_wire::v1::RunFunctionResponse;
use serde_json::Value;

/// Answers in turn with what a file says: a list of `{"answered": response}` or `{"failed": reason}`. The last is repeated.
pub(super) fn read(function: &str, path: &Path) -> anyhow::Result<AsyncFunction> {
    let text = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let list: Vec<Value> = serde_json::from_slice(&text)
        .with_context(|| format!("`{}` is not a list of responses", path.display()))?;
    let answers = list.iter().map(answer).collect::<anyhow::Result<Vec<_>>>();
    let answers = answers.with_context(|| format!("cannot use the responses in `{}`", path.display()))?;
    if answers.is_empty() {
        bail!("there are no responses in `{}`", path.display());
    }
    let (function, next) = (function.to_owned(), AtomicUsize::new(0));
    Ok(AsyncFunction::new(move |_| {
        // One counter for all composite resources is enough: such a file is made of a recording, which has
        // one.
        let place = next.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
        let said = answers[place].clone();
        let answer = said.map_err(|reason| CallError::Ended {
            how: format!("as `{function}` did then"),
            said: format!(": {reason}"),
        });
        std::future::ready(answer)
    }))
}

fn answer(entry: &Value) -> anyhow::Result<Result<RunFunctionResponse, String>> {
    if let Some(reason) = entry["failed"].as_str() {
        return Ok(Err(reason.to_owned()));
    }
    if entry["answered"].is_null() {
        bail!("each is an object with `answered` or `failed`");
    }
    Ok(Ok(from_json(&entry["answered"])?))
}
