//! Decides everything about a composite resource before and after its pipeline.
//!
//! ```text
//! begin ─▶ Paused | Deleting | Run ─▶ composite_for_functions ─▶ observe ─▶ the conversation ─▶ conclude
//! ```
//!
//! Controllers, `render` and `replay` all decide here, from facts that they pass. Where they differ, they differ in a fact, never in a
//! rule or a text.

mod begin;
mod conclude;
mod connection;
mod events;
mod machinery;
mod observe;

pub use begin::{Begin, Selected, begin, composite_for_functions};
pub use conclude::{Circuit, Conclusion, Ending, Facts, Published, conclude};
pub use connection::{
    BadSecret, ConnectionDetails, SecretReference, composed_connection_details, composite_connection_secret,
    connection_secret, decode_secret, may_be_connection_secret_of, own_connection_details, secret_data,
};
pub use events::{
    COMPOSE, PAUSED_CONDITION, PAUSED_EVENT, PUBLISH, RECONCILIATION_PAUSED, SELECT, published_event,
    selection_events,
};
pub(crate) use machinery::match_labels;
pub use machinery::{
    Machinery, OWN_STATUS, keep_machinery, machinery_to_record, remove_own_status, set_recorded,
    set_references,
};
pub use observe::{Unidentified, disown, disowning_labels, observe, resource_name};
