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

impl Images {
    /// The function in an image that is not a server. Nothing if it is one.
    pub async fn unserved_function(
        &self,
        name: &str,
        source: &ImageSource,
        grants: FunctionGrants<'_>,
    ) -> Result<Option<Runner>, ImageError> {
        let image = self.prepare_server(source).await?;
        if image.code().is_some() {
            return code_function(name, &image, grants.code, self.function_sink(name)).await.map(Some);
        }
        let path = image.path().to_owned();
        let meta = blocking(move || package::read(&path)).await?;
        let Some(protocol) = meta.and_then(|meta| meta.protocol) else { return Ok(None) };
        let protocol = function_protocol(&protocol)?;
        Ok(Some(self.adapt(name, source, protocol, grants.has_network)))
    }

    /// Calls the program of an image as a function.
    fn adapt(
        &self,
        name: &str,
        source: &ImageSource,
        protocol: FunctionProtocol,
        has_network: bool,
    ) -> Runner {
        let external = External::new(self.runner_of_function(name, source.clone()));
        let (name, image) = (name.to_owned(), source.name());
        let program = AdaptedProgram { name, image, protocol, has_network, timeout: TIMEOUT };
        let function = AsyncFunction::new(move |request| {
            let (external, program) = (external.clone(), program.clone());
            async move { program.call(&external, &request).await }
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
    /// Names it in the log.
    pub(super) name: String,
    /// Names it in errors.
    pub(super) image: String,
    pub(super) protocol: FunctionProtocol,
    pub(super) has_network: bool,
    pub(super) timeout: Duration,
}

impl AdaptedProgram {
    /// Call it, by what runs it.
    pub(super) async fn call(
        &self,
        external: &External,
        request: &RunFunctionRequest,
    ) -> Result<RunFunctionResponse, CallError> {
        let invalid = |reason: String| CallError::Input { function: self.name.clone(), reason };
        let config = request.input.clone().map(Struct::into_json).transpose();
        let function = ExternalFunction {
            callee: ExternalCallee::Image(ExternalImage {
                reference: self.image.clone(),
                isolation: Isolation::Container,
                pull_policy: None,
                pull_credentials: Vec::new(),
                wants_network: self.has_network,
                memory: None,
                cpu: None,
            }),
            protocol: self.protocol,
            timeout: self.timeout,
            config: config.map_err(|error| invalid(error.to_string()))?,
            sees_unwanted: true,
        };
        let permits = Permits { network: self.has_network, ..Permits::default() };
        let context = CallContext { step: self.name.clone(), permits, ..CallContext::default() };
        external.call(&function, request, &context).await
    }
}
