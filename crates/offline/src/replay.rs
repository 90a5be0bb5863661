//! Finds and shows recordings.

pub mod comparison;
pub mod document;
pub mod listing;
pub mod phases;
pub mod rerun;

use std::path::PathBuf;

use ferroplane_recorder::{Archive, Damaged, Head, Recording, Unreadable};
use jiff::Timestamp;

use crate::times;

/// Where recordings are in a data directory.
pub const RECORDINGS: &str = "recordings";

/// Recordings to choose from.
#[derive(Debug)]
pub enum Recordings {
    /// Those of a control plane, by its data directory.
    DataDirectory(PathBuf),
    /// A file that `ferroplane replay export` wrote, or a directory of recordings.
    Path(PathBuf),
}

/// Why a recording cannot be obtained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "there are no recordings in `{}`: is this the --data-dir of `ferroplane up`?",
        .0.display()
    )]
    NothingRecorded(PathBuf),

    #[error("name a recording: its ID, or KIND/NAME")]
    NoneSelected,

    #[error("cannot find an object by `{0}`: write KIND/NAME")]
    Unclear(String),

    #[error("there are no recordings of `{0}`")]
    Unknown(String),

    #[error("there are no recordings of `{what}` from that time: the oldest is of {}", local(.oldest))]
    TooEarly { what: String, oldest: Timestamp },

    #[error("there is no recording {0} (any more); `ferroplane replay list` lists them")]
    Gone(u64),

    #[error("cannot read recording {id}")]
    Damaged { id: u64, source: Damaged },

    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// Which recording is meant.
#[derive(Debug, Default)]
pub struct Selector {
    /// A number, or `KIND/NAME` for the last one of a composite resource.
    pub which: Option<String>,
    /// The namespace of the composite resource.
    pub namespace: Option<String>,
    /// The last one that had begun by then.
    pub at: Option<Timestamp>,
}

impl Recordings {
    fn archive(&self) -> Result<Archive, Error> {
        let directory = match self {
            Self::Path(path) => return Ok(Archive::open(path)?),
            Self::DataDirectory(directory) => directory,
        };
        let recordings = directory.join(RECORDINGS);
        // Asked first, so that a mistyped data directory is not reported as damaged recordings.
        if !recordings.is_dir() {
            return Err(Error::NothingRecorded(directory.clone()));
        }
        Ok(Archive::open(&recordings)?)
    }

    /// The recordings of a composite resource, or of all, oldest first.
    pub fn heads(&self, what: Option<&str>, namespace: Option<&str>) -> Result<Vec<Head>, Error> {
        let mut heads = self.archive()?.heads()?;
        if let Some(what) = what {
            let (kind, name) = names(what)?;
            heads.retain(|head| is_meant(head, kind, name, namespace));
        }
        Ok(heads)
    }

    /// The one that is meant.
    pub fn get(&self, selector: &Selector) -> Result<Recording, Error> {
        let id = self.id(selector)?;
        let recording = self.archive()?.get(id)?.ok_or(Error::Gone(id))?;
        recording.map_err(|source| Error::Damaged { id, source })
    }

    pub fn export(&self, selector: &Selector) -> Result<Vec<u8>, Error> {
        let id = self.id(selector)?;
        self.archive()?.export(id)?.ok_or(Error::Gone(id))
    }

    fn id(&self, selector: &Selector) -> Result<u64, Error> {
        // A number is never a composite resource: those have a slash in them.
        if let Some(Ok(id)) = selector.which.as_deref().map(str::parse) {
            return Ok(id);
        }
        let heads = match selector.which.as_deref() {
            // A file may hold the only one there is.
            None if matches!(self, Self::Path(_)) => self.heads(None, None)?,
            None => return Err(Error::NoneSelected),
            Some(what) => self.heads(Some(what), selector.namespace.as_deref())?,
        };
        let what = selector.which.as_deref().unwrap_or("it");
        let first = heads.first().ok_or_else(|| Error::Unknown(what.to_owned()))?;
        let had_begun = |head: &&Head| selector.at.is_none_or(|at| began_at(head) <= at);
        let too_early = || Error::TooEarly { what: what.to_owned(), oldest: began_at(first) };
        // They are sorted by age, so that the first that fits from behind is the last that had begun.
        Ok(heads.iter().rev().find(had_begun).ok_or_else(too_early)?.id)
    }
}

fn local(time: &Timestamp) -> String {
    times::local(*time)
}

/// When a reconcile began.
pub fn began_at(head: &Head) -> Timestamp {
    let milliseconds = i64::try_from(head.began_at).unwrap_or_default();
    Timestamp::from_millisecond(milliseconds).unwrap_or_default()
}

fn names(what: &str) -> Result<(&str, &str), Error> {
    match what.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok((kind, name)),
        _ => Err(Error::Unclear(what.to_owned())),
    }
}

/// Whether it is of this one. There is no server to ask for other names of a kind.
fn is_meant(head: &Head, kind: &str, name: &str, namespace: Option<&str>) -> bool {
    let (asked, rest) = kind.split_once('.').unwrap_or((kind, ""));
    // The ways in which kubectl lets people write a kind: singular or plural, with or without group, in any case.
    let known = head.kind.to_lowercase();
    let asked = asked.to_lowercase();
    let group = head.api_version.split_once('/').map_or("", |(group, _)| group);
    (asked == known || asked.strip_suffix('s') == Some(&known) || asked.strip_suffix("es") == Some(&known))
        && (rest.is_empty() || rest == group || rest.ends_with(&format!(".{group}")))
        && head.name == name
        && namespace.is_none_or(|namespace| head.namespace == namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composite_resources_are_called_in_many_ways() {
        let head = Head {
            api_version: "e.org/v1".to_owned(),
            kind: "App".to_owned(),
            namespace: "n".to_owned(),
            name: "shop".to_owned(),
            ..Head::default()
        };
        for kind in ["app", "apps", "App", "app.e.org", "apps.v1.e.org"] {
            assert!(is_meant(&head, kind, "shop", None), "{kind}");
        }
        for (kind, name, namespace) in [
            ("ap", "shop", None),
            ("app.x.org", "shop", None),
            ("app", "shops", None),
            ("app", "shop", Some("m")),
        ] {
            assert!(!is_meant(&head, kind, name, namespace), "{kind}/{name}");
        }
    }
}
