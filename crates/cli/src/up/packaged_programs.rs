//! Follows which programs of packages controllers want, and has each of them kept running in a task of its own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use ferroplane_controllers::{Packaged, PackagedProgram};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::function_logs::FunctionLogs;

/// Keep the wanted programs running until the list of them ends. `keep` is given a program, and a channel that closes when it is no longer wanted.
/// Dropping this ends everything that is under way.
pub(super) async fn follow<P: PackagedProgram, F>(
    programs: Arc<Packaged<P>>,
    logs: Arc<FunctionLogs>,
    keep: impl Fn(String, P, oneshot::Receiver<()>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut wanted = programs.wanted();
    let mut tasks = JoinSet::new();
    // Dropping the sender beside the program stops its task.
    let mut running: BTreeMap<String, (P, oneshot::Sender<()>)> = BTreeMap::new();
    loop {
        let now = wanted.borrow_and_update().clone();
        running.retain(|revision, (program, _)| {
            let is_wanted = now.get(revision) == Some(&*program);
            if !is_wanted {
                programs.set(revision, None);
                logs.end(revision);
            }
            is_wanted
        });
        for (revision, program) in now {
            if let Entry::Vacant(place) = running.entry(revision) {
                let (wanting, unwanted) = oneshot::channel();
                logs.begin(place.key());
                tasks.spawn(keep(place.key().clone(), program.clone(), unwanted));
                place.insert((program, wanting));
            }
        }
        while tasks.try_join_next().is_some() {}
        if wanted.changed().await.is_err() {
            return;
        }
    }
}
