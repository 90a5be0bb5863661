//! The controllers, on the API server in the same process.

use std::sync::Arc;

use anyhow::Context as _;
use ferroplane_apiserver::Server;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::doors::Door;
use ferroplane_controllers::{BuiltIns, Clock, Cluster, Controllers, Settings, install};
use ferroplane_functions::{Library, Native};
use ferroplane_runner::{Directory, grpc};

use super::Configuration;

/// As whom controllers come to the API server.
const IDENTITY: &str = "system:ferroplane";

/// Start all controllers.
pub(super) async fn start(server: &Server, configuration: &Configuration) -> anyhow::Result<Controllers> {
    let identity = Identity::authenticated(IDENTITY, ["system:masters".to_owned()]);
    let client = kube::Client::new(Door::inside(server.clone(), identity), "default");
    install(&Cluster::new(client.clone())).await.context("cannot install the kinds we serve")?;
    let tls = configuration.client_certificates.as_deref().map(grpc::Tls::read).transpose()?;
    let settings = Settings {
        clock: Clock::system(),
        built_ins: built_ins()?,
        calls: grpc::Options { tls, ..grpc::Options::default() },
    };
    Controllers::start(client, settings).await.context("cannot start the controllers")
}

fn built_ins() -> anyhow::Result<BuiltIns> {
    let library = Arc::new(Library::built_in().context("cannot list the functions that are built in")?);
    Ok(BuiltIns {
        catalogue: library.catalogue().clone(),
        directory: Directory::built_in(&library),
        natives: Arc::new(move |package| match library.native(package) {
            Native::Covered { function, version } => Some((function, version)),
            Native::NotCovered { .. } | Native::Unknown => None,
        }),
    })
}
