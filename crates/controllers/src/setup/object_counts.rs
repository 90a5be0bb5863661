//! Counts the objects that we manage on a cluster. Changes nothing.

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error, Query, Resource};
use serde_json::Value;

/// How many times to retry if a server asks for it.
const TRIES: u32 = 10;

/// The number of objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The name of the kind, for people.
    pub what: String,
    pub count: usize,
    pub names: Vec<String>,
    /// Whether it is a package.
    pub is_package: bool,
}

/// Count definitions, compositions, composite resources and packages. Kinds that are not served are left out.
pub async fn count_objects(cluster: &ApiClient) -> Result<Vec<Counted>, Error> {
    let mut found = Vec::new();
    let definitions = list(cluster, "apiextensions.crossplane.io/v1", "compositeresourcedefinitions").await?;
    let Some(definitions) = definitions else { return Ok(found) };
    found.push(counted("CompositeResourceDefinition".to_owned(), &definitions, false));
    for (api_version, plural, kind, is_package) in [
        ("apiextensions.crossplane.io/v1", "compositions", "Composition", false),
        ("pkg.crossplane.io/v1", "functions", "Function", true),
        ("pkg.crossplane.io/v1", "providers", "Provider", true),
        ("pkg.crossplane.io/v1", "configurations", "Configuration", true),
    ] {
        if let Some(objects) = list(cluster, api_version, plural).await? {
            found.push(counted(kind.to_owned(), &objects, is_package));
        }
    }
    for definition in &definitions {
        let Some((api_version, plural, kind)) = defined(definition) else { continue };
        if let Some(objects) = list(cluster, &api_version, &plural).await? {
            found.push(counted(format!("{kind}.{}", meta::group(&api_version)), &objects, false));
        }
    }
    Ok(found)
}

fn counted(what: String, objects: &[Object], is_package: bool) -> Counted {
    let names = objects.iter().map(|object| meta::name(object).to_owned()).collect();
    Counted { what, count: objects.len(), names, is_package }
}

/// The version that compositions refer to, the plural and the kind of a definition.
fn defined(definition: &Object) -> Option<(String, String, String)> {
    let spec = definition.get("spec")?;
    let mut versions = spec["versions"].as_array()?.iter();
    let version = versions.find(|version| version["referenceable"] == true)?["name"].as_str()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let api_version = format!("{}/{version}", spec["group"].as_str()?);
    Some((api_version, text(&spec["names"]["plural"])?, text(&spec["names"]["kind"])?))
}

/// Empty if the kind does not exist, or we may not read it.
async fn list(cluster: &ApiClient, api_version: &str, plural: &str) -> Result<Option<Vec<Object>>, Error> {
    let resource = Resource {
        api_version: api_version.to_owned(),
        kind: String::new(),
        plural: plural.to_owned(),
        is_namespaced: false,
    };
    let mut listed = cluster.list_objects(&resource, "", &Query::default()).await;
    // A server that has just been given a kind is not ready for it yet, and returns when to retry.
    for _ in 0..TRIES {
        let Some(pause) = listed.as_ref().err().and_then(Error::retry_after) else { break };
        tokio::time::sleep(pause).await;
        listed = cluster.list_objects(&resource, "", &Query::default()).await;
    }
    match listed {
        Err(error) if error.is_not_found() || error.is_forbidden() => Ok(None),
        objects => objects.map(Some),
    }
}
