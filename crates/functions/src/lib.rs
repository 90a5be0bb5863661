//! The functions that are built in, in all their versions. Pure: they see the request and nothing else, and they
//! never panic.

mod auto_ready;
mod cel_state;
mod cel_validation;
mod cost_budget;
mod discovery;
mod dummy;
mod effort;
mod environment_configs;
mod external;
mod extra_resources;
mod fieldpath;
mod fleet;
mod go_templating;
mod input;
mod labels;
mod library;
mod patch_and_transform;
mod pattern_budget;
mod pause_on_storm;
mod phases;
mod randomness;
mod response;
mod rolling_upgrade;
mod schedule;
mod selection;
mod sequencer;
mod starlark;
mod status_transformer;
mod tag_manager;
mod ttl;

use ferroplane_engine::action::PhaseFunction;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

pub use discovery::{Filter, Versions};
pub use effort::{Effort, LongBuiltin, TakesLong};
pub use go_templating::{
    CheckedTemplates, TemplateLine, TemplateMistake, TemplatePart, TracedDocument, TracedRun,
    check_templates, trace_templates,
};
pub use library::{
    Contract, Declaration, Implementation, InputMistake, InvalidLibrary, Library, Native, VersionMetadata,
};
pub use randomness::{secret_seed, set_secret, stillness};
pub use starlark::{
    CheckScripts, NO_INTERPRETER, RunScript, ScriptInterpreter, ScriptMistake, check_scripts,
    has_script_interpreter, prepare_scripts, set_script_interpreter, wait_for_interpreter,
};

/// A function that runs in our own process.
pub type Builtin = fn(&RunFunctionRequest) -> RunFunctionResponse;

/// The code of a built-in function. Which versions there are is for the versions file to say.
struct BuiltinFunction {
    function: &'static str,
    stable: &'static str,
    versions: &'static [(&'static str, Code)],
}

/// How a version is done.
#[derive(Clone, Copy)]
enum Code {
    /// In microseconds.
    Short(Builtin),
    /// In as much time as its limits allow.
    Long(LongBuiltin),
    /// The same, and what it returns holds for as long as it says.
    Timed(LongBuiltin),
    /// Move by move, for phases of Blueprints.
    Phase(&'static dyn PhaseFunction),
}

use Code::{Long, Short, Timed};

const BUILTINS: &[BuiltinFunction] = &[
    BuiltinFunction {
        function: "function-auto-ready",
        stable: "v0.7.0",
        versions: &[
            ("v0.5.2", Short(auto_ready::run_v0_5)),
            ("v0.6.7", Short(auto_ready::run_v0_6)),
            ("v0.7.0", Long(auto_ready::run)),
        ],
    },
    BuiltinFunction {
        function: "function-cel-validation",
        stable: "v0.1.0",
        versions: &[("v0.1.0", Long(cel_validation::run))],
    },
    BuiltinFunction {
        function: "function-dummy",
        stable: "v0.4.1",
        versions: &[("v0.4.1", Short(dummy::run))],
    },
    BuiltinFunction {
        function: "function-chroot",
        stable: "v0.1.0",
        versions: &[("v0.1.0", Short(external::chroot))],
    },
    BuiltinFunction {
        function: "function-container",
        stable: "v0.1.0",
        versions: &[("v0.1.0", Short(external::container))],
    },
    BuiltinFunction {
        function: "function-environment-configs",
        stable: "v0.7.1",
        versions: &[
            ("v0.4.0", Short(environment_configs::run_v0_1)),
            ("v0.6.0", Short(environment_configs::run_v0_5)),
            ("v0.7.1", Short(environment_configs::run)),
        ],
    },
    BuiltinFunction {
        function: "function-extra-resources",
        stable: "v0.3.0",
        versions: &[("v0.3.0", Short(extra_resources::run))],
    },
    BuiltinFunction {
        function: "function-go-templating",
        stable: "v0.12.2",
        versions: &[
            ("v0.4.1", Long(go_templating::run_v0_4)),
            ("v0.5.0", Long(go_templating::run_v0_5)),
            ("v0.6.0", Long(go_templating::run_v0_6)),
            ("v0.7.0", Long(go_templating::run_v0_7)),
            ("v0.8.0", Long(go_templating::run_v0_8)),
            ("v0.10.1", Long(go_templating::run_v0_9)),
            ("v0.11.9", Long(go_templating::run_v0_11)),
            ("v0.12.2", Long(go_templating::run)),
        ],
    },
    BuiltinFunction {
        function: "function-labels",
        stable: "v0.1.0",
        versions: &[("v0.1.0", Short(labels::run))],
    },
    BuiltinFunction {
        function: "function-patch-and-transform",
        stable: "v0.10.8",
        versions: &[
            ("v0.2.1", Long(patch_and_transform::run_v0_2)),
            ("v0.3.0", Long(patch_and_transform::run_v0_3)),
            ("v0.4.0", Long(patch_and_transform::run_v0_4)),
            ("v0.5.0", Long(patch_and_transform::run_v0_5)),
            ("v0.6.0", Long(patch_and_transform::run_v0_6)),
            ("v0.7.0", Long(patch_and_transform::run_v0_7)),
            ("v0.9.3", Long(patch_and_transform::run_v0_8)),
            ("v0.10.8", Long(patch_and_transform::run)),
        ],
    },
    BuiltinFunction {
        function: "function-pause-on-storm",
        stable: "v0.1.0",
        versions: &[("v0.1.0", Short(pause_on_storm::run))],
    },
    BuiltinFunction {
        function: "function-rolling-upgrade",
        stable: "v0.1.0",
        versions: &[("v0.1.0", Short(rolling_upgrade::run))],
    },
    BuiltinFunction {
        function: "function-schedule",
        stable: "v0.1.0",
        versions: &[("v0.1.0", Short(schedule::run))],
    },
    BuiltinFunction {
        function: "function-sequencer",
        stable: "v0.6.0",
        versions: &[
            ("v0.1.2", Long(sequencer::run_v0_1)),
            ("v0.2.2", Long(sequencer::run_v0_2)),
            ("v0.3.0", Long(sequencer::run_v0_3)),
            ("v0.4.0", Long(sequencer::run_v0_4)),
            ("v0.5.0", Long(sequencer::run_v0_5)),
            ("v0.6.0", Long(sequencer::run)),
        ],
    },
    BuiltinFunction {
        function: "function-starlark",
        stable: "v0.1.0",
        versions: &[("v0.1.0", Timed(starlark::run))],
    },
    BuiltinFunction {
        function: "function-status-transformer",
        stable: "v0.5.1",
        versions: &[("v0.5.1", Long(status_transformer::run))],
    },
    BuiltinFunction {
        function: "function-tag-manager",
        stable: "v0.9.0",
        versions: &[("v0.9.0", Short(tag_manager::run))],
    },
    BuiltinFunction {
        function: "function-webhook",
        stable: "v0.1.0",
        versions: &[("v0.1.0", Short(external::webhook))],
    },
];

/// All functions that there is code for.
fn coded_functions() -> impl Iterator<Item = &'static BuiltinFunction> {
    BUILTINS.iter().chain(phases::FUNCTIONS)
}

/// The code of a version of a built-in function; of the stable one if none is named.
pub fn builtin(function: &str, version: Option<&str>) -> Option<Implementation> {
    let coded = coded_functions().find(|coded| coded.function == function)?;
    let version = version.unwrap_or(coded.stable);
    coded.versions.iter().find(|(number, _)| *number == version).map(|(_, code)| Implementation::of(*code))
}
