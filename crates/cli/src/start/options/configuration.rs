//! How to run: the options with everything that was left out filled in, and checked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_controllers::Tuning;
use ferroplane_recorder::{BadFieldName, FieldName};
use tracing::level_filters::LevelFilter;

use super::Options;
use crate::package_source::RegistryAccess;
use crate::start::packages::Packages;
use crate::telemetry::Telemetry;
use crate::xpkg::registry::read_authorities;

/// The default size of the recordings, which may all be in memory.
const USUAL_RECORDING: u64 = 16 << 20;

/// A shorter one could not be renewed in time on a busy machine.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// How to run, everything said.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(crate) struct Configuration {
    pub(in crate::start) kubeconfig: Option<PathBuf>,
    pub(in crate::start) context: Option<String>,
    pub(in crate::start) namespace: String,
    pub(in crate::start) service_account: String,
    /// None: lead without a lease.
    pub(in crate::start) lease_duration: Option<Duration>,
    pub(in crate::start) health_address: SocketAddr,
    pub(in crate::start) metrics_address: SocketAddr,
    pub(in crate::start) webhooks: Option<Webhooks>,
    pub(in crate::start) authority_secret: String,
    pub(in crate::start) server_secret: String,
    pub(in crate::start) client_secret: String,
    pub(in crate::start) answers: Option<PathBuf>,
    pub(in crate::start) max_answer_ttl: Option<Duration>,
    pub(in crate::start) allows_development_functions: bool,
    pub(in crate::start) enables_alpha_functions: bool,
    pub(in crate::start) enables_function_revision_selectors: bool,
    pub(in crate::start) runs_operations: bool,
    pub(in crate::start) runs_actions: bool,
    pub(in crate::start) has_strict_function_versions: bool,
    /// Where templates may be fetched from.
    pub(in crate::start) remote_templates: Vec<String>,
    /// None keeps them in memory.
    pub(in crate::start) remote_templates_directory: Option<PathBuf>,
    /// Where images are kept. None is the cache of the user.
    pub(in crate::start) images: Option<PathBuf>,
    /// A file with certificate authorities of registries, in PEM: for packages and for steps.
    pub(in crate::start) authorities: Option<PathBuf>,
    /// None leaves packages alone.
    pub(in crate::start) packages: Option<Packages>,
    pub(in crate::start) tuning: Tuning,
    pub(in crate::start) recordings: Option<Recordings>,
    pub(in crate::start) writes_roles: bool,
    /// Whom to impersonate for what is composed.
    pub(in crate::start) compose_as: Option<String>,
    pub(in crate::start) telemetry: Telemetry,
}

/// What is kept of what was recorded, and where.
#[derive(Debug)]
pub(in crate::start) struct Recordings {
    pub(in crate::start) size: u64,
    /// None is in memory.
    pub(in crate::start) directory: Option<PathBuf>,
    pub(in crate::start) address: SocketAddr,
    /// Further names of fields that are not recorded.
    pub(in crate::start) redacted_fields: Vec<FieldName>,
}

fn field_names(names: &[String]) -> anyhow::Result<Vec<FieldName>> {
    let names = names.iter().map(|name| name.parse()).collect::<Result<_, BadFieldName>>();
    names.context("cannot use --recording-redact-fields")
}

/// Where webhooks are served, and how the API server gets there.
#[derive(Debug)]
pub(in crate::start) struct Webhooks {
    pub(in crate::start) address: SocketAddr,
    pub(in crate::start) service: String,
    /// Instead of the service, without a path: the whole, and its host.
    pub(in crate::start) url: Option<(String, String)>,
}

impl Configuration {
    /// How registries are asked.
    pub(in crate::start) fn registry_access(&self) -> anyhow::Result<RegistryAccess> {
        let authorities = self.authorities.as_deref().map(read_authorities).transpose()?.unwrap_or_default();
        Ok(RegistryAccess { authorities, ..RegistryAccess::default() })
    }

    pub(crate) fn new(options: Options) -> anyhow::Result<Self> {
        let (tuning, packages) = (options.tuning()?, options.packages()?);
        let webhooks = Webhooks::new(&options)?;
        let recordings = Recordings::new(&options)?;
        let lease_duration = lease_duration(&options)?;
        let log_level = options.log_level.as_deref().map(str::parse::<LevelFilter>).transpose();
        let log_level = log_level.context("--log-level must be off, error, warn, info, debug or trace")?;
        Ok(Self {
            kubeconfig: options.kubeconfig,
            context: options.context,
            namespace: text_or(options.namespace, "crossplane-system"),
            service_account: text_or(options.service_account, "crossplane"),
            lease_duration: options.leader_election.unwrap_or(true).then_some(lease_duration),
            health_address: address_or(options.health_address, options.health_probe_port, 8081),
            metrics_address: address_or(options.metrics_address, options.metrics_port, 8080),
            webhooks: options.enable_webhooks.unwrap_or(true).then_some(webhooks),
            authority_secret: text_or(options.tls_ca_secret_name, "crossplane-root-ca"),
            server_secret: text_or(options.tls_server_secret_name, "crossplane-tls-server"),
            client_secret: text_or(options.tls_client_secret_name, "crossplane-tls-client"),
            answers: options.xfn_cache_dir,
            max_answer_ttl: options.xfn_cache_max_ttl.map(|span| span.0),
            allows_development_functions: options.allow_development_functions.unwrap_or(false),
            enables_alpha_functions: options.enable_alpha_functions.unwrap_or(false),
            enables_function_revision_selectors: options.enable_function_revision_selectors.unwrap_or(false),
            runs_operations: options.enable_operations.unwrap_or(false),
            runs_actions: options.enable_blueprints.unwrap_or(false),
            has_strict_function_versions: options.strict_function_versions.unwrap_or(false),
            remote_templates: options.allow_remote_templates.unwrap_or_default(),
            remote_templates_directory: options.remote_templates_dir,
            images: options.xpkg_cache_dir,
            authorities: options.ca_bundle_path.filter(|file| !file.as_os_str().is_empty()),
            packages,
            tuning,
            recordings: (recordings.size > 0).then_some(recordings),
            writes_roles: options.write_roles.unwrap_or(true),
            compose_as: options.compose_as.filter(|user| !user.is_empty()),
            telemetry: Telemetry {
                log_level: log_level.or(options.debug.unwrap_or(false).then_some(LevelFilter::DEBUG)),
                log_format: options.log_format,
                otlp_endpoint: options.otlp_endpoint,
            },
        })
    }
}

impl Webhooks {
    fn new(options: &Options) -> anyhow::Result<Self> {
        Ok(Self {
            address: address_or(options.webhook_address, options.webhook_port, 9443),
            service: text_or(options.webhook_service.clone(), "crossplane-webhooks"),
            url: options.webhook_url.as_deref().map(read_url).transpose()?,
        })
    }
}

impl Recordings {
    fn new(options: &Options) -> anyhow::Result<Self> {
        let address = options.recording_address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8082)));
        // It is plain HTTP, and callers send their tokens with it: nothing outside of the pod may listen.
        if !address.ip().is_loopback() {
            bail!(
                "recordings cannot be served at {address}: --recording-address has to be a loopback address such as \
                 127.0.0.1:8082, which `kubectl port-forward` reaches for those who may forward ports"
            );
        }
        Ok(Self {
            size: options.recording_size.as_ref().map_or(USUAL_RECORDING, |size| size.0),
            directory: options.recording_dir.clone(),
            address,
            redacted_fields: field_names(options.recording_redact_fields.as_deref().unwrap_or_default())?,
        })
    }
}

fn lease_duration(options: &Options) -> anyhow::Result<Duration> {
    let duration = options.lease_duration.as_ref().map_or(Duration::from_secs(15), |span| span.0);
    // `leaseDurationSeconds` is a whole number: other replicas would wait for less time than this one counts on.
    if duration < SHORTEST_LEASE || duration.subsec_nanos() != 0 {
        bail!("--lease-duration must be whole seconds, and 3s at least");
    }
    Ok(duration)
}

/// The address that was given, or all addresses with the port that was given.
fn address_or(address: Option<SocketAddr>, port: Option<u16>, usual: u16) -> SocketAddr {
    let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    address.unwrap_or_else(|| SocketAddr::new(everywhere, port.unwrap_or(usual)))
}

/// The text that was given. An empty environment variable gives none.
fn text_or(given: Option<String>, usual: &str) -> String {
    given.filter(|given| !given.is_empty()).unwrap_or_else(|| usual.to_owned())
}

fn read_url(text: &str) -> anyhow::Result<(String, String)> {
    let url: http::Uri = text.parse().with_context(|| format!("cannot parse --webhook-url `{text}`"))?;
    let is_bare = url.path() == "/" && url.query().is_none();
    match url.host() {
        Some(host) if url.scheme_str() == Some("https") && is_bare => {
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Ok((text.trim_end_matches('/').to_owned(), host))
        }
        _ => bail!("--webhook-url must be like https://HOST:PORT, without a path, not `{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::path::Path;

    use clap::Parser;
    use ferroplane_api::PackageKind;
    use ferroplane_controllers::{CircuitBreakerTuning, ESTABLISHERS};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn flags(flags: &[&str]) -> Options {
        Line::parse_from(std::iter::once(&"start").chain(flags)).options
    }

    fn file(text: &str) -> Result<Options, serde_saphyr::Error> {
        serde_saphyr::from_str(text)
    }

    #[test]
    fn flag_counts_more_than_the_file_and_that_more_than_nothing() {
        let file =
            file("{namespace: filed, leaseDuration: 30s, healthAddress: '[::]:1', debug: true}").unwrap();
        let configuration = Configuration::new(flags(&["-n", "flagged", "--debug=false"]).or(file)).unwrap();
        assert_eq!(configuration.namespace, "flagged");
        assert_eq!(configuration.telemetry.log_level, None);
        assert_eq!(configuration.lease_duration, Some(Duration::from_secs(30)));
        assert_eq!(configuration.health_address.to_string(), "[::]:1");
        assert_eq!(configuration.metrics_address.to_string(), "0.0.0.0:8080");
        assert_eq!(configuration.webhooks.unwrap().service, "crossplane-webhooks");
    }

    #[test]
    fn switches_may_have_no_value() {
        let configuration = Configuration::new(flags(&["-l", "-d", "--enable-webhooks=no"])).unwrap();
        assert!(
            configuration.telemetry.log_level == Some(LevelFilter::DEBUG)
                && configuration.lease_duration.is_some()
                && configuration.webhooks.is_none()
        );
    }

    #[test]
    fn flags_of_crossplane_that_mean_something_here_are_honoured() {
        let configuration = Configuration::new(flags(&[
            "--max-reconcile-rate=10",
            "--circuit-breaker-burst=100",
            "--circuit-breaker-refill-rate=1.5",
            "--circuit-breaker-cooldown=1m",
            "--poll-interval=10s",
            "--xfn-cache-max-ttl=1h",
            "--allow-development-functions",
            "--enable-alpha-functions",
            "--enable-function-revision-selectors",
            "--enable-operations",
            "--enable-blueprints",
            "--allow-remote-templates=git.example.org,registry.example.org/platform",
        ]))
        .unwrap();
        let circuit_breaker =
            CircuitBreakerTuning { burst: 100.0, refill_per_second: 1.5, cooldown: Duration::from_mins(1) };
        let max_concurrent_reconciles = NonZeroUsize::new(10);
        let poll_interval = Duration::from_secs(10);
        assert_eq!(
            configuration.tuning,
            Tuning { max_concurrent_reconciles, circuit_breaker, poll_interval }
        );
        assert_eq!(configuration.max_answer_ttl, Some(Duration::from_hours(1)));
        assert!(configuration.allows_development_functions && configuration.enables_alpha_functions);
        assert!(configuration.enables_function_revision_selectors);
        assert!(configuration.runs_operations && configuration.runs_actions);
        let usual = Configuration::new(Options::default()).unwrap();
        assert!(!usual.enables_function_revision_selectors, "design 000 has it off at first");
        assert!(usual.tuning == Tuning::default() && !usual.allows_development_functions);
        assert_eq!(configuration.remote_templates, ["git.example.org", "registry.example.org/platform"]);
        assert!(
            !usual.enables_alpha_functions
                && !usual.runs_operations
                && !usual.runs_actions
                && usual.remote_templates.is_empty()
        );
        assert!(Configuration::new(flags(&["--circuit-breaker-burst=0"])).is_err());
    }

    #[test]
    fn packages_are_left_alone_unless_an_administrator_says_otherwise() {
        let packages = |line: &[&str]| Configuration::new(flags(line)).unwrap().packages;
        assert!(packages(&["--package-runtime=External", "-c", "/cache"]).is_none());
        // Nothing is silent: each flag that has no effect is reported, and no other.
        let about_packages = [
            "--package-runtime=External",
            "--user-agent=acme/1",
            "--max-concurrent-package-establishers=3",
            "--enable-dependency-version-upgrades",
            "--enable-dependency-version-downgrades",
            "--enable-deployment-runtime-configs=false",
            "--enable-custom-to-managed-resource-conversion=false",
            "--enable-provider-deletion-protection",
            "--function-adapter-image=registry.example.org/own:v1",
        ];
        let advice = about_packages.map(|flag| {
            let name = flag.split('=').next().unwrap();
            format!("{name} has no effect: packages are not installed without --enable-packages")
        });
        assert_eq!(flags(&about_packages).advice(), advice);
        assert_eq!(flags(&["--cache-dir=/cache", "--ca-bundle-path=/ca"]).advice(), Vec::<String>::new());
        let installing = [&about_packages[..], &["--enable-packages"]].concat();
        assert_eq!(flags(&installing).advice(), Vec::<String>::new());
        let external = packages(&installing).unwrap();
        assert!(!external.uses_configs && external.kinds.is_empty());
        let mixed = packages(&["--enable-packages", "--package-runtime=Function=External"]).unwrap();
        assert_eq!(mixed.kinds, [PackageKind::Provider]);
        let found =
            packages(&["--enable-packages", "--enable-dependency-version-downgrades", "--cache-dir=/cache"]);
        let found = found.unwrap();
        assert!(found.dependencies.upgrades && found.dependencies.downgrades);
        assert_eq!(found.cache.as_deref(), Some(Path::new("/cache")));
        assert!(found.uses_configs && found.converts_definitions && found.kinds.len() == 2);
        assert_eq!((found.establishers, &found.user_agent), (ESTABLISHERS, &None));
        let found = packages(&[
            "--enable-packages",
            "--max-concurrent-package-establishers=3",
            "--user-agent=acme/1",
        ]);
        let found = found.unwrap();
        assert_eq!((found.establishers, found.user_agent.unwrap().to_str().unwrap()), (3, "acme/1"));
        assert!(Configuration::new(flags(&["--user-agent=two\nlines"])).is_err());
        let off = ["--enable-packages", "--enable-custom-to-managed-resource-conversion=false"];
        assert!(!packages(&off).unwrap().converts_definitions);
        let protecting = packages(&["--enable-packages", "--enable-provider-deletion-protection"]).unwrap();
        assert!(protecting.protects_providers && !found.protects_providers);
        let adapting =
            packages(&["--enable-packages", "--function-adapter-image=registry.example.org/own:v1"]);
        assert_eq!(adapting.unwrap().adapter_image.as_deref(), Some("registry.example.org/own:v1"));
        assert_eq!((found.adapter_image, protecting.adapter_image), (None, None));
        assert!(Configuration::new(flags(&["--package-runtime=Docker"])).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["{namspace: x}", "{leaseDuration: soon}", "{healthAddress: here}", "[]"] {
            assert!(file(text).is_err(), "{text}");
        }
        for line in [
            ["--webhook-url", "http://x"],
            ["--webhook-url", "https://x/y"],
            ["--lease-duration", "1s"],
            ["--recording-address", "0.0.0.0:8082"],
            ["--recording-address", "10.1.2.3:8082"],
        ] {
            assert!(Configuration::new(flags(&line)).is_err(), "{line:?}");
        }
        let url = Configuration::new(flags(&["--webhook-url", "https://[::1]:9443/"]))
            .unwrap()
            .webhooks
            .unwrap()
            .url;
        assert_eq!(url, Some(("https://[::1]:9443".to_owned(), "::1".to_owned())));
    }
}
