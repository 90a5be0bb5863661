//! `ferroplane functions versions`: which versions are there, and for how long?

use std::path::PathBuf;

use anyhow::Context as _;
use clap::ValueEnum;
use ferroplane_engine::versions::{LifecycleState, Question, Version, resolve};
use ferroplane_functions::{Filter, Library};
use ferroplane_offline::functions::used::{Uses, find};
use ferroplane_offline::manifest::{Files, yaml};
use serde_json::{Value, json};

use super::explain::full_name;
use crate::Verdict;
use crate::functions::table::{or_dash, table};
use crate::terminal::Terminal;

/// List the versions of the built-in functions
///
/// A version is available, stable (the default for steps that name no version), deprecated (it runs with a warning) or removed.
/// Removal is announced two minor releases ahead. With --used, it lists the steps in your manifests that would warn or break.
///
/// Exit codes: 0 success; 3 a step would break at the given release
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane functions versions
  ferroplane functions versions function-auto-ready
  ferroplane functions versions --state deprecated -o json
  ferroplane functions versions --used compositions/ functions.yaml --at 0.5.0")]
pub(crate) struct Versions {
    /// Only this function, in detail, with or without the prefix `function-`
    name: Option<String>,

    /// Only versions in these states
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<LifecycleState>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    /// List steps of the Compositions in these files and directories that would warn or break; include the Functions that they call
    #[arg(long, value_name = "FILES", num_args = 1.., conflicts_with_all = ["name", "state"])]
    used: Vec<PathBuf>,

    /// Evaluate against this Ferroplane release
    #[arg(long, value_name = "RELEASE")]
    at: Option<Version>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Table,
    Yaml,
    Json,
}

impl Versions {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let library = Library::built_in().context("this build is broken")?;
        if !self.used.is_empty() {
            return self.run_used(&library, terminal);
        }
        let catalogue = match &self.at {
            Some(release) => library.catalogue().at(release.clone()),
            None => library.catalogue().clone(),
        };
        let listed = ferroplane_functions::Versions { catalogue: &catalogue, library: &library };
        let filter = Filter { states: self.state.clone(), source: None };
        let document = match &self.name {
            None => listed.document(&filter),
            Some(name) => {
                let name = full_name(&library, name);
                // Whoever misspelt it is told what there is.
                resolve(library.catalogue(), &Question::about(&name))?;
                listed.function_document(&name, &filter).unwrap_or_default()
            }
        };
        let text = match self.output {
            Output::Json => format!("{document:#}\n"),
            Output::Yaml => yaml::print(&document)?,
            Output::Table if self.name.is_some() => detail_table(&document, terminal.width()),
            Output::Table => summary_table(&document, terminal.width()),
        };
        terminal.text(&text)?;
        Ok(Verdict::Yes)
    }

    fn run_used(&self, library: &Library, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let mut files = Files::default();
        let mut manifests = Vec::new();
        for path in &self.used {
            manifests.extend(files.load(path)?);
        }
        let release = self.at.clone().unwrap_or_else(|| library.catalogue().release().clone());
        let uses = find(&manifests, library, &release)?;
        let document = json!({"release": release.plain(), "steps": uses.found});
        match self.output {
            Output::Json => terminal.text(&format!("{document:#}\n"))?,
            Output::Yaml => terminal.text(&yaml::print(&document)?)?,
            Output::Table if uses.found.is_empty() => {}
            Output::Table => terminal.text(&used_table(&uses, terminal.width()))?,
        }
        terminal.note(&conclusion(&uses, &release));
        Ok(if uses.found.iter().any(|used| used.breaks) { Verdict::No } else { Verdict::Yes })
    }
}

fn conclusion(uses: &Uses, release: &Version) -> String {
    let breaking = uses.found.iter().filter(|used| used.breaks).count();
    let warning = uses.found.len() - breaking;
    let foreign = match uses.foreign {
        0 => String::new(),
        foreign => format!("; {foreign} call functions that are not built in"),
    };
    let release = release.plain();
    format!(
        "{} steps: {breaking} would break and {warning} would warn at release {release}{foreign}",
        uses.steps
    )
}

fn summary_table(document: &Value, room: Option<usize>) -> String {
    let rows: Vec<_> = items(&document["functions"])
        .map(|function| {
            let in_state = |state: LifecycleState| {
                let versions =
                    items(&function["versions"]).filter(|version| version["state"] == state.as_str());
                let named = versions.map(|version| match (state, version["removedIn"].as_str()) {
                    (LifecycleState::Deprecated, Some(release)) => {
                        format!("{} ({release})", text(version, "version"))
                    }
                    _ => text(version, "version"),
                });
                or_dash(named.collect::<Vec<_>>().join(", "))
            };
            let cells = [
                LifecycleState::Stable,
                LifecycleState::Available,
                LifecycleState::Deprecated,
                LifecycleState::Removed,
            ]
            .map(in_state);
            [vec![text(function, "name")], cells.to_vec(), vec![text(function, "about")]].concat()
        })
        .collect();
    table(&["NAME", "STABLE", "AVAILABLE", "DEPRECATED", "REMOVED", "ABOUT"], &rows, room)
}

fn detail_table(document: &Value, room: Option<usize>) -> String {
    let fields = ["version", "state", "introducedIn", "deprecatedIn", "removedIn", "replacedBy", "covers"];
    let rows: Vec<_> = items(&document["versions"])
        .map(|version| fields.iter().map(|field| or_dash(text(version, field))).collect())
        .collect();
    table(
        &["VERSION", "STATE", "INTRODUCED", "DEPRECATED", "REMOVED", "REPLACED BY", "COVERS UPSTREAM"],
        &rows,
        room,
    )
}

fn used_table(uses: &Uses, room: Option<usize>) -> String {
    let rows: Vec<_> = uses
        .found
        .iter()
        .map(|used| {
            let version = or_dash(used.version.clone().unwrap_or_default());
            [&used.file, &used.composition, &used.step, &used.function, &version, &used.state, &used.message]
                .map(Clone::clone)
                .to_vec()
        })
        .collect();
    table(&["FILE", "COMPOSITION", "STEP", "FUNCTION", "VERSION", "STATE", "MESSAGE"], &rows, room)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_default().to_owned()
}
