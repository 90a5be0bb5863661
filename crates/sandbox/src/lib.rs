//! Runs foreign programs in OCI containers, within limits, and cleans up after them.
//!
//! Knows neither Kubernetes nor the function protocol: bytes go in, bytes come out.
