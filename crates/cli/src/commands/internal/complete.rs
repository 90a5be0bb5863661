//! `ferroplane internal complete`: the words that complete a command line, for the completion scripts of all shells.

mod command_line;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_api::{Object, meta};
use ferroplane_client::{Query, Resource};

use crate::Verdict;
use crate::client::{Access, Connection};
use crate::explain::block_on;
use crate::terminal::Terminal;
use command_line::{CommandLine, Completion, Source};

/// A shell that completes a line does not wait longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Print the names that complete a command line, a line each
///
/// Names of objects and namespaces are those of the control plane that the command line selects, contexts are those of its kubeconfig.
#[derive(Debug, clap::Args)]
pub(super) struct Complete {
    /// Complete the word after the last one, which has not begun
    #[arg(long)]
    next: bool,

    /// The words of the command line after the name of the program, up to the cursor
    #[arg(last = true, value_name = "WORD")]
    words: Vec<String>,
}

impl Complete {
    pub(super) fn run(mut self, command: &clap::Command, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        if self.next {
            self.words.push(String::new());
        }
        let Some((word, before)) = self.words.split_last() else { return Ok(Verdict::Yes) };
        let line = CommandLine::read(command, before);
        let Some(completion) = line.completion(word) else { return Ok(Verdict::Yes) };
        let names = names(&completion.source, &line)?;
        terminal.text(&lines(&names, &completion))?;
        Ok(Verdict::Yes)
    }
}

/// The names that begin with what was typed.
fn lines(names: &[String], completion: &Completion) -> String {
    let Completion { prefix, typed, .. } = completion;
    let line = |name: &String| format!("{prefix}{name}\n");
    names.iter().filter(|name| name.starts_with(typed)).map(line).collect()
}

fn names(source: &Source, line: &CommandLine) -> anyhow::Result<Vec<String>> {
    let file = |flag: &str| line.value(flag).map(PathBuf::from);
    let context = line.value("context").map(str::to_owned);
    let access = Access::new(file("kubeconfig"), context, file("data-dir"));
    let kind = match source {
        Source::Contexts => return access.contexts(),
        Source::Namespaces => None,
        Source::Objects { kind } => Some(kind.as_str()),
    };
    block_on(async {
        let connection = access.connect()?;
        let objects = match kind {
            Some(kind) => tokio::time::timeout(PATIENCE, objects(&connection, kind, line)).await,
            None => tokio::time::timeout(PATIENCE, namespaces(&connection)).await,
        };
        let objects = objects.context("the API server does not answer")??;
        Ok(objects.iter().map(|object| meta::name(object).to_owned()).collect())
    })
}

async fn namespaces(connection: &Connection) -> anyhow::Result<Vec<Object>> {
    let namespaces = Resource {
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        plural: "namespaces".to_owned(),
        is_namespaced: false,
    };
    let list = connection.client.list_objects(&namespaces, "", &Query::default()).await;
    list.context("cannot list namespaces")
}

/// The objects of a kind: in the namespace that the command line names, or in that of the context.
async fn objects(connection: &Connection, kind: &str, line: &CommandLine<'_>) -> anyhow::Result<Vec<Object>> {
    let server = &connection.server;
    let catalogue = connection.client.catalogue().await;
    let catalogue = catalogue.with_context(|| format!("cannot discover the kinds of {server}"))?;
    let resource = catalogue.find(kind).with_context(|| format!("there is no kind `{kind}`"))?;
    let namespace = line.value("namespace").unwrap_or(&connection.namespace);
    let namespace = if resource.is_namespaced { namespace } else { "" };
    let list = connection.client.list_objects(resource, namespace, &Query::default()).await;
    list.with_context(|| format!("cannot list {}", resource.plural))
}
