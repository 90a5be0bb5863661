//! A real API server, with its controllers. All tests share it, one after the other.

use std::env;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_controllers::Protection;
use http::{Method, Request, Response};
use kube::client::Body;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tower_service::Service;

use super::hook::Hook;
use super::{broom, master};
use crate::plane::send;

static TURN: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);

pub(crate) struct Real {
    config: kube::Config,
    hook: Hook,
    _turn: OwnedMutexGuard<()>,
}

impl Real {
    /// The server that the environment names, swept, if it names one.
    pub(super) async fn find() -> Option<Self> {
        let url = env::var("FERROPLANE_ORACLE_URL").ok().filter(|url| !url.is_empty())?;
        env::var_os("FERROPLANE_ORACLE_CONTROLLERS").expect("the server runs with controllers");
        let turn = TURN.clone().lock_owned().await;
        // The first one has chosen for all.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let authority = env::var("FERROPLANE_ORACLE_CA").expect("the server has a certificate");
        let token = env::var("FERROPLANE_ORACLE_TOKEN").expect("the server has a token");
        let mut config = kube::Config::new(url.parse().unwrap());
        config.root_cert = Some(vec![CertificateDer::from_pem_file(authority).unwrap().to_vec()]);
        config.auth_info.token = Some(token.into());
        // What the server says is what we want to hear, not what it says when asked often enough.
        config.default_retry = false;
        let real = Self { config, hook: Hook::start().await, _turn: turn };
        broom::sweep(&real.client(&master("user"))).await;
        Some(real)
    }

    pub(super) fn client(&self, who: &Identity) -> kube::Client {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(who.name.clone());
        config.auth_info.impersonate_groups = Some(who.groups.clone());
        kube::Client::try_from(config).unwrap()
    }

    pub(super) fn door(&self, who: &Identity) -> Through {
        Through(self.client(who))
    }

    /// Have this asked before anything is deleted that is in use, and wait until it is.
    pub(super) async fn protect(&self, protection: Protection) {
        self.hook.seat(protection.clone());
        protection.announce(&self.hook.address()).await.unwrap();
        let client = self.client(&master("user"));
        let maps = "/api/v1/namespaces/kube-public/configmaps";
        let labels = json!({"crossplane.io/in-use": "true"});
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "asked", "labels": labels}});
        loop {
            send(&client, Method::POST, maps, "application/json", &map).await;
            let path = format!("{maps}/asked");
            let (code, _) = send(&client, Method::DELETE, &path, "application/json", &json!(null)).await;
            if code == 200 && self.hook.was_asked() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What goes through a client, as a service.
#[derive(Clone)]
pub(super) struct Through(kube::Client);

impl Service<Request<Body>> for Through {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move { client.send(request).await })
    }
}
