//! Writes packages to an API server, and waits for them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, PackageKind};
use ferroplane_client::{ApiClient, ObjectPath, Resource, Subresource};
use ferroplane_engine::packages::dns_label;
use ferroplane_image::Reference;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use crate::Verdict;
use crate::client::Access;
use crate::terminal::Terminal;

const API_VERSION: &str = "pkg.crossplane.io/v1";
const MANAGER: &str = "ferroplane/xpkg";
/// How often the server is asked whether a package is healthy.
const INTERVAL: Duration = Duration::from_millis(500);

/// A package as it shall be.
#[derive(Debug, Clone)]
pub(crate) struct WantedPackage {
    pub(crate) kind: PackageKind,
    pub(crate) name: String,
    pub(crate) spec: Object,
}

/// The result of waiting.
#[derive(Debug)]
pub(crate) enum Healthy {
    Yes,
    /// Not in time, and what the conditions say.
    No(String),
}

impl WantedPackage {
    pub(crate) fn new(kind: PackageKind, package: &Reference, name: Option<&str>) -> anyhow::Result<Self> {
        // As the schema has it, whose message is long.
        if !package.registry().contains('.') {
            bail!("cannot install `{package}`: the host of its registry has no dot");
        }
        if package.tag().is_none() && package.digest().is_none() {
            bail!("cannot install `{package}`: name its version, as in :v1.0.0");
        }
        let name = name.map_or_else(|| dns_label(package.repository()), str::to_owned);
        let spec = Map::from_iter([("package".to_owned(), json!(package.to_string()))]);
        Ok(Self { kind, name, spec })
    }

    /// How it is called in answers, as Crossplane's command line does.
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.kind.name().to_ascii_lowercase(), self.name)
    }

    fn object(&self) -> Object {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": self.kind.name(),
            "metadata": {"name": self.name},
            "spec": self.spec,
        });
        match object {
            Value::Object(object) => object,
            _ => Object::new(),
        }
    }
}

impl Healthy {
    /// Says what is wrong, if anything is.
    pub(crate) fn verdict(self, package: &WantedPackage, terminal: &mut Terminal) -> Verdict {
        match self {
            Self::Yes => Verdict::Yes,
            Self::No(why) => {
                terminal.failure(&format!("{} is not healthy yet: {why}", package.title()));
                Verdict::No
            }
        }
    }
}

/// A client that writes packages.
pub(crate) struct Installer {
    client: ApiClient,
    server: String,
}

impl Installer {
    /// Within a runtime: the client has a task of its own.
    pub(crate) fn new(access: &Access) -> anyhow::Result<Self> {
        let connection = access.connect()?;
        let client = connection.client.with_field_manager(MANAGER);
        Ok(Self { client, server: connection.server })
    }

    pub(crate) async fn create(&self, package: &WantedPackage) -> anyhow::Result<()> {
        if self.create_if_absent(package).await? {
            return Ok(());
        }
        let title = package.title();
        bail!("cannot install {title}: it exists already; change its version with `ferroplane xpkg update`")
    }

    /// Whether it was created now.
    pub(crate) async fn create_if_absent(&self, package: &WantedPackage) -> anyhow::Result<bool> {
        let resource = self.resource(package.kind).await?;
        match self.client.create(&resource, "", &package.object()).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_already_exists() => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot create {}", package.title())),
        }
    }

    pub(crate) async fn update(&self, package: &WantedPackage) -> anyhow::Result<()> {
        let resource = self.resource(package.kind).await?;
        let path = ObjectPath { resource: &resource, namespace: "", name: &package.name };
        let changes = json!({"spec": {"package": package.spec["package"]}});
        match self.client.merge(path, Subresource::None, &changes).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => {
                bail!(
                    "cannot update {}: there is no such package; name it as it is installed",
                    package.title()
                )
            }
            Err(error) => Err(error).with_context(|| format!("cannot update {}", package.title())),
        }
    }

    /// Wait until it is healthy, if --wait is given, and show progress.
    pub(crate) async fn wait_for(
        &self,
        package: &WantedPackage,
        limit: Option<Duration>,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Healthy> {
        let Some(limit) = limit else { return Ok(Healthy::Yes) };
        let spinner = terminal.spinner("waiting until the package is healthy");
        let outcome = self.wait(package, limit).await;
        spinner.finish_and_clear();
        outcome
    }

    /// Wait until it is healthy as it is now.
    async fn wait(&self, package: &WantedPackage, limit: Duration) -> anyhow::Result<Healthy> {
        let deadline = Instant::now() + limit;
        let resource = self.resource(package.kind).await?;
        let path = ObjectPath { resource: &resource, namespace: "", name: &package.name };
        loop {
            let Some(object) = self.client.get_object(path).await? else {
                bail!("{} was deleted meanwhile", package.title());
            };
            let Some(why) = unhealthy(&object) else { return Ok(Healthy::Yes) };
            if Instant::now() + INTERVAL > deadline {
                return Ok(Healthy::No(why));
            }
            sleep(INTERVAL).await;
        }
    }

    async fn resource(&self, kind: PackageKind) -> anyhow::Result<Arc<Resource>> {
        let resource = self.client.resource(API_VERSION, kind.name()).await;
        let resource = resource.with_context(|| format!("cannot discover the kinds of {}", self.server))?;
        resource.with_context(|| {
            format!("{} does not serve {kind} of {API_VERSION}: it is not a control plane", self.server)
        })
    }
}

/// Why a package is not healthy, if it is not.
fn unhealthy(package: &Object) -> Option<String> {
    let generation = package.get("metadata").and_then(|metadata| metadata.get("generation")?.as_i64());
    let conditions = package.get("status").and_then(|status| status.get("conditions")?.as_array());
    let condition = |wanted: &str| {
        conditions.into_iter().flatten().find(|it| it.get("type").and_then(Value::as_str) == Some(wanted))
    };
    let Some(healthy) = condition("Healthy") else {
        return Some("the control plane has not reconciled it yet".to_owned());
    };
    let text = |condition: &Value, field: &str| {
        condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    // A condition of the version before says nothing about this one.
    let is_current = healthy
        .get("observedGeneration")
        .and_then(Value::as_i64)
        .is_none_or(|observed| generation.is_none_or(|generation| observed >= generation));
    if !is_current {
        return Some("the control plane has not reconciled the new version yet".to_owned());
    }
    if text(healthy, "status") == "True" {
        return None;
    }
    let installed = condition("Installed").filter(|installed| text(installed, "status") == "False");
    let because = installed.unwrap_or(healthy);
    let (reason, message) = (text(because, "reason"), text(because, "message"));
    Some(if message.is_empty() { reason } else { format!("{reason}: {message}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(conditions: &Value) -> Object {
        let package = json!({"metadata": {"generation": 2}, "status": {"conditions": conditions}});
        package.as_object().cloned().unwrap()
    }

    #[test]
    fn package_is_healthy_once_its_newest_version_is() {
        assert_eq!(unhealthy(&package(&json!([{"type": "Healthy", "status": "True"}]))), None);
        let current = json!([{"type": "Healthy", "status": "True", "observedGeneration": 2}]);
        assert_eq!(unhealthy(&package(&current)), None);
        let old = json!([{"type": "Healthy", "status": "True", "observedGeneration": 1}]);
        assert!(unhealthy(&package(&old)).is_some());
        let failed = json!([
            {"type": "Healthy", "status": "False", "reason": "UnhealthyPackageRevision"},
            {"type": "Installed", "status": "False", "reason": "UnpackingPackage", "message": "cannot pull"},
        ]);
        assert_eq!(unhealthy(&package(&failed)).as_deref(), Some("UnpackingPackage: cannot pull"));
        assert!(unhealthy(&package(&json!([]))).is_some());
    }
}
