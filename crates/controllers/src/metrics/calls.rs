//! Metrics of function calls and of the response cache, with Crossplane's names.

use ferroplane_metrics::{Exposition, HistogramFamily, NumberFamily, labels};
use ferroplane_runner::Happening;

/// What was counted of calls.
#[derive(Debug)]
pub(super) struct FunctionCalls {
    requests: NumberFamily,
    responses: NumberFamily,
    seconds: HistogramFamily,
    cache_hits: NumberFamily,
    cache_misses: NumberFamily,
    cache_writes: NumberFamily,
    cache_bytes: NumberFamily,
}

impl Default for FunctionCalls {
    fn default() -> Self {
        Self {
            requests: NumberFamily::counter("function_run_function_request_total", "Calls of functions"),
            responses: NumberFamily::counter(
                "function_run_function_response_total",
                "Calls of functions that returned or failed, by gRPC code and worst result",
            ),
            seconds: HistogramFamily::new(
                "function_run_function_seconds",
                "Time that calls of functions took, in seconds",
            ),
            cache_hits: NumberFamily::counter(
                "function_run_function_response_cache_hits_total",
                "Function responses that came from the cache",
            ),
            cache_misses: NumberFamily::counter(
                "function_run_function_response_cache_misses_total",
                "Calls of functions for which the cache had no valid response",
            ),
            cache_writes: NumberFamily::counter(
                "function_run_function_response_cache_writes_total",
                "Function responses that were written to the cache",
            ),
            cache_bytes: NumberFamily::counter(
                "function_run_function_response_cache_bytes_written_total",
                "Size of the function responses that were written to the cache, in bytes",
            ),
        }
    }
}

/// The labels of a function.
#[derive(Debug, Clone, Default)]
pub(crate) struct Called {
    pub(crate) function: String,
    /// Empty if its revisions have no stable names.
    pub(crate) revision: String,
    pub(crate) package: String,
}

impl FunctionCalls {
    pub(super) fn write(&self, page: &mut Exposition) {
        let numbers = [
            &self.requests,
            &self.responses,
            &self.cache_hits,
            &self.cache_misses,
            &self.cache_writes,
            &self.cache_bytes,
        ];
        for numbers in numbers {
            numbers.write(page);
        }
        self.seconds.write(page);
    }

    /// Count an event of a call.
    pub(super) fn count(&self, called: &Called, happening: Happening<'_>) {
        let Called { function, revision, package } = called;
        let function_name = ("function_name", function.as_str());
        let function_revision = ("function_revision", revision.as_str());
        let cached = || labels(&[function_name, function_revision]);
        match happening {
            Happening::Called(peer) => {
                let package = ("function_package", package.as_str());
                let labels = labels(&[
                    function_name,
                    function_revision,
                    package,
                    ("grpc_target", peer.target),
                    ("grpc_method", peer.method),
                ]);
                self.requests.add(labels, 1);
            }
            Happening::Ended { peer, code, severity, took } => {
                let labels = labels(&[
                    function_name,
                    function_revision,
                    ("function_package", package),
                    ("grpc_target", peer.target),
                    ("grpc_method", peer.method),
                    ("grpc_code", code),
                    ("result_severity", severity),
                ]);
                self.seconds.observe(labels.clone(), took);
                self.responses.add(labels, 1);
            }
            Happening::Recalled => self.cache_hits.add(cached(), 1),
            Happening::NotRecalled => self.cache_misses.add(cached(), 1),
            Happening::Kept { bytes } => {
                self.cache_writes.add(cached(), 1);
                self.cache_bytes.add(cached(), i64::try_from(bytes).unwrap_or(i64::MAX));
            }
        }
    }
}
