//! Functions in packages that run as processes of this machine, because containers cannot be run and the administrator allows it.
//!
//! Where a function runs, and how little isolates it, stands in the status of its revision.

use std::time::Duration;

use ferroplane_golang::time::duration;
use ferroplane_sandbox::file_owner;

use super::packaged_programs::ProgramNetwork;

/// What would run a function though this machine runs no containers.
const REMEDY: &str = "`ferroplane up --allow-unisolated-functions` runs a function that is a static executable as a process instead, \
                      without isolation";

/// Where the server of a function runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerPlace {
    Container(ProgramNetwork),
    /// This is why it runs in no container.
    Process {
        why: String,
    },
}

impl ServerPlace {
    /// How a server runs there, for the status of its revision. One with an idle timeout runs only while it is called.
    pub(super) fn describe(&self, idle: Option<Duration>) -> String {
        let place = match self {
            Self::Container(_) => "in a container on this machine",
            Self::Process { .. } => "as a process of this machine",
        };
        let when = idle.map(|idle| {
            let idle = duration::format(i64::try_from(idle.as_nanos()).unwrap_or(i64::MAX));
            format!(" when it is called, until it has not been called for {idle}")
        });
        let isolation = match self {
            Self::Container(ProgramNetwork::Isolated) => String::new(),
            Self::Container(ProgramNetwork::Runner) => ", with the network of this machine".to_owned(),
            Self::Process { why } => format!("; not isolated: it has {}; {why}", rights(file_owner())),
        };
        format!("runs {place}{}{isolation}", when.unwrap_or_default())
    }
}

/// What a process may do, by the user whom it runs as if that is not our own.
fn rights(user: Option<u32>) -> &'static str {
    match user {
        Some(_) => "the network of this machine, and an unprivileged user that all such functions share",
        None => "the network of this machine, and the rights of the user of the control plane",
    }
}

/// Why a function is not run, where processes are not allowed.
pub(super) fn refusal(why: &str) -> String {
    format!("{why}; {REMEDY}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_says_where_a_function_runs_and_what_isolates_it() {
        let container = ServerPlace::Container(ProgramNetwork::Isolated);
        assert_eq!(container.describe(None), "runs in a container on this machine");
        let idle = container.describe(Some(Duration::from_secs(1)));
        assert!(idle.ends_with("machine when it is called, until it has not been called for 1s"), "{idle}");
        let process = ServerPlace::Process { why: "cannot run containers: no crun".to_owned() };
        let said = process.describe(None);
        assert!(
            said.starts_with("runs as a process of this machine; not isolated: it has the network"),
            "{said}"
        );
        assert!(said.ends_with("; cannot run containers: no crun"), "{said}");
        let said = process.describe(Some(Duration::from_secs(1)));
        assert!(said.contains("for 1s; not isolated: "), "{said}");
    }

    #[test]
    fn refusal_names_the_flag_that_allows_processes() {
        let said = refusal("cannot run containers: no crun");
        assert!(
            said.starts_with("cannot run containers: no crun; `ferroplane up --allow-unisolated-functions`")
        );
    }
}
