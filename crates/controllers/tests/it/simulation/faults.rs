//! Stands between controllers and the API server, and lets through what it likes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_testkit::plane::RestartableService;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service;

use super::kinds::{path_of, references};
use super::watches;
use super::weather::Weather;

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

const OPERATIONS: &str = "/apis/ops.crossplane.io/v1alpha1/operations";
/// How a request begins to say for which operation something is applied; its UID follows.
const OPERATION: &str = "fieldManager=ops.crossplane.io%2Foperation%2F";

/// How long a request or its answer is on its way at worst.
const LATEST: Duration = Duration::from_secs(90);

/// The way to an API server through bad weather.
#[derive(Clone)]
pub(super) struct Passage {
    pub(super) service: RestartableService,
    pub(super) weather: Arc<Weather>,
    /// Whether a caller that uses it still lives. The dead send nothing.
    pub(super) is_alive: Arc<AtomicBool>,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Pass,
    Refuse(u16),
    /// It is refused after a while.
    RefuseLate,
    /// It never arrives, and that is noticed.
    Lose,
    /// It takes its time.
    Delay(Duration),
    /// It is carried out, and the answer is lost.
    LoseAnswer,
    /// It is carried out, and the answer takes its time.
    DelayAnswer(Duration),
    /// A caller that sends it dies before it is sent.
    DieBefore,
    /// A caller that sends it dies before there is an answer.
    DieAfter,
}

impl Service<Request<Body>> for Passage {
    type Response = Answer;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let passage = self.clone();
        Box::pin(passage.travel(request))
    }
}

impl Passage {
    async fn travel(self, request: Request<Body>) -> Result<Answer, Failure> {
        if !self.is_alive.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        if self.weather.is_down.load(Ordering::Relaxed) {
            return Err("the connection was refused".into());
        }
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let what = format!("{} {}", parts.method, parts.uri.path());
        let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        let is_write = parts.method != Method::GET && !what.contains("/events");
        if parts.method == Method::GET {
            self.weather.count_read(parts.uri.path());
        }
        let unlisted = self.weather.unlisted(parts.uri.path()).filter(|_| !is_write);
        let fate = match (unlisted, parts.uri.path()) {
            (Some(code), _) => Fate::Refuse(code),
            (None, path) if self.weather.is_blocked(path) => Fate::Refuse(500),
            (None, path) if self.weather.is_delayed(path, parts.uri.query()) => Fate::RefuseLate,
            (None, _) => self.fate(is_write, is_watch),
        };
        if is_write || !matches!(fate, Fate::Pass) {
            self.weather.note(&format!("{what} {fate:?} {:016x}", digest(&body)));
        }
        if is_write {
            self.check_reference(&parts.method, parts.uri.path(), &body).await;
            self.check_operation(&what, parts.uri.query(), &body).await;
            if self.weather.is_steady && what.starts_with("DELETE /api/v1/") {
                self.weather.accuse(format!("{what}, which is wanted"));
            }
        }
        let carry_out = self.carry_out(Request::from_parts(parts, Full::new(body)), is_write, is_watch);
        match fate {
            Fate::Pass => carry_out.await,
            Fate::Refuse(code) => Ok(refusal(code)),
            Fate::RefuseLate => {
                tokio::time::sleep(Duration::from_secs(30)).await;
                Ok(refusal(500))
            }
            Fate::Lose => Err("the connection was reset".into()),
            Fate::Delay(delay) => {
                tokio::time::sleep(delay).await;
                carry_out.await
            }
            Fate::LoseAnswer => {
                carry_out.await?;
                Err("the connection was reset while waiting for an answer".into())
            }
            Fate::DelayAnswer(delay) => {
                let answer = carry_out.await;
                tokio::time::sleep(delay).await;
                answer
            }
            Fate::DieBefore => self.die().await,
            Fate::DieAfter => {
                carry_out.await?;
                self.die().await
            }
        }
    }

    fn fate(&self, is_write: bool, is_watch: bool) -> Fate {
        if is_write && let Some(is_carried_out) = self.weather.count_write() {
            return if is_carried_out { Fate::DieAfter } else { Fate::DieBefore };
        }
        let luck = &self.weather.luck;
        if !self.weather.is_stormy() || !luck.happens(20) {
            return Fate::Pass;
        }
        match luck.below(if is_write { 8 } else { 5 }) {
            0 => Fate::Refuse(*luck.pick(&[500, 503, 429])),
            1 => Fate::Refuse(if is_write { 409 } else { 410 }),
            2 => Fate::Lose,
            3 if is_watch => Fate::Pass,
            3 => Fate::Delay(luck.up_to(LATEST)),
            4 if is_watch => Fate::Refuse(429),
            4 | 5 => Fate::DelayAnswer(luck.up_to(LATEST)),
            _ => Fate::LoseAnswer,
        }
    }

    async fn carry_out(
        &self,
        request: Request<Full<Bytes>>,
        is_write: bool,
        is_watch: bool,
    ) -> Result<Answer, Failure> {
        let what = format!("{} {}", request.method(), request.uri().path());
        let answer = self.service.clone().call(request).await?;
        if is_write {
            self.weather.note(&format!("{what} => {}", answer.status().as_u16()));
        }
        let weather = self.weather.clone();
        Ok(answer.map(|body| {
            if is_watch { watches::through(body, weather) } else { body.map_err(Into::into).boxed_unsync() }
        }))
    }

    async fn die(&self) -> Result<Answer, Failure> {
        self.weather.note("--- killed");
        self.is_alive.store(false, Ordering::Relaxed);
        self.weather.killed.notify_one();
        std::future::pending().await
    }

    /// Nothing is created that its composite resource does not refer to.
    async fn check_reference(&self, method: &Method, path: &str, body: &Bytes) {
        let object: Value = serde_json::from_slice(body).unwrap_or_default();
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else { return };
        let Some(kind) = path_of(owner["kind"].as_str().unwrap_or_default()) else { return };
        let site = self.read(&format!("{kind}/{}", owner["name"].as_str().unwrap_or_default())).await;
        if site["metadata"]["uid"] != owner["uid"] {
            return;
        }
        let is_referred_to = references(&site).iter().any(|reference| {
            reference["kind"] == object["kind"] && reference["name"] == object["metadata"]["name"]
        });
        if !is_referred_to {
            self.weather.accuse(format!("{method} {path}, which its owner does not refer to"));
        }
    }

    /// Nothing is applied that the status of its operation does not refer to.
    async fn check_operation(&self, what: &str, query: Option<&str>, body: &Bytes) {
        let Some((_, uid)) = query.and_then(|query| query.split_once(OPERATION)) else { return };
        let uid = uid.split('&').next().unwrap_or_default();
        let all = self.read(OPERATIONS).await;
        let mut all = all["items"].as_array().into_iter().flatten();
        let Some(operation) = all.find(|it| it["metadata"]["uid"] == uid) else { return };
        let object: Value = serde_json::from_slice(body).unwrap_or_default();
        let references = operation["status"]["appliedResourceRefs"].as_array();
        let is_referred_to = references.into_iter().flatten().any(|reference| {
            reference["kind"] == object["kind"] && reference["name"] == object["metadata"]["name"]
        });
        if !is_referred_to {
            self.weather.accuse(format!("{what}, which its operation does not refer to"));
        }
    }

    async fn read(&self, path: &str) -> Value {
        let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
        let answer = self.service.clone().call(request).await.unwrap();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}

/// Tells bodies apart.
fn digest(body: &Bytes) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

/// What an API server says that will not.
fn refusal(code: u16) -> Answer {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let mut status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": "bad weather",
    });
    let mut answer = Response::builder().status(code).header("content-type", "application/json");
    if code == 429 {
        status["details"] = json!({"retryAfterSeconds": 2});
        answer = answer.header("retry-after", "2");
    }
    let body = Full::new(Bytes::from(status.to_string()));
    answer.body(body.map_err(|never| match never {}).boxed_unsync()).unwrap()
}
