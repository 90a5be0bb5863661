//! Function packages that are no servers: WebAssembly, and programs that are run for every call. They are called as any other function.

use std::time::Duration;

use ferroplane_engine::{
    ExternalCallee, ExternalFunction, ExternalImage, FunctionProtocol, Isolation, Permits,
};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

use super::code::code_function;
use super::error::ImageError;
use super::{ImageSource, Images, blocking, package};
use crate::directory::{AsyncFunction, Runner};
use crate::error::CallError;
use crate::external::{CallContext, External};

/// How long a program may take for a call, as in a step that runs an image.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How a program is described that has more than the usual.
const WITH_NETWORK: &str = "runs in a container on this machine, with the network of this machine";

/// What a function that is not a server may do beyond computing. Nothing, unless an administrator grants it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FunctionGrants<'a> {
    /// For WebAssembly whose code declares to need it: `clock`, `random`, `connect=ADDRESS:PORT`, `env=NAME=VALUE`, with commas between them.
    pub code: &'a str,
    /// Whether any other program has the network of this process.
    pub has_network: bool,
}

/// What each call of a function that is not a server may use. What is not said is as usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallLimits {
    pub time: Option<Duration>,
    /// In bytes.
    pub memory: Option<u64>,
    /// In thousandths of a processor. WebAssembly has no such limit: it runs on one.
    pub cpu: Option<u64>,
}

impl Images {
    /// The function in an image that is not a server. Nothing if it is one.
    pub async fn unserved_function(
        &self,
        name: &str,
        source: &ImageSource,
        grants: FunctionGrants<'_>,
    ) -> Result<Option<Runner>, ImageError> {
        self.unserved_function_within(name, source, grants, CallLimits::default()).await
    }

    /// The same, within limits.
    pub async fn unserved_function_within(
        &self,
        name: &str,
        source: &ImageSource,
        grants: FunctionGrants<'_>,
        limits: CallLimits,
    ) -> Result<Option<Runner>, ImageError> {
        let image = self.prepare_server(source).await?;
        if image.code().is_some() {
            return code_function(self, name, &image, grants.code, limits).await.map(Some);
        }
        let path = image.path().to_owned();
        let meta = blocking(move || package::read(&path)).await?;
        let Some(protocol) = meta.and_then(|meta| meta.protocol) else { return Ok(None) };
        let (name, image) = (name.to_owned(), source.name());
        let protocol = function_protocol(&protocol)?;
        let program = AdaptedProgram { name, image, protocol, has_network: grants.has_network, limits };
        Ok(Some(self.adapt(program, source)))
    }

    /// Whether the program of an image is WebAssembly, also if the image is a package that names another one.
    pub async fn is_code(&self, source: &ImageSource) -> Result<bool, ImageError> {
        Ok(self.prepare_server(source).await?.code().is_some())
    }

    /// Calls the program of an image as a function.
    fn adapt(&self, program: AdaptedProgram, source: &ImageSource) -> Runner {
        let external = External::new(self.runner_of_function(&program.name, source.clone()));
        let has_network = program.has_network;
        let function = AsyncFunction::in_context(move |request, context| {
            let (external, program) = (external.clone(), program.clone());
            async move { program.call(&external, &request, context).await }
        });
        let described = |function: AsyncFunction| function.described(WITH_NETWORK.to_owned());
        Runner::AsyncFunction(if has_network { described(function) } else { function })
    }
}

/// What a program that is not a server reads and writes, as the annotation of its package says it.
pub fn function_protocol(text: &str) -> Result<FunctionProtocol, ImageError> {
    match text {
        "RunFunction" => Ok(FunctionProtocol::RunFunction),
        "ResourceList" => Ok(FunctionProtocol::ResourceList),
        "KRM" => Ok(FunctionProtocol::KRM),
        _ => Err(ImageError::Protocol { protocol: text.to_owned() }),
    }
}

/// A program that is called as a function.
#[derive(Debug, Clone)]
pub(super) struct AdaptedProgram {
    /// Names it in errors about its input.
    pub(super) name: String,
    /// Names it in errors.
    pub(super) image: String,
    pub(super) protocol: FunctionProtocol,
    pub(super) has_network: bool,
    pub(super) limits: CallLimits,
}

impl AdaptedProgram {
    /// Call it, by what runs it.
    pub(super) async fn call(
        &self,
        external: &External,
        request: &RunFunctionRequest,
        context: CallContext,
    ) -> Result<RunFunctionResponse, CallError> {
        let function = self.function(request, context.is_first_step)?;
        // What this call may do follows from the grants of the package. A step that calls a package is permitted nothing.
        let permits = Permits { network: self.has_network, ..Permits::default() };
        external.call(&function, request, &CallContext { permits, ..context }).await
    }

    /// What is called: the image, with the input of the step as its config.
    fn function(
        &self,
        request: &RunFunctionRequest,
        is_first_step: bool,
    ) -> Result<ExternalFunction, CallError> {
        let invalid = |reason: String| CallError::Input { function: self.name.clone(), reason };
        let config = request.input.clone().map(Struct::into_json).transpose();
        Ok(ExternalFunction {
            callee: ExternalCallee::Image(ExternalImage {
                reference: self.image.clone(),
                isolation: Isolation::Container,
                pull_policy: None,
                pull_credentials: Vec::new(),
                wants_network: self.has_network,
                memory: self.limits.memory,
                cpu: self.limits.cpu,
            }),
            protocol: self.protocol,
            timeout: self.limits.time.unwrap_or(TIMEOUT),
            config: config.map_err(|error| invalid(error.to_string()))?,
            // Resources that an earlier step has dropped have to stay dropped. Before the first one, none can have been.
            sees_unwanted: is_first_step,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ferroplane_wire::from_json;
    use serde_json::{Value, json};

    use super::*;
    use crate::external::{ImageCall, ImageOutput, ImageRunner};

    /// A program that answers with what it was given, and what it was called with.
    fn echoing() -> (External, Arc<Mutex<Vec<ImageCall>>>) {
        let calls = Arc::<Mutex<Vec<ImageCall>>>::default();
        let noted = calls.clone();
        let images = ImageRunner::new(move |call: ImageCall| {
            let standard_output = call.standard_input.to_vec();
            noted.lock().expect("no panic").push(call);
            std::future::ready(Ok(ImageOutput { standard_output, ..ImageOutput::default() }))
        });
        (External::new(images), calls)
    }

    fn program(protocol: FunctionProtocol, limits: CallLimits) -> AdaptedProgram {
        let (name, image) = ("function-a".to_owned(), "registry.example.org/a:v1".to_owned());
        AdaptedProgram { name, image, protocol, has_network: false, limits }
    }

    /// A resource exists, and an earlier step desires another one instead.
    fn request() -> RunFunctionRequest {
        let object = |api_version: &str, kind: &str, name: &str| json!({"resource": {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}});
        let [old, new] = ["old", "new"].map(|name| object("v1", "ConfigMap", name));
        let composite = object("example.org/v1", "App", "app");
        let request = json!({
            "observed": {"composite": composite, "resources": {"dropped": old}},
            "desired": {"resources": {"wanted": new}},
        });
        from_json(&request).expect("a request")
    }

    #[tokio::test]
    async fn package_does_not_bring_back_what_an_earlier_step_has_dropped() {
        for protocol in [FunctionProtocol::ResourceList, FunctionProtocol::KRM] {
            let (external, calls) = echoing();
            let program = program(protocol, CallLimits::default());
            let context = CallContext::default();
            let response = program.call(&external, &request(), context).await.expect("an answer");
            let desired = response.desired.expect("desired state");
            assert_eq!(desired.resources().keys().collect::<Vec<_>>(), ["wanted"], "{protocol:?}");
            let sent = calls.lock().expect("no panic")[0].standard_input.clone();
            let sent: Value = serde_json::from_slice(&sent).expect("JSON");
            assert!(!sent.to_string().contains("dropped"), "{sent}");
        }
    }

    #[tokio::test]
    async fn package_that_is_the_first_step_sees_what_exists() {
        for protocol in [FunctionProtocol::ResourceList, FunctionProtocol::KRM] {
            let (external, _) = echoing();
            let program = program(protocol, CallLimits::default());
            let context = CallContext { is_first_step: true, ..CallContext::default() };
            let request = RunFunctionRequest { desired: None, ..request() };
            let response = program.call(&external, &request, context).await.expect("an answer");
            let desired = response.desired.expect("desired state");
            assert_eq!(desired.resources().keys().collect::<Vec<_>>(), ["dropped"], "{protocol:?}");
        }
    }

    #[tokio::test]
    async fn program_of_a_package_has_the_limits_and_the_step_of_its_call() {
        let (external, calls) = echoing();
        let usual = program(FunctionProtocol::RunFunction, CallLimits::default());
        let context = CallContext { step: "label".to_owned(), ..CallContext::default() };
        usual.call(&external, &request(), context).await.expect("an answer");
        let (time, memory, cpu) = (Some(Duration::from_secs(3)), Some(64 << 20), Some(500));
        let limited = program(FunctionProtocol::RunFunction, CallLimits { time, memory, cpu });
        limited.call(&external, &request(), CallContext::default()).await.expect("an answer");
        let calls = calls.lock().expect("no panic");
        let seen = |call: &ImageCall| (call.timeout, call.image.memory, call.image.cpu, call.step.clone());
        assert_eq!(seen(&calls[0]), (TIMEOUT, None, None, "label".to_owned()));
        assert_eq!(seen(&calls[1]), (Duration::from_secs(3), memory, cpu, String::new()));
        assert_eq!(calls[0].composite, "App/app");
    }
}
