//! Functions that are WebAssembly in a file beside their manifest. They are granted nothing, so that files of others can be rendered.

use std::path::Path;

use ferroplane_runner::AsyncFunction;

/// The code in a file, as a function.
#[cfg(feature = "wasm")]
pub(super) fn load(name: &str, path: &Path) -> anyhow::Result<AsyncFunction> {
    use std::sync::Arc;

    use anyhow::Context as _;
    use ferroplane_runner::wasm::{Grants, Limits};
    use ferroplane_runner::{Directory, Runner, WasmFunction, shared_wasm_runtime};

    let code = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let runtime = shared_wasm_runtime().context("cannot run WebAssembly")?;
    let compiled = WasmFunction::new(&runtime, name, &code, Grants::default(), Limits::default());
    let compiled = compiled.with_context(|| format!("cannot use `{}`", path.display()))?;
    let mut directory = Directory::default();
    directory.insert(name.to_owned(), Runner::Wasm(compiled));
    let (directory, name) = (Arc::new(directory), name.to_owned());
    Ok(AsyncFunction::in_context(move |request, context| {
        let (directory, name) = (directory.clone(), name.clone());
        async move { directory.call_for(&name, &request, &context).await }
    }))
}

#[cfg(not(feature = "wasm"))]
pub(super) fn load(_: &str, path: &Path) -> anyhow::Result<AsyncFunction> {
    anyhow::bail!(
        "cannot use `{}`: this build of ferroplane has no WebAssembly: build one with \
         `cargo build --release --features wasm`",
        path.display()
    )
}
