//! One call: a request on standard input, an answer from standard output.

use std::time::Duration;

use ferroplane_engine::Isolation;
use ferroplane_sandbox::{Call, Error, Grants, Limit, Limits, Network};
use tracing::info;

use super::error::ImageError;
use super::words::LastWords;
use super::{ImageSource, Images, ReadyImage};
use crate::error::CallError;
use crate::exchange::MAX_ANSWER;
use crate::external::{ImageCall, ImageOutput, ImageRunner};

/// Signals end programs with codes above this.
const SIGNALS: i32 = 128;

impl Images {
    /// What [`crate::External`] runs images with.
    pub fn runner(&self) -> ImageRunner {
        let images = self.clone();
        ImageRunner::new(move |call| {
            let images = images.clone();
            async move {
                let source = ImageSource::reference(&call.image.reference)
                    .with_policy(call.image.pull_policy)
                    .with_secrets(&call.pull_secrets);
                images.call(&source, &call).await
            }
        })
    }

    /// The same, but whatever is called, this image is run.
    pub fn runner_of(&self, source: ImageSource) -> ImageRunner {
        let images = self.clone();
        ImageRunner::new(move |call| {
            let (images, source) = (images.clone(), source.clone());
            async move { images.call(&source, &call).await }
        })
    }

    /// The same for a function in a package.
    pub(super) fn runner_of_function(&self, name: &str, source: ImageSource) -> ImageRunner {
        let (images, name) = (self.clone(), name.to_owned());
        ImageRunner::new(move |call| {
            let (images, source, name) = (images.clone(), source.clone(), name.clone());
            async move { images.call_as(&source, &call, Some(&name)).await }
        })
    }

    /// Run an image once. If the returned future is dropped, its program ends.
    pub async fn call(&self, source: &ImageSource, call: &ImageCall) -> Result<ImageOutput, CallError> {
        self.call_as(source, call, None).await
    }

    /// The same for the function of a package, which has this name in the log.
    async fn call_as(
        &self,
        source: &ImageSource,
        call: &ImageCall,
        function: Option<&str>,
    ) -> Result<ImageOutput, CallError> {
        let name = source.name();
        let image = self.prepare(source).await.map_err(|error| error.for_call(&name))?;
        let words = LastWords::default();
        // WebAssembly needs no container, and runs in this process under limits of its own.
        if image.code().is_some() {
            return self.run_code(&image, call, &words).await;
        }
        match self.run(&image, call, &words, function).await {
            Ok(output) => Ok(ended(output, &words)),
            Err(ImageError::Runtime(error)) => Err(explain(error, &name, call, &words)),
            Err(error) => Err(error.for_call(&name)),
        }
    }

    async fn run(
        &self,
        image: &ReadyImage,
        call: &ImageCall,
        words: &LastWords,
        function: Option<&str>,
    ) -> Result<ferroplane_sandbox::Output, ImageError> {
        let log = self.line_sink(call, function);
        let also = function.and_then(|name| self.function_sink(name));
        let tell = move |line: &str| {
            if let Some(also) = &also {
                also(line);
            }
            log(line);
        };
        let network = if call.has_network { Network::Runner } else { Network::Isolated };
        let container = image.container();
        let in_sandbox = Call {
            container: &container,
            input: &call.standard_input,
            limits: limits(call),
            grants: Grants { network },
            // Tenants take turns when there are too many calls: one with many composite resources, or with functions
            // that take long, keeps no other one waiting.
            key: &call.tenant,
            log: words.sink(tell),
        };
        match call.image.isolation {
            Isolation::Container => Ok(self.runtime().await?.call(in_sandbox).await?),
            Isolation::Chroot => Ok(self.chroots().await?.call(in_sandbox).await?),
        }
    }

    /// Logs lines with what the call was made for, as far as that is known.
    pub(super) fn line_sink(
        &self,
        call: &ImageCall,
        function: Option<&str>,
    ) -> impl Fn(&str) + Send + Sync + 'static {
        let (lines, composite) = (self.inner.settings.lines.clone(), call.composite.clone());
        let step = Some(call.step.clone()).filter(|step| !step.is_empty());
        let function = function.map(str::to_owned);
        move |line: &str| {
            if let Some(lines) = &lines {
                lines(line);
            } else {
                info!(target: "ferroplane::function", step, function, composite, "{line}");
            }
        }
    }
}

/// What the call may use. A share of processors holds by their time even where no cgroup holds it.
fn limits(call: &ImageCall) -> Limits {
    let usual = Limits::default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    // Without a limit, all processors for the whole timeout, which is no limit.
    let share = call.image.cpu.unwrap_or(processors * 1000);
    let milliseconds = u64::try_from(call.timeout.as_millis()).unwrap_or(u64::MAX);
    Limits {
        time: call.timeout,
        cpu_time: Duration::from_millis(milliseconds.saturating_mul(share) / 1000)
            // A very small share times a short timeout would not even let a program start.
            .max(Duration::from_millis(100)),
        cpu_rate: call.image.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
        memory: call.image.memory.unwrap_or(usual.memory),
        output: MAX_ANSWER as u64,
        ..usual
    }
}

fn ended(output: ferroplane_sandbox::Output, words: &LastWords) -> ImageOutput {
    let failure = failure(output.exit_code);
    ImageOutput { standard_output: output.stdout, failure, last_words: words.text() }
}

/// How a program with this exit code ended, unless it ended well.
pub(super) fn failure(exit_code: i32) -> Option<String> {
    match exit_code {
        0 => None,
        // The convention of shells and of container runtimes; 137 means little to most people, signal 9 more.
        code if code > SIGNALS => Some(format!("exit code {code}, as of signal {}", code - SIGNALS)),
        code => Some(format!("exit code {code}")),
    }
}

fn explain(error: Error, image: &str, call: &ImageCall, words: &LastWords) -> CallError {
    let target = || image.to_owned();
    match error {
        Error::Exceeded(Limit::Time) => CallError::Timeout { target: target(), after: call.timeout },
        Error::Exceeded(Limit::Output) => CallError::ResponseTooLarge { target: target(), limit: MAX_ANSWER },
        Error::Exceeded(limit) => {
            CallError::Ended { how: format!("it exceeded its limit of {limit}"), said: words.said() }
        }
        error => ImageError::Runtime(error).for_call(image),
    }
}
