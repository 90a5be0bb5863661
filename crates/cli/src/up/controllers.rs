//! The controllers, on the API server in the same process.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::auth::rbac::CUSTOM_RESOURCES;
use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::{InProcessWebhook, Server};
use ferroplane_client::ApiClient;
use ferroplane_controllers::{
    ADVISOR_PATH, ActionSettings, Advisor, BuiltIns, COMPOSER, CONTROLLERS, Clock, Controllers, DigestKey,
    ESTABLISHERS, LocalFunctions, PROTECTION_PATH, PackageManager, PackagedFunctions, PackagedProviders,
    Protection, ServedDefinitions, Settings, Tuning, grant_rights, install,
};
use ferroplane_engine::action::PodSupport;
use ferroplane_engine::packages::ResolveOptions;
use ferroplane_engine::versions::Version;
use ferroplane_functions::Library;
use ferroplane_offline::replay::RECORDINGS;
use ferroplane_offline::validate::{Served, composition_warnings};
use ferroplane_recorder::{FieldName, Recorder};
use ferroplane_runner::{ContainerRunner, Directory, External, Images, ResponseCache, TemplateFetcher, grpc};
use serde_json::json;
use tracing::warn;

use super::function_containers::{FunctionContainers, Programs};
use super::provider_containers::{ProviderSite, TokenDirectory};
use super::{Configuration, client_certificates, plane, plans};
use crate::external::{RegistryUser, Trust, external, image_settings};
use crate::functions::discovery::VersionsPage;
use crate::package_source::{RegistryAccess, RegistryPackages};
use crate::random_values;
use crate::remote_templates::{Patience, template_fetcher};
use crate::telemetry::Installed;

/// As with Crossplane's chart, every kind of a provider can be used by default.
pub(crate) const EVERY_KIND: &str = "*";
/// The namespace of pull secrets. Crossplane's, so that manifests for it work here.
const PULL_SECRETS: &str = "crossplane-system";
/// Where the API server finds what protects objects that are in use: in this process.
const PROTECTION: &str = "protection.ferroplane.internal";
/// Where it finds what knows the versions of functions.
const ADVISOR: &str = "versions.ferroplane.internal";

/// The API server, as controllers and providers find it.
pub(super) struct Site<'a> {
    pub(super) server: &'a Server,
    pub(super) address: SocketAddr,
    /// Whom its clients have to trust, in PEM.
    pub(super) authority: String,
}

/// Start all controllers.
pub(super) async fn start(
    site: &Site<'_>,
    configuration: &Configuration,
    recorder: Recorder,
    local_functions: Arc<LocalFunctions>,
    telemetry: &Installed,
) -> anyhow::Result<(Controllers, Option<FunctionContainers>)> {
    let server = site.server;
    let administrator = ApiClient::new(plane::administrator(server));
    grant_rights(&administrator, CUSTOM_RESOURCES)
        .await
        .context("cannot give the controllers their rights")?;
    let client = client_of(server, CONTROLLERS);
    install(&ApiClient::new(client.clone())).await.context("cannot install the CRDs")?;
    // Before the seed of actions is computed from it, and before any template is rendered.
    if let Some(directory) = &configuration.data_dir {
        random_values::draw_from(directory)?;
    }
    let kept_in = |name: &str| configuration.data_dir.as_ref().map(|directory| directory.join(name));
    let templates =
        template_fetcher(&configuration.remote_templates, kept_in("templates"), Patience::NeverWaits)?;
    let (functions, providers) = (Arc::<PackagedFunctions>::default(), Arc::<PackagedProviders>::default());
    let packages = packages(configuration)?;
    let settings = Settings {
        clock: Clock::system(),
        built_ins: built_ins(
            configuration.enables_alpha_functions.then(|| external_functions(configuration)),
            templates,
        )?,
        calls: call_options(configuration, telemetry)?,
        local_functions,
        answers: Arc::new(response_cache(kept_in("answers").as_deref())?),
        recorder,
        writes_roles: true,
        runs_operations: true,
        digest_key: digest_key(configuration),
        actions: Some(action_settings(configuration)),
        composer: Some(ApiClient::new(client_of(server, COMPOSER))),
        allows_development_functions: true,
        tuning: Tuning::default(),
        enables_function_revision_selectors: configuration.enables_function_revision_selectors,
        packages: packages
            .as_ref()
            .map(|packages| package_manager(packages, configuration.dependencies, &functions, &providers)),
    };
    let controllers = Controllers::start(client, settings).await.context("cannot start the controllers")?;
    serve_pages(server, &controllers).await?;
    let Some(packages) = packages else { return Ok((controllers, None)) };
    let tokens = TokenDirectory::open(configuration.data_dir.as_deref())?;
    let site =
        ProviderSite { administrator, address: site.address, authority: site.authority.clone(), tokens };
    let programs =
        if configuration.allows_unisolated_functions { Programs::Unisolated } else { Programs::All };
    let containers = FunctionContainers::start(functions, packages, programs);
    Ok((controllers, Some(containers.with_providers(providers, site))))
}

/// Have the API server ask the controllers: what protects objects, what knows versions of functions, and what makes plans.
async fn serve_pages(server: &Server, controllers: &Controllers) -> anyhow::Result<()> {
    protect(server, &controllers.protection()).await.context("cannot register the webhook for usages")?;
    advise(server, &advisor(controllers.advisor()))
        .await
        .context("cannot register the webhook for versions of functions")?;
    plans::serve(server, controllers.planner());
    VersionsPage::new(controllers.function_catalogue())?.serve(server);
    Ok(())
}

/// How functions are called that are served elsewhere.
fn call_options(configuration: &Configuration, telemetry: &Installed) -> anyhow::Result<grpc::Options> {
    let renewed_tls =
        configuration.client_certificates.as_deref().map(client_certificates::follow).transpose()?;
    let tls = renewed_tls.as_ref().map(|certificates| certificates.borrow().clone());
    Ok(grpc::Options { tls, renewed_tls, metadata: telemetry.metadata(), ..grpc::Options::default() })
}

/// How the phases of actions run: in containers of this machine, if it can run any. There are no pods to run commands in.
fn action_settings(configuration: &Configuration) -> ActionSettings {
    let containers = phase_containers(&configuration.registries);
    ActionSettings {
        runs: true,
        has_exec: false,
        pods: if containers.is_some() { PodSupport::Containers } else { PodSupport::None },
        containers,
        is_strict: configuration.has_strict_function_versions,
        seed: ferroplane_functions::secret_seed("templates of actions"),
    }
}

/// The key of digests of Secrets.
fn digest_key(configuration: &Configuration) -> DigestKey {
    // In memory, nothing outlives the process, and there is no secret that the key could follow from.
    let of_process = configuration.data_dir.is_none().then(|| uuid::Uuid::new_v4().to_string());
    let purpose = format!("digests of Secrets{}", of_process.unwrap_or_default());
    DigestKey::new(ferroplane_functions::secret_seed(&purpose))
}

/// How packages are installed.
fn package_manager(
    packages: &RegistryPackages,
    dependencies: ResolveOptions,
    functions: &Arc<PackagedFunctions>,
    providers: &Arc<PackagedProviders>,
) -> PackageManager {
    PackageManager {
        source: Arc::new(packages.clone()),
        namespace: PULL_SECRETS.to_owned(),
        dependencies,
        establishers: ESTABLISHERS,
        activations: vec![EVERY_KIND.to_owned()],
        converts_definitions: true,
        protects_providers: false,
        functions: Some(functions.clone()),
        providers: Some(providers.clone()),
        deployments: None,
    }
}

/// Where packages come from, if any are installed.
fn packages(configuration: &Configuration) -> anyhow::Result<Option<RegistryPackages>> {
    let directory = configuration.data_dir.as_ref().map(|directory| directory.join("images"));
    let open = || RegistryPackages::open(directory.as_deref(), configuration.registries.clone());
    configuration.installs_packages.then(open).transpose()
}

/// The API server as one of our users sees it, who has the rights that roles give and no others.
fn client_of(server: &Server, user: &str) -> kube::Client {
    let identity = Identity::authenticated(user, []);
    kube::Client::new(HttpService::in_process(server.clone(), identity), "default")
}

/// Have the API server ask us what to tell those who apply Compositions.
async fn advise(server: &Server, advisor: &Advisor) -> anyhow::Result<()> {
    let reviewer = advisor.clone();
    let webhook = InProcessWebhook::new(move |review| {
        let reviewer = reviewer.clone();
        async move { reviewer.review(&review).await }
    });
    server.register_webhook(ADVISOR, &webhook);
    let url = format!("https://{ADVISOR}{ADVISOR_PATH}");
    Ok(advisor.announce(&json!({"url": url})).await?)
}

/// Have the API server ask us before it deletes something that is in use.
async fn protect(server: &Server, protection: &Protection) -> anyhow::Result<()> {
    let reviewer = protection.clone();
    let webhook = InProcessWebhook::new(move |review| {
        let reviewer = reviewer.clone();
        async move { reviewer.review(review).await }
    });
    server.register_webhook(PROTECTION, &webhook);
    let url = format!("https://{PROTECTION}{PROTECTION_PATH}");
    Ok(protection.announce(&json!({"url": url})).await?)
}

/// Recordings are in the data directory, too. A control plane in memory records nothing.
pub(super) fn recorder(configuration: &Configuration) -> anyhow::Result<Recorder> {
    match &configuration.data_dir {
        Some(directory) if configuration.recording_size > 0 => {
            let (size, redacted) = (configuration.recording_size, &configuration.redacted_fields);
            let opened = recorder_in(&directory.join(RECORDINGS), size, redacted)?;
            Ok(opened.unwrap_or_else(Recorder::off))
        }
        _ => Ok(Recorder::off()),
    }
}

/// Recordings in a directory. None if a later release wrote those that are there: a control plane that does not record is better than none.
pub(crate) fn recorder_in(
    directory: &Path,
    size: u64,
    redacted: &[FieldName],
) -> anyhow::Result<Option<Recorder>> {
    match Recorder::open(directory, size, redacted) {
        Err(error) if error.is_of_later_version() => {
            let error = format!("{:#}", anyhow::Error::from(error));
            warn!(error, "cannot use the recordings; move them away to record there again");
            Ok(None)
        }
        opened => Ok(Some(opened?)),
    }
}

/// Responses of functions in a directory or, without one, in memory. Those of a later release are left alone.
pub(crate) fn response_cache(directory: Option<&Path>) -> anyhow::Result<ResponseCache> {
    let Some(directory) = directory else { return Ok(ResponseCache::in_memory()) };
    match ResponseCache::open(directory) {
        Err(error) if error.is_of_later_version() => {
            let error = format!("{:#}", anyhow::Error::from(error));
            warn!(error, "keeping responses of functions in memory; move the directory away to use it again");
            Ok(ResponseCache::in_memory())
        }
        opened => Ok(opened?),
    }
}

/// An advisor that tells what `validate` would find.
pub(crate) fn advisor(advisor: Advisor) -> Advisor {
    advisor.with_examiner(Arc::new(|composition, found| {
        let ServedDefinitions { definitions, groups, functions } = found;
        composition_warnings(composition, &Served { definitions, groups, functions })
    }))
}

/// What runs images and calls webhooks for steps.
///
/// Programs in no container have the rights of the user of this command. An AccessGrant alone does not allow that: it may be in the files that are
/// applied, which may be from another person, or be composed by what is in these.
fn external_functions(configuration: &Configuration) -> External {
    let trust = if configuration.allows_unisolated_functions { Trust::Grants } else { Trust::Isolation };
    external(trust, RegistryUser::Nobody, &configuration.registries)
}

/// What runs images for phases of actions. None if there is no directory for images. Opens nothing before the first phase needs it.
fn phase_containers(registries: &RegistryAccess) -> Option<ContainerRunner> {
    match image_settings(RegistryUser::Nobody, registries) {
        Ok(settings) => Some(ContainerRunner::new(Images::new(settings))),
        Err(error) => {
            warn!(error = format!("{error:#}"), "phases of actions cannot run images");
            None
        }
    }
}

/// The functions that are built in, what runs images and calls webhooks for those among them that do, and what fetches templates for
/// them. Without it, what needs it is off.
pub(crate) fn built_ins(
    external: Option<External>,
    templates: Option<TemplateFetcher>,
) -> anyhow::Result<BuiltIns> {
    let library = Arc::new(Library::built_in().context("cannot list the functions that are built in")?);
    let mut directory = Directory::built_in(&library);
    if let Some(external) = external {
        directory.enable_external(&external);
    }
    if let Some(templates) = templates {
        directory.fetch_templates(templates);
    }
    Ok(BuiltIns {
        catalogue: library.catalogue().clone(),
        directory,
        capabilities: library.capabilities(),
        input_mistakes: {
            let library = library.clone();
            Arc::new(move |function, version, input| {
                let mistakes = library.input_mistakes(function, version, input);
                mistakes.iter().map(ToString::to_string).collect()
            })
        },
        phases: {
            let library = library.clone();
            Arc::new(move |function: &str, version: &Version| {
                library.phase_function(function, version).cloned()
            })
        },
        natives: Arc::new(move |package| library.native(package)),
    })
}

#[cfg(test)]
mod tests {
    use ferroplane_api::keys;

    use super::CUSTOM_RESOURCES;

    /// The API server knows none of our kinds, so that each of them has the name.
    #[test]
    fn group_of_all_custom_resources_has_the_same_name_in_roles_and_in_definitions() {
        assert_eq!(CUSTOM_RESOURCES, keys::CUSTOM_RESOURCES);
    }
}
