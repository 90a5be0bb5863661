//! The files that `ferroplane render` reads, as arguments.

use std::path::PathBuf;

use ferroplane_offline::render::InputFiles;

/// The files to render from.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Inputs {
    /// The XR or XRs: a file, a directory, or `-` for standard input; or one operation, which is followed by its Functions
    #[arg(required_unless_present = "from_recording")]
    composite_resource: Option<PathBuf>,

    /// The Composition file
    composition: Option<PathBuf>,

    /// The Functions that the Composition calls: a file or directory; not needed for built-in functions
    functions: Option<PathBuf>,

    /// Initial context value of a key, from a JSON or YAML file
    #[arg(long, value_name = "KEY=FILE", value_delimiter = ',', value_parser = pair)]
    context_files: Vec<(String, String)>,

    /// Initial context value of a key, as JSON or YAML; wins over --context-files
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    context_values: Vec<(String, String)>,

    /// Composed resources that exist: a file or directory
    #[arg(short = 'o', long, value_name = "PATH")]
    observed_resources: Vec<PathBuf>,

    /// Resources that functions may require: a file or directory
    #[arg(short = 'e', long, value_name = "PATH", alias = "extra-resources")]
    required_resources: Vec<PathBuf>,

    /// OpenAPI v3 documents that functions may require: a directory of JSON files
    #[arg(short = 's', long, value_name = "DIR")]
    required_schemas: Vec<PathBuf>,

    /// Secrets with credentials for functions: a file or directory
    #[arg(long, value_name = "PATH")]
    function_credentials: Vec<PathBuf>,

    /// Set an annotation on every Function
    #[arg(short = 'a', long, value_name = "KEY=VALUE", value_parser = pair)]
    function_annotations: Vec<(String, String)>,

    /// Run the programs that Functions name with `render.ferroplane.io/command`, call webhooks, and let images use your network
    ///
    /// A program runs with your rights. Leave this out to render files that you do not trust, such as those of a pull request.
    /// Without it, credentials and certificates are used only with functions on this machine.
    #[arg(long)]
    allow_commands: bool,

    /// The object that has changed, to render a WatchOperation
    #[arg(short = 'w', long, value_name = "FILE")]
    watched_resource: Option<PathBuf>,

    /// The XRD (CompositeResourceDefinition) of the XR, for its defaults and its layout
    #[arg(long, value_name = "PATH")]
    xrd: Option<PathBuf>,
}

impl Inputs {
    /// The design of composition functions writes the Composition first, and everybody else the composite resource.
    pub(super) fn swap_if_composition_is_first(&mut self) {
        let text = self.composite_resource.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let is_composition = |text: &String| {
            let is = |start: &str| text.lines().any(|line| line.starts_with(start));
            is("kind: Composition")
                && is("apiVersion: apiextensions.crossplane.io/")
                && !is("kind: CompositionRevision")
        };
        if text.as_ref().is_some_and(is_composition) {
            std::mem::swap(&mut self.composite_resource, &mut self.composition);
        }
    }

    /// Whether only an operation can be rendered: nothing says how a composite resource is composed.
    pub(super) fn lacks_composition(&self) -> bool {
        self.composite_resource.is_some() && self.composition.is_none()
    }

    /// Whether the user trusts what these files start.
    pub(super) fn allows_commands(&self) -> bool {
        self.allow_commands
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("expected KEY=VALUE, got `{text}`"))?;
    if key.is_empty() {
        return Err(format!("expected KEY=VALUE, got no key in `{text}`"));
    }
    Ok((key.to_owned(), value.to_owned()))
}

impl From<Inputs> for InputFiles {
    fn from(inputs: Inputs) -> Self {
        Self {
            composite_resource: inputs.composite_resource,
            composition: inputs.composition,
            functions: inputs.functions,
            context_files: inputs.context_files,
            context_values: inputs.context_values,
            observed_resources: inputs.observed_resources,
            required_resources: inputs.required_resources,
            required_schemas: inputs.required_schemas,
            function_credentials: inputs.function_credentials,
            function_annotations: inputs.function_annotations,
            may_run_commands: inputs.allow_commands,
            watched_resource: inputs.watched_resource,
            definition: inputs.xrd,
        }
    }
}
