//! Reads the objects that explain another one, and shows the explanation.

pub(crate) mod audit;
pub(crate) mod drawing;
mod reader;
mod survey;
pub(crate) mod then;
mod watching;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ferroplane_explain::{Id, KnownFunction, Overview, Purpose, Snapshot};
use ferroplane_functions::Library;

use crate::client::{Access, Connection};
use crate::terminal::Terminal;
use reader::Reader;

/// Which object
#[derive(Debug, clap::Args)]
pub(crate) struct Subject {
    /// The object: `KIND/NAME`, `KIND.GROUP/NAME`, or `KIND NAME`
    #[arg(value_name = "KIND/NAME")]
    what: Option<String>,

    /// The name of the object, if it is not part of the first argument
    name: Option<String>,

    /// The namespace of the object [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    access: Access,
}

/// An object of which everything that belongs to it can be read, again and again.
pub(crate) struct Inquiry {
    reader: Reader,
    pub(crate) root: Id,
}

impl Subject {
    /// Finds out what is meant.
    pub(crate) async fn inquire(&self) -> anyhow::Result<Inquiry> {
        let (kind, name) = self.names()?;
        let connection = self.access.connect()?;
        let Connection { server, namespace, .. } = &connection;
        let reader = Reader::start(&connection).await;
        let reader =
            reader.with_context(|| format!("cannot reach the API server at {server}; is it running?"))?;
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        let root = root(&reader, kind, namespace, name);
        Ok(Inquiry { reader, root })
    }

    /// What people call its kind, and its name.
    pub(crate) fn names(&self) -> anyhow::Result<(&str, &str)> {
        let what = self.what.as_deref().unwrap_or_default();
        match (what.split_once('/'), &self.name) {
            (Some((kind, name)), None) if !kind.is_empty() && !name.is_empty() => Ok((kind, name)),
            (None, Some(name)) => Ok((what, name)),
            _ => bail!("no object is named: name an object as KIND/NAME, or as KIND NAME"),
        }
    }

    /// Whether no object was named.
    pub(crate) fn is_everything(&self) -> bool {
        self.what.is_none()
    }

    /// Everything that is not ready.
    pub(crate) async fn survey(&self) -> anyhow::Result<Overview> {
        let connection = self.access.connect()?;
        let reader = Reader::start(&connection).await;
        let server = &connection.server;
        let reader =
            reader.with_context(|| format!("cannot reach the API server at {server}; is it running?"))?;
        reader.survey(self.namespace.as_deref()).await
    }

    /// The namespace, if the arguments name one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The data directory of `ferroplane up`, if one is named.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        self.access.data_dir()
    }
}

impl Inquiry {
    pub(crate) async fn read(&self, purpose: Purpose) -> anyhow::Result<Snapshot> {
        self.reader.read(&self.root, purpose).await
    }
}

/// The object that is meant. If there is no such kind, an object that does not exist.
fn root(reader: &Reader, kind: &str, namespace: &str, name: &str) -> Id {
    match reader.catalogue().find(kind) {
        Some(found) => {
            let namespace = if found.is_namespaced { namespace } else { "" };
            Id::new(&found.api_version, &found.kind, namespace, name)
        }
        None => Id::new("", kind, "", name),
    }
}

/// What the catalogue says about functions. A build without a catalogue knows none of them.
pub(crate) fn known_functions() -> Vec<KnownFunction> {
    let Ok(library) = Library::built_in() else { return Vec::new() };
    let names = library.catalogue().families().map(|family| &family.function);
    let known = |name: &String| {
        let contract = library.contract(name)?;
        let (composes, declares_readiness) = (!contract.never_composes, contract.declares_readiness);
        Some(KnownFunction { name: name.clone(), composes, declares_readiness })
    };
    names.filter_map(known).collect()
}

/// Runs requests to a control plane. A terminal shows that they are in progress if they take longer than a second.
pub(crate) fn ask<T>(
    terminal: &mut Terminal,
    requests: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    block_on(terminal.wait_for_server(requests))
}

/// Runs something that waits for a server.
pub(crate) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.context("cannot start")?.block_on(future)
}
