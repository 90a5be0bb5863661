//! Which function is called how.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use ferroplane_engine::external_type;
use ferroplane_engine::versions::Record;
use ferroplane_functions::{Implementation, Library, has_script_interpreter};
use ferroplane_wire::methods;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, debug_span, field};

use crate::error::CallError;
use crate::external::{CallContext, External, ExternalRunner};
use crate::grpc;
use crate::images::ServedImage;
use crate::long_calls::{LongCallSignal, LongCalls};
use crate::observer::{Happening, Observer, Peer, verdict};
use crate::process::Program;
use crate::remote_templates::TemplateFetcher;
use crate::response_cache::ResponseCache;

/// Where functions are that are built in.
const BUILT_IN: &str = "builtin";

/// The function that runs scripts, where there is an interpreter.
const STARLARK: &str = "function-starlark";

/// The functions that can be called, by name. Clones share the functions.
#[derive(Debug, Default, Clone)]
pub struct Directory {
    runners: BTreeMap<String, Arc<Runner>>,
    deadline: Option<Instant>,
    answers: Option<Arc<ResponseCache>>,
    /// Those whose answers are not kept.
    changeable: BTreeSet<String>,
    observer: Option<Observer>,
    long_calls: LongCalls,
    templates: Option<TemplateFetcher>,
}

/// How a function is called.
#[derive(Debug)]
pub enum Runner {
    /// It is Rust code in our own process.
    Builtin(Implementation),
    /// It is served somewhere.
    Grpc(grpc::Client),
    /// It is served by a program that we started.
    Program(Program),
    /// It is served in a container that we started.
    Served(Box<ServedImage>),
    /// It is an image that is run, or a webhook.
    External(ExternalRunner),
    /// It is code in our own process that takes its time, as if it were served somewhere.
    AsyncFunction(AsyncFunction),
    /// It is WebAssembly, and runs in our own process within limits.
    #[cfg(feature = "wasm")]
    Wasm(crate::wasm_function::WasmFunction),
}

/// Code that answers in its own time.
#[derive(Clone)]
pub struct AsyncFunction {
    answer: Arc<dyn Fn(RunFunctionRequest, CallContext) -> Answering + Send + Sync>,
    description: Option<String>,
}

type Answering = Pin<Box<dyn Future<Output = Result<RunFunctionResponse, CallError>> + Send>>;

impl AsyncFunction {
    pub fn new<F>(answer: impl Fn(RunFunctionRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<RunFunctionResponse, CallError>> + Send + 'static,
    {
        Self::in_context(move |request, _| answer(request))
    }

    /// The same for code that is given what it is called for, too.
    pub fn in_context<F>(
        answer: impl Fn(RunFunctionRequest, CallContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<RunFunctionResponse, CallError>> + Send + 'static,
    {
        let answer = move |request, context| -> Answering { Box::pin(answer(request, context)) };
        Self { answer: Arc::new(answer), description: None }
    }

    /// Say where it runs, for a user who installed it.
    #[must_use]
    pub fn described(self, description: String) -> Self {
        Self { description: Some(description), ..self }
    }
}

impl fmt::Debug for AsyncFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsyncFunction")
    }
}

impl Directory {
    /// Everything that is built in, by the names of its versions.
    pub fn built_in(library: &Library) -> Self {
        let records = library.catalogue().families().flat_map(|family| {
            let runner = |record: &Record| {
                let code = library.implementation(&family.function, record.version.as_ref()?)?;
                Some((record.revision.name.clone(), Runner::Builtin(code.clone())))
            };
            family.records.iter().filter_map(runner).collect::<Vec<_>>()
        });
        records.collect()
    }

    /// The same without those that run images or call webhooks: what these answered once need not be what they answer again. Without
    /// an interpreter of scripts, what scripts answered cannot be asked again either.
    pub fn reproducible(library: &Library) -> Self {
        let mut directory = Self::built_in(library);
        let is_left_out = |name: &str| {
            let function = name.rsplit_once("-v").map_or("", |(function, _)| function);
            external_type(function).is_some() || function == STARLARK && !has_script_interpreter()
        };
        directory.runners.retain(|name, _| !is_left_out(name));
        directory
    }

    /// List a function.
    pub fn insert(&mut self, name: String, runner: impl Into<Arc<Runner>>) {
        self.runners.insert(name, runner.into());
    }

    /// List a function that may be another one the next time, though it bears the same name. None of its answers is kept.
    pub fn insert_changeable(&mut self, name: String, runner: impl Into<Arc<Runner>>) {
        self.changeable.insert(name.clone());
        self.insert(name, runner);
    }

    /// Turn on the functions that run images and call webhooks, in place of those that say that they are off.
    pub fn enable_external(&mut self, external: &External) {
        for (name, runner) in external.functions() {
            if self.runners.contains_key(&name) {
                self.insert(name, Runner::External(runner));
            }
        }
    }

    /// Let this one bring templates that built-in functions read from elsewhere.
    pub fn fetch_templates(&mut self, fetcher: TemplateFetcher) {
        self.templates = Some(fetcher);
    }

    /// How a function is called.
    pub fn get(&self, name: &str) -> Option<&Arc<Runner>> {
        self.runners.get(name)
    }

    /// Do not ask again what was answered, for as long as the answer holds.
    pub fn keep_answers(&mut self, answers: Arc<ResponseCache>) {
        self.answers = Some(answers);
    }

    /// The same functions, each of which is asked whatever it has answered before. None of their answers is kept.
    #[must_use]
    pub fn without_answers(&self) -> Self {
        Self { answers: None, ..self.clone() }
    }

    /// Have this one told what happens.
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// Whether what a function answers for an operation depends on the operation, too, which its requests do not have: code sees a clock
    /// and random numbers of that operation.
    pub(crate) fn sees_operations(&self, name: &str) -> bool {
        let runner = self.runners.get(name).map(AsRef::as_ref);
        #[cfg(feature = "wasm")]
        if matches!(runner, Some(Runner::Wasm(_))) {
            return true;
        }
        matches!(runner, Some(Runner::External(_)))
    }

    /// What an answer is kept by. A program of a package may see more as the first step of a pipeline, which its request does not say.
    pub(crate) fn tag_of_answer(
        &self,
        name: &str,
        request: &RunFunctionRequest,
        is_first_step: bool,
    ) -> String {
        let tag = tag_of(request);
        let sees_step = matches!(self.runners.get(name).map(AsRef::as_ref), Some(Runner::AsyncFunction(_)));
        // Without a tag, nothing is kept.
        let suffix = if is_first_step && sees_step && !tag.is_empty() { "-first" } else { "" };
        format!("{tag}{suffix}")
    }

    /// What was answered before to a request with this tag, if that holds still.
    pub(crate) fn recall(&self, name: &str, tag: &str) -> Option<RunFunctionResponse> {
        // What is built in says nothing about how long its answers hold: none of them is kept.
        if matches!(self.runners.get(name).map(AsRef::as_ref), Some(Runner::Builtin(_)))
            || self.changeable.contains(name)
        {
            return None;
        }
        let answer = self.answers.as_ref()?.get(name, tag);
        self.tell(name, if answer.is_some() { Happening::Recalled } else { Happening::NotRecalled });
        answer
    }

    /// Remember what was answered.
    pub(crate) fn remember(&self, name: &str, tag: &str, response: &RunFunctionResponse) {
        if let Some(answers) = &self.answers
            && !self.changeable.contains(name)
            && let Some(bytes) = answers.put(name, tag, response)
        {
            self.tell(name, Happening::Kept { bytes });
        }
    }

    /// Let no call continue after this.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    /// Call a function by name. It may do nothing but compute.
    pub async fn call(
        &self,
        name: &str,
        request: &RunFunctionRequest,
    ) -> Result<RunFunctionResponse, CallError> {
        self.call_for(name, request, &CallContext::default()).await
    }

    /// Call a function by name, for a step that may do something.
    pub async fn call_for(
        &self,
        name: &str,
        request: &RunFunctionRequest,
        context: &CallContext,
    ) -> Result<RunFunctionResponse, CallError> {
        let peer = self.runners.get(name).map(|runner| runner.peer());
        let began_at = Instant::now();
        if let Some(peer) = peer {
            self.tell(name, Happening::Called(peer));
        }
        let span = peer.map_or_else(Span::none, |peer| call_span(peer));
        let result = self.call_in_time(name, request, context).instrument(span.clone()).await;
        if let Some(peer) = peer {
            let ((code, severity), took) = (verdict(&result), began_at.elapsed());
            note_code(&span, code);
            self.tell(name, Happening::Ended { peer, code, severity, took });
        }
        result
    }

    fn tell(&self, name: &str, happening: Happening<'_>) {
        if let Some(observer) = &self.observer {
            observer.tell(name, happening);
        }
    }

    async fn call_in_time(
        &self,
        name: &str,
        request: &RunFunctionRequest,
        context: &CallContext,
    ) -> Result<RunFunctionResponse, CallError> {
        // Dropped at the deadline, which cancels the call; a gRPC stream is reset by that.
        let calling = self.call_now(name, request, context);
        let Some(deadline) = self.deadline else { return calling.await };
        let time_is_up = || CallError::TimeIsUp { function: name.to_owned() };
        tokio::time::timeout_at(deadline, calling).await.map_err(|_| time_is_up())?
    }

    async fn call_now(
        &self,
        name: &str,
        request: &RunFunctionRequest,
        context: &CallContext,
    ) -> Result<RunFunctionResponse, CallError> {
        match self.runners.get(name).map(AsRef::as_ref) {
            None => Err(CallError::Unknown { function: name.to_owned() }),
            Some(Runner::Builtin(function)) => {
                let extended = match &self.templates {
                    Some(fetcher) => fetcher.add_to(request).await?,
                    None => None,
                };
                let request = extended.as_ref().unwrap_or(request);
                // Most calls take less time than it takes to hand them to another thread. It returns if this one does not.
                let response = if let Ok(response) = function.run_briefly(request) {
                    response
                } else {
                    context.long_calls.iter().for_each(LongCallSignal::send);
                    self.long_calls.run(function, request).await
                };
                Ok(if function.keeps_ttl() { response } else { timeless(response) })
            }
            Some(Runner::Grpc(client)) => client.call(request).await,
            Some(Runner::Program(program)) => program.call(request).await,
            Some(Runner::Served(served)) => served.call(request).await,
            Some(Runner::External(external)) => external.call(request, context).await,
            Some(Runner::AsyncFunction(inside)) => (inside.answer)(request.clone(), context.clone()).await,
            #[cfg(feature = "wasm")]
            Some(Runner::Wasm(function)) => function.call(request, context.subject.as_ref()).await,
        }
    }

    /// Stop every program that was started, all at once.
    pub async fn stop(self) {
        let mut stopping = tokio::task::JoinSet::new();
        for runner in self.runners.into_values() {
            // A program runs as long as a clone exists; it ends with the last one.
            match Arc::into_inner(runner) {
                Some(Runner::Program(program)) => {
                    stopping.spawn(program.stop());
                }
                Some(Runner::Served(served)) => {
                    stopping.spawn(served.end());
                }
                _ => {}
            }
        }
        while stopping.join_next().await.is_some() {}
    }
}

impl Runner {
    /// Where it runs, in one word.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Builtin(_) => "builtin",
            Self::Grpc(_) => "grpc",
            Self::Program(_) => "program",
            Self::Served(_) => "image",
            Self::External(external) => external.target(),
            Self::AsyncFunction(_) => "inside",
            #[cfg(feature = "wasm")]
            Self::Wasm(_) => "wasm",
        }
    }

    /// Where a function runs that was started from its package, for a user who installed it.
    pub fn describe(&self) -> String {
        match self {
            #[cfg(feature = "wasm")]
            Self::Wasm(function) => function.describe(),
            Self::AsyncFunction(AsyncFunction { description: Some(description), .. }) => description.clone(),
            _ => "runs in a container on this machine".to_owned(),
        }
    }

    fn peer(&self) -> Peer<'_> {
        match self {
            Self::Builtin(_) | Self::AsyncFunction(_) => Peer { target: BUILT_IN, method: methods::V1 },
            Self::Grpc(client) => client.peer(),
            Self::Program(program) => program.peer(),
            Self::Served(served) => served.peer(),
            #[cfg(feature = "wasm")]
            Self::Wasm(function) => function.peer(),
            Self::External(external) => Peer { target: external.target(), method: methods::V1 },
        }
    }
}

impl FromIterator<(String, Runner)> for Directory {
    fn from_iter<T: IntoIterator<Item = (String, Runner)>>(runners: T) -> Self {
        let runners = runners.into_iter().map(|(name, runner)| (name, Arc::new(runner)));
        Self { runners: runners.collect(), ..Self::default() }
    }
}

/// How a call is seen in a trace. One that goes nowhere is part of its step.
fn call_span(peer: Peer<'_>) -> Span {
    if peer.target == BUILT_IN || Span::current().is_none() {
        return Span::none();
    }
    debug_span!(
        "call",
        otel.name = peer.method.trim_start_matches('/'),
        otel.kind = "client",
        otel.status_code = field::Empty,
        rpc.system = "grpc",
        rpc.method = peer.method,
        server.address = peer.target,
        rpc.grpc.status = field::Empty,
    )
}

fn note_code(span: &Span, code: &'static str) {
    span.record("rpc.grpc.status", code);
    if code != "OK" {
        span.record("otel.status_code", "ERROR");
    }
}

/// What a request is known by.
pub(crate) fn tag_of(request: &RunFunctionRequest) -> &str {
    request.meta.as_ref().map_or("", |meta| meta.tag.as_str())
}

/// What is built in is pure, unless it says otherwise: its answer holds until something else is asked.
fn timeless(mut response: RunFunctionResponse) -> RunFunctionResponse {
    if let Some(meta) = &mut response.meta {
        meta.ttl = None;
    }
    response
}
