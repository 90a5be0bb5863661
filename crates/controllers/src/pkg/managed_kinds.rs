//! Managed resource definitions: policies activate them, and each that is active becomes a `CustomResourceDefinition`.
//!
//! # Invariants
//! * What is active stays active, whatever becomes of the policy that activated it.
//! * A `CustomResourceDefinition` that another client made is left alone, and none is made in a group of Kubernetes or of the control
//!   plane.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, Object, meta};
use ferroplane_client::{Informer, Subresource};
use ferroplane_engine::chain;
use ferroplane_engine::packages::{
    ManagedKindStanding, activate_kind, activates, adopt_managed_kind, default_policy, defined_kind,
    is_active_kind, managed_kind_condition, policy_condition,
};
use serde_json::Value;
use tracing::warn;

use super::Manager;
use super::revision::{RESERVED, is_reserved};
use super::status::{Fields, is_paused, with_status, write, write_status};
use crate::apiextensions::definition::CustomKinds;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::owner::is_still_there;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "managed/managedresourcedefinition.apiextensions.crossplane.io";
const CONCURRENCY: usize = 16;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A definition or a policy, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Definition(String),
    Policy(String),
}

/// Activate definitions and make kinds of them, until dropped.
pub(super) async fn run(manager: Arc<Manager>) {
    let controller = Arc::new(ManagedKinds {
        recorder: manager.context.recorder.of(COMPONENT),
        kinds: CustomKinds::new(manager.context.clone()),
        manager,
    });
    let queue = controller.manager.context.queue(LONGEST_PAUSE, COMPONENT);
    controller.listen(&queue);
    controller.begin().await;
    queue.work(CONCURRENCY, |key| controller.clone().reconcile(key)).await;
}

struct ManagedKinds {
    manager: Arc<Manager>,
    recorder: Recorder,
    kinds: CustomKinds,
}

impl ManagedKinds {
    fn listen(&self, queue: &Queue<Key>) {
        let (definitions, policies) = (queue.clone(), self.policies().clone());
        self.definitions().listen(move |_, change| {
            definitions.add(Key::Definition(change.header().metadata.name.to_string()));
            // A new definition may match a policy.
            for policy in policies.names() {
                definitions.add(Key::Policy(policy));
            }
        });
        let changed = queue.clone();
        self.policies().listen(move |_, change| {
            changed.add(Key::Policy(change.header().metadata.name.to_string()));
        });
        let (changed, definitions) = (queue.clone(), self.definitions().clone());
        self.manager.context.kinds.listen(move |_, change| {
            let name = &change.header().metadata.name;
            if definitions.get("", name).is_some() {
                changed.add(Key::Definition(name.to_string()));
            }
        });
    }

    /// Create the default policy unless it exists.
    async fn begin(&self) {
        let activations = &self.manager.options.activations;
        let policy = default_policy(activations);
        if activations.is_empty() || self.policies().get("", meta::name(&policy)).is_some() {
            return;
        }
        match self.manager.context.cluster.create(self.policies().resource(), "", &policy).await {
            Ok(_) => {}
            Err(error) if error.is_already_exists() => {}
            // Kinds can be activated without it, and the next start tries again.
            Err(error) => warn!(error = chain(&error), "cannot create the activation policy `default`"),
        }
    }

    fn definitions(&self) -> &Arc<Informer> {
        &self.manager.managed_definitions
    }

    fn policies(&self) -> &Arc<Informer> {
        &self.manager.activation_policies
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> Next {
        let (informer, name) = match &key {
            Key::Definition(name) => (self.definitions(), name),
            Key::Policy(name) => (self.policies(), name),
        };
        let Some(object) = informer.object("", name) else { return Next::Rest };
        if meta::is_being_deleted(&object) || is_paused(&object) {
            return Next::Rest;
        }
        let looked = async {
            match key {
                Key::Definition(_) => self.define(&object).await,
                Key::Policy(_) => self.activate(&object).await,
            }
        };
        cause_of_writes(&object).scope(looked).await
    }

    /// Activate the definitions that a policy names.
    async fn activate(&self, policy: &Object) -> Next {
        let mut named = self.definitions().objects();
        named.retain(|definition| activates(policy, meta::name(definition)));
        named.sort_by(|one, other| meta::name(one).cmp(meta::name(other)));
        for definition in named.iter().filter(|definition| !is_active_kind(definition)) {
            let activated = activate_kind(definition);
            if let Err(next) =
                write(&self.manager.context, self.definitions(), &activated, Subresource::None).await
            {
                return next;
            }
        }
        let list: Vec<Value> = named.iter().map(|definition| meta::name(definition).into()).collect();
        let activated = if list.is_empty() { Value::Null } else { list.into() };
        self.tell(self.policies(), policy, policy_condition(), vec![("activated", activated)]).await
    }

    /// Create or update the kind of an active definition.
    async fn define(&self, definition: &Object) -> Next {
        if !is_active_kind(definition) {
            return self.report_standing(definition, &ManagedKindStanding::Inactive).await;
        }
        if is_reserved(definition) {
            let message = format!("cannot make a CustomResourceDefinition of this: {RESERVED}");
            let blocked = ManagedKindStanding::Blocked { message, cause: Cause::PackageInvalid };
            return self.report_standing(definition, &blocked).await;
        }
        if self.manager.context.kinds.get("", meta::name(definition)).is_none() {
            let resource = self.definitions().resource();
            match is_still_there(&self.manager.context.cluster, resource, definition).await {
                Ok(true) => {}
                Ok(false) => return Next::Rest,
                Err(_) => return Next::Retry,
            }
        }
        let wanted = defined_kind(definition);
        let adopt = |present: &Object| adopt_managed_kind(present, &wanted, definition);
        match self.kinds.ensure_by(definition, &wanted, adopt).await {
            Ok(standing) if standing.is_served => {
                self.report_standing(definition, &ManagedKindStanding::Served).await
            }
            // A watch event follows when it is.
            Ok(_) => self.report_standing(definition, &ManagedKindStanding::Pending).await,
            Err(failure) if failure.is_conflict() => Next::Conflict,
            Err(failure) => {
                let (message, cause) = (chain(&failure), failure.cause());
                self.recorder.failure(definition, "EstablishManagedResource", message.clone(), cause);
                let blocked = ManagedKindStanding::Blocked { message, cause };
                match self.report_standing(definition, &blocked).await {
                    Next::Rest if !failure.is_final() => Next::Retry,
                    next => next,
                }
            }
        }
    }

    async fn report_standing(&self, definition: &Object, standing: &ManagedKindStanding) -> Next {
        let condition = managed_kind_condition(standing);
        self.tell(self.definitions(), definition, condition, Vec::new()).await
    }

    async fn tell(
        &self,
        informer: &Informer,
        object: &Object,
        condition: ferroplane_api::Condition,
        fields: Fields,
    ) -> Next {
        let context = &self.manager.context;
        let Some(told) = with_status(context, object, vec![condition], fields) else { return Next::Rest };
        match write_status(context, informer, &told).await {
            Ok(_) => Next::Rest,
            Err(next) => next,
        }
    }
}
