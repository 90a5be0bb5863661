//! A plane in bad weather: its controllers are killed and started again, its user goes on as if nothing were.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferroplane_apiserver::store::Options;
use ferroplane_controllers::{BuiltIns, Clock, Controllers, Settings};
use ferroplane_functions::Implementation;
use ferroplane_runner::{Answers, Runner, grpc};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::faults::Passage;
use super::functions::{self, Function};
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
        Self::with(seed, false, Vec::new()).await
    }

    /// One with more functions.
    pub(super) async fn with_functions(functions: Vec<Function>) -> Self {
        Self::with(0, false, functions).await
    }

    /// One in which what sites become may never change, if it is steady.
    pub(super) async fn with(seed: u64, is_steady: bool, mut functions: Vec<Function>) -> Self {
        ferroplane_apiserver::chance::repeat(seed);
        let weather = Arc::new(Weather::new(seed, is_steady));
        let options = Options { writes_in_place: true, ..Options::default() };
        let plane = Plane::without_controllers(options).await;
        functions.push(functions::function(weather.clone()));
        let (ending, ended) = watch::channel(false);
        let passage = Passage { door: plane.door(), weather: weather.clone(), is_alive: Arc::default() };
        let keeper = tokio::spawn(keep(passage, functions, ended));
        Self { plane, weather, ending, keeper }
    }

    pub(super) async fn end(self) {
        self.ending.send_replace(true);
        let _ = self.keeper.await;
    }
}

/// See to it that there are controllers: whenever they are killed, others come that know nothing.
async fn keep(passage: Passage, functions: Vec<Function>, mut ended: watch::Receiver<bool>) {
    let began_at = tokio::time::Instant::now();
    let answers = Answers::in_memory_by(move || u64::try_from(began_at.elapsed().as_millis()).unwrap());
    let answers = Arc::new(answers);
    while !*ended.borrow() {
        let passage = Passage { is_alive: Arc::new(AtomicBool::new(true)), ..passage.clone() };
        let settings = settings(&passage.weather, &functions, &answers);
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

fn settings(weather: &Arc<Weather>, functions: &[Function], answers: &Arc<Answers>) -> Settings {
    let (began_at, weather) = (tokio::time::Instant::now(), weather.clone());
    Settings {
        clock: Clock::new(move || {
            let passed = i64::try_from(began_at.elapsed().as_secs()).unwrap_or_default();
            Timestamp::from_second(EPOCH + passed + weather.clock.load(Ordering::Relaxed)).unwrap()
        }),
        built_ins: built_ins_and(functions),
        calls: grpc::Options::default(),
        answers: answers.clone(),
        writes_roles: false,
    }
}

/// What is built in, and these.
fn built_ins_and(functions: &[Function]) -> BuiltIns {
    let stand_in = |(name, _): &Function| {
        (name.clone(), Implementation::new(|_| unreachable!("somebody else is called")))
    };
    let mut built_ins = built_ins(&functions.iter().map(stand_in).collect::<Vec<_>>());
    for (name, inside) in functions {
        let revision = &built_ins.catalogue.family(name).unwrap().records[0].revision.name;
        built_ins.directory.insert(revision.clone(), Runner::Inside(inside.clone()));
    }
    built_ins
}
