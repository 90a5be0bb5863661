//! Runs foreign code as WebAssembly in our own process, within limits.
//!
//! Knows neither Kubernetes nor the function protocol: bytes go in, bytes come out.
