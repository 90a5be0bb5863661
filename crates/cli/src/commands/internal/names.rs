//! `ferroplane internal names`: the names of objects, for scripts that complete command lines.

use std::time::Duration;

use anyhow::Context as _;
use ferroplane_api::meta;
use ferroplane_client::Query;

use crate::Verdict;
use crate::client::Access;
use crate::explain::block_on;
use crate::terminal::Terminal;

/// A shell that completes a line does not wait longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Print the names of the objects of a kind, a line each
#[derive(Debug, clap::Args)]
pub(super) struct Names {
    /// The kind: `app`, `apps`, `App` or `apps.example.org`
    kind: String,

    #[command(flatten)]
    access: Access,
}

impl Names {
    pub(super) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let names = block_on(async {
            let names = tokio::time::timeout(PATIENCE, self.names()).await;
            names.context("the API server does not answer")?
        })?;
        terminal.text(&names)?;
        Ok(Verdict::Yes)
    }

    /// In the namespace of the context, if the kind has namespaces.
    async fn names(&self) -> anyhow::Result<String> {
        let connection = self.access.connect()?;
        let server = &connection.server;
        let catalogue = connection.client.catalogue().await;
        let catalogue = catalogue.with_context(|| format!("cannot discover the kinds of {server}"))?;
        let resource = catalogue.find(&self.kind);
        let resource = resource.with_context(|| format!("there is no kind `{}`", self.kind))?;
        let namespace = if resource.is_namespaced { connection.namespace.as_str() } else { "" };
        let objects = connection.client.list_objects(resource, namespace, &Query::default()).await;
        let objects = objects.with_context(|| format!("cannot list {}", resource.plural))?;
        let mut names = String::new();
        for object in &objects {
            names.push_str(meta::name(object));
            names.push('\n');
        }
        Ok(names)
    }
}
