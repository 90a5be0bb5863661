//! Follows which programs of packages controllers want, and has each of them kept running in a task of its own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use anyhow::bail;
use ferroplane_api::keys;
use ferroplane_controllers::{Packaged, PackagedProgram};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::function_logs::FunctionLogs;

/// The network that a program in a container has, as an annotation of its package grants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramNetwork {
    /// One of its own: a function is called, a provider reaches the API server, and there is nothing else.
    Isolated,
    /// That of this machine.
    Runner,
}

impl ProgramNetwork {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        match text {
            "" | "Isolated" => Ok(Self::Isolated),
            "Runner" => Ok(Self::Runner),
            _ => bail!("cannot read the annotation `{}: {text}`: expected Isolated or Runner", keys::NETWORK),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_is_shared_only_if_the_annotation_says_so() {
        assert_eq!(ProgramNetwork::parse("").unwrap(), ProgramNetwork::Isolated);
        assert_eq!(ProgramNetwork::parse("Isolated").unwrap(), ProgramNetwork::Isolated);
        assert_eq!(ProgramNetwork::parse("Runner").unwrap(), ProgramNetwork::Runner);
        let error = ProgramNetwork::parse("runner").unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot read the annotation `ferroplane.io/network: runner`: expected Isolated or Runner"
        );
    }
}
