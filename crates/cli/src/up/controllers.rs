//! The controllers, on the API server in the same process.

use std::sync::Arc;

use anyhow::Context as _;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::{InProcessWebhook, Server};
use ferroplane_controllers::{
    ADVISOR_PATH, Advisor, BuiltIns, Clock, Cluster, Controllers, PROTECTION_PATH, Protection, Settings,
    install,
};
use ferroplane_functions::Library;
use ferroplane_offline::replay::RECORDINGS;
use ferroplane_recorder::Recorder;
use ferroplane_runner::{Answers, Directory, grpc};
use serde_json::json;

use super::Configuration;
use crate::telemetry::Installed;

/// As whom controllers come to the API server.
const IDENTITY: &str = "system:ferroplane";
/// Where the API server finds what protects objects that are in use: in this process.
const PROTECTION: &str = "protection.ferroplane.internal";
/// Where it finds what knows the versions of functions.
const ADVISOR: &str = "versions.ferroplane.internal";

/// Start all controllers.
pub(super) async fn start(
    server: &Server,
    configuration: &Configuration,
    recorder: Recorder,
    telemetry: &Installed,
) -> anyhow::Result<Controllers> {
    let identity = Identity::authenticated(IDENTITY, ["system:masters".to_owned()]);
    let client = kube::Client::new(HttpService::in_process(server.clone(), identity), "default");
    install(&Cluster::new(client.clone())).await.context("cannot install the kinds we serve")?;
    let tls = configuration.client_certificates.as_deref().map(grpc::Tls::read).transpose()?;
    let settings = Settings {
        clock: Clock::system(),
        built_ins: built_ins()?,
        calls: grpc::Options { tls, metadata: telemetry.metadata(), ..grpc::Options::default() },
        answers: Arc::new(answers(configuration)?),
        recorder,
        writes_roles: true,
    };
    let controllers = Controllers::start(client, settings).await.context("cannot start the controllers")?;
    protect(server, &controllers.protection()).await.context("cannot protect what is in use")?;
    advise(server, &controllers.advisor()).await.context("cannot advise on versions of functions")?;
    Ok(controllers)
}

/// Have the API server ask us what to tell those who apply Compositions.
async fn advise(server: &Server, advisor: &Advisor) -> anyhow::Result<()> {
    let reviewer = advisor.clone();
    let webhook = InProcessWebhook::new(move |review| std::future::ready(reviewer.review(&review)));
    server.register_webhook(ADVISOR, &webhook);
    let url = format!("https://{ADVISOR}{ADVISOR_PATH}");
    Ok(advisor.announce(&json!({"url": url})).await?)
}

/// Have the API server ask us before it deletes something that is in use.
async fn protect(server: &Server, protection: &Protection) -> anyhow::Result<()> {
    let reviewer = protection.clone();
    let webhook = InProcessWebhook::new(move |review| {
        let reviewer = reviewer.clone();
        async move { reviewer.review(review).await }
    });
    server.register_webhook(PROTECTION, &webhook);
    let url = format!("https://{PROTECTION}{PROTECTION_PATH}");
    Ok(protection.announce(&json!({"url": url})).await?)
}

/// What is recorded is kept there, too. What is forgotten at the end has nobody to ask about it.
pub(super) fn recorder(configuration: &Configuration) -> anyhow::Result<Recorder> {
    match &configuration.data_dir {
        Some(directory) if configuration.recording_size > 0 => {
            Ok(Recorder::open(&directory.join(RECORDINGS), configuration.recording_size)?)
        }
        _ => Ok(Recorder::off()),
    }
}

/// What functions answered is kept beside everything else.
fn answers(configuration: &Configuration) -> anyhow::Result<Answers> {
    match &configuration.data_dir {
        Some(directory) => Ok(Answers::open(&directory.join("answers"))?),
        None => Ok(Answers::in_memory()),
    }
}

/// The functions that are built in.
pub(crate) fn built_ins() -> anyhow::Result<BuiltIns> {
    let library = Arc::new(Library::built_in().context("cannot list the functions that are built in")?);
    Ok(BuiltIns {
        catalogue: library.catalogue().clone(),
        directory: Directory::built_in(&library),
        capabilities: library.capabilities(),
        natives: Arc::new(move |package| library.native(package)),
    })
}
