//! Artefacts in a registry.

use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::registry::{Push, Registry};
use ferroplane_image::store::{Limits as StoreLimits, Store};
use ferroplane_image::tar::{Member, Writer};
use ferroplane_image::{Descriptor, Digest, Manifest, Platform, Reference, media_type};
use ferroplane_remote_templates::{Error, Fetcher, Limits, Options};
use ferroplane_testkit::{DebianRegistry, RegistrySetup};

use crate::{chain, fetcher, files, options};

/// Media type, content and annotations.
type PushedLayer<'l> = (&'l str, &'l [u8], &'l [(&'l str, &'l str)]);

/// Artefacts in Debian's registry on the loopback.
struct ArtifactRegistry {
    debian: DebianRegistry,
}

impl ArtifactRegistry {
    /// Nothing if it is not installed, and nobody insists.
    fn start() -> Option<Self> {
        Some(Self { debian: DebianRegistry::start(&RegistrySetup::default())? })
    }

    fn host(&self) -> &str {
        &self.debian.address
    }

    fn store(&self) -> Store {
        Store::open(self.debian.directory().join("store"), StoreLimits::default()).unwrap()
    }

    /// Pushes an image or artefact of our store, and tells what pins it.
    async fn push(&self, digest: &Digest) -> String {
        let reference: Reference = format!("{}/platform/templates:v1", self.host()).parse().unwrap();
        let registry = Registry::new(ferroplane_image::registry::Options::default()).unwrap();
        registry.push(&reference, digest, &Push::from(&self.store())).await.unwrap();
        format!("oci://{}/platform/templates@{digest}", self.host())
    }

    /// Pushes an artefact with these layers.
    async fn push_layers(&self, layers: &[PushedLayer<'_>]) -> String {
        let store = self.store();
        let layers = layers.iter().map(|(media_type, content, annotations)| {
            store.write(content).unwrap();
            let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Descriptor { annotations: annotations.collect(), ..Descriptor::of(media_type, content) }
        });
        let layers = layers.collect();
        store.write(b"{}").unwrap();
        let manifest = Manifest::new(Descriptor::of(media_type::OCI_EMPTY, b"{}"), layers);
        let digest = store.write(&manifest.to_bytes()).unwrap();
        self.push(&digest).await
    }
}

#[tokio::test]
async fn files_of_an_image_are_templates() {
    let Some(registry) = ArtifactRegistry::start() else { return };
    let mut lower = Layer::new();
    for (name, text) in [("web/a.tmpl", "old"), ("other/b.tmpl", "no"), ("web/.x", "no")] {
        lower.add_bytes(text.as_bytes().to_vec(), name, false).unwrap();
    }
    lower.add_symlink("/etc/passwd", "web/link").unwrap();
    let mut upper = Layer::new();
    upper.add_bytes(b"new".to_vec(), "web/a.tmpl", false).unwrap();
    let mut image = ImageBuilder::new(Platform::host());
    image.layers = vec![lower, upper];
    let remote = registry.push(&image.build(&registry.store()).unwrap().digest).await;
    let fetched = fetcher(&[&format!("{}/platform", registry.host())]).fetch(&format!("{remote}#web")).await;
    let fetched = fetched.map_err(|error| chain(&error)).unwrap();
    assert_eq!(files(&fetched), [("a.tmpl".to_owned(), "new".to_owned())].into());
}

#[tokio::test]
async fn digest_that_is_not_there_is_told() {
    let Some(registry) = ArtifactRegistry::start() else { return };
    let remote = format!("oci://{}/platform/templates@sha256:{}", registry.host(), "ab".repeat(32));
    let error = fetcher(&[registry.host()]).fetch(&remote).await.unwrap_err();
    assert!(chain(&error).contains("cannot pull"), "{}", chain(&error));
}

/// An archive with these files.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for (name, text) in files {
        writer.add_file(Member::file(name.as_bytes(), 0o644, text.len() as u64), text.as_bytes()).unwrap();
    }
    writer.finish().unwrap()
}

#[tokio::test]
async fn upper_layers_remove_what_is_below_them_and_nothing_of_their_own() {
    let Some(registry) = ArtifactRegistry::start() else { return };
    let lower = archive(&[("web/gone.tmpl", "x"), ("web/sub/gone.tmpl", "x"), ("web/stays.tmpl", "1")]);
    let upper = archive(&[
        ("web/sub/new.tmpl", "2"),
        ("web/.wh.gone.tmpl", ""),
        ("web/sub/.wh..wh..opq", ""),
        ("../../etc/passwd", "no"),
    ]);
    let layers: [PushedLayer<'_>; 2] =
        [(media_type::OCI_LAYER, &lower, &[]), (media_type::OCI_LAYER, &upper, &[])];
    let remote = registry.push_layers(&layers).await;
    let fetched = fetcher(&[registry.host()]).fetch(&format!("{remote}#web")).await;
    let fetched = fetched.map_err(|error| chain(&error)).unwrap();
    let names: Vec<_> = files(&fetched).into_keys().collect();
    assert_eq!(names, ["stays.tmpl", "sub/new.tmpl"]);
}

/// What ORAS pushes: files that are layers, and directories that are archives.
#[tokio::test]
async fn files_that_are_layers_of_an_artefact_are_templates() {
    let Some(registry) = ArtifactRegistry::start() else { return };
    let title = "org.opencontainers.image.title";
    let mut archive = Vec::new();
    let mut directory = Layer::new();
    directory.add_bytes(b"packed".to_vec(), "web/b.tmpl", false).unwrap();
    directory.write_archive(&mut archive).unwrap();
    let unpack = [(title, "web"), ("io.deis.oras.content.unpack", "true")];
    let layers: [PushedLayer<'_>; 3] = [
        (media_type::OCI_LAYER, b"plain", &[(title, "web/a.tmpl")]),
        (media_type::OCI_LAYER, &archive, &unpack),
        ("text/plain", b"no", &[(title, "../c.tmpl")]),
    ];
    let remote = registry.push_layers(&layers).await;
    let fetched = fetcher(&[registry.host()]).fetch(&format!("{remote}#web")).await;
    let fetched = fetched.map_err(|error| chain(&error)).unwrap();
    assert_eq!(
        files(&fetched),
        [("a.tmpl".to_owned(), "plain".to_owned()), ("b.tmpl".to_owned(), "packed".to_owned())].into()
    );
}

#[tokio::test]
async fn artefact_that_is_no_text_or_too_large_is_refused() {
    let Some(registry) = ArtifactRegistry::start() else { return };
    let title = "org.opencontainers.image.title";
    let binary = registry.push_layers(&[("text/plain", b"\xff", &[(title, "a.tmpl")])]).await;
    let error = fetcher(&[registry.host()]).fetch(&binary).await.unwrap_err();
    assert_eq!(error.to_string(), "file `a.tmpl` is not text");
    let broken = registry.push_layers(&[(media_type::OCI_LAYER_GZIP, b"no archive", &[])]).await;
    let error = fetcher(&[registry.host()]).fetch(&broken).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot read layer sha256:"), "{error}");
    let large = registry.push_layers(&[("text/plain", &[b'x'; 5000], &[(title, "a.tmpl")])]).await;
    let with = |limits: Limits| Fetcher::new(Options { limits, ..options(&[registry.host()]) }).unwrap();
    let error = with(Limits { bytes: 4999, ..Limits::default() }).fetch(&large).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{}", chain(&error));
    let error = with(Limits { transfer: 4999, ..Limits::default() }).fetch(&large).await.unwrap_err();
    assert!(matches!(error, Error::Registry(_)), "{}", chain(&error));
    with(Limits::default()).fetch(&large).await.unwrap();
}
