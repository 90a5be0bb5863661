//! What can be done with objects, the same for all kinds.

mod beside_others;
mod conversions;
mod delete;
mod list;
mod scale;
mod selection;
mod subject;
mod view;
mod watch;
mod write;

pub(crate) use beside_others::{UNBOUNDED, beside_others};
pub(crate) use delete::{Deleted, FOREGROUND, ORPHAN, delete, success};
pub(crate) use list::{Page, expired};
pub(crate) use scale::scale_of;
pub(crate) use selection::Selection;
pub(crate) use subject::Subject;
pub(crate) use view::{Rows, VersionedObject, View, present};
pub(crate) use watch::{WatchOptions, refuse as refuse_watch, start as watch, too_old};
pub(crate) use write::{ObjectLocation, WriteOutcome, WriteRequest, metadata_text, storage_failure, write};
