//! A plane in bad weather: its controllers are killed and started again, its user continues as if nothing were.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use ferroplane_client::ApiClient;
use ferroplane_controllers::{BuiltIns, Clock, Controllers, DigestKey, Holdings, Settings, Tuning, install};
use ferroplane_functions::Implementation;
use ferroplane_recorder::Recorder;
use ferroplane_runner::{ResponseCache, Runner, grpc};
use ferroplane_testkit::plane::{
    ApiServer, FakeRegistry, Plane, RestartableServer, StoredState, actions, built_ins, master,
    protection_address,
};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::faults::Passage;
use super::functions::{self, Function};
use super::weather::Weather;

/// What no clock says in a simulation: the time of this machine.
const EPOCH: i64 = 1_800_000_000;

pub(super) struct World {
    pub(super) plane: Plane,
    server: RestartableServer,
    pub(super) weather: Arc<Weather>,
    controllers: Arc<Mutex<Weak<Controllers>>>,
    ending: watch::Sender<bool>,
    keeper: JoinHandle<()>,
}

/// What controllers are started with.
#[derive(Default)]
struct Equipment {
    functions: Vec<Function>,
    registry: Option<FakeRegistry>,
    runs_operations: bool,
    /// Whether one revision of each function is active, which is called as in Crossplane.
    has_one_revision: bool,
    runs_actions: bool,
    tuning: Tuning,
}

impl World {
    pub(super) async fn new(seed: u64) -> Self {
        Self::with(seed, false, Vec::new()).await
    }

    /// One with more functions.
    pub(super) async fn with_functions(functions: Vec<Function>) -> Self {
        Self::with(0, false, functions).await
    }

    /// The same, with controllers that are tuned.
    pub(super) async fn with_tuning(tuning: Tuning, functions: Vec<Function>) -> Self {
        Self::made_of(0, false, Equipment { functions, tuning, ..Equipment::default() }).await
    }

    /// One that installs packages from this registry.
    pub(super) async fn with_registry(seed: u64, registry: &FakeRegistry) -> Self {
        Self::made_of(seed, false, Equipment { registry: Some(registry.clone()), ..Equipment::default() })
            .await
    }

    /// The same, where one revision of each function is active.
    pub(super) async fn with_one_revision(seed: u64, registry: &FakeRegistry) -> Self {
        let registry = Some(registry.clone());
        let equipment = Equipment { registry, has_one_revision: true, ..Equipment::default() };
        Self::made_of(seed, false, equipment).await
    }

    /// One that runs operations, with functions for them.
    pub(super) async fn with_operations(seed: u64, functions: Vec<Function>) -> Self {
        Self::made_of(seed, false, Equipment { functions, runs_operations: true, ..Equipment::default() })
            .await
    }

    /// One that runs ActionSets.
    pub(super) async fn with_actions(seed: u64) -> Self {
        Self::made_of(seed, false, Equipment { runs_actions: true, ..Equipment::default() }).await
    }

    /// One that runs ActionSets and operations, with functions for these.
    pub(super) async fn with_actions_of_operations(seed: u64, functions: Vec<Function>) -> Self {
        let equipment =
            Equipment { functions, runs_operations: true, runs_actions: true, ..Equipment::default() };
        Self::made_of(seed, false, equipment).await
    }

    /// One in which what sites become may never change, if it is steady.
    pub(super) async fn with(seed: u64, is_steady: bool, functions: Vec<Function>) -> Self {
        Self::made_of(seed, is_steady, Equipment { functions, ..Equipment::default() }).await
    }

    async fn made_of(seed: u64, is_steady: bool, mut equipment: Equipment) -> Self {
        let tape = installed();
        ferroplane_apiserver::random::simulate(seed);
        let weather = Arc::new(Weather::new(seed, is_steady));
        let server = RestartableServer::start(tape).await;
        let plane = Plane::installed(ApiServer::Restartable(server.clone()));
        equipment.functions.push(functions::function(weather.clone()));
        let (ending, ended) = watch::channel(false);
        let controllers = Arc::default();
        let service = server.service(&master("ferroplane"));
        let passage = Passage { service, weather: weather.clone(), is_alive: Arc::default() };
        let keeper = tokio::spawn(keep(passage, server.clone(), equipment, Arc::clone(&controllers), ended));
        Self { plane, server, weather, controllers, ending, keeper }
    }

    /// What controllers hold in memory because of composite resources.
    pub(super) fn holdings(&self) -> Option<Holdings> {
        Some(self.controllers.lock().unwrap().upgrade()?.holdings())
    }

    /// Stop the API server, and start it again after a while.
    pub(super) async fn restart_server(&self, pause: Duration) {
        self.weather.note("--- the API server stops");
        self.weather.is_down.store(true, Ordering::Relaxed);
        self.weather.cut_watches();
        self.server.restart().await;
        tokio::time::sleep(pause).await;
        self.weather.note("--- the API server is there again");
        self.weather.is_down.store(false, Ordering::Relaxed);
    }

    pub(super) async fn end(self) {
        self.ending.send_replace(true);
        let _ = self.keeper.await;
    }
}

/// What an API server has that all kinds were made known to, and nothing else.
fn installed() -> StoredState {
    static INSTALLED: OnceLock<StoredState> = OnceLock::new();
    let install = || {
        // On a thread of its own: whoever comes first is to see the same as everybody else.
        let making = std::thread::spawn(|| {
            super::in_virtual_time(async {
                let tape = StoredState::default();
                // No seed of a simulation: no two objects may have the same identifier.
                ferroplane_apiserver::random::simulate(u64::MAX);
                let server = RestartableServer::start(tape.clone()).await;
                let client = kube::Client::new(server.service(&master("ferroplane")), "default");
                install(&ApiClient::new(client)).await.unwrap();
                // Until all of them are served.
                tokio::time::sleep(Duration::from_mins(1)).await;
                tape
            })
        });
        making.join().unwrap()
    };
    INSTALLED.get_or_init(install).copy()
}

/// See to it that there are controllers: whenever they are killed, others come that know nothing.
async fn keep(
    passage: Passage,
    server: RestartableServer,
    equipment: Equipment,
    shown: Arc<Mutex<Weak<Controllers>>>,
    mut ended: watch::Receiver<bool>,
) {
    let began_at = tokio::time::Instant::now();
    let answers = ResponseCache::in_memory_by(move || u64::try_from(began_at.elapsed().as_millis()).unwrap());
    let answers = Arc::new(answers);
    while !*ended.borrow() {
        let passage = Passage { is_alive: Arc::new(AtomicBool::new(true)), ..passage.clone() };
        let settings = || Settings {
            packages: equipment.registry.as_ref().map(FakeRegistry::manager),
            runs_operations: equipment.runs_operations,
            enables_function_revision_selectors: !equipment.has_one_revision,
            actions: equipment.runs_actions.then(actions),
            tuning: equipment.tuning.clone(),
            ..settings(clock(&equipment, began_at, &passage.weather), &equipment.functions, &answers)
        };
        let client = kube::Client::new(passage.clone(), "default");
        let life = async {
            let controllers = loop {
                match Controllers::start(client.clone(), settings()).await {
                    Ok(controllers) => break Arc::new(controllers),
                    Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
                }
            };
            *shown.lock().unwrap() = Arc::downgrade(&controllers);
            ApiServer::Restartable(server.clone()).protect(controllers.protection()).await;
            while controllers.protection().announce(&protection_address()).await.is_err() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            std::future::pending::<()>().await;
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

fn clock(equipment: &Equipment, began_at: tokio::time::Instant, weather: &Arc<Weather>) -> Clock {
    // Schedules need a clock that continues when controllers do not. Everybody else has to live with one that is set back.
    let goes_on = equipment.runs_operations || equipment.runs_actions;
    let began_at = if goes_on { began_at } else { tokio::time::Instant::now() };
    let weather = weather.clone();
    Clock::new(move || {
        let passed = i64::try_from(began_at.elapsed().as_secs()).unwrap_or_default();
        Timestamp::from_second(EPOCH + passed + weather.clock.load(Ordering::Relaxed)).unwrap()
    })
}

fn settings(clock: Clock, functions: &[Function], answers: &Arc<ResponseCache>) -> Settings {
    Settings {
        clock,
        built_ins: built_ins_and(functions),
        calls: grpc::Options::default(),
        local_functions: Arc::default(),
        answers: answers.clone(),
        recorder: Recorder::off(),
        writes_roles: false,
        runs_operations: false,
        digest_key: DigestKey::new([7; 32]),
        actions: None,
        composer: None,
        allows_development_functions: true,
        tuning: Tuning::default(),
        enables_function_revision_selectors: true,
        packages: None,
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
        built_ins.directory.insert(revision.clone(), Runner::AsyncFunction(inside.clone()));
    }
    built_ins
}
