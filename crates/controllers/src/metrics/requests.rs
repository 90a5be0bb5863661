//! What is asked of the API server, and how well its objects are followed.

use std::time::Duration;

use super::series::{Histograms, Numbers, labels};
use crate::cluster::{Error, Resource, Verb};

/// What was asked of the API server.
#[derive(Debug)]
pub(super) struct Requests {
    answered: Numbers,
    seconds: Histograms,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            answered: Numbers::counter("rest_client_requests_total", "Requests to the API server."),
            seconds: Histograms::new(
                "rest_client_request_duration_seconds",
                "How long requests to the API server took that were no watches.",
            ),
        }
    }
}

impl Requests {
    /// A request was answered with this code, or not at all.
    pub(super) fn count(
        &self,
        verb: Verb,
        resource: Option<&Resource>,
        subresource: &str,
        code: Option<u16>,
        took: Option<Duration>,
    ) {
        let (group, plural) = resource.map_or(("", ""), |resource| (resource.group(), &resource.plural));
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.answered.add(
            labels(&[
                ("method", verb.method().as_str()),
                ("code", &code),
                ("verb", verb.as_str()),
                ("group", group),
                ("resource", plural),
                ("subresource", subresource),
            ]),
            1,
        );
        if let Some(took) = took {
            let labels = labels(&[("verb", verb.as_str()), ("group", group), ("resource", plural)]);
            self.seconds.add(labels, took);
        }
    }

    pub(super) fn write(&self, text: &mut String) {
        self.answered.write(text);
        self.seconds.write(text);
    }
}

/// How well objects are followed.
#[derive(Debug)]
pub(super) struct Watches {
    current: Numbers,
    lists: Numbers,
    restarts: Numbers,
    failures: Numbers,
}

impl Default for Watches {
    fn default() -> Self {
        Self {
            current: Numbers::gauge("ferroplane_watches", "How often objects of a kind are followed."),
            lists: Numbers::counter(
                "ferroplane_watch_lists_total",
                "How often everything of a kind that is followed was read.",
            ),
            restarts: Numbers::counter(
                "ferroplane_watch_restarts_total",
                "How often a watch was taken up again after it had ended.",
            ),
            failures: Numbers::counter(
                "ferroplane_watch_failures_total",
                "How often a kind could not be followed, by why.",
            ),
        }
    }
}

/// What happened to a watch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Watched<'a> {
    Began,
    Ended,
    Listed,
    Restarted,
    Failed(&'a Error),
}

impl Watches {
    pub(super) fn count(&self, resource: &Resource, watched: Watched<'_>) {
        let kind = [("group", resource.group()), ("resource", resource.plural.as_str())];
        match watched {
            Watched::Began => self.current.add(labels(&kind), 1),
            Watched::Ended => self.current.add(labels(&kind), -1),
            Watched::Listed => self.lists.add(labels(&kind), 1),
            Watched::Restarted => self.restarts.add(labels(&kind), 1),
            Watched::Failed(error) => {
                let [group, resource] = kind;
                self.failures.add(labels(&[group, resource, ("reason", reason(error))]), 1);
            }
        }
    }

    pub(super) fn write(&self, text: &mut String) {
        for numbers in [&self.current, &self.lists, &self.restarts, &self.failures] {
            numbers.write(text);
        }
    }
}

fn reason(error: &Error) -> &'static str {
    match error {
        error if error.is_gone() => "expired",
        error if error.is_not_found() => "not_found",
        error if error.is_forbidden() => "forbidden",
        Error::Refused(_) => "refused",
        Error::Unreachable(_) => "unreachable",
    }
}
