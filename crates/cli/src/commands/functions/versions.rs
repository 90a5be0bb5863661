//! `ferroplane functions versions`: which versions are there, and for how long?

use std::path::PathBuf;

use anyhow::Context as _;
use clap::ValueEnum;
use ferroplane_client::Query;
use ferroplane_engine::versions::{LifecycleState, Question, Version, resolve};
use ferroplane_functions::{Filter, Library};
use ferroplane_offline::functions::used::{LiveObject, Uses, find, find_live};
use ferroplane_offline::manifest::Files;
use serde_json::{Value, json};

use super::explain::full_name;
use crate::Verdict;
use crate::client::{Access, Connection, PlaneAccess};
use crate::explain::block_on;
use crate::functions::discovery;
use crate::functions::table::{has_room_for_last, or_dash, table};
use crate::terminal::Terminal;

/// List the versions of functions
///
/// A version is available, stable (the default for steps that name no version), deprecated (it runs with a warning) or removed.
/// Removal is announced two minor releases ahead.
///
/// Without --server, it lists what is built into this program. With --server, it lists what a control plane that runs can call, packages
/// included. With --used, it lists the steps of Compositions and operations and the phases of Blueprints that would warn or break: those in
/// the given files or, without files, those of a control plane.
///
/// Exit codes: 0 success; 3 a step would break at the given release
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane functions versions
  ferroplane functions versions function-auto-ready
  ferroplane functions versions --state deprecated -o json
  ferroplane functions versions KubeOps --server
  ferroplane functions versions --used compositions/ blueprints/ functions.yaml --at 0.5.0
  ferroplane functions versions --used --at 0.5.0")]
pub(crate) struct Versions {
    /// Only this function, in detail, with or without the prefix `function-`
    name: Option<String>,

    /// Only versions in these states
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<LifecycleState>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    /// Ask the control plane of the kubeconfig
    #[arg(long, conflicts_with_all = ["used", "at"])]
    server: bool,

    /// List steps and phases in these files and directories, or on the control plane, that would warn or break; include the Functions that
    /// they call
    #[arg(long, value_name = "FILES", num_args = 0.., conflicts_with_all = ["name", "state"])]
    used: Option<Vec<PathBuf>>,

    /// Evaluate against this Ferroplane release
    #[arg(long, value_name = "RELEASE")]
    at: Option<Version>,

    #[command(flatten)]
    access: Access,

    #[command(flatten)]
    plane: PlaneAccess,
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
        if let Some(files) = &self.used {
            return self.run_used(files, &library, terminal);
        }
        if self.server {
            let document = self.ask(&library, terminal)?;
            return self.print(&document, terminal);
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
                // A misspelt name is answered with a list of the names.
                resolve(library.catalogue(), &Question::about(&name))?;
                listed.function_document(&name, &filter).unwrap_or_default()
            }
        };
        self.print(&document, terminal)
    }

    fn print(&self, document: &Value, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.output {
            Output::Json => terminal.json(document)?,
            Output::Yaml => terminal.yaml(document)?,
            Output::Table if self.name.is_some() => {
                terminal.text(&detail_table(document, terminal.width()))?;
            }
            Output::Table => terminal.text(&summary_table(document, terminal.width()))?,
        }
        Ok(Verdict::Yes)
    }

    /// What a control plane says that runs.
    fn ask(&self, library: &Library, terminal: &mut Terminal) -> anyhow::Result<Value> {
        let states: Vec<_> = self.state.iter().map(|state| format!("state={state}")).collect();
        let query = if states.is_empty() { String::new() } else { format!("?{}", states.join("&")) };
        let name = self.name.as_deref().map(|name| full_name(library, name));
        let asked = async {
            let connection = self.access.connect()?;
            let client = self.plane.planner(&self.access, &connection)?;
            discovery::ask(&client, name.as_deref(), &query).await
        };
        let document = block_on(terminal.wait_for_server(asked))?;
        let document = document.with_context(|| {
            format!("the control plane has no function `{}`", name.as_deref().unwrap_or_default())
        })?;
        let (own, theirs) = (library.catalogue().release().plain(), text(&document, "release"));
        if own != theirs {
            terminal.note(&format!("the control plane is release {theirs}, and this program is {own}"));
        }
        Ok(document)
    }

    fn run_used(
        &self,
        paths: &[PathBuf],
        library: &Library,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        let release = self.at.clone().unwrap_or_else(|| library.catalogue().release().clone());
        let uses = if paths.is_empty() {
            let used = async { used_live(&self.access.connect()?).await };
            let objects = block_on(terminal.wait("reading the control plane", used))?;
            find_live(&objects, library, &release)?
        } else {
            let mut files = Files::default();
            let mut manifests = Vec::new();
            for path in paths {
                manifests.extend(files.load(path)?);
            }
            find(&manifests, library, &release)?
        };
        let document = json!({"release": release.plain(), "steps": uses.found});
        match self.output {
            Output::Json => terminal.json(&document)?,
            Output::Yaml => terminal.yaml(&document)?,
            Output::Table if uses.found.is_empty() => {}
            Output::Table => terminal.text(&used_table(&uses, terminal.width()))?,
        }
        terminal.note(&conclusion(&uses, &release));
        Ok(if uses.found.iter().any(|used| used.breaks) { Verdict::No } else { Verdict::Yes })
    }
}

/// Everything on a control plane that calls functions, and the Functions.
async fn used_live(connection: &Connection) -> anyhow::Result<Vec<LiveObject>> {
    const KINDS: [(&str, &str); 6] = [
        ("pkg.crossplane.io/v1", "Function"),
        ("apiextensions.crossplane.io/v1", "Composition"),
        ("ops.crossplane.io/v1alpha1", "Operation"),
        ("ops.crossplane.io/v1alpha1", "CronOperation"),
        ("ops.crossplane.io/v1alpha1", "WatchOperation"),
        ("cr.kanister.io/v1alpha1", "Blueprint"),
    ];
    let mut found = Vec::new();
    for (api_version, kind) in KINDS {
        let cannot = || format!("cannot list every {kind} of {}", connection.server);
        // A control plane need not have all of them.
        let resource = connection.client.resource(api_version, kind).await.with_context(cannot)?;
        let Some(resource) = resource else { continue };
        let objects =
            connection.client.list_objects(&resource, "", &Query::default()).await.with_context(cannot)?;
        found.extend(objects.into_iter().map(|mut object| {
            resource.add_kind(&mut object);
            LiveObject { server: connection.server.clone(), object }
        }));
    }
    Ok(found)
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

/// The fewest letters of a description that say something. A table without room for them counts available versions and does not list them.
const SHORTEST_ABOUT: usize = 40;

fn summary_table(document: &Value, room: Option<usize>) -> String {
    let headers = ["NAME", "STABLE", "AVAILABLE", "DEPRECATED", "REMOVED", "ABOUT"];
    let rows = |counts: bool| -> Vec<_> {
        items(&document["functions"]).map(|function| summary_row(function, counts)).collect()
    };
    let listed = rows(false);
    let rows = if has_room_for_last(&headers, &listed, room, SHORTEST_ABOUT) { listed } else { rows(true) };
    table(&headers, &rows, room)
}

/// What a table says about a function. It lists the versions that are available, or counts them.
fn summary_row(function: &Value, counts: bool) -> Vec<String> {
    let in_state = |state: LifecycleState| {
        let versions = items(&function["versions"]).filter(|version| version["state"] == state.as_str());
        let named = versions.map(|version| match (state, version["removedIn"].as_str()) {
            (LifecycleState::Deprecated, Some(release)) => {
                format!("{} ({release})", text(version, "version"))
            }
            _ => text(version, "version"),
        });
        let named: Vec<_> = named.collect();
        match named.len() {
            1 if counts && state == LifecycleState::Available => "1 version".to_owned(),
            count @ 2.. if counts && state == LifecycleState::Available => format!("{count} versions"),
            _ => or_dash(named.join(", ")),
        }
    };
    let states = [
        LifecycleState::Stable,
        LifecycleState::Available,
        LifecycleState::Deprecated,
        LifecycleState::Removed,
    ];
    let cells = states.map(in_state).to_vec();
    [vec![text(function, "name")], cells, vec![text(function, "about")]].concat()
}

fn detail_table(document: &Value, room: Option<usize>) -> String {
    let fields = ["version", "state", "introducedIn", "deprecatedIn", "removedIn", "replacedBy"];
    let headers = ["VERSION", "STATE", "INTRODUCED", "DEPRECATED", "REMOVED", "REPLACED BY"];
    // Functions of phases reproduce no package, and take arguments.
    let is_of_phases = items(&document["versions"]).any(|version| version["args"].is_object());
    let last: &[&str] =
        if is_of_phases { &["NEEDS", "ARGUMENTS"] } else { &["COVERS UPSTREAM", "READ, NOT COMPARED"] };
    let rows: Vec<_> = items(&document["versions"])
        .map(|version| {
            let mut row: Vec<_> = fields.iter().map(|field| or_dash(text(version, field))).collect();
            if is_of_phases {
                row.push(or_dash(joined(&version["needs"], "")));
                let arguments =
                    [joined(&version["args"]["required"], ""), joined(&version["args"]["optional"], "?")];
                row.push(or_dash(
                    arguments.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", "),
                ));
            } else {
                row.push(or_dash(text(version, "covers")));
                row.push(or_dash(joined(&version["readNotCompared"], "")));
            }
            row
        })
        .collect();
    table(&[&headers[..], last].concat(), &rows, room)
}

/// The texts of a list, each with something behind it.
fn joined(list: &Value, mark: &str) -> String {
    let texts: Vec<_> = items(list).filter_map(Value::as_str).map(|text| format!("{text}{mark}")).collect();
    texts.join(", ")
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
    table(&["FROM", "OBJECT", "STEP", "FUNCTION", "VERSION", "STATE", "MESSAGE"], &rows, room)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_default().to_owned()
}
