//! `ferroplane logs`: what a function printed.

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{Query, Resource};
use futures_util::io::AsyncBufReadExt as _;
use futures_util::stream::{BoxStream, select_all};
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::Verdict;
use crate::client::{Access, Connection};
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::up::function_logs::BELOW;

/// Show what a function printed
///
/// The control plane of `ferroplane up` keeps the last 10,000 lines of each function that it runs from a package, up to 1 MiB, until it
/// ends. Lines of a Function of which several revisions run begin with the name of the revision. On a cluster, functions run in pods: use `kubectl logs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane logs function/function-example
  ferroplane logs function/function-example --follow --tail 10
  ferroplane logs functionrevision/function-example-1234567890ab")]
pub(crate) struct Logs {
    /// Function, as function/NAME, or one of its revisions, as functionrevision/NAME
    #[arg(value_name = "KIND/NAME", value_parser = parse_subject)]
    subject: Subject,

    /// Print lines as they come, until the function or the control plane ends
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
enum Subject {
    Function(String),
    Revision(String),
}

fn parse_subject(text: &str) -> Result<Subject, String> {
    match text.split_once('/').filter(|(_, name)| !name.is_empty()) {
        Some(("function" | "functions", name)) => Ok(Subject::Function(name.to_owned())),
        Some(("functionrevision" | "functionrevisions", name)) => Ok(Subject::Revision(name.to_owned())),
        _ => Err(format!("expected function/NAME or functionrevision/NAME, got `{text}`")),
    }
}

impl Logs {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        block_on(async {
            let connection = self.access.connect()?;
            if !connection.is_embedded().await {
                bail!(
                    "{} is not the API server of `ferroplane up`: functions on a cluster run in pods, and `kubectl logs` shows what they print",
                    connection.server
                );
            }
            let revisions = self.revisions(&connection).await?;
            let mut lines = self.lines(&connection, &revisions).await?;
            while let Some(line) = lines.next().await {
                terminal.text(&format!("{}\n", line.context("cannot read the log")?))?;
            }
            Ok(Verdict::Yes)
        })
    }

    /// The names of the revisions whose logs are meant.
    async fn revisions(&self, connection: &Connection) -> anyhow::Result<Vec<String>> {
        let function = match &self.subject {
            Subject::Revision(revision) => return Ok(vec![revision.clone()]),
            Subject::Function(function) => function,
        };
        let listed = connection.client.list_objects(&revisions(), "", &Query::default()).await;
        let listed =
            listed.with_context(|| format!("cannot list FunctionRevisions of {}", connection.server))?;
        let is_meant = |revision: &&Object| {
            let state = revision.get("spec").and_then(|spec| spec.get("desiredState")?.as_str());
            meta::label(revision, keys::PACKAGE) == function && state == Some("Active")
        };
        let mut names: Vec<_> =
            listed.iter().filter(is_meant).map(|revision| meta::name(revision).to_owned()).collect();
        names.sort();
        if names.is_empty() {
            bail!("there is no Function `{function}` with an active revision");
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
            let request = request.with_context(|| format!("`{revision}` is no name of a revision"))?;
            let log =
                connection.kube.request_stream(request).await.map_err(|error| explain(error, revision))?;
            logs.push(Box::pin(log.lines().map_ok(move |line| format!("{prefix}{line}"))));
        }
        Ok(select_all(logs).boxed())
    }

    fn path(&self, revision: &str) -> String {
        let tail = self.tail.map(|lines| format!("&tail={lines}")).unwrap_or_default();
        format!("{BELOW}{revision}?follow={}{tail}", self.follow)
    }
}

fn revisions() -> Resource {
    Resource {
        api_version: format!("{}/v1", keys::PKG),
        kind: "FunctionRevision".to_owned(),
        plural: "functionrevisions".to_owned(),
        is_namespaced: false,
    }
}

fn explain(error: kube::Error, revision: &str) -> anyhow::Error {
    let is_unknown = matches!(&error, kube::Error::Api(status) if status.code == 404);
    if is_unknown {
        return anyhow::anyhow!(
            "this control plane does not run `{revision}` from its package, so that it has no log of it; `ferroplane why functionrevision/{revision}` may say why"
        );
    }
    anyhow::Error::from(error).context(format!("cannot read the log of `{revision}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_a_function_or_a_revision() {
        assert_eq!(parse_subject("function/a"), Ok(Subject::Function("a".to_owned())));
        assert_eq!(parse_subject("functionrevision/a-1"), Ok(Subject::Revision("a-1".to_owned())));
        for nonsense in ["a", "function/", "pod/a", ""] {
            assert!(parse_subject(nonsense).is_err(), "{nonsense}");
        }
    }
}
