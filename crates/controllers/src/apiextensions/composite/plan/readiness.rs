//! Waits until all composite resources are cached. Otherwise a plan would silently leave some out.

use std::time::Duration;

use ferroplane_api::meta;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::super::subjects::is_established;
use super::{PlanError, Planner};

/// How long to wait for the caches of all definitions together.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to check for the controller of a definition. It may be replaced meanwhile.
const INTERVAL: Duration = Duration::from_millis(20);

impl Planner {
    /// Wait until the composite resources of all definitions are cached. They are not after a start, after a change of the leader, and
    /// after a change of the definition.
    pub(super) async fn until_read(&self) -> Result<(), PlanError> {
        let deadline = Instant::now() + PATIENCE;
        let definitions = self.composites.shared.context.definitions.objects();
        for definition in definitions.iter().filter(|it| is_established(it)) {
            let name = meta::name(definition);
            let read = timeout_at(deadline, self.until_followed(name)).await;
            read.map_err(|_| PlanError::Unread(name.to_owned()))?;
        }
        Ok(())
    }

    async fn until_followed(&self, definition: &str) {
        loop {
            let Some(controller) = self.composites.get(definition) else {
                sleep(INTERVAL).await;
                continue;
            };
            // Composite resources that we may not read are not reconciled either: nothing happens to them.
            if timeout(INTERVAL, controller.informer.synced_or_refused()).await.is_ok() {
                return;
            }
        }
    }
}
