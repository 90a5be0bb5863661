//! Function packages that are no servers: WebAssembly, and programs that are run for every call. They are called as any other function.

use std::time::Duration;

use ferroplane_engine::{ExternalCallee, ExternalFunction, ExternalImage, FunctionProtocol, Isolation};
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

impl Images {
    /// The function in an image that is not a server. Nothing if it is one.
    ///
    /// An image whose program is WebAssembly is granted what the text says, if its code declares to need that: `clock`, `random`,
    /// `connect=ADDRESS:PORT`, `env=NAME=VALUE`, with commas between them.
    pub async fn unserved_function(
        &self,
        name: &str,
        source: &ImageSource,
        grants: &str,
    ) -> Result<Option<Runner>, ImageError> {
        let image = self.prepare_server(source).await?;
        if image.code().is_some() {
            return code_function(name, &image, grants, self.function_sink(name)).await.map(Some);
        }
        let path = image.path().to_owned();
        let meta = blocking(move || package::read(&path)).await?;
        let Some(protocol) = meta.and_then(|meta| meta.protocol) else { return Ok(None) };
        let protocol = match protocol.as_str() {
            "RunFunction" => FunctionProtocol::RunFunction,
            "ResourceList" => FunctionProtocol::ResourceList,
            "KRM" => FunctionProtocol::KRM,
            _ => return Err(ImageError::Protocol { protocol }),
        };
        Ok(Some(self.adapt(name, source, protocol)))
    }

    /// Calls the program of an image as a function.
    fn adapt(&self, name: &str, source: &ImageSource, protocol: FunctionProtocol) -> Runner {
        let external = External::new(self.runner_of_function(name, source.clone()));
        let (name, image) = (name.to_owned(), source.name());
        Runner::AsyncFunction(AsyncFunction::new(move |request| {
            let (external, name, image) = (external.clone(), name.clone(), image.clone());
            async move { call(&external, name, image, protocol, &request).await }
        }))
    }
}

async fn call(
    external: &External,
    name: String,
    image: String,
    protocol: FunctionProtocol,
    request: &RunFunctionRequest,
) -> Result<RunFunctionResponse, CallError> {
    let invalid = |reason: String| CallError::Input { function: name.clone(), reason };
    let config = request.input.clone().map(Struct::into_json).transpose();
    let function = ExternalFunction {
        callee: ExternalCallee::Image(ExternalImage {
            reference: image,
            isolation: Isolation::Container,
            pull_policy: None,
            pull_credentials: Vec::new(),
            wants_network: false,
            memory: None,
            cpu: None,
        }),
        protocol,
        timeout: TIMEOUT,
        config: config.map_err(|error| invalid(error.to_string()))?,
        sees_unwanted: true,
    };
    let context = CallContext { step: name.clone(), ..CallContext::default() };
    external.call(&function, request, &context).await
}
