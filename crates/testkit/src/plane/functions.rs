//! The functions that can be called on a plane of tests: those that are built in, and a few more.

use std::sync::Arc;

use ferroplane_controllers::BuiltIns;
use ferroplane_engine::versions::{Lifecycle, Version};
use ferroplane_functions::{Contract, Declaration, Implementation, Library, VersionMetadata};
use ferroplane_runner::Directory;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::RunFunctionResponse;

/// What is built in, functions of a test, and two that show what versions and capabilities do.
pub fn built_ins(functions: &[(String, Implementation)]) -> BuiltIns {
    let mut library = Library::built_in().unwrap();
    for (name, answer) in functions {
        library.register_unversioned(name, Contract::default(), answer.clone()).unwrap();
    }
    library.register(aged()).unwrap();
    library.register(operating()).unwrap();
    let library = Arc::new(library);
    BuiltIns {
        catalogue: library.catalogue().clone(),
        directory: Directory::built_in(&library),
        capabilities: library.capabilities(),
        input_mistakes: {
            let library = library.clone();
            Arc::new(move |function, version, input| {
                let mistakes = library.input_mistakes(function, version, input);
                mistakes.iter().map(ToString::to_string).collect()
            })
        },
        phases: {
            let library = library.clone();
            Arc::new(move |function: &str, version: &Version| {
                library.phase_function(function, version).cloned()
            })
        },
        natives: Arc::new(move |package| library.native(package)),
    }
}

/// A function with an old version, which will go, and a new one. Steps and phases can call it. Its output says which one ran.
pub fn aged() -> Declaration {
    let release = |text: &str| Some(text.parse().unwrap());
    let capabilities = ["composition", "operation", "action"].map(str::to_owned).to_vec();
    let lifecycle = Lifecycle {
        introduced_in: release("0.0.1"),
        deprecated_in: release("0.1.0"),
        removed_in: release("0.3.0"),
        replaced_by: None,
    };
    let old = VersionMetadata { lifecycle, capabilities: capabilities.clone(), ..VersionMetadata::default() };
    let new = VersionMetadata {
        lifecycle: Lifecycle { introduced_in: release("0.0.1"), ..Lifecycle::default() },
        capabilities,
        ..VersionMetadata::default()
    };
    let pass_on = |version: &'static str| {
        Implementation::new(move |request| RunFunctionResponse {
            desired: request.desired.clone(),
            output: Struct::try_from(serde_json::Map::from_iter([("ran".to_owned(), version.into())])).ok(),
            ..RunFunctionResponse::default()
        })
    };
    Declaration {
        function: "function-aged".to_owned(),
        contract: Contract::default(),
        stable: "v0.2.0".to_owned(),
        versions: vec![
            ("v0.1.0".to_owned(), old, Some(pass_on("v0.1.0"))),
            ("v0.2.0".to_owned(), new, Some(pass_on("v0.2.0"))),
        ],
    }
}

/// A function that is of no use in compositions.
fn operating() -> Declaration {
    let terms = VersionMetadata { capabilities: vec!["operation".to_owned()], ..VersionMetadata::default() };
    let nothing = Implementation::new(|_| RunFunctionResponse::default());
    Declaration {
        function: "function-operating".to_owned(),
        contract: Contract::default(),
        stable: "v0.1.0".to_owned(),
        versions: vec![("v0.1.0".to_owned(), terms, Some(nothing))],
    }
}
