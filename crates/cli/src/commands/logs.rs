//! `ferroplane logs`: shows the output of a function or provider.

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, PackageKind, keys, meta};
use ferroplane_client::{Query, Resource};
use futures_util::io::AsyncBufReadExt as _;
use futures_util::stream::{BoxStream, select_all};
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::Verdict;
use crate::client::{Access, Connection};
use crate::explain::block_on;
use crate::terminal::{Terminal, until_unread};
use crate::up::function_logs::{OF_FUNCTIONS, OF_PROVIDERS};

/// Show the output of a function or provider
///
/// The control plane of `ferroplane up` keeps the last 10,000 lines of each program that it runs from a package, up to 1 MiB, until it
/// ends. If several revisions of a Function run, each line begins with the name of the revision. On a cluster, programs run in pods: use
/// `kubectl logs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane logs function/function-example
  ferroplane logs function/function-example --follow --tail 10
  ferroplane logs functionrevision/function-example-1234567890ab
  ferroplane logs provider/provider-example --follow")]
pub(crate) struct Logs {
    /// Function or Provider, as function/NAME, or one of its revisions, as functionrevision/NAME
    #[arg(value_name = "KIND/NAME", value_parser = parse_subject)]
    subject: Subject,

    /// Print lines as they come, until the program or the control plane ends
    #[arg(short, long)]
    follow: bool,

    /// Show the last lines only
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,

    #[command(flatten)]
    access: Access,
}

/// Whose log is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    kind: PackageKind,
    name: String,
    is_revision: bool,
}

fn parse_subject(text: &str) -> Result<Subject, String> {
    let parts = text.split_once('/').filter(|(_, name)| !name.is_empty());
    let known = parts.and_then(|(kind, name)| {
        let (kind, is_revision) = match kind.trim_end_matches('s') {
            "function" => (PackageKind::Function, false),
            "functionrevision" => (PackageKind::Function, true),
            "provider" => (PackageKind::Provider, false),
            "providerrevision" => (PackageKind::Provider, true),
            _ => return None,
        };
        Some(Subject { kind, name: name.to_owned(), is_revision })
    });
    known.ok_or_else(|| {
        format!("expected function/NAME, provider/NAME, functionrevision/NAME or providerrevision/NAME, got `{text}`")
    })
}

impl Logs {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        block_on(async {
            let connection = self.access.connect()?;
            let lines = terminal.wait_for_server(self.open(&connection)).await?;
            tokio::select! {
                printed = print(lines, terminal) => printed?,
                () = until_unread() => {}
            }
            Ok(Verdict::Yes)
        })
    }

    /// Asks for the lines of all logs that are meant.
    async fn open(
        &self,
        connection: &Connection,
    ) -> anyhow::Result<BoxStream<'static, std::io::Result<String>>> {
        if !connection.is_embedded().await {
            bail!(
                "{} is not the API server of `ferroplane up`: programs of packages on a cluster run in pods, and `kubectl logs` shows what they print",
                connection.server
            );
        }
        let revisions = self.revisions(connection).await?;
        self.lines(connection, &revisions).await
    }

    /// The names of the revisions whose logs are meant.
    async fn revisions(&self, connection: &Connection) -> anyhow::Result<Vec<String>> {
        let Subject { kind, name: package, is_revision } = &self.subject;
        if *is_revision {
            return Ok(vec![package.clone()]);
        }
        let resource = revisions(*kind);
        let listed = connection.client.list_objects(&resource, "", &Query::default()).await;
        let listed =
            listed.with_context(|| format!("cannot list {}s of {}", resource.kind, connection.server))?;
        let is_meant = |revision: &&Object| {
            let state = revision.get("spec").and_then(|spec| spec.get("desiredState")?.as_str());
            meta::label(revision, keys::PACKAGE) == package && state == Some("Active")
        };
        let mut names: Vec<_> =
            listed.iter().filter(is_meant).map(|revision| meta::name(revision).to_owned()).collect();
        names.sort();
        if names.is_empty() {
            bail!("there is no {} `{package}` with an active revision", kind.name());
        }
        Ok(names)
    }

    /// The lines of all logs together.
    async fn lines(
        &self,
        connection: &Connection,
        revisions: &[String],
    ) -> anyhow::Result<BoxStream<'static, std::io::Result<String>>> {
        let mut logs = Vec::new();
        for revision in revisions {
            let prefix = if revisions.len() > 1 { format!("{revision}: ") } else { String::new() };
            let request = http::Request::get(self.path(revision)).body(Vec::new());
            let request =
                request.with_context(|| format!("`{revision}` is not a valid name of a revision"))?;
            let log = connection
                .kube
                .request_stream(request)
                .await
                .map_err(|error| self.explain(error, revision))?;
            logs.push(Box::pin(log.lines().map_ok(move |line| format!("{prefix}{line}"))));
        }
        Ok(select_all(logs).boxed())
    }

    fn path(&self, revision: &str) -> String {
        let tail = self.tail.map(|lines| format!("&tail={lines}")).unwrap_or_default();
        let below = if self.subject.kind == PackageKind::Provider { OF_PROVIDERS } else { OF_FUNCTIONS };
        format!("{below}{revision}?follow={}{tail}", self.follow)
    }

    fn explain(&self, error: kube::Error, revision: &str) -> anyhow::Error {
        let is_unknown = matches!(&error, kube::Error::Api(status) if status.code == 404);
        if is_unknown {
            let kind = self.subject.kind.revision().to_lowercase();
            return anyhow::anyhow!(
                "this control plane does not run `{revision}` from its package, so it has no log of it; `ferroplane why {kind}/{revision}` may say why"
            );
        }
        anyhow::Error::from(error).context(format!("cannot read the log of `{revision}`"))
    }
}

async fn print(
    mut lines: BoxStream<'static, std::io::Result<String>>,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    while let Some(line) = lines.next().await {
        terminal.text(&format!("{}\n", line.context("cannot read the log")?))?;
    }
    Ok(())
}

fn revisions(kind: PackageKind) -> Resource {
    Resource {
        api_version: format!("{}/v1", keys::PKG),
        kind: kind.revision().to_owned(),
        plural: format!("{}s", kind.revision().to_lowercase()),
        is_namespaced: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_a_package_or_a_revision() {
        let subject = |kind, name: &str, is_revision| Subject { kind, name: name.to_owned(), is_revision };
        assert_eq!(parse_subject("function/a"), Ok(subject(PackageKind::Function, "a", false)));
        assert_eq!(parse_subject("functionrevision/a-1"), Ok(subject(PackageKind::Function, "a-1", true)));
        assert_eq!(parse_subject("providers/a"), Ok(subject(PackageKind::Provider, "a", false)));
        assert_eq!(parse_subject("providerrevisions/a-1"), Ok(subject(PackageKind::Provider, "a-1", true)));
        for nonsense in ["a", "function/", "pod/a", ""] {
            assert!(parse_subject(nonsense).is_err(), "{nonsense}");
        }
    }
}
