//! `function-starlark`: composes what a script in Starlark says.
//!
//! The interpreter is foreign code that runs as WebAssembly, which this crate knows nothing of: the process that has one sets it once.
//! Without one, the function says that this build cannot run it, and how to get one that can.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroplane_wire::Struct;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

use crate::effort::{Effort, TakesLong};
use crate::response;

/// What to do where there is no interpreter.
pub const NO_INTERPRETER: &str = "this build of ferroplane has no interpreter of Starlark: build one with `cargo xtask guests` \
     and `cargo build --release --features wasm`";

static INTERPRETER: OnceLock<ScriptInterpreter> = OnceLock::new();

/// Whether this process has nothing better to do than to wait.
static MAY_WAIT: AtomicBool = AtomicBool::new(false);

/// Runs scripts and reads them.
pub struct ScriptInterpreter {
    /// Answers a request whose input has a script. Only a brief call may give up.
    pub run: Box<RunScript>,
    /// Says what is wrong with the scripts of a request, without running them.
    pub check: Box<CheckScripts>,
    /// Gets ready, however long that takes.
    pub prepare: Box<dyn Fn() + Send + Sync>,
}

/// Runs the script of a request.
pub type RunScript =
    dyn Fn(&RunFunctionRequest, Effort<'_>) -> Result<RunFunctionResponse, TakesLong> + Send + Sync;

/// Reads the scripts of a request.
pub type CheckScripts = dyn Fn(&RunFunctionRequest) -> Result<Vec<ScriptMistake>, String> + Send + Sync;

impl fmt::Debug for ScriptInterpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptInterpreter")
    }
}

/// What is wrong with a script, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptMistake {
    /// The field of the input that holds the script, or that says where it is. Empty if there is none.
    pub field: String,
    /// The script: `main.star`, or the name of a module.
    pub file: String,
    /// Counted from 1. Nothing if it is about the script as a whole.
    pub line: Option<usize>,
    pub message: String,
}

impl ScriptMistake {
    /// Whether the script is in a file or in another object, and the field only says where.
    pub fn is_elsewhere(&self) -> bool {
        let places = ["spec.modulePaths", "spec.moduleConfigRefs", "spec.scriptConfigRef"];
        places.iter().any(|place| self.field.starts_with(place))
    }
}

/// Sets what runs scripts. The first one counts.
pub fn set_script_interpreter(interpreter: ScriptInterpreter) {
    let _ = INTERPRETER.set(interpreter);
}

/// Whether scripts can be run.
pub fn has_script_interpreter() -> bool {
    INTERPRETER.get().is_some()
}

/// What is wrong with the scripts of a request. Nothing where there is no interpreter to tell, or none that is ready: a caller that serves
/// others cannot wait for it. A user who can says so ([`wait_for_interpreter`]).
pub fn check_scripts(request: &RunFunctionRequest) -> Vec<ScriptMistake> {
    if MAY_WAIT.load(Ordering::Relaxed) {
        prepare_scripts();
    }
    INTERPRETER.get().and_then(|interpreter| (interpreter.check)(request).ok()).unwrap_or_default()
}

/// Let [`check_scripts`] wait for an interpreter that is not ready yet.
pub fn wait_for_interpreter() {
    MAY_WAIT.store(true, Ordering::Relaxed);
}

/// Have the interpreter ready for the first script, which may take seconds.
pub fn prepare_scripts() {
    if let Some(interpreter) = INTERPRETER.get() {
        (interpreter.prepare)();
    }
}

pub(crate) fn run(
    request: &RunFunctionRequest,
    effort: Effort<'_>,
) -> Result<RunFunctionResponse, TakesLong> {
    match INTERPRETER.get() {
        Some(interpreter) => (interpreter.run)(request, effort),
        None => Ok(refuse(request)),
    }
}

fn refuse(request: &RunFunctionRequest) -> RunFunctionResponse {
    let problem = if has_script(request.input.as_ref()) {
        format!("cannot run function-starlark: {NO_INTERPRETER}")
    } else {
        // In the words that are taken for a mistake in the input when a Composition is checked.
        "invalid Function input: there is no script, set `script`, `spec.source` or `spec.scriptConfigRef`"
            .to_owned()
    };
    response::fatal(response::to(request), problem)
}

fn has_script(input: Option<&Struct>) -> bool {
    let Some(input) = input.and_then(|input| input.json().ok()) else { return false };
    let spec = input.get("spec");
    let of_spec = ["source", "scriptConfigRef"].iter().filter_map(|field| spec?.get(*field));
    ["script", "inline"].iter().filter_map(|field| input.get(*field)).chain(of_spec).next().is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(input: &Value) -> String {
        let input = Some(Struct::try_from(input.as_object().cloned().unwrap()).unwrap());
        refuse(&RunFunctionRequest { input, ..RunFunctionRequest::default() }).results[0].message.clone()
    }

    #[test]
    fn build_without_an_interpreter_says_how_to_get_one() {
        for input in [json!({"script": "x"}), json!({"spec": {"source": "x"}})] {
            assert!(said(&input).contains("cargo xtask guests"), "{}", said(&input));
        }
    }

    #[test]
    fn input_without_a_script_is_a_mistake() {
        for input in [json!({}), json!({"spec": {"modules": {}}})] {
            assert!(said(&input).starts_with("invalid Function input: there is no script"));
        }
    }
}
