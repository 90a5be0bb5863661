//! The Kubernetes client of every other crate: configuration, TLS, paths, discovery, lists, watches and caches.
//!
//! An [`Endpoint`] comes from a [`Kubeconfig`] or from the pod that this is ([`in_cluster()`]). A [`Transport`] speaks HTTP to
//! it, and an [`ApiClient`] mentions objects, through the transport or to a server in this process. An [`Informer`] caches
//! the objects of a kind.
//!
//! Knows no kind of object: what is read and written is bytes and JSON.

mod api_client;
mod backoff;
mod body_chunks;
mod discovery;
mod endpoint;
mod error;
mod exec;
mod exec_plugin;
mod impersonation;
mod in_cluster;
mod informer;
mod kubeconfig;
mod limited_process;
mod object_header;
mod page;
mod request_cause;
mod request_labels;
mod resource;
mod transport;
mod watch;
mod websocket;

pub use api_client::{ApiClient, ApplyOptions, JsonObject, Observer, PatchType, Propagation};
pub use discovery::ResourceCatalogue;
pub use endpoint::{BearerToken, ClientCertificate, ClientIdentity, Endpoint};
pub use error::{Error, StatusCause, StatusError};
pub use exec::CommandEnding;
pub use exec_plugin::{ExecError, ExecPlugin};
pub use impersonation::Impersonation;
pub use in_cluster::{NotInCluster, in_cluster};
pub use informer::{
    CachedObject, Change, DataStandIn, Informer, InformerError, InformerEvent, InformerScope, cache_key,
};
pub use kubeconfig::{Kubeconfig, KubeconfigError};
pub use object_header::{ObjectHeader, ObjectMetadata, OwnerReference};
pub use page::Page;
pub use request_cause::RequestCause;
pub use request_labels::{RequestLabels, Verb};
pub use resource::{LabelSelector, ObjectPath, Query, Resource, Subresource};
pub use transport::{EndpointError, Transport, TransportBody};
pub use watch::{Watch, WatchEvent};
