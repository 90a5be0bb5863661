//! What a plane stands on: an API server in memory or, if the environment names one, a real one.

mod broom;
mod hook;
pub(crate) mod moving;
mod real;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{InProcessWebhook, Server, Settings};
use ferroplane_controllers::{ADVISOR_PATH, Advisor, PROTECTION_PATH, Protection};
use serde_json::{Value, json};

use crate::ledger::Ledger;
use moving::Moving;
use real::Real;

pub(crate) enum Ground {
    Embedded(Server),
    /// One in memory that is stopped and started again.
    Moving(Moving),
    Real(Box<Real>),
}

impl Ground {
    /// Ground that nobody else stands on, and on which nothing is left of those who did.
    pub(crate) async fn find() -> Self {
        if let Some(real) = Real::find().await {
            return Self::Real(Box::new(real));
        }
        Self::embedded(Options::default()).await
    }

    /// A client of the real API server that the environment names, as it is.
    pub(crate) fn reach(who: &Identity) -> kube::Client {
        let transport = real::transport().expect("the environment names a server");
        kube::Client::new(transport.impersonating(&who.name, &who.groups), "default")
    }

    /// An API server in memory.
    pub(crate) async fn embedded(options: Options) -> Self {
        let store = Store::in_memory(options).unwrap();
        Self::Embedded(Server::start(store, Settings::default()).await.unwrap())
    }

    /// A client that speaks for somebody.
    pub(crate) fn client(&self, who: &Identity) -> kube::Client {
        match self {
            Self::Embedded(server) => {
                kube::Client::new(HttpService::in_process(server.clone(), who.clone()), "default")
            }
            Self::Moving(moving) => kube::Client::new(moving.door(who), "default"),
            Self::Real(real) => real.client(who),
        }
    }

    /// The same, but what it changes is noted.
    pub(crate) fn noted_client(&self, who: &Identity, ledger: &Ledger) -> kube::Client {
        match self {
            Self::Embedded(server) => kube::Client::new(
                ledger.over(HttpService::in_process(server.clone(), who.clone())),
                "default",
            ),
            Self::Moving(moving) => kube::Client::new(ledger.over(moving.door(who)), "default"),
            Self::Real(real) => kube::Client::new(ledger.over(real.door(who)), "default"),
        }
    }

    /// Have this asked before anything is deleted that is in use. Returns once it is.
    pub(crate) async fn protect(&self, protection: Protection) {
        match self {
            Self::Embedded(server) => {
                server.register_webhook(AUTHORITY, &reviewer(protection.clone()));
                protection.announce(&address()).await.unwrap();
            }
            Self::Moving(moving) => moving.register_webhook(AUTHORITY, reviewer(protection)),
            Self::Real(real) => real.protect(protection).await,
        }
    }

    /// Have this asked whenever a Composition is written. Only an API server in memory can.
    pub(crate) async fn advise(&self, advisor: Advisor) {
        let Self::Embedded(server) = self else { return };
        let reviewer = advisor.clone();
        let webhook = InProcessWebhook::new(move |review| std::future::ready(reviewer.review(&review)));
        server.register_webhook("advice.internal", &webhook);
        let url = format!("https://advice.internal{ADVISOR_PATH}");
        advisor.announce(&json!({"url": url})).await.unwrap();
    }
}

/// Where whoever protects is, for an API server in memory.
const AUTHORITY: &str = "protection.internal";

/// The same, as webhooks have it.
pub(crate) fn address() -> Value {
    json!({"url": format!("https://{AUTHORITY}{PROTECTION_PATH}")})
}

fn reviewer(protection: Protection) -> InProcessWebhook {
    InProcessWebhook::new(move |review| {
        let protection = protection.clone();
        async move { protection.review(review).await }
    })
}

/// Somebody who may do everything.
pub(crate) fn master(name: &str) -> Identity {
    Identity::authenticated(name, ["system:masters".to_owned()])
}

/// The items of a list.
fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}
