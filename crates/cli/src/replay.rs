//! What was recorded: finds it, and shows it.

pub(crate) mod again;
pub(crate) mod differences;
pub(crate) mod listed;
pub(crate) mod shown;
pub(crate) mod then;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ferroplane_recorder::{Archive, Head, Recording};
use jiff::{SignedDuration, Timestamp};

use crate::duration;
use crate::up::data_directory;

/// Where recordings are in a data directory.
pub(crate) const RECORDINGS: &str = "recordings";

/// Where recordings are
#[derive(Debug, clap::Args)]
pub(crate) struct Recordings {
    /// Where the control plane keeps everything [default: that of `ferroplane up`]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// A file that `ferroplane replay export` wrote, or a directory of recordings. Wins over the data directory
    #[arg(long, value_name = "PATH")]
    recordings: Option<PathBuf>,
}

/// Which recording
#[derive(Debug, clap::Args)]
pub(crate) struct Chosen {
    /// A number, as `ferroplane replay list` shows it, or `KIND/NAME` for the last one of a composite resource
    #[arg(value_name = "ID|KIND/NAME")]
    pub(crate) which: Option<String>,

    /// The namespace of the composite resource
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// The last one that had begun by then: a time such as 2026-01-31T12:00:00Z, or so long ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) at: Option<Timestamp>,
}

/// A moment in time, or how long ago it was. For `clap`.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = duration::parse(text)
        .map_err(|_| format!("expected a time such as 2026-01-31T12:00:00Z or 2h, got `{text}`"))?;
    let ago = SignedDuration::try_from(ago).map_err(|error| error.to_string())?;
    Timestamp::now().checked_sub(ago).map_err(|error| error.to_string())
}

impl Recordings {
    /// Those in a data directory, or in a place of their own.
    pub(crate) fn at(data_dir: Option<&Path>, recordings: Option<&Path>) -> Self {
        Self { data_dir: data_dir.map(Path::to_owned), recordings: recordings.map(Path::to_owned) }
    }

    fn archive(&self) -> anyhow::Result<Archive> {
        if let Some(path) = &self.recordings {
            return Ok(Archive::open(path)?);
        }
        let directory = self.data_dir.clone().map_or_else(data_directory, Ok)?;
        let recordings = directory.join(RECORDINGS);
        if !recordings.is_dir() {
            bail!(
                "nothing was recorded in `{}`: `ferroplane up --data-dir` says where it keeps everything",
                directory.display()
            );
        }
        Ok(Archive::open(&recordings)?)
    }

    /// What there is of a composite resource, or of all, oldest first.
    pub(crate) fn heads(&self, what: Option<&str>, namespace: Option<&str>) -> anyhow::Result<Vec<Head>> {
        let mut heads = self.archive()?.heads()?;
        if let Some(what) = what {
            let (kind, name) = names(what)?;
            heads.retain(|head| is_meant(head, kind, name, namespace));
        }
        Ok(heads)
    }

    /// The one that is meant.
    pub(crate) fn get(&self, chosen: &Chosen) -> anyhow::Result<Recording> {
        let id = self.id(chosen)?;
        let recording = self.archive()?.get(id)?.with_context(|| gone(id))?;
        recording.with_context(|| format!("cannot read recording {id}"))
    }

    pub(crate) fn export(&self, chosen: &Chosen) -> anyhow::Result<Vec<u8>> {
        let id = self.id(chosen)?;
        self.archive()?.export(id)?.with_context(|| gone(id))
    }

    fn id(&self, chosen: &Chosen) -> anyhow::Result<u64> {
        let heads = match chosen.which.as_deref() {
            Some(which) if which.parse::<u64>().is_ok() => return Ok(which.parse()?),
            // A file may hold the only one there is.
            None if self.recordings.is_some() => self.heads(None, None)?,
            None => bail!("say which recording: its number, or KIND/NAME"),
            Some(what) => self.heads(Some(what), chosen.namespace.as_deref())?,
        };
        let what = chosen.which.as_deref().unwrap_or("it");
        let Some(first) = heads.first() else { bail!("nothing was recorded of `{what}`") };
        let had_begun = |head: &&Head| chosen.at.is_none_or(|at| began_at(head) <= at);
        let last = heads.iter().rev().find(had_begun).with_context(|| {
            format!("nothing is recorded of `{what}` from that time: the oldest is of {}", began_at(first))
        });
        Ok(last?.id)
    }
}

/// When a reconcile began.
pub(crate) fn began_at(head: &Head) -> Timestamp {
    let milliseconds = i64::try_from(head.began_at).unwrap_or_default();
    Timestamp::from_millisecond(milliseconds).unwrap_or_default()
}

fn gone(id: u64) -> String {
    format!("there is no recording {id} (any more); `ferroplane replay list` shows what there is")
}

fn names(what: &str) -> anyhow::Result<(&str, &str)> {
    match what.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok((kind, name)),
        _ => bail!("cannot tell what is meant by `{what}`: name a composite resource as KIND/NAME"),
    }
}

/// Whether it is of this one. There is no server to ask for other names of a kind.
fn is_meant(head: &Head, kind: &str, name: &str, namespace: Option<&str>) -> bool {
    let (asked, rest) = kind.split_once('.').unwrap_or((kind, ""));
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

    #[test]
    fn moments_are_times_or_ages() {
        assert_eq!(moment("2026-01-31T12:00:00Z").unwrap().to_string(), "2026-01-31T12:00:00Z");
        assert!(moment("2h").unwrap() < Timestamp::now());
        assert!(moment("yesterday").is_err());
    }
}
