//! Does what the engine decides: reads the world, asks, applies the plan, says what happened.
//!
//! Controllers speak to the API server through a `kube::Client` and nothing else, so they run on the embedded server
//! and on any cluster alike.

mod advisor;
mod backoff;
mod brake;
mod callables;
mod claim;
mod clock;
mod cluster;
mod composite;
mod composition;
mod context;
mod controllers;
mod credentials;
mod definition;
mod events;
mod finalizers;
mod head;
mod install;
mod inventory;
mod leadership;
mod metrics;
mod mirror;
mod neighbours;
mod offered;
mod protection;
mod queue;
mod revision;
mod roles;
mod shelf;
mod takeover;
mod usage;
mod webhook;

pub use advisor::{Advisor, PATH as ADVISOR_PATH};
pub use callables::{BuiltIns, Natives};
pub use clock::Clock;
pub use cluster::{Cluster, Error, Refusal, Resource};
pub use composite::Holdings;
pub use controllers::{Controllers, Settings, Standby};
pub use credentials::{Credentials, CredentialsError, Names, Pair, credentials, credentials_standing};
pub use install::{InstallError, definitions_standing, install};
pub use inventory::{Counted, inventory};
pub use leadership::{Candidacy, Election, Fenced, Term};
pub use metrics::Metrics;
pub use neighbours::{Deployed, IDENTITY, LEASE, Led, Neighbours, neighbours};
pub use protection::{PATH as PROTECTION_PATH, Protection};
pub use webhook::{Standing, announce, standing, webhooks};
