//! Revisions that are gRPC servers: what a rollout does when one of them is killed, hangs, or returns what is no response.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_controllers::PackagedFunction;
use ferroplane_runner::{Runner, grpc};
use ferroplane_testkit::plane::sites::is_ready;
use ferroplane_testkit::{FunctionServer, TcpServer, Versions, raw};
use ferroplane_wire::v1::RunFunctionRequest;
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;

use super::{COUNT, Fleet, ROLLOUT, answer, site};
use crate::rollout::revisions_of;

/// How long a call may take that is answered, and one that is not.
const PATIENT: Duration = Duration::from_mins(1);
const IMPATIENT: Duration = Duration::from_secs(10);
/// What the first revision composes.
const BOTH: &[&str] = &["a", "b"];
/// How many sites move at once.
const WAVE: usize = 3;

/// What calls a server, and waits so long for an answer.
pub(crate) fn calling(address: &str, timeout: Duration) -> Arc<Runner> {
    let options = grpc::Options { timeout, ..grpc::Options::default() };
    Arc::new(Runner::Grpc(grpc::Client::new(address.parse().unwrap(), options).unwrap()))
}

/// The name of the composite resource that a server is called for.
pub(crate) fn name_in(request: &RunFunctionRequest) -> String {
    let request = to_json(request).unwrap();
    request["observed"]["composite"]["resource"]["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Serve the first revision at this address.
async fn serve(address: &str) -> FunctionServer {
    let answer = |_| Ok(from_json(&answer("one", BOTH)).unwrap());
    FunctionServer::serve(address, Versions::Both, None, answer).await
}

/// Sites that a server composes, and a rollout for its function that moves three of five at once.
async fn begin(more: Value) -> (Fleet, FunctionServer) {
    let mut policy = json!({"waves": ["60%", "100%"], "maxUnavailable": "100%"});
    policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (fleet, first) = (Fleet::begin(policy).await, serve("127.0.0.1:0").await);
    let serving = PackagedFunction::Serving(calling(&first.address(), PATIENT));
    fleet.rollout.functions.set(&fleet.first, Some(serving));
    fleet.rollout.plane.quiet().await;
    (fleet, first)
}

/// A server of a new revision that answers for two sites, and lets all calls for others wait.
struct Waiting {
    server: FunctionServer,
    /// Gets a permit for every call that waits.
    is_called: Arc<Semaphore>,
    /// A call that waits is answered once there is a permit.
    goes_on: Arc<Semaphore>,
}

impl Waiting {
    /// A server that composes these resources for those that wait.
    async fn start(resources: &'static [&'static str]) -> Self {
        let (is_called, goes_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (known, called, released) = (Mutex::new(BTreeSet::new()), is_called.clone(), goes_on.clone());
        let server = FunctionServer::start_async(move |request| {
            let name = name_in(&request);
            let mut known = known.lock().unwrap();
            if known.len() < WAVE - 1 {
                known.insert(name.clone());
            }
            let (waits, called, released) = (!known.contains(&name), called.clone(), released.clone());
            async move {
                if waits {
                    called.add_permits(1);
                    let _released = released.acquire().await.unwrap();
                }
                Ok(from_json(&answer("two", if waits { resources } else { BOTH })).unwrap())
            }
        });
        Self { server: server.await, is_called, goes_on }
    }

    /// Install it as the next revision, and wait for the middle of a wave: two sites have moved, and the call for the third one waits.
    async fn install_in(&self, fleet: &mut Fleet, timeout: Duration) -> String {
        let runner = calling(&self.server.address(), timeout);
        let revision = fleet.rollout.install_running("v1.1.0", None, runner).await;
        self.is_called.acquire().await.unwrap().forget();
        fleet.until(|status| status["composites"]["ready"] == WAVE - 1).await;
        revision
    }
}

#[tokio::test]
async fn server_that_is_killed_in_the_middle_of_a_wave_is_rolled_back() {
    let (mut fleet, _first) = begin(json!({})).await;
    let (composed, second) = (fleet.composed().await, Waiting::start(BOTH).await);
    let revision = second.install_in(&mut fleet, PATIENT).await;
    second.server.stop().await;
    let status = fleet.until_state("RolledBack").await;
    assert_eq!(status["rejected"], revision);
    fleet.assert_unharmed(&composed).await;
}

#[tokio::test]
async fn server_that_is_killed_in_the_middle_of_a_wave_stays_where_the_policy_says_so() {
    let (mut fleet, _first) = begin(json!({"onFailure": "Pause"})).await;
    let (composed, second) = (fleet.composed().await, Waiting::start(BOTH).await);
    let revision = second.install_in(&mut fleet, PATIENT).await;
    second.server.stop().await;
    fleet.until_state("Paused").await;
    fleet.rollout.plane.quiet().await;
    let status = fleet.until_state("Paused").await;
    assert_eq!((&status["candidate"], &status["composites"]["moved"]), (&json!(revision), &json!(WAVE)));
    // Those that cannot call it keep what they have, and all go back when a user says so.
    assert!(fleet.sites().await.iter().all(is_ready));
    assert_eq!(fleet.composed().await, composed);
    let undo = json!({"metadata": {"annotations": {"rollout.ferroplane.io/undo": revision}}});
    fleet.rollout.plane.merge(ROLLOUT, &undo).await;
    fleet.until_state("RolledBack").await;
    fleet.assert_unharmed(&composed).await;
}

#[tokio::test]
async fn server_that_hangs_in_the_middle_of_a_wave_is_rolled_back() {
    let (mut fleet, _first) = begin(json!({})).await;
    let (composed, second) = (fleet.composed().await, Waiting::start(BOTH).await);
    let revision = second.install_in(&mut fleet, IMPATIENT).await;
    let status = fleet.until_state("RolledBack").await;
    assert_eq!(status["rejected"], revision);
    assert!(status["message"].as_str().unwrap().contains("did not answer within 10s"), "{status:#}");
    fleet.assert_unharmed(&composed).await;
}

#[tokio::test]
async fn server_that_returns_what_is_no_response_harms_nobody() {
    let garbled =
        raw::HttpServer::start(|_| raw::answer(&[], raw::message(b"\xff\xff"), &[("grpc-status", "0")]));
    let talking = TcpServer::start(|mut stream, _| async move {
        let _ = stream.write_all(b"220 mail.example.org\r\n").await;
    });
    let closing = TcpServer::start(|stream, _| async move { drop(stream) });
    for address in [garbled.address(), talking.address(), closing.address()] {
        let (fleet, _first) = begin(json!({})).await;
        let status = fleet.see_refused(calling(&address, PATIENT)).await;
        let differences = status["differences"].as_object().unwrap();
        assert!(differences.keys().eq(["Fails"]), "{status:#}");
    }
}

#[tokio::test]
async fn old_server_that_dies_in_the_middle_of_a_wave_stops_no_revision_that_works() {
    let (mut fleet, first) = begin(json!({})).await;
    let (composed, second) = (fleet.composed().await, Waiting::start(BOTH).await);
    let revision = second.install_in(&mut fleet, PATIENT).await;
    first.stop().await;
    second.goes_on.add_permits(1);
    let status = fleet.until_state("Promoted").await;
    assert_eq!(status["stable"], revision);
    for number in 0..COUNT {
        let is_moved = |site: &Value| is_ready(site) && revisions_of(site) == [&*revision];
        fleet.rollout.plane.until(&site(number), is_moved).await;
    }
    assert_eq!(fleet.composed().await, composed);
}

#[tokio::test]
async fn old_server_that_dies_in_the_middle_of_a_wave_lets_no_revision_delete() {
    let (mut fleet, first) = begin(json!({})).await;
    let (composed, second) = (fleet.composed().await, Waiting::start(&["a"]).await);
    let revision = second.install_in(&mut fleet, PATIENT).await;
    let address = first.address();
    first.stop().await;
    second.goes_on.add_permits(1);
    let status = fleet.until(|status| status["rejected"] == revision).await;
    assert!(status["message"].as_str().unwrap().contains("cannot be called to compare"), "{status:#}");
    fleet.rollout.plane.quiet().await;
    assert_eq!(fleet.composed().await, composed);
    let harmed = fleet.sites().await.iter().filter(|site| !is_ready(site)).count();
    assert!(harmed <= WAVE, "{harmed} were harmed");
    // All are as before once the old server is there again.
    let _again = serve(&address).await;
    fleet.until_state("RolledBack").await;
    for number in 0..COUNT {
        let is_back = |site: &Value| is_ready(site) && revisions_of(site) == [&*fleet.first];
        fleet.rollout.plane.until(&site(number), is_back).await;
    }
    assert_eq!(fleet.composed().await, composed);
}
