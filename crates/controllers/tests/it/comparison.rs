//! Crossplane and our controllers, given the same manifests on the same API server: what becomes of them?
//!
//! `cargo xtask compare --controllers` plays every chapter twice, each time on a new kube-apiserver: once with Crossplane,
//! once with our controllers. Both call the same functions over mutual TLS. What there is whenever everything rests is
//! recorded, and then compared.
#![expect(clippy::large_enum_variant, reason = "it reads better here as it is")]

mod chapter;
mod crossplane;
mod exceptions;
mod functions;
mod measure;
mod photograph;
mod portrait;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;

use ferroplane_client::ApiClient;
use ferroplane_controllers::{Clock, Controllers, DigestKey, Settings, Tuning, install};
use ferroplane_recorder::Recorder;
use ferroplane_runner::{ResponseCache, grpc};
use ferroplane_testkit::plane::{ApiServer, built_ins, master};

use chapter::Chapter;
use crossplane::Crossplane;
use functions::Functions;
use photograph::Album;

/// Where both sides are recorded. Nothing is compared if nobody says where.
fn directory() -> Option<PathBuf> {
    std::env::var_os("FERROPLANE_COMPARE").map(PathBuf::from)
}

/// Who works on the API server while chapters are played.
enum Troupe {
    Crossplane(Crossplane),
    Ferroplane(Controllers),
}

impl Troupe {
    /// Start the one that the environment names.
    async fn start(ground: &ApiServer, functions: &Functions) -> Self {
        if name() == "crossplane" {
            return Self::Crossplane(Crossplane::start(&ground.client(&master("user")), functions).await);
        }
        let client = ground.client(&master("ferroplane"));
        install(&ApiClient::new(client.clone())).await.unwrap();
        let tls = grpc::Tls::read(&functions.certificates()).unwrap();
        let settings = Settings {
            clock: Clock::system(),
            built_ins: built_ins(&[]),
            calls: grpc::Options { tls: Some(tls), ..grpc::Options::default() },
            local_functions: Arc::default(),
            answers: Arc::new(ResponseCache::in_memory()),
            recorder: Recorder::off(),
            writes_roles: true,
            runs_operations: true,
            digest_key: DigestKey::new([7; 32]),
            actions: None,
            composer: None,
            allows_development_functions: true,
            tuning: Tuning::default(),
            enables_function_revision_selectors: true,
            packages: None,
        };
        let controllers = Controllers::start(client, settings).await.unwrap();
        ground.protect(controllers.protection()).await;
        Self::Ferroplane(controllers)
    }

    async fn stop(self) {
        match self {
            Self::Crossplane(crossplane) => drop(crossplane),
            Self::Ferroplane(controllers) => controllers.stop().await,
        }
    }
}

/// `crossplane` or `ferroplane`.
fn name() -> String {
    std::env::var("FERROPLANE_COMPARE_SIDE").unwrap_or_default()
}

#[tokio::test]
async fn chapters_are_played() {
    let (Some(directory), false) = (directory(), name().is_empty()) else { return };
    let ground = ApiServer::find().await;
    let client = ground.client(&master("user"));
    let mut functions = Functions::prepare();
    let troupe = Troupe::start(&ground, &functions).await;
    functions.install(&client).await;
    let mut playing = tokio::task::JoinSet::new();
    for chapter in Chapter::all() {
        let client = client.clone();
        playing.spawn(async move { (chapter.name, chapter.play(client).await) });
    }
    let mut album = Album::default();
    while let Some(played) = playing.join_next().await {
        let (chapter, photographs) = played.unwrap();
        album.add(chapter, photographs);
    }
    troupe.stop().await;
    album.write(&directory.join(name()));
}

#[test]
fn both_sides_end_the_same_way() {
    let (Some(directory), true) = (directory(), name().is_empty()) else { return };
    let [theirs, ours] = ["crossplane", "ferroplane"].map(|side| Album::read(&directory.join(side)));
    verdict::reach(&theirs, &ours);
}
