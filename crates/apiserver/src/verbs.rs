//! What can be done with objects, the same for all kinds.

mod delete;
mod list;
mod scale;
mod selection;
mod translations;
mod view;
mod watch;
mod write;

pub(crate) use delete::{Deleted, FOREGROUND, ORPHAN, delete, success};
pub(crate) use list::{Page, expired};
pub(crate) use scale::scale_of;
pub(crate) use selection::Selection;
pub(crate) use view::{Rows, Seen, View, present};
pub(crate) use watch::{Subject, answer as watch, refuse as refuse_watch, too_old};
pub(crate) use write::{Outcome, Place, metadata_text, unavailable, write};
