//! Images and webhooks, as the commands call them.

use std::path::PathBuf;

use anyhow::Context as _;
use ferroplane_engine::Isolation;
use ferroplane_runner::{CallError, External, ImageRunner, ImageSettings, Images};
use ferroplane_sandbox::CgroupChoice;

use crate::package_source::RegistryAccess;

/// What programs run with that are in no container.
const YOUR_RIGHTS: &str =
    "it would run with your rights, without a container: pass --allow-commands if you trust it";

/// What a control plane answers that runs programs in containers only.
const UNISOLATED: &str = "it would run without a container: start the control plane with --allow-unisolated-functions to allow that";

/// What webhooks are to a user who renders files.
const YOUR_NETWORK: &str =
    "it would be called from your network: pass --allow-commands if you trust these files";

/// What images with a network are to a user who renders files.
const NETWORK_OF_USER: &str = "it would use your network: pass --allow-commands if you trust these files";

/// What a user trusts files with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// A user who wrote the files need not be the user: nothing runs without a container or with a network, and no server is called.
    Containers,
    /// Grants decide, but nothing runs without a container, whatever they say.
    Isolation,
    /// Grants alone decide.
    Grants,
}

/// Whose credentials registries are shown, beside those of pull secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistryUser {
    /// The user of this command, who has logged in with `docker login`.
    Own,
    /// No credentials: other users decide which images are pulled.
    Nobody,
}

/// Where and how images are run on this machine.
pub(crate) fn image_settings(user: RegistryUser, access: &RegistryAccess) -> anyhow::Result<ImageSettings> {
    Ok(image_settings_in(directory()?, user, access))
}

/// The same, with what is kept of images in this directory.
pub(crate) fn image_settings_in(
    directory: PathBuf,
    user: RegistryUser,
    access: &RegistryAccess,
) -> ImageSettings {
    let host = ["/proc/self/exe", "internal", "host"].map(Into::into);
    let settings = ImageSettings::new(directory, host.into());
    ImageSettings {
        uses_docker_config: user == RegistryUser::Own,
        authorities: access.authorities.clone(),
        plain_http: access.plain_http.clone(),
        // A command that ends soon may use it like a service: it is found only if everything in there is of this process.
        cgroup: CgroupChoice::Delegated,
        ..settings
    }
}

/// Where images are kept. They can be fetched again, so that it is a cache.
fn directory() -> anyhow::Result<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || std::env::home_dir().and_then(absolute).map(|home| home.join(".cache"));
    let cache =
        cache.or_else(home).context("cannot find a directory for images; set HOME or XDG_CACHE_HOME")?;
    Ok(cache.join("ferroplane/images"))
}

/// Calls images and webhooks.
pub(crate) fn external(trust: Trust, user: RegistryUser, access: &RegistryAccess) -> External {
    let runner = match image_settings(user, access) {
        Ok(settings) => Images::new(settings).runner(),
        Err(error) => refusing(&error),
    };
    external_with(trust, runner)
}

/// The same, where images are run by this.
pub(crate) fn external_with(trust: Trust, runner: ImageRunner) -> External {
    match trust {
        Trust::Containers => {
            let runner = in_containers(without_network(runner), YOUR_RIGHTS);
            External::new(runner).refusing_webhooks(YOUR_NETWORK)
        }
        Trust::Isolation => External::new(in_containers(runner, UNISOLATED)),
        Trust::Grants => External::new(runner),
    }
}

/// Runs nothing without a container, and says why.
fn in_containers(runner: ImageRunner, reason: &'static str) -> ImageRunner {
    ImageRunner::new(move |call| {
        let runner = runner.clone();
        async move {
            if call.image.isolation == Isolation::Chroot {
                return Err(CallError::Image { image: call.image.reference, reason: reason.to_owned() });
            }
            runner.run(call).await
        }
    })
}

/// Runs nothing with a network, whatever an AccessGrant in the same files says.
fn without_network(runner: ImageRunner) -> ImageRunner {
    ImageRunner::new(move |call| {
        let runner = runner.clone();
        async move {
            if call.has_network {
                let reason = NETWORK_OF_USER.to_owned();
                return Err(CallError::Image { image: call.image.reference, reason });
            }
            runner.run(call).await
        }
    })
}

/// Says why no image can be run.
fn refusing(error: &anyhow::Error) -> ImageRunner {
    let reason = format!("{error:#}");
    ImageRunner::new(move |call| {
        std::future::ready(Err(CallError::Image { image: call.image.reference, reason: reason.clone() }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_runs_images_has_the_delegated_cgroup_and_trusts_the_same_registries() {
        let access = RegistryAccess {
            authorities: b"authority".to_vec(),
            plain_http: vec!["registry.example.org".to_owned()],
            ..RegistryAccess::default()
        };
        for user in [RegistryUser::Own, RegistryUser::Nobody] {
            let settings = image_settings_in("images".into(), user, &access);
            assert_eq!(settings.cgroup, CgroupChoice::Delegated);
            assert_eq!(settings.uses_docker_config, user == RegistryUser::Own);
            assert_eq!(
                (settings.authorities, settings.plain_http),
                (access.authorities.clone(), access.plain_http.clone())
            );
        }
    }
}
