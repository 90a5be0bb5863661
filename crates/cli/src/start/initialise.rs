//! Writes the objects that controllers need to a cluster. Leaves existing ones as they are.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_api::Object;
use ferroplane_controllers::{Credentials, Names, announce, install};
use serde_json::{Value, json};

use super::Configuration;
use super::options::Webhooks;
use super::site::Site;

/// The kinds that we serve.
pub(super) async fn kinds(site: &Site) -> anyhow::Result<()> {
    install(&site.cluster).await.context("cannot install the CRDs")
}

/// The certificates of webhooks, and for functions.
pub(super) async fn credentials(configuration: &Configuration, site: &Site) -> anyhow::Result<Credentials> {
    let credentials =
        ferroplane_controllers::credentials(&site.cluster, &names(configuration), site.clock.timestamp())
            .await;
    credentials.context("cannot load or create certificates")
}

/// Has the API server ask us.
pub(super) async fn webhooks(
    configuration: &Configuration,
    site: &Site,
    credentials: &Credentials,
) -> anyhow::Result<()> {
    for wanted in wanted_webhooks(configuration, &credentials.authority, &credentials.webhook_secret) {
        announce(&site.cluster, &wanted).await.context("cannot register webhooks")?;
    }
    Ok(())
}

/// The webhooks that there should be. Their paths end in the secret, which distinguishes the API server from other clients.
pub(super) fn wanted_webhooks(configuration: &Configuration, authority: &str, secret: &str) -> Vec<Object> {
    let Some(webhooks) = &configuration.webhooks else { return Vec::new() };
    let authority = STANDARD.encode(authority);
    let address =
        |path: &str| address(webhooks, &configuration.namespace, &format!("{path}/{secret}"), &authority);
    ferroplane_controllers::webhooks(address).into()
}

fn address(webhooks: &Webhooks, namespace: &str, path: &str, authority: &str) -> Value {
    if let Some((url, _)) = &webhooks.url {
        return json!({"url": format!("{url}{path}"), "caBundle": authority});
    }
    let service = json!({"name": webhooks.service, "namespace": namespace, "path": path});
    json!({"service": service, "caBundle": authority})
}

/// What certificates are for.
pub(super) fn names(configuration: &Configuration) -> Names {
    let namespace = &configuration.namespace;
    let mut server = Vec::new();
    if let Some(webhooks) = &configuration.webhooks {
        let service = &webhooks.service;
        server.extend([
            service.clone(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc"),
        ]);
        server.extend(webhooks.url.iter().map(|(_, host)| host.clone()));
    }
    Names {
        namespace: namespace.clone(),
        authority_secret: configuration.authority_secret.clone(),
        server_secret: configuration.server_secret.clone(),
        client_secret: configuration.client_secret.clone(),
        server,
        client: format!("{}.{namespace}", configuration.service_account),
    }
}
