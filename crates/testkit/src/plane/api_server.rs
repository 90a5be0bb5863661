//! The API server of a plane: one in memory or, if the environment names one, a real one.

mod cleanup;
mod real;
mod restartable;
mod webhook;

use std::path::Path;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::auth::rbac::CUSTOM_RESOURCES;
use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{InProcessWebhook, Server, Settings};
use ferroplane_client::ApiClient;
use ferroplane_controllers::{
    ADVISOR_PATH, Advisor, PROTECTION_PATH, Protection, grant_rights, reserved_groups,
};
use serde_json::{Value, json};

use super::exec_service::ExecService;
use super::write_log::WriteLog;
use crate::Kubelet;
use real::Real;

pub use restartable::{RestartableServer, RestartableService, StoredState};

/// The API server of a plane.
pub enum ApiServer {
    Embedded(Server),
    /// One in memory that is stopped and started again.
    Restartable(RestartableServer),
    Real(Box<Real>),
}

impl ApiServer {
    /// An API server that nothing else uses, without anything that its last user left.
    pub async fn find() -> Self {
        if let Some(real) = Real::find().await {
            return Self::Real(Box::new(real));
        }
        Self::embedded(Options::default()).await
    }

    /// A client of the real API server that the environment names, as it is.
    pub fn reach(who: &Identity) -> kube::Client {
        let transport = real::transport().expect("the environment names a server");
        kube::Client::new(transport.impersonating(&who.name, &who.groups), "default")
    }

    /// An API server in memory.
    pub async fn embedded(options: Options) -> Self {
        Self::on(Store::in_memory(options).unwrap()).await
    }

    /// An API server in this process whose objects are in a directory.
    pub async fn open(directory: &Path) -> Self {
        Self::on(Store::open(directory, Options::default()).unwrap()).await
    }

    async fn on(store: Store) -> Self {
        let settings = Settings { reserved_groups: reserved_groups(), ..Settings::default() };
        Self::Embedded(Server::start(store, settings).await.unwrap())
    }

    /// Give controllers the rights that they have on an API server of the same process.
    pub async fn grant_rights(&self) {
        let administrator = ApiClient::new(self.client(&master("administrator")));
        grant_rights(&administrator, CUSTOM_RESOURCES).await.unwrap();
    }

    /// A client that speaks for somebody.
    pub fn client(&self, who: &Identity) -> kube::Client {
        match self {
            Self::Embedded(server) => {
                kube::Client::new(HttpService::in_process(server.clone(), who.clone()), "default")
            }
            Self::Restartable(server) => kube::Client::new(server.service(who), "default"),
            Self::Real(real) => real.client(who),
        }
    }

    /// The same, but what it changes is noted. A real API server asks a kubelet itself.
    pub fn logged_client(&self, who: &Identity, log: &WriteLog, kubelet: Option<&Kubelet>) -> kube::Client {
        match self {
            Self::Embedded(server) => {
                let service = log.over(HttpService::in_process(server.clone(), who.clone()));
                match kubelet {
                    None => kube::Client::new(service, "default"),
                    Some(kubelet) => kube::Client::new(ExecService::new(service, kubelet), "default"),
                }
            }
            Self::Restartable(server) => kube::Client::new(log.over(server.service(who)), "default"),
            Self::Real(real) => kube::Client::new(log.over(real.service(who)), "default"),
        }
    }

    /// Have this asked before anything is deleted that is in use. Returns once it is.
    pub async fn protect(&self, protection: Protection) {
        match self {
            Self::Embedded(server) => {
                server.register_webhook(AUTHORITY, &reviewer(protection.clone()));
                protection.announce(&protection_address()).await.unwrap();
            }
            Self::Restartable(server) => server.register_webhook(AUTHORITY, reviewer(protection)),
            Self::Real(real) => real.protect(protection).await,
        }
    }

    /// Have this asked whenever a Composition is written. Only an API server in memory can.
    pub async fn advise(&self, advisor: Advisor) {
        let Self::Embedded(server) = self else { return };
        let reviewer = advisor.clone();
        let webhook = InProcessWebhook::new(move |review| {
            let reviewer = reviewer.clone();
            async move { reviewer.review(&review).await }
        });
        server.register_webhook("advice.internal", &webhook);
        let url = format!("https://advice.internal{ADVISOR_PATH}");
        advisor.announce(&json!({"url": url})).await.unwrap();
    }
}

/// Where whoever protects is, for an API server in memory.
const AUTHORITY: &str = "protection.internal";

/// The same, as webhooks have it.
pub fn protection_address() -> Value {
    json!({"url": format!("https://{AUTHORITY}{PROTECTION_PATH}")})
}

fn reviewer(protection: Protection) -> InProcessWebhook {
    InProcessWebhook::new(move |review| {
        let protection = protection.clone();
        async move { protection.review(review).await }
    })
}

/// Somebody who may do everything.
pub fn master(name: &str) -> Identity {
    Identity::authenticated(name, ["system:masters".to_owned()])
}

/// The items of a list.
fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}
