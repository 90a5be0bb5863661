//! `ferroplane functions run`: what does this function answer?

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
use ferroplane_runner::{CallContext, Directory};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse, Severity};
use ferroplane_wire::{from_json, to_json};
use serde_json::Value;

use super::explain::full_name;
use crate::Verdict;
use crate::external::{Trust, external};
use crate::terminal::Terminal;
use crate::{duration, size};

/// Call a function once and print its answer
///
/// FUNCTION is an image, a URL of a webhook (https://…), or the name of a built-in function. Images are not run yet: such a call fails
/// and says so.
///
/// The request is a `RunFunctionRequest` in JSON or YAML, from a file or from standard input. The answer is printed as a
/// `RunFunctionResponse` in JSON, whatever protocol the function speaks.
///
/// Exits with 3 when the function returns a fatal result.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane functions run registry.example.org/labelizer:v0.1.0 < request.json
  ferroplane functions run registry.example.org/labelizer:v0.1.0 request.yaml --limit time=5s,memory=64MiB
  ferroplane functions run registry.example.org/set-labels:v0.2 request.json --protocol krm
  ferroplane functions run function-auto-ready request.json
  ferroplane functions run registry.example.org/dns:v1 request.json --grant network")]
pub(crate) struct Run {
    /// The function: an image, a URL, or the name of a built-in function
    function: String,

    /// The request: a file, or `-` for standard input
    #[arg(default_value = "-")]
    request: PathBuf,

    /// What the function reads and writes
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocol,

    /// The most that the function may use: time, memory, cpu; for example time=5s,memory=64MiB,cpu=500m
    #[arg(long, value_name = "WHAT=AMOUNT", value_delimiter = ',', value_parser = limit)]
    limit: Vec<Limit>,

    /// What the function may do beyond computing
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    grant: Vec<Grant>,

    /// When to pull the image [default: always for the tag latest, if-not-present otherwise]
    #[arg(long, value_enum, value_name = "WHEN")]
    pull: Option<Pull>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// A `RunFunctionRequest` and a `RunFunctionResponse`
    #[default]
    RunFunction,
    /// The `ResourceList` of the alpha design
    ResourceList,
    /// The `ResourceList` of KRM functions, which kustomize and kpt run
    Krm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Grant {
    /// Use the network of this machine
    Network,
    /// Run without a container, with your rights
    Chroot,
    /// Call a webhook on this machine or on its links
    LocalAddresses,
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
        let response = runtime.block_on(self.call(request));
        runtime.shutdown_timeout(Duration::from_secs(2));
        let response = response?;
        let mut text = serde_json::to_vec_pretty(&to_json(&response).context("cannot print the answer")?)?;
        text.push(b'\n');
        terminal.data(&text)?;
        let is_fatal = |result: &ferroplane_wire::v1::Result| result.severity == i32::from(Severity::Fatal);
        match response.results.iter().find(|result| is_fatal(result)) {
            Some(fatal) => {
                terminal.failure(&format!("the function returned a fatal result: {}", fatal.message));
                Ok(Verdict::No)
            }
            None => Ok(Verdict::Yes),
        }
    }

    async fn call(&self, request: RunFunctionRequest) -> anyhow::Result<RunFunctionResponse> {
        if let Some(answer) = self.call_built_in(&request).await? {
            return Ok(answer);
        }
        let context = CallContext { step: self.function.clone(), permits: self.permits() };
        // Whoever types a grant has decided.
        let external = external(Trust::Grants);
        let called = external.call(&self.external_function(&request)?, &request, &context).await;
        called.with_context(|| format!("cannot call `{}`", self.function))
    }

    /// The answer of what is built in, if that is meant.
    async fn call_built_in(
        &self,
        request: &RunFunctionRequest,
    ) -> anyhow::Result<Option<RunFunctionResponse>> {
        if self.function.contains(['/', ':', '.']) {
            return Ok(None);
        }
        let library = Library::built_in().context("this build is broken")?;
        let name = full_name(&library, &self.function);
        let Ok(resolution) = resolve(library.catalogue(), &Question::about(&name)) else { return Ok(None) };
        let revision = &resolution.record.revision.name;
        let mut directory = Directory::built_in(&library);
        directory.enable_external(&external(Trust::Grants));
        let context = CallContext { step: self.function.clone(), permits: self.permits() };
        Ok(Some(directory.call_for(revision, request, &context).await?))
    }

    fn permits(&self) -> Permits {
        let has = |grant: Grant| self.grant.contains(&grant);
        Permits {
            network: has(Grant::Network) || has(Grant::Chroot),
            chroot: has(Grant::Chroot),
            local_addresses: has(Grant::LocalAddresses),
        }
    }

    fn external_function(&self, request: &RunFunctionRequest) -> anyhow::Result<ExternalFunction> {
        let mut function = ExternalFunction {
            callee: self.callee()?,
            protocol: match self.protocol {
                Protocol::RunFunction => FunctionProtocol::RunFunction,
                Protocol::ResourceList => FunctionProtocol::ResourceList,
                Protocol::Krm => FunctionProtocol::KRM,
            },
            timeout: Duration::from_secs(20),
            config: request.input.clone().map(ferroplane_wire::Struct::into_json).transpose()?,
            sees_unwanted: true,
        };
        for limit in &self.limit {
            match (limit, &mut function.callee) {
                (Limit::Time(time), _) => function.timeout = *time,
                (Limit::Memory(memory), ExternalCallee::Image(image)) => image.memory = Some(*memory),
                (Limit::Cpu(cpu), ExternalCallee::Image(image)) => image.cpu = Some(*cpu),
                _ => bail!("a webhook has no limit but time"),
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
