//! Functions are rolled out and intercepted with the real binary and with real function processes, which are called over mTLS and misbehave.

mod faults;
mod fleet;
mod intercept;
mod kills;
mod program;
