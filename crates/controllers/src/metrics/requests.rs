//! Metrics of requests to the API server, and of watches.

use std::time::Duration;

use ferroplane_client::{Error, InformerEvent, RequestLabels, Resource};
use ferroplane_metrics::{Exposition, HistogramFamily, NumberFamily, labels};

/// Requests to the API server.
#[derive(Debug)]
pub(super) struct Requests {
    answered: NumberFamily,
    seconds: HistogramFamily,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            answered: NumberFamily::counter(
                "rest_client_requests_total",
                "Requests to the API server, by status code",
            ),
            seconds: HistogramFamily::new(
                "rest_client_request_duration_seconds",
                "Time that requests to the API server took, in seconds; watches are left out",
            ),
        }
    }
}

impl Requests {
    /// Count a request with its code, or without a response.
    pub(super) fn count(&self, request: &RequestLabels<'_>, code: Option<u16>, took: Option<Duration>) {
        let RequestLabels { verb, resource, subresource, .. } = request;
        let (group, plural) = resource.map_or(("", ""), |resource| (resource.group(), &resource.plural));
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.answered.add(
            labels(&[
                ("method", verb.method().as_str()),
                ("code", &code),
                ("verb", verb.as_str()),
                ("group", group),
                ("resource", plural),
                ("subresource", subresource.as_str()),
            ]),
            1,
        );
        if let Some(took) = took {
            let labels = labels(&[("verb", verb.as_str()), ("group", group), ("resource", plural)]);
            self.seconds.observe(labels, took);
        }
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        self.answered.write(page);
        self.seconds.write(page);
    }
}

/// How well objects are followed.
#[derive(Debug)]
pub(super) struct Watches {
    current: NumberFamily,
    lists: NumberFamily,
    restarts: NumberFamily,
    failures: NumberFamily,
}

impl Default for Watches {
    fn default() -> Self {
        Self {
            current: NumberFamily::gauge("ferroplane_watches", "Open watches"),
            lists: NumberFamily::counter(
                "ferroplane_watch_lists_total",
                "Times that all objects of a watched resource were listed",
            ),
            restarts: NumberFamily::counter(
                "ferroplane_watch_restarts_total",
                "Times that a watch was resumed after the server had ended it",
            ),
            failures: NumberFamily::counter(
                "ferroplane_watch_failures_total",
                "Times that a resource could not be listed or watched, by reason",
            ),
        }
    }
}

impl Watches {
    pub(super) fn count(&self, resource: &Resource, event: InformerEvent<'_>) {
        let kind = [("group", resource.group()), ("resource", resource.plural.as_str())];
        match event {
            InformerEvent::Started => self.current.add(labels(&kind), 1),
            InformerEvent::Stopped => self.current.add(labels(&kind), -1),
            InformerEvent::Listed => self.lists.add(labels(&kind), 1),
            InformerEvent::WatchRestarted => self.restarts.add(labels(&kind), 1),
            InformerEvent::Failed(error) => {
                let [group, resource] = kind;
                self.failures.add(labels(&[group, resource, ("reason", reason(error))]), 1);
            }
        }
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        for numbers in [&self.current, &self.lists, &self.restarts, &self.failures] {
            numbers.write(page);
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
        Error::InvalidPath(_) => "invalid_path",
    }
}
