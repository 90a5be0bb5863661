//! A real API server, with its controllers. All tests share it, one after the other.

use std::env;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_client::{BearerToken, Endpoint, Transport};
use ferroplane_controllers::Protection;
use http::Method;
use serde_json::json;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::super::send;
use super::webhook::Webhook;
use super::{cleanup, master};

static TURN: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);

pub struct Real {
    transport: Transport,
    webhook: Webhook,
    _turn: OwnedMutexGuard<()>,
}

impl Real {
    /// The server that the environment names, swept, if it names one.
    pub(super) async fn find() -> Option<Self> {
        let transport = transport()?;
        env::var_os("FERROPLANE_ORACLE_CONTROLLERS").expect("the server runs with controllers");
        let turn = TURN.clone().lock_owned().await;
        let real = Self { transport, webhook: Webhook::start().await, _turn: turn };
        cleanup::sweep(&real.client(&master("user"))).await;
        Some(real)
    }

    pub(super) fn client(&self, who: &Identity) -> kube::Client {
        kube::Client::new(self.service(who), "default")
    }

    pub(super) fn service(&self, who: &Identity) -> Transport {
        self.transport.impersonating(&who.name, &who.groups)
    }

    /// Have this asked before anything is deleted that is in use, and wait until it is.
    pub(super) async fn protect(&self, protection: Protection) {
        self.webhook.seat(protection.clone());
        protection.announce(&self.webhook.address()).await.unwrap();
        let client = self.client(&master("user"));
        let maps = "/api/v1/namespaces/kube-public/configmaps";
        let labels = json!({"crossplane.io/in-use": "true"});
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "asked", "labels": labels}});
        loop {
            send(&client, Method::POST, maps, "application/json", &map).await;
            let path = format!("{maps}/asked");
            let (code, _) = send(&client, Method::DELETE, &path, "application/json", &json!(null)).await;
            if code == 200 && self.webhook.was_asked() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The server that the environment names, if it names one.
pub(super) fn transport() -> Option<Transport> {
    let url = env::var("FERROPLANE_ORACLE_URL").ok().filter(|url| !url.is_empty())?;
    let authority = env::var("FERROPLANE_ORACLE_CA").expect("the server has a certificate");
    let token = env::var("FERROPLANE_ORACLE_TOKEN").expect("the server has a token");
    let endpoint = Endpoint {
        server: url,
        authorities: Some(std::fs::read(authority).unwrap()),
        token: Some(BearerToken::Text(token)),
        ..Endpoint::default()
    };
    Some(Transport::new(endpoint).unwrap())
}
