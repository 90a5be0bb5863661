//! Whether and how packages of a cluster are installed and run.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use ferroplane_api::PackageKind;
use ferroplane_controllers::{DeploymentRuntime, PackageManager, PackagedFunctions};
use ferroplane_engine::packages::ResolveOptions;
use http::HeaderValue;

use super::Configuration;
use crate::package_source::{RegistryAccess, RegistryPackages};
use crate::up::controllers::EVERY_KIND;

/// How packages are installed and run.
#[derive(Debug)]
pub(super) struct Packages {
    /// The kinds whose programs run in Deployments that we manage.
    pub(super) kinds: Vec<PackageKind>,
    /// None keeps images until the end.
    pub(super) cache: Option<PathBuf>,
    /// What registries are shown as the name of this program. None is its own name and version.
    pub(super) user_agent: Option<HeaderValue>,
    pub(super) dependencies: ResolveOptions,
    /// How many objects of a package are read or written at a time.
    pub(super) establishers: usize,
    pub(super) uses_configs: bool,
    /// Whether definitions of providers become managed resource definitions.
    pub(super) converts_definitions: bool,
    /// Whether providers are protected from deletion while managed resources of their kinds exist.
    pub(super) protects_providers: bool,
    /// The image of this control plane, for pods of programs that are not servers. None runs no such program.
    pub(super) adapter_image: Option<String>,
}

impl Packages {
    /// Where packages come from.
    pub(super) fn open(&self, access: RegistryAccess) -> anyhow::Result<RegistryPackages> {
        let access = RegistryAccess { user_agent: self.user_agent.clone(), ..access };
        RegistryPackages::open(self.cache.as_deref(), access)
    }

    /// How controllers install packages from there.
    pub(super) fn manager(
        &self,
        configuration: &Configuration,
        source: &RegistryPackages,
        functions: Arc<PackagedFunctions>,
    ) -> PackageManager {
        PackageManager {
            source: Arc::new(source.clone()),
            namespace: configuration.namespace.clone(),
            dependencies: self.dependencies,
            establishers: self.establishers,
            activations: vec![EVERY_KIND.to_owned()],
            converts_definitions: self.converts_definitions,
            protects_providers: self.protects_providers,
            // Those that are WebAssembly. Programs run in pods, and not beside the control plane.
            functions: Some(functions),
            providers: None,
            deployments: Some(DeploymentRuntime {
                kinds: self.kinds.clone(),
                service_account: configuration.service_account.clone(),
                authority_secret: configuration.authority_secret.clone(),
                uses_configs: self.uses_configs,
                adapter_image: self.adapter_image.clone(),
            }),
        }
    }
}

/// The kinds whose programs we run, as `--package-runtime` says it: for all kinds, or for some (`Function=External;Provider=Deployment`).
pub(super) fn kinds_in_pods(text: &str) -> anyhow::Result<Vec<PackageKind>> {
    let mut kinds = vec![PackageKind::Provider, PackageKind::Function];
    let mut set = |kind: Option<PackageKind>, runtime: &str| match runtime {
        "Deployment" | "" => Ok(()),
        "External" => {
            kinds.retain(|known| kind.is_some_and(|kind| kind != *known));
            Ok(())
        }
        other => bail!(
            "--package-runtime must be Deployment or External, for all kinds or as Kind=Runtime;Kind=Runtime, not `{other}`"
        ),
    };
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            None => set(None, part)?,
            Some((kind, runtime)) => match PackageKind::of(kind.trim()) {
                Some(kind) => set(Some(kind), runtime.trim())?,
                None => bail!(
                    "--package-runtime names `{kind}`, which is not a kind of package: use Provider, Function or Configuration"
                ),
            },
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_is_one_for_all_kinds_or_one_for_each() {
        use PackageKind::{Function, Provider};
        for (text, kinds) in [
            ("", &[Provider, Function][..]),
            ("Deployment", &[Provider, Function]),
            ("External", &[]),
            ("Function=External", &[Provider]),
            ("Provider=External;Function=Deployment", &[Function]),
            ("Configuration=External; Function=External", &[Provider]),
        ] {
            assert_eq!(kinds_in_pods(text).unwrap(), kinds, "{text}");
        }
        for nonsense in ["Container", "Function=Container", "Operation=External"] {
            assert!(kinds_in_pods(nonsense).is_err(), "{nonsense}");
        }
    }
}
