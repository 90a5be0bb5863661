//! Carries out what the engine decides: reads the cluster, calls the engine, applies the plan, and reports.
//!
//! Controllers speak to the API server through a `kube::Client` and nothing else, so they run on the embedded server
//! and on any cluster alike.

mod apiextensions;
mod blueprints;
mod context;
mod controllers;
mod function_registry;
mod leadership;
mod live_resources;
mod local_functions;
mod metrics;
mod ops;
mod packaged;
mod pkg;
mod protection;
mod rbac;
mod rollout;
mod runtime;
mod setup;
mod takeover;
mod tuning;
mod unsupported;

pub use apiextensions::advisor::{Advisor, Examiner, PATH as ADVISOR_PATH, ServedDefinitions};
pub use apiextensions::composite::Holdings;
pub use apiextensions::composite::plan::{PlanError, PlanRequest, Planner, apply_file};
pub use blueprints::ActionSettings;
pub use controllers::{Controllers, Settings, Standby};
pub use function_registry::{BuiltIns, FunctionCatalogue, InputMistakes, Natives};
pub use leadership::{Candidacy, Election, Fenced, Term};
pub use local_functions::{LocalFunction, LocalFunctions};
pub use metrics::Metrics;
pub use ops::DigestKey;
pub use packaged::{
    Packaged, PackagedFunction, PackagedFunctions, PackagedImage, PackagedProgram, PackagedProvider,
    PackagedProviders, ProviderState,
};
pub use pkg::{
    DeploymentRuntime, ESTABLISHERS, ImageProgram, ImageRequest, LoadedPackage, PackageManager,
    PackagePullPolicy, PackageSource, SourceAnswer, SourceError,
};
pub use protection::admission::{PATH as PROTECTION_PATH, Protection};
pub use runtime::clock::Clock;
pub use setup::credentials::{
    Credentials, CredentialsError, CredentialsStanding, Names, credentials, credentials_standing,
};
pub use setup::install::{InstallError, definitions_standing, install, install_within};
pub use setup::object_counts::{Counted, count_objects};
pub use setup::other_control_planes::{
    Deployed, IDENTITY, LEASE, Led, OtherControlPlanes, find_other_control_planes,
};
pub use setup::rights::{COMPOSER, CONTROLLERS, RightsError, grant as grant_rights, reserved_groups};
pub use setup::webhook::{Standing, announce, standing, webhooks};
pub use tuning::{CircuitBreakerTuning, Tuning};
