//! A plane in bad weather: its controllers are killed and started again, its user goes on as if nothing were.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferroplane_apiserver::store::Options;
use ferroplane_controllers::{Clock, Controllers, Settings};
use ferroplane_functions::Implementation;
use ferroplane_runner::{Answers, grpc};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::faults::Passage;
use super::functions;
use super::weather::Weather;
use crate::plane::{Plane, built_ins};

/// What no clock says in a simulation: the time of this machine.
const EPOCH: i64 = 1_800_000_000;

pub(super) struct World {
    pub(super) plane: Plane,
    pub(super) weather: Arc<Weather>,
    ending: watch::Sender<bool>,
    keeper: JoinHandle<()>,
}

impl World {
    pub(super) async fn new(seed: u64) -> Self {
        Self::with(seed, false).await
    }

    /// One in which what sites become may never change.
    pub(super) async fn with(seed: u64, is_steady: bool) -> Self {
        ferroplane_apiserver::chance::repeat(seed);
        let weather = Arc::new(Weather::new(seed, is_steady));
        let options = Options { writes_in_place: true, ..Options::default() };
        let plane = Plane::without_controllers(options).await;
        let function = functions::function(weather.clone());
        let (ending, ended) = watch::channel(false);
        let passage = Passage { door: plane.door(), weather: weather.clone(), is_alive: Arc::default() };
        let keeper = tokio::spawn(keep(passage, function, ended));
        Self { plane, weather, ending, keeper }
    }

    pub(super) async fn end(self) {
        self.ending.send_replace(true);
        let _ = self.keeper.await;
    }
}

/// See to it that there are controllers: whenever they are killed, others come that know nothing.
async fn keep(passage: Passage, function: (String, Implementation), mut ended: watch::Receiver<bool>) {
    let answers = Arc::new(Answers::in_memory());
    while !*ended.borrow() {
        let passage = Passage { is_alive: Arc::new(AtomicBool::new(true)), ..passage.clone() };
        let settings = settings(&passage.weather, &function, &answers);
        let client = kube::Client::new(passage.clone(), "default");
        let life = async {
            let controllers = Controllers::start(client, settings).await;
            if controllers.is_err() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                passage.weather.killed.notify_one();
            }
            std::future::pending::<()>().await;
            drop(controllers);
        };
        tokio::select! {
            biased;
            () = passage.weather.killed.notified() => {}
            _ = ended.wait_for(|ended| *ended) => {}
            () = life => {}
        }
        passage.is_alive.store(false, Ordering::Relaxed);
    }
}

fn settings(weather: &Arc<Weather>, function: &(String, Implementation), answers: &Arc<Answers>) -> Settings {
    let (began_at, weather) = (tokio::time::Instant::now(), weather.clone());
    Settings {
        clock: Clock::new(move || {
            let passed = i64::try_from(began_at.elapsed().as_secs()).unwrap_or_default();
            Timestamp::from_second(EPOCH + passed + weather.clock.load(Ordering::Relaxed)).unwrap()
        }),
        built_ins: built_ins(std::slice::from_ref(function)),
        calls: grpc::Options::default(),
        answers: answers.clone(),
        writes_roles: false,
    }
}
