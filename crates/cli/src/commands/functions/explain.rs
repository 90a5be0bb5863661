//! `ferroplane functions explain`: documents the input of a function.

use anyhow::{Context as _, anyhow, bail};
use ferroplane_engine::versions::{Question, resolve};
use ferroplane_functions::Library;
use serde_json::Value;

use crate::Verdict;
use crate::functions::explain::{field, find, of_phases, whole};
use crate::terminal::Terminal;

/// Document a built-in function: purpose, input fields and an example
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane functions explain function-patch-and-transform
  ferroplane functions explain patch-and-transform resources.patches
  ferroplane functions explain function-sequencer --recursive
  ferroplane functions explain KubeOps")]
pub(crate) struct Explain {
    /// The function, with or without the prefix `function-`
    name: String,

    /// A field of its input, such as `resources.patches`
    field: Option<String>,

    /// List all nested fields
    #[arg(long)]
    recursive: bool,
}

impl Explain {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let library = Library::built_in().context("this build is broken")?;
        let name = full_name(&library, &self.name);
        let resolution = resolve(library.catalogue(), &Question::about(&name))?;
        let contract = library.contract(&name).context("every function has a contract")?;
        let schema = contract.input.map(serde_json::from_str::<Value>).transpose()?;
        let version = resolution.record.version.as_ref();
        let phase = version.and_then(|version| library.phase_function(&name, version));
        let text = match (&self.field, &schema) {
            (None, None) if phase.is_some() => {
                let title =
                    format!("{name}{}", version.map(|version| format!(" {version}")).unwrap_or_default());
                of_phases(&title, contract, phase.map(|phase| phase.contract()).unwrap_or_default())
            }
            (None, schema) => {
                let version = resolution.record.version.as_ref().map(|version| format!(" {version}"));
                let title = format!("{name}{}", version.unwrap_or_default());
                whole(&title, contract, schema.as_ref(), self.recursive)
            }
            (Some(path), Some(schema)) => {
                let found = find(schema, path).map_err(|problem| anyhow!("function `{name}`: {problem}"))?;
                field(path, found, self.recursive)
            }
            (Some(_), None) => bail!("function `{name}` takes no input"),
        };
        terminal.text(&text)?;
        Ok(Verdict::Yes)
    }
}

/// The name that is listed. Most start with `function-`, which may be left out; some are known by the name
/// that Crossplane's package manager gives them.
pub(super) fn full_name(library: &Library, name: &str) -> String {
    let listed = library.listed_name(name).map(str::to_owned);
    let full = || Some(format!("function-{name}")).filter(|full| library.catalogue().family(full).is_some());
    listed.or_else(full).unwrap_or_else(|| name.to_owned())
}
