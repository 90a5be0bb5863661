//! Images that are unpacked, and can be run at once.
//!
//! # Invariants
//! * A second request for the same image from the same registry waits for the first one, instead of fetching it again.
//! * An image is not removed while something uses it.
//! * A request never waits for another image: one that is being fetched makes no room.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_image::registry::PullPolicy;
use ferroplane_image::unpack::Root;
use ferroplane_image::{Digest, Execution, Reference};
use ferroplane_sandbox::{Container, ImageConfig};
use tokio::time::Instant;

use super::code::{self, CompiledCode};
use super::error::ImageError;
use super::source::{Found, when};
use super::{Files, ImageSource, Images, MOST_UNPACKED_BYTES, blocking};

/// How many images are kept unpacked for the next call. There are more only while all of them are being fetched.
const MOST_READY: usize = 64;

/// An image that is unpacked. It stays so until this is dropped.
#[derive(Debug)]
pub struct ReadyImage {
    root: Root,
    config: ImageConfig,
    digest: Digest,
    /// Where its program is, if that is WebAssembly.
    code: Option<String>,
    #[cfg_attr(not(feature = "wasm"), expect(dead_code, reason = "nothing is compiled in this build"))]
    compiled: CompiledCode,
}

impl ReadyImage {
    /// The root directory of the image. It must not be written to.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// The digest of its manifest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The default command.
    pub(super) fn container(&self) -> Container {
        Container::new(self.path(), self.config.clone())
    }

    /// Where its program is, if that is WebAssembly.
    pub(super) fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    #[cfg(feature = "wasm")]
    pub(super) fn compiled(&self) -> &CompiledCode {
        &self.compiled
    }

    pub(super) fn has_program(&self) -> bool {
        !self.config.entrypoint.is_empty() || !self.config.cmd.is_empty()
    }
}

/// Images by where they come from.
#[derive(Debug, Default)]
pub(super) struct ReadyImages(Mutex<HashMap<ImageSource, Slot>>);

#[derive(Debug, Clone)]
struct Slot {
    image: Arc<tokio::sync::Mutex<Option<Fetched>>>,
    used_at: Instant,
}

#[derive(Debug)]
struct Fetched {
    image: Arc<ReadyImage>,
    at: Instant,
}

impl ReadyImages {
    /// The place of an image, and the images that had to make room for it.
    fn slot(&self, source: &ImageSource) -> (Slot, Vec<Slot>) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(slot) = slots.get_mut(source) {
            slot.used_at = now;
            return (slot.clone(), Vec::new());
        }
        let mut gone = Vec::new();
        while slots.len() >= MOST_READY {
            let Some(oldest) = oldest_unused(&slots) else { break };
            gone.extend(slots.remove(&oldest));
        }
        let slot = Slot { image: Arc::default(), used_at: now };
        slots.insert(source.clone(), slot.clone());
        (slot, gone)
    }
}

/// The image that was not used for the longest time. Tasks that fetch one or wait for it hold its slot.
fn oldest_unused(slots: &HashMap<ImageSource, Slot>) -> Option<ImageSource> {
    let unused = slots.iter().filter(|(_, slot)| Arc::strong_count(&slot.image) == 1);
    unused.min_by_key(|(_, slot)| slot.used_at).map(|(source, _)| source.clone())
}

impl Images {
    /// Fetch and unpack an image, unless that was done before and need not be done again.
    pub async fn prepare(&self, source: &ImageSource) -> Result<Arc<ReadyImage>, ImageError> {
        let began_at = Instant::now();
        let (slot, gone) = self.inner.ready.slot(source);
        for gone in gone {
            self.forget(gone).await;
        }
        let mut fetched = slot.image.lock().await;
        let is_looked_at = is_looked_at(source)?;
        // Another task may have fetched it while this one waited.
        if let Some(fetched) = fetched.as_ref().filter(|fetched| !is_looked_at || fetched.at >= began_at) {
            return Ok(fetched.image.clone());
        }
        let files = self.files().await?;
        let found = self.find(source, &files.store).await?;
        let at = Instant::now();
        let image = match fetched.take().map(|fetched| fetched.image) {
            Some(known) if known.digest == found.image.digest => known,
            _ => Arc::new(unpack(files.clone(), found).await?),
        };
        *fetched = Some(Fetched { image: image.clone(), at });
        Ok(image)
    }

    /// Let the runtime forget an image that is not kept any more.
    async fn forget(&self, slot: Slot) {
        let fetched = Arc::into_inner(slot.image).and_then(tokio::sync::Mutex::into_inner);
        let path = fetched.map(|fetched| fetched.image.path().to_owned());
        if let (Some(path), Some(runtime)) = (path, self.inner.runtime.get()) {
            runtime.forget(&path).await;
        }
    }
}

/// Whether the source has to be checked every time.
fn is_looked_at(source: &ImageSource) -> Result<bool, ImageError> {
    Ok(match source {
        ImageSource::Registry { reference, policy, .. } => {
            when(&Reference::parse(reference, None)?, *policy) == PullPolicy::Always
        }
        ImageSource::Path(_) => true,
    })
}

async fn unpack(files: Files, found: Found) -> Result<ReadyImage, ImageError> {
    let unpack = move || {
        let root = files.roots.get(&files.store, &found.image)?;
        // Its layers had to stay until now.
        drop(found.pin);
        // Not a reason to fail: there may be room for years to come.
        let _ = files.roots.collect(MOST_UNPACKED_BYTES);
        let config = image_config(found.image.config.config.unwrap_or_default());
        let code = code::find(root.path(), &config);
        Ok(ReadyImage { root, config, digest: found.image.digest, code, compiled: CompiledCode::default() })
    };
    blocking(unpack).await?
}

fn image_config(execution: Execution) -> ImageConfig {
    ImageConfig {
        user: execution.user.unwrap_or_default(),
        env: execution.env.unwrap_or_default(),
        working_dir: execution.working_dir.unwrap_or_default(),
        entrypoint: execution.entrypoint.unwrap_or_default(),
        cmd: execution.cmd.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: usize) -> ImageSource {
        ImageSource::reference(format!("registry.example.org/a:{number}"))
    }

    #[test]
    fn image_that_is_being_fetched_makes_no_room_for_others() {
        let ready = ReadyImages::default();
        let (fetching, _) = ready.slot(&source(0));
        for number in 1..=2 * MOST_READY {
            let (_, gone) = ready.slot(&source(number));
            assert_eq!(gone.len(), usize::from(number >= MOST_READY), "{number}");
            assert!(gone.iter().all(|slot| !Arc::ptr_eq(&slot.image, &fetching.image)));
        }
        let (again, _) = ready.slot(&source(0));
        assert!(Arc::ptr_eq(&again.image, &fetching.image));
    }

    #[test]
    fn request_waits_for_none_of_the_images_that_are_being_fetched() {
        let ready = ReadyImages::default();
        let fetching: Vec<_> = (0..MOST_READY).map(|number| ready.slot(&source(number)).0).collect();
        let (_, gone) = ready.slot(&source(MOST_READY));
        assert!(gone.is_empty());
        drop(fetching);
        let (_, gone) = ready.slot(&source(MOST_READY + 1));
        assert_eq!(gone.len(), 2, "there were more than are kept");
    }
}
