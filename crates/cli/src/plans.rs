//! Plans of changes: asks a control plane for one, answers for it, keeps it in a file.
//!
//! Functions can be called only by the control plane that runs them, so the plane plans. It is asked by a POST to [`PATH`], which it
//! answers to a user who may `post` there, with nothing that they may not read.

pub(crate) mod drawing;
pub(crate) mod saved;
pub(crate) mod serve;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error};
use ferroplane_controllers::PlanRequest;
use ferroplane_engine::changes::ChangePlan;
use ferroplane_offline::manifest::Files;

use crate::client::Connection;
use crate::terminal::Terminal;
use crate::up::apply_rank;

/// Where plans are asked for.
pub(crate) const PATH: &str = "/ferroplane/plans";
/// How long a plan may take. The plane gives up after a minute.
const PATIENCE: Duration = Duration::from_secs(70);

/// The objects in files and directories, in the order in which they are applied.
pub(crate) fn read_files(paths: &[PathBuf]) -> anyhow::Result<Vec<Object>> {
    let mut files = Files::default();
    let mut objects = Vec::new();
    for path in paths {
        for source in files.find(path)? {
            let file = match &source {
                ferroplane_offline::manifest::ManifestSource::File(file) => file.clone(),
                ferroplane_offline::manifest::ManifestSource::Stdin => PathBuf::from("-"),
            };
            for manifest in files.load(&file)? {
                manifest.require_identity("the object")?;
                manifest.require_sane_metadata()?;
                objects.push(manifest.object().clone());
            }
        }
    }
    if objects.is_empty() {
        let names: Vec<_> = paths.iter().map(|path: &PathBuf| Path::display(path).to_string()).collect();
        bail!("there is no object in {}", names.join(", "));
    }
    objects.sort_by_key(apply_rank);
    Ok(objects)
}

/// Put objects that name no namespace into that of the context, as `kubectl` does. Kinds that have none, or are not served, are left alone.
pub(crate) async fn add_namespaces(objects: &mut [Object], connection: &Connection) -> anyhow::Result<()> {
    for object in objects.iter_mut().filter(|object| meta::namespace(object).is_empty()) {
        let (api_version, kind) = (meta::api_version(object), meta::kind(object));
        let resource = connection.client.resource(api_version, kind).await;
        let resource = resource.with_context(|| format!("cannot find out whether {kind} is namespaced"))?;
        if resource.is_some_and(|resource| resource.is_namespaced) {
            meta::set_field(object, "namespace", &connection.namespace);
        }
    }
    Ok(())
}

/// Ask a control plane what a change would do.
pub(crate) async fn ask(
    client: &ApiClient,
    request: &PlanRequest,
    terminal: &mut Terminal,
) -> anyhow::Result<ChangePlan> {
    let client = client.clone().with_timeout(PATIENCE);
    let spinner = terminal.spinner("planning");
    let answer = client.review(PATH, &serde_json::to_value(request)?).await;
    spinner.finish_and_clear();
    match answer {
        Ok(answer) => serde_json::from_value(answer).context("cannot read the plan"),
        Err(error) if error.code() == Some(404) => bail!(
            "this API server makes no plans: it is not `ferroplane up`; for `ferroplane start` on a cluster, forward a port to the \
             replica that leads and name it with --plane (see docs/diff.md)"
        ),
        Err(Error::Refused(status)) => bail!("{}", status.message),
        Err(error) => Err(error).context("cannot get a plan from the control plane"),
    }
}
