//! Images and webhooks, as the commands call them.

use ferroplane_engine::Isolation;
use ferroplane_runner::{CallError, External, ImageCall, ImageOutput, ImageRunner};

/// What programs run with that are in no container.
const YOUR_RIGHTS: &str =
    "it would run with your rights, without a container: pass --allow-commands if you trust it";

/// What webhooks are to whoever renders files.
const YOUR_NETWORK: &str =
    "it would be called from your network: pass --allow-commands if you trust these files";

/// What a user trusts files with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Whoever wrote the files need not be the user: nothing runs without a container, and no server is called.
    Containers,
    /// Grants alone decide.
    Grants,
}

/// Calls images and webhooks.
pub(crate) fn external(trust: Trust) -> External {
    let external = External::new(ImageRunner::new(move |call| std::future::ready(run(&call, trust))));
    match trust {
        Trust::Containers => external.refusing_webhooks(YOUR_NETWORK),
        Trust::Grants => external,
    }
}

fn run(call: &ImageCall, trust: Trust) -> Result<ImageOutput, CallError> {
    let image = call.image.reference.clone();
    if call.image.isolation == Isolation::Chroot && trust == Trust::Containers {
        return Err(CallError::Image { image, reason: YOUR_RIGHTS.to_owned() });
    }
    Err(CallError::Image { image, reason: "this build cannot run images".to_owned() })
}
