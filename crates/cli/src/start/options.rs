//! The options of `ferroplane start`: flags, environment variables, and a file.

mod configuration;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::builder::BoolishValueParser;
use ferroplane_controllers::{CircuitBreakerTuning, ESTABLISHERS, Tuning};
use ferroplane_engine::packages::ResolveOptions;
use http::HeaderValue;
use serde::Deserialize;

use super::packages::{Packages, kinds_in_pods};
use crate::telemetry::LogFormat;
use crate::{address, duration, size};

pub(crate) use configuration::Configuration;
pub(super) use configuration::{Recordings, Webhooks};

/// Options, as far as they were given. The environment counts as flags.
#[derive(Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Options {
    /// Kubeconfig file [default: $KUBECONFIG, in-cluster config, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Namespace of the lease and the Secrets [default: crossplane-system]
    #[arg(short, long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Service account that this runs as; it is in the client certificate that functions see [default: crossplane]
    #[arg(long, env = "POD_SERVICE_ACCOUNT", value_name = "NAME")]
    service_account: Option<String>,

    /// Elect one of several replicas as the leader [default: true]
    #[arg(short, long, env = "LEADER_ELECTION", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    leader_election: Option<bool>,

    /// Lease duration: how long a silent leader keeps leadership [default: 15s]
    ///
    /// The leader renews its lease after a third of this time, and stops writing if it could not renew it after two thirds.
    #[arg(long, env = "LEASE_DURATION", value_name = "DURATION")]
    lease_duration: Option<Span>,

    /// Address to serve /livez, /readyz and /healthz on [default: 0.0.0.0:8081]
    #[arg(long, env = "HEALTH_ADDRESS", value_name = "ADDRESS", value_parser = address::parse)]
    #[serde(deserialize_with = "address::deserialize")]
    health_address: Option<SocketAddr>,

    /// Address to serve /metrics on [default: 0.0.0.0:8080]
    #[arg(long, env = "METRICS_ADDRESS", value_name = "ADDRESS", value_parser = address::parse)]
    #[serde(deserialize_with = "address::deserialize")]
    metrics_address: Option<SocketAddr>,

    /// Serve admission webhooks (required for Usage protection) [default: true]
    #[arg(long, alias = "webhook-enabled", env = "ENABLE_WEBHOOKS", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true", value_parser = BoolishValueParser::new())]
    enable_webhooks: Option<bool>,

    /// Address to serve webhooks on, over TLS [default: 0.0.0.0:9443]
    #[arg(long, env = "WEBHOOK_ADDRESS", value_name = "ADDRESS", value_parser = address::parse)]
    #[serde(deserialize_with = "address::deserialize")]
    webhook_address: Option<SocketAddr>,

    /// Service through which the API server calls the webhooks [default: crossplane-webhooks]
    #[arg(long, alias = "webhook-service-name", env = "WEBHOOK_SERVICE", value_name = "NAME")]
    webhook_service: Option<String>,

    /// URL at which the API server calls the webhooks instead of the Service: https://HOST:PORT
    ///
    /// For replicas that run outside the cluster. The certificate includes this host.
    #[arg(long, env = "WEBHOOK_URL", value_name = "URL")]
    webhook_url: Option<String>,

    /// Secret of the certificate authority [default: crossplane-root-ca]
    #[arg(long, env = "TLS_CA_SECRET_NAME", value_name = "NAME")]
    tls_ca_secret_name: Option<String>,

    /// Secret of the webhook server certificate [default: crossplane-tls-server]
    #[arg(long, env = "TLS_SERVER_SECRET_NAME", value_name = "NAME")]
    tls_server_secret_name: Option<String>,

    /// Secret of the client certificate for calls to functions [default: crossplane-tls-client]
    #[arg(long, env = "TLS_CLIENT_SECRET_NAME", value_name = "NAME")]
    tls_client_secret_name: Option<String>,

    /// Directory of the function response cache [default: in memory]
    #[arg(long, env = "XFN_CACHE_DIR", value_name = "DIR")]
    xfn_cache_dir: Option<PathBuf>,

    /// Longest time to cache a response of a function [default: 24h]
    #[arg(long, env = "XFN_CACHE_MAX_TTL", value_name = "DURATION")]
    xfn_cache_max_ttl: Option<Span>,

    /// Call functions that are annotated with `render.crossplane.io/runtime: Development` [default: false]
    ///
    /// Requests go in plain text, with the credentials of their steps, to any address that a Function names. For clusters on which
    /// functions are developed.
    #[arg(long, env = "ALLOW_DEVELOPMENT_FUNCTIONS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    allow_development_functions: Option<bool>,

    /// Run the images and call the webhooks that Compositions name, an alpha feature [default: false]
    ///
    /// Users who may write Compositions then decide which images run in containers beside the control plane. Network access and running
    /// without a container also require an `AccessGrant`.
    #[arg(long, env = "ENABLE_ALPHA_FUNCTIONS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    enable_alpha_functions: Option<bool>,

    /// Let steps choose revisions of functions, and several revisions of a Function be active [default: false]
    ///
    /// Steps choose with functionRevisionRef and functionRevisionSelector. Without this flag, a step that has one of these fields fails,
    /// and one revision of each Function is active. See docs/rollout.md.
    #[arg(long, env = "ENABLE_FUNCTION_REVISION_SELECTORS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    enable_function_revision_selectors: Option<bool>,

    /// Run Operations, CronOperations and WatchOperations, an alpha feature [default: false]
    ///
    /// They are cluster scoped: a user who may create one reads what its functions require, and writes what they return, with the rights of
    /// the control plane or of the user that `--compose-as` names.
    #[arg(long, env = "ENABLE_OPERATIONS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    enable_operations: Option<bool>,

    /// Run ActionSets, Kanister's kind: actions of Blueprints [default: false]
    ///
    /// An action reaches the namespace of its ActionSet; other namespaces and cluster-scoped objects take an `AccessGrant`. Kanister's own
    /// controller must not run beside it. See docs/blueprints.md.
    #[arg(long, env = "ENABLE_BLUEPRINTS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    enable_blueprints: Option<bool>,

    /// Refuse a `funcVersion` of a phase that does not exist, instead of running v0.0.0 with a warning [default: false]
    #[arg(long, env = "STRICT_FUNCTION_VERSIONS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    strict_function_versions: Option<bool>,

    /// Hosts, with optional path prefixes, from which templates may be fetched [default: none]
    ///
    /// For steps of function-go-templating with `source: Remote`: repositories of git and artefacts in registries, pinned by commit or
    /// digest. They are fetched in the background.
    #[arg(long, env = "ALLOW_REMOTE_TEMPLATES", value_name = "PLACES", value_delimiter = ',')]
    allow_remote_templates: Option<Vec<String>>,

    /// Directory of templates that were fetched [default: in memory]
    #[arg(long, env = "REMOTE_TEMPLATES_DIR", value_name = "DIR")]
    remote_templates_dir: Option<PathBuf>,

    /// Install and run packages: Functions, Providers and Configurations [default: false]
    ///
    /// Without it, packages stay as they are. See docs/package-manager.md before you turn this on for a cluster whose packages Crossplane
    /// installed.
    #[arg(long, env = "ENABLE_PACKAGES", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    enable_packages: Option<bool>,

    /// What runs packages: Deployment or External, for all kinds or as `Kind=Runtime;Kind=Runtime` [default: Deployment]
    ///
    /// Has an effect with --enable-packages only.
    #[arg(long, env = "PACKAGE_RUNTIME", value_name = "RUNTIME")]
    package_runtime: Option<String>,

    /// Directory of the images of packages and steps [default: a temporary directory; for steps the user's cache directory]
    #[arg(short = 'c', long, alias = "cache-dir", env = "XPKG_CACHE_DIR", value_name = "DIR")]
    xpkg_cache_dir: Option<PathBuf>,

    /// File with certificate authorities of registries, in PEM, beside those of the system
    #[arg(long, env = "CA_BUNDLE_PATH", value_name = "FILE")]
    ca_bundle_path: Option<PathBuf>,

    /// User-Agent for package registries [default: ferroplane/VERSION]
    #[arg(long, env = "USER_AGENT", value_name = "NAME")]
    user_agent: Option<String>,

    /// Number of objects of a package to read or write at a time [default: 10]
    #[arg(long, value_name = "COUNT")]
    max_concurrent_package_establishers: Option<NonZeroUsize>,

    /// Upgrade packages that others depend on [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    enable_dependency_version_upgrades: Option<bool>,

    /// Downgrade packages that others depend on, too [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    enable_dependency_version_downgrades: Option<bool>,

    /// Honour `DeploymentRuntimeConfigs` [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    enable_deployment_runtime_configs: Option<bool>,

    /// Install the definitions of managed resources of providers as `ManagedResourceDefinitions` [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    enable_custom_to_managed_resource_conversion: Option<bool>,

    /// Protect Providers from deletion while managed resources of their kinds exist, an alpha feature [default: false]
    ///
    /// A `ClusterUsage` for each such kind refuses the deletion. Has an effect with --enable-packages only.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    enable_provider_deletion_protection: Option<bool>,

    /// Image of this control plane, to run Function packages whose programs are not servers [default: none; they do not run]
    ///
    /// Its program is copied into their pods, and starts the program of the package once for every call. Has an effect with
    /// --enable-packages only.
    #[arg(long, env = "FUNCTION_ADAPTER_IMAGE", value_name = "IMAGE")]
    function_adapter_image: Option<String>,

    /// Number of XRs, and of claims, of one kind to reconcile at a time [default: 100 XRs, 50 claims]
    #[arg(long, alias = "max-reconcile-rate", env = "MAX_CONCURRENT_RECONCILES", value_name = "COUNT")]
    max_concurrent_reconciles: Option<NonZeroUsize>,

    /// Number of changes of its composed resources after which the circuit breaker of an XR opens [default: 100]
    #[arg(long, env = "CIRCUIT_BREAKER_BURST", value_name = "COUNT")]
    circuit_breaker_burst: Option<f64>,

    /// Changes per second that the circuit breaker tolerates [default: 1]
    #[arg(long, env = "CIRCUIT_BREAKER_REFILL_RATE", value_name = "RATE")]
    circuit_breaker_refill_rate: Option<f64>,

    /// Time for which a circuit breaker stays open [default: 5m]
    #[arg(long, env = "CIRCUIT_BREAKER_COOLDOWN", value_name = "DURATION")]
    circuit_breaker_cooldown: Option<Span>,

    /// Interval between reads of connection Secrets where watching Secrets is not permitted [default: 1m]
    #[arg(long, env = "POLL_INTERVAL", value_name = "DURATION")]
    poll_interval: Option<Span>,

    /// Maximum size of the reconcile recordings (secrets redacted); 0 disables recording [default: 16MiB]
    #[arg(long, env = "RECORDING_SIZE", value_name = "SIZE")]
    recording_size: Option<Size>,

    /// Directory of the recordings [default: in memory]
    #[arg(long, env = "RECORDING_DIR", value_name = "DIR")]
    recording_dir: Option<PathBuf>,

    /// Also redact fields in recordings whose names end with these, such as `pin`
    #[arg(long, env = "RECORDING_REDACT_FIELDS", value_name = "NAMES", value_delimiter = ',')]
    recording_redact_fields: Option<Vec<String>>,

    /// Loopback address to serve recordings on, for users who may forward ports of the pod [default: 127.0.0.1:8082]
    #[arg(long, env = "RECORDING_ADDRESS", value_name = "ADDRESS", value_parser = address::parse)]
    #[serde(deserialize_with = "address::deserialize")]
    recording_address: Option<SocketAddr>,

    /// Write cluster roles for XRDs, as Crossplane's RBAC manager does [default: true]
    #[arg(long, env = "WRITE_ROLES", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    write_roles: Option<bool>,

    /// User to impersonate for writes of composed resources [default: none]
    ///
    /// Compositions can then use the rights of that user only, and none that the control plane has for itself. Name a service account as
    /// system:serviceaccount:NAMESPACE:NAME. The control plane needs the right to impersonate it.
    #[arg(long, env = "COMPOSE_AS", value_name = "USER")]
    compose_as: Option<String>,

    /// The port of --health-address, as Crossplane has it
    #[arg(long, env = "HEALTH_PROBE_PORT", value_name = "PORT", hide = true)]
    health_probe_port: Option<u16>,

    /// The port of --metrics-address, as Crossplane has it
    #[arg(long, env = "METRICS_PORT", value_name = "PORT", hide = true)]
    metrics_port: Option<u16>,

    /// The port of --webhook-address, as Crossplane has it
    #[arg(long, env = "WEBHOOK_PORT", value_name = "PORT", hide = true)]
    webhook_port: Option<u16>,

    /// Log at debug level
    #[arg(short, long, env = "DEBUG", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    debug: Option<bool>,

    /// Log level: off, error, warn, info, debug or trace [default: info]
    #[arg(long, env = "FERROPLANE_LOG", value_name = "LEVEL")]
    log_level: Option<String>,

    /// Log format [default: text on a terminal, otherwise json]
    #[arg(long, env = "FERROPLANE_LOG_FORMAT", value_name = "FORMAT", value_enum)]
    log_format: Option<LogFormat>,

    // An attribute, for a comment would have to mark up what people copy.
    #[arg(
        long,
        value_name = "URL",
        help = "OTLP/gRPC endpoint to send traces to, such as http://collector:4317",
        long_help = "OTLP/gRPC endpoint to send traces to, such as http://collector:4317\n\nThe standard variables are read, too: \
            OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and so on."
    )]
    otlp_endpoint: Option<String>,
}

/// Why flags about packages have no effect.
const PACKAGES_ARE_LEFT_ALONE: &str = "packages are not installed without --enable-packages";

/// A duration, as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Span(Duration);

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        duration::parse(text).map(Self)
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// An amount of bytes, as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Size(u64);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        size::parse_recording(text).map(Self)
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct File(pub(crate) Options);

impl File {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read the options in `{}`", path.display()))?;
        // An empty document says nothing.
        let options: Result<Option<Options>, _> = serde_saphyr::from_str(&text);
        let options = options.with_context(|| format!("cannot use the options in `{}`", path.display()))?;
        Ok(Self(options.unwrap_or_default()))
    }
}

macro_rules! first {
    ($one:ident, $other:ident: $($field:ident),* $(,)?) => { Self { $($field: $one.$field.or($other.$field),)* } };
}

impl Options {
    /// These, and of the others what these do not say.
    pub(crate) fn or(self, other: Self) -> Self {
        first!(
            self, other: kubeconfig, context, namespace, service_account, leader_election, lease_duration, health_address,
            metrics_address, enable_webhooks, webhook_address, webhook_service, webhook_url, tls_ca_secret_name,
            tls_server_secret_name, tls_client_secret_name, xfn_cache_dir, xfn_cache_max_ttl, allow_development_functions,
            enable_alpha_functions, enable_function_revision_selectors, enable_operations, enable_blueprints, strict_function_versions, allow_remote_templates,
            remote_templates_dir, enable_packages, package_runtime, xpkg_cache_dir, ca_bundle_path,
            user_agent, max_concurrent_package_establishers,
            enable_dependency_version_upgrades, enable_dependency_version_downgrades, enable_deployment_runtime_configs,
            enable_custom_to_managed_resource_conversion, enable_provider_deletion_protection, function_adapter_image,
            max_concurrent_reconciles, circuit_breaker_burst, circuit_breaker_refill_rate, circuit_breaker_cooldown,
            poll_interval, recording_size, recording_dir,
            recording_address, recording_redact_fields, write_roles, compose_as, health_probe_port,
            metrics_port, webhook_port, debug, log_level, log_format, otlp_endpoint,
        )
    }
}

impl Options {
    /// How packages are installed and run, if they are.
    fn packages(&self) -> anyhow::Result<Option<Packages>> {
        // Checked in any case, so that an invalid flag is reported before it is needed.
        let kinds = kinds_in_pods(self.package_runtime.as_deref().unwrap_or_default())?;
        let downgrades = self.enable_dependency_version_downgrades.unwrap_or(false);
        let upgrades = self.enable_dependency_version_upgrades.unwrap_or(false);
        let packages = Packages {
            kinds,
            cache: self.xpkg_cache_dir.clone(),
            user_agent: self.user_agent()?,
            dependencies: ResolveOptions::allowing(upgrades, downgrades),
            establishers: self.max_concurrent_package_establishers.map_or(ESTABLISHERS, NonZeroUsize::get),
            uses_configs: self.enable_deployment_runtime_configs.unwrap_or(true),
            converts_definitions: self.enable_custom_to_managed_resource_conversion.unwrap_or(true),
            protects_providers: self.enable_provider_deletion_protection.unwrap_or(false),
            adapter_image: self.function_adapter_image.clone().filter(|image| !image.is_empty()),
        };
        Ok(self.enable_packages.unwrap_or(false).then_some(packages))
    }

    /// What to tell a user who gave flags about packages, if packages are left alone. One line for each.
    pub(crate) fn advice(&self) -> Vec<String> {
        if self.enable_packages.unwrap_or(false) {
            return Vec::new();
        }
        // An empty environment variable gives none.
        let is_text = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
        let flags = [
            ("package-runtime", is_text(self.package_runtime.as_deref())),
            ("user-agent", is_text(self.user_agent.as_deref())),
            ("max-concurrent-package-establishers", self.max_concurrent_package_establishers.is_some()),
            ("enable-dependency-version-upgrades", self.enable_dependency_version_upgrades.is_some()),
            ("enable-dependency-version-downgrades", self.enable_dependency_version_downgrades.is_some()),
            ("enable-deployment-runtime-configs", self.enable_deployment_runtime_configs.is_some()),
            (
                "enable-custom-to-managed-resource-conversion",
                self.enable_custom_to_managed_resource_conversion.is_some(),
            ),
            ("enable-provider-deletion-protection", self.enable_provider_deletion_protection.is_some()),
            ("function-adapter-image", is_text(self.function_adapter_image.as_deref())),
        ];
        let given = flags.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(flag, _)| format!("--{flag} has no effect: {PACKAGES_ARE_LEFT_ALONE}")).collect()
    }

    /// The name of the client. An empty environment variable gives none.
    fn user_agent(&self) -> anyhow::Result<Option<HeaderValue>> {
        let given = self.user_agent.as_deref().filter(|name| !name.is_empty());
        given.map(HeaderValue::from_str).transpose().context("--user-agent must be printable ASCII")
    }

    fn tuning(&self) -> anyhow::Result<Tuning> {
        let usual = Tuning::default();
        let breaker = usual.circuit_breaker;
        let number = |given: Option<f64>, usual: f64, least: f64, flag: &str| match given.unwrap_or(usual) {
            number if number.is_finite() && number >= least => Ok(number),
            number => bail!("--{flag} must be {least} at least, not {number}"),
        };
        Ok(Tuning {
            max_concurrent_reconciles: self.max_concurrent_reconciles,
            circuit_breaker: CircuitBreakerTuning {
                burst: number(self.circuit_breaker_burst, breaker.burst, 1.0, "circuit-breaker-burst")?,
                refill_per_second: number(
                    self.circuit_breaker_refill_rate,
                    breaker.refill_per_second,
                    0.0,
                    "circuit-breaker-refill-rate",
                )?,
                cooldown: self.circuit_breaker_cooldown.map_or(breaker.cooldown, |span| span.0),
            },
            poll_interval: self.poll_interval.map_or(usual.poll_interval, |span| span.0),
        })
    }
}
