//! `ferroplane functions run`: calls a function with a request.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use ferroplane_engine::versions::{Question, resolve};
use ferroplane_engine::{
    ExternalCallee, ExternalFunction, ExternalImage, FunctionProtocol, ImagePullPolicy, Isolation, Permits,
};
use ferroplane_functions::Library;
use ferroplane_runner::{CallContext, CallLimits, Directory, External};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse, Severity};
use ferroplane_wire::{from_json, to_json};
use serde_json::Value;

use super::explain::full_name;
use super::image::{self, ImageToCall, Invocation};
use super::wasm::{self, CodeGrant, CodeLimits};
use crate::Verdict;
use crate::external::{RegistryUser, Trust, external, image_settings};
use crate::terminal::Terminal;
use crate::xpkg::registry::ClientFlags;
use crate::{duration, size};

/// What a terminal shows while a function runs.
pub(super) const CALLING: &str = "calling the function";

/// Call a function once and print its response
///
/// FUNCTION is an image in a registry, a file or directory with an image, a file of WebAssembly (X.wasm), a URL of a webhook
/// (https://…), or the name of a built-in function. An image runs in a container, without network, environment and files of this
/// machine; it needs neither Docker nor root. A Function package is served for the one call, any other image is run with the request
/// on its standard input.
///
/// A file is an OCI layout or what `docker save` wrote. A directory is an OCI layout, or a root file system with a program `function`
/// at its top, or with a `config.json` like that of an image that names its `Entrypoint`.
///
/// The request is a `RunFunctionRequest` in JSON or YAML, from a file or from standard input. The response is printed as a
/// `RunFunctionResponse` in JSON, whatever the protocol of the function.
///
/// Exits with 3 when the function returns a fatal result.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane functions run r.example.org/labelizer:v0.1.0 < request.json
  ferroplane functions run ./labelizer.tar request.json
  ferroplane functions run r.example.org/labelizer:v0.1.0 request.yaml \\
    --limit time=5s,memory=64MiB
  ferroplane functions run r.example.org/set-labels:v0.2 request.json \\
    --protocol krm
  ferroplane functions run function-auto-ready request.json
  ferroplane functions run ./labelizer.wasm request.json \\
    --limit time=1s,memory=16MiB --grant clock,read=./data:/data
  ferroplane functions run r.example.org/dns:v1 request.json --grant network")]
pub(crate) struct Run {
    /// The function: an image, a URL, a file of WebAssembly, or the name of a built-in function
    function: String,

    /// The request: a file, or `-` for standard input
    #[arg(default_value = "-")]
    request: PathBuf,

    /// What the function reads and writes [default: grpc for a Function package, run-function otherwise]
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,

    /// Limits of the function: time, memory, cpu; for example time=5s,memory=64MiB,cpu=500m
    #[arg(long, value_name = "WHAT=AMOUNT", value_delimiter = ',', value_parser = limit)]
    limit: Vec<Limit>,

    /// What the function may do beyond computing: network, chroot, local-addresses; and if it is WebAssembly clock, random,
    /// read=DIRECTORY, write=DIRECTORY, connect=ADDRESS:PORT, env=NAME=VALUE
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = grant)]
    grant: Vec<Grant>,

    /// When to pull the image [default: always for the tag latest, if-not-present otherwise]
    #[arg(long, value_enum, value_name = "WHEN")]
    pull: Option<Pull>,

    #[command(flatten)]
    registries: ClientFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// A `RunFunctionRequest` and a `RunFunctionResponse`
    RunFunction,
    /// The `ResourceList` of the alpha design
    ResourceList,
    /// The `ResourceList` of KRM functions, which kustomize and kpt run
    Krm,
    /// The gRPC protocol, spoken by a server in the image
    Grpc,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Grant {
    /// Use the network of this machine
    Network,
    /// Run without a container, with your rights
    Chroot,
    /// Call a webhook on this machine
    LocalAddresses,
    /// See something of this machine, as WebAssembly
    Code(CodeGrant),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Pull {
    Always,
    IfNotPresent,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Time(Duration),
    Memory(u64),
    Cpu(u64),
}

impl Run {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let request = read_request(&self.request)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let response = runtime.block_on(self.call(request, terminal));
        // Containers end when their futures are dropped, which takes a moment.
        runtime.shutdown_timeout(Duration::from_secs(2));
        let response = response?;
        let mut text = serde_json::to_vec_pretty(&to_json(&response).context("cannot print the response")?)?;
        text.push(b'\n');
        terminal.document(&text)?;
        let is_fatal = |result: &ferroplane_wire::v1::Result| result.severity == i32::from(Severity::Fatal);
        match response.results.iter().find(|result| is_fatal(result)) {
            Some(fatal) => {
                terminal.failure(&format!("the function returned a fatal result: {}", fatal.message));
                Ok(Verdict::No)
            }
            None => Ok(Verdict::Yes),
        }
    }

    async fn call(
        &self,
        request: RunFunctionRequest,
        terminal: &mut Terminal,
    ) -> anyhow::Result<RunFunctionResponse> {
        if wasm::is_code(&self.function) {
            return wasm::call(&self.function, self.code_limits()?, &self.code_grants()?, &request, terminal)
                .await;
        }
        if let Some(answer) = terminal.wait(CALLING, self.call_built_in(&request)).await? {
            return Ok(answer);
        }
        let context = self.call_context();
        let function = self.external_function(&request)?;
        let called = match &function.callee {
            ExternalCallee::Image(image) => {
                let source = image::source(&self.function)?.with_policy(image.pull_policy);
                let settings = image_settings(RegistryUser::Own, &self.registries.access()?)?;
                let called = ImageToCall {
                    source: &source,
                    way: self.way(),
                    function: &function,
                    context: &context,
                    limits: self.call_limits(),
                    code_grants: &self.code_grants_of_image(),
                };
                image::call(settings, &called, &request, terminal).await
            }
            ExternalCallee::Webhook { .. } => {
                let external = self.external()?;
                let called = external.call(&function, &request, &context);
                terminal.wait("calling the webhook", called).await.map_err(Into::into)
            }
        };
        called.with_context(|| format!("cannot call `{}`", self.function))
    }

    /// The answer of what is built in, if that is meant.
    async fn call_built_in(
        &self,
        request: &RunFunctionRequest,
    ) -> anyhow::Result<Option<RunFunctionResponse>> {
        // Images have one of these in their names, and built-in functions have none.
        if self.function.contains(['/', ':', '.']) || self.protocol == Some(Protocol::Grpc) {
            return Ok(None);
        }
        let library = Library::built_in().context("this build is broken")?;
        let name = full_name(&library, &self.function);
        let Ok(resolution) = resolve(library.catalogue(), &Question::about(&name)) else { return Ok(None) };
        if !self.limit.is_empty() {
            bail!("cannot limit `{}`: it is built in, and has limits of its own", self.function);
        }
        let revision = &resolution.record.revision.name;
        let mut directory = Directory::built_in(&library);
        directory.enable_external(&self.external()?);
        let context = self.call_context();
        Ok(Some(directory.call_for(revision, request, &context).await?))
    }

    fn call_context(&self) -> CallContext {
        let (step, permits) = (self.function.clone(), self.permits());
        // No step comes before it.
        CallContext { step, permits, is_first_step: true, ..CallContext::default() }
    }

    /// What runs images and calls webhooks. A user who types a grant has decided.
    fn external(&self) -> anyhow::Result<External> {
        Ok(external(Trust::Grants, RegistryUser::Own, &self.registries.access()?))
    }

    fn code_limits(&self) -> anyhow::Result<CodeLimits> {
        let mut limits = CodeLimits::default();
        for limit in &self.limit {
            match limit {
                Limit::Time(time) => limits.time = Some(*time),
                Limit::Memory(memory) => limits.memory = Some(*memory),
                Limit::Cpu(_) => bail!(wasm::NO_PROCESSORS),
            }
        }
        Ok(limits)
    }

    fn code_grants(&self) -> anyhow::Result<Vec<CodeGrant>> {
        let code_grant = |grant: &Grant| match grant {
            Grant::Code(grant) => Ok(grant.clone()),
            _ => bail!(wasm::NO_NETWORK),
        };
        self.grant.iter().map(code_grant).collect()
    }

    /// The limits that the arguments give.
    fn call_limits(&self) -> CallLimits {
        let mut limits = CallLimits::default();
        for limit in &self.limit {
            match limit {
                Limit::Time(time) => limits.time = Some(*time),
                Limit::Memory(memory) => limits.memory = Some(*memory),
                Limit::Cpu(cpu) => limits.cpu = Some(*cpu),
            }
        }
        limits
    }

    /// What is granted to the code of an image, if it is WebAssembly.
    fn code_grants_of_image(&self) -> Vec<CodeGrant> {
        let code_grant = |grant: &Grant| match grant {
            Grant::Code(grant) => Some(grant.clone()),
            _ => None,
        };
        self.grant.iter().filter_map(code_grant).collect()
    }

    fn way(&self) -> Invocation {
        match self.protocol {
            None => Invocation::AsItIs,
            Some(Protocol::Grpc) => Invocation::Served,
            Some(Protocol::RunFunction | Protocol::ResourceList | Protocol::Krm) => Invocation::Run,
        }
    }

    fn permits(&self) -> Permits {
        let has = |grant: Grant| self.grant.contains(&grant);
        Permits {
            // A chroot has the network of this machine in any case: it has no namespace of its own.
            network: has(Grant::Network) || has(Grant::Chroot),
            chroot: has(Grant::Chroot),
            local_addresses: has(Grant::LocalAddresses),
        }
    }

    fn external_function(&self, request: &RunFunctionRequest) -> anyhow::Result<ExternalFunction> {
        let mut function = ExternalFunction {
            callee: self.callee()?,
            protocol: match self.protocol {
                None | Some(Protocol::RunFunction | Protocol::Grpc) => FunctionProtocol::RunFunction,
                Some(Protocol::ResourceList) => FunctionProtocol::ResourceList,
                Some(Protocol::Krm) => FunctionProtocol::KRM,
            },
            timeout: Duration::from_secs(20),
            config: request.input.clone().map(ferroplane_wire::Struct::into_json).transpose()?,
            // There is no earlier step that could want anything: what is observed is all that the program sees.
            sees_unwanted: true,
        };
        for limit in &self.limit {
            match (limit, &mut function.callee) {
                (Limit::Time(time), _) => function.timeout = *time,
                (Limit::Memory(memory), ExternalCallee::Image(image)) => image.memory = Some(*memory),
                (Limit::Cpu(cpu), ExternalCallee::Image(image)) => image.cpu = Some(*cpu),
                _ => bail!("a webhook can only have a time limit"),
            }
        }
        Ok(function)
    }

    fn callee(&self) -> anyhow::Result<ExternalCallee> {
        if self.function.starts_with("https://") {
            return Ok(ExternalCallee::Webhook { url: self.function.clone(), ca_bundle: None });
        }
        if self.function.starts_with("http://") {
            bail!("cannot call `{}`: webhooks are called over https only", self.function);
        }
        let is_chroot = self.grant.contains(&Grant::Chroot);
        Ok(ExternalCallee::Image(ExternalImage {
            reference: self.function.clone(),
            isolation: if is_chroot { Isolation::Chroot } else { Isolation::Container },
            pull_policy: self.pull.map(|pull| match pull {
                Pull::Always => ImagePullPolicy::Always,
                Pull::IfNotPresent => ImagePullPolicy::IfNotPresent,
                Pull::Never => ImagePullPolicy::Never,
            }),
            pull_credentials: Vec::new(),
            wants_network: self.grant.contains(&Grant::Network) || is_chroot,
            memory: None,
            cpu: None,
        }))
    }
}

fn read_request(path: &Path) -> anyhow::Result<RunFunctionRequest> {
    let (mut text, name) = (String::new(), path.display());
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).context("cannot read the request from standard input")?;
    } else {
        text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read the request in `{name}`"))?;
    }
    if text.trim().is_empty() {
        bail!(
            "the request is empty: give a RunFunctionRequest in JSON or YAML as a file or on standard input"
        );
    }
    let value: Value = serde_saphyr::from_str(&text).context("the request is neither JSON nor YAML")?;
    from_json(&value).context("the request is not a RunFunctionRequest")
}

fn grant(text: &str) -> Result<Grant, String> {
    match text {
        "network" => Ok(Grant::Network),
        "chroot" => Ok(Grant::Chroot),
        "local-addresses" => Ok(Grant::LocalAddresses),
        other => wasm::grant(other).map(Grant::Code),
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    let expected = "expected time=DURATION, memory=SIZE or cpu=AMOUNT, for example time=5s";
    let (what, amount) = text.split_once('=').ok_or(expected)?;
    match what {
        "time" => duration::parse(amount).map(Limit::Time),
        "memory" => size::parse(amount).map(Limit::Memory),
        "cpu" => {
            let thousandths = match amount.strip_suffix('m') {
                Some(thousandths) => thousandths.parse().ok(),
                None => amount.parse::<u64>().ok().and_then(|whole| whole.checked_mul(1000)),
            };
            let above_zero = thousandths.filter(|amount| *amount > 0).map(Limit::Cpu);
            above_zero.ok_or_else(|| "expected a number of processors, for example 1 or 500m".to_owned())
        }
        _ => Err(expected.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!(limit("time=5s"), Ok(Limit::Time(Duration::from_secs(5))));
        assert_eq!(limit("memory=64MiB"), Ok(Limit::Memory(64 << 20)));
        assert_eq!(limit("cpu=500m"), Ok(Limit::Cpu(500)));
        assert_eq!(limit("cpu=2"), Ok(Limit::Cpu(2000)));
        for bad in ["time", "time=", "disk=1", "cpu=0", "cpu=x"] {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }
}
