//! Records reconciles: their inputs, the responses of functions, the decision and the result.
//!
//! The engine is a conversation, so its inputs and what was said to it are enough to have the same run again
//! ([`RecordedRun::replay`]). A [`RecordingBuilder`] is what a reconcile records as it goes; a [`Recorder`] takes the secrets out of it and keeps it
//! in a ring of bounded size, off the reconcile's way; an [`Archive`] reads the ring, also while it is written to.
//!
//! # Invariants
//! * Nothing that is a secret leaves this process: values of Secrets, credentials and connection details become placeholders before
//!   anything is written, wherever they turn up. Equal values have equal placeholders, so that what is left can be replayed.
//! * A reconcile never waits for its recording. What cannot be kept is dropped and counted.
//! * The ring never grows beyond its size, and whatever is in its files, reading them does not fail.

mod archive;
mod builder;
mod decode;
mod encode;
mod format;
mod frame;
mod outcome_snapshot;
mod phase_calls;
mod recorder;
mod recording;
mod redact;
mod sensitive_fields;
mod sensitive_kinds;

pub use archive::{Archive, Unreadable};
pub use builder::RecordingBuilder;
pub use format::{Ending, Head};
pub use outcome_snapshot::outcome_snapshot;
pub use phase_calls::{RecordedCall, ReplayedCall};
pub use recorder::{Recorder, Uncreatable};
pub use recording::{Damaged, RecordedRun, Recording, Replayed};
pub use redact::{BadFieldName, FieldName};
pub use sensitive_fields::SensitiveFields;
