//! What can be said about how to run: by flags, by the environment, in a file.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::builder::BoolishValueParser;
use ferroplane_controllers::{CircuitBreakerTuning, Tuning};
use ferroplane_engine::packages::ResolveOptions;
use ferroplane_recorder::{BadFieldName, FieldName};
use serde::Deserialize;
use tracing::level_filters::LevelFilter;

use super::packages::{Packages, kinds_in_pods};
use crate::telemetry::{LogFormat, Telemetry};
use crate::{address, duration, size};

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

    /// Hosts, or hosts and beginnings of paths, from which templates may be fetched [default: none]
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

    /// Number of XRs, and of claims, of one kind to reconcile at a time [default: 100 XRs, 50 claims]
    #[arg(long, alias = "max-reconcile-rate", env = "MAX_CONCURRENT_RECONCILES", value_name = "COUNT")]
    max_concurrent_reconciles: Option<NonZeroUsize>,

    /// Number of changes of its composed resources after which the circuit breaker of an XR opens [default: 50]
    #[arg(long, env = "CIRCUIT_BREAKER_BURST", value_name = "COUNT")]
    circuit_breaker_burst: Option<f64>,

    /// Number of such changes per second that do not count [default: 0.5]
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

    /// Further names of fields to redact in recordings, such as `pin`; fields whose names end so are redacted
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
            enable_dependency_version_upgrades, enable_dependency_version_downgrades, enable_deployment_runtime_configs,
            enable_custom_to_managed_resource_conversion,
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
        // Looked at in any case: a flag that makes no sense is told before it is needed.
        let kinds = kinds_in_pods(self.package_runtime.as_deref().unwrap_or_default())?;
        let downgrades = self.enable_dependency_version_downgrades.unwrap_or(false);
        let upgrades = downgrades || self.enable_dependency_version_upgrades.unwrap_or(false);
        let packages = Packages {
            kinds,
            cache: self.xpkg_cache_dir.clone(),
            authorities: self.ca_bundle_path.clone().filter(|file| !file.as_os_str().is_empty()),
            dependencies: ResolveOptions { upgrades, downgrades },
            uses_configs: self.enable_deployment_runtime_configs.unwrap_or(true),
            converts_definitions: self.enable_custom_to_managed_resource_conversion.unwrap_or(true),
        };
        Ok(self.enable_packages.unwrap_or(false).then_some(packages))
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

/// How to run, everything said.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(crate) struct Configuration {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) context: Option<String>,
    pub(super) namespace: String,
    pub(super) service_account: String,
    /// None leads without asking anybody.
    pub(super) lease_duration: Option<Duration>,
    pub(super) health_address: SocketAddr,
    pub(super) metrics_address: SocketAddr,
    pub(super) webhooks: Option<Webhooks>,
    pub(super) authority_secret: String,
    pub(super) server_secret: String,
    pub(super) client_secret: String,
    pub(super) answers: Option<PathBuf>,
    pub(super) max_answer_ttl: Option<Duration>,
    pub(super) allows_development_functions: bool,
    pub(super) enables_alpha_functions: bool,
    pub(super) enables_function_revision_selectors: bool,
    pub(super) runs_operations: bool,
    pub(super) runs_actions: bool,
    pub(super) has_strict_function_versions: bool,
    /// Where templates may be fetched from.
    pub(super) remote_templates: Vec<String>,
    /// None keeps them in memory.
    pub(super) remote_templates_directory: Option<PathBuf>,
    /// Where images are kept. None is the cache of the user.
    pub(super) images: Option<PathBuf>,
    /// None leaves packages alone.
    pub(super) packages: Option<Packages>,
    pub(super) tuning: Tuning,
    pub(super) recordings: Option<Recordings>,
    pub(super) writes_roles: bool,
    /// Whom to impersonate for what is composed.
    pub(super) compose_as: Option<String>,
    pub(super) telemetry: Telemetry,
}

/// What is kept of what was recorded, and where.
#[derive(Debug)]
pub(super) struct Recordings {
    pub(super) size: u64,
    /// None is in memory.
    pub(super) directory: Option<PathBuf>,
    pub(super) address: SocketAddr,
    /// Further names of fields that are not recorded.
    pub(super) redacted_fields: Vec<FieldName>,
}

fn field_names(names: &[String]) -> anyhow::Result<Vec<FieldName>> {
    let names = names.iter().map(|name| name.parse()).collect::<Result<_, BadFieldName>>();
    names.context("cannot use --recording-redact-fields")
}

/// Where webhooks are served, and how the API server gets there.
#[derive(Debug)]
pub(super) struct Webhooks {
    pub(super) address: SocketAddr,
    pub(super) service: String,
    /// Instead of the service, without a path: the whole, and its host.
    pub(super) url: Option<(String, String)>,
}

impl Configuration {
    pub(crate) fn new(options: Options) -> anyhow::Result<Self> {
        let (tuning, packages) = (options.tuning()?, options.packages()?);
        let address = |address: Option<SocketAddr>, port: Option<u16>, usual| {
            let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            address.unwrap_or_else(|| SocketAddr::new(everywhere, port.unwrap_or(usual)))
        };
        let text = |given: Option<String>, usual: &str| {
            given.filter(|given| !given.is_empty()).unwrap_or_else(|| usual.to_owned())
        };
        let webhooks = Webhooks {
            address: address(options.webhook_address, options.webhook_port, 9443),
            service: text(options.webhook_service, "crossplane-webhooks"),
            url: options.webhook_url.map(|url| read_url(&url)).transpose()?,
        };
        let recording_address =
            options.recording_address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8082)));
        if !recording_address.ip().is_loopback() {
            bail!(
                "recordings cannot be served at {recording_address}: --recording-address has to be a loopback address such as \
                 127.0.0.1:8082, which `kubectl port-forward` reaches for those who may forward ports"
            );
        }
        let recordings = Recordings {
            size: options.recording_size.map_or(USUAL_RECORDING, |size| size.0),
            directory: options.recording_dir,
            address: recording_address,
            redacted_fields: field_names(&options.recording_redact_fields.unwrap_or_default())?,
        };
        let lease_duration = options.lease_duration.map_or(Duration::from_secs(15), |span| span.0);
        if lease_duration < SHORTEST_LEASE || lease_duration.subsec_nanos() != 0 {
            bail!("--lease-duration must be whole seconds, and 3s at least");
        }
        let log_level = options.log_level.map(|level| level.parse::<LevelFilter>()).transpose();
        let log_level = log_level.context("--log-level must be off, error, warn, info, debug or trace")?;
        Ok(Self {
            kubeconfig: options.kubeconfig,
            context: options.context,
            namespace: text(options.namespace, "crossplane-system"),
            service_account: text(options.service_account, "crossplane"),
            lease_duration: options.leader_election.unwrap_or(true).then_some(lease_duration),
            health_address: address(options.health_address, options.health_probe_port, 8081),
            metrics_address: address(options.metrics_address, options.metrics_port, 8080),
            webhooks: options.enable_webhooks.unwrap_or(true).then_some(webhooks),
            authority_secret: text(options.tls_ca_secret_name, "crossplane-root-ca"),
            server_secret: text(options.tls_server_secret_name, "crossplane-tls-server"),
            client_secret: text(options.tls_client_secret_name, "crossplane-tls-client"),
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

/// How much is kept of what was recorded, if nobody says anything: it may all be in memory.
const USUAL_RECORDING: u64 = 16 << 20;

/// A shorter one could not be renewed in time on a busy machine.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

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
    use clap::Parser;

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
        let found =
            packages(&["--enable-packages", "--enable-dependency-version-downgrades", "--cache-dir=/cache"]);
        let found = found.unwrap();
        assert!(found.dependencies.upgrades && found.dependencies.downgrades);
        assert_eq!(found.cache.as_deref(), Some(Path::new("/cache")));
        assert!(found.uses_configs && found.converts_definitions && found.kinds.len() == 2);
        let off = ["--enable-packages", "--enable-custom-to-managed-resource-conversion=false"];
        assert!(!packages(&off).unwrap().converts_definitions);
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
