//! Unpacked images: once for everybody, and nothing is left of what was interrupted.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::store::{self, Store};
use ferroplane_image::unpack::{Limits, Roots};
use ferroplane_image::{Image, Manifest, Platform, media_type};
use tempfile::TempDir;

use crate::unpack::{chain, list};

pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) store: Store,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let store = Store::open(directory.path().join("store"), store::Limits::default()).unwrap();
        Self { directory, store }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::open(self.path("roots"), Limits::default()).unwrap()
    }

    /// An image of one file.
    pub(crate) fn image(&self, content: &str) -> Image {
        let mut layer = Layer::new();
        layer.add_bytes(content.as_bytes().to_vec(), "etc/file", false).unwrap();
        let mut builder = ImageBuilder::new(Platform::host());
        builder.layers.push(layer);
        let descriptor = builder.build(&self.store).unwrap();
        Image::load(&self.store, &descriptor.digest).unwrap()
    }
}

#[test]
fn image_is_unpacked_once() {
    let fixture = Fixture::new();
    let (image, roots) = (fixture.image("one"), fixture.roots());
    let root = roots.get(&fixture.store, &image).unwrap();
    assert_eq!(fs::read_to_string(root.path().join("etc/file")).unwrap(), "one");
    // Something that a second unpacking would remove.
    fs::write(root.path().join("mark"), "").unwrap();
    let again = fixture.roots().get(&fixture.store, &image).unwrap();
    assert_eq!(list(again.path()), ["etc", "etc/file", "mark"]);
}

#[test]
fn image_belongs_to_who_runs_it() {
    use std::os::unix::fs::MetadataExt as _;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image("one");
    let owner_of = |owner: Option<u32>| {
        let root = fixture.roots().for_owner(owner).get(&fixture.store, &image).unwrap();
        ["etc", "etc/file"].map(|name| {
            let metadata = fs::metadata(root.path().join(name)).unwrap();
            (metadata.uid(), metadata.gid())
        })
    };
    assert_eq!(owner_of(None), [(0, 0); 2]);
    assert_eq!(
        owner_of(Some(1234)),
        [(1234, 1234); 2],
        "what was unpacked for another user is unpacked again"
    );
}

#[test]
fn many_who_want_the_same_image_get_it() {
    let fixture = Fixture::new();
    let image = fixture.image("one");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let root = fixture.roots().get(&fixture.store, &image).unwrap();
                assert_eq!(list(root.path()), ["etc", "etc/file"]);
            });
        }
    });
    let name = image.digest.hex();
    let mut left = names(&fixture.path("roots"));
    left.sort();
    assert_eq!(left, [name.to_owned(), format!("{name}.lock")]);
}

fn names(directory: &Path) -> Vec<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn what_was_interrupted_is_removed() {
    let fixture = Fixture::new();
    let image = fixture.image("one");
    let partial = fixture.path("roots").join(format!("{}.partial", image.digest.hex()));
    fs::create_dir_all(partial.join("rootfs/half")).unwrap();
    fixture.roots();
    assert!(names(&fixture.path("roots")).is_empty());

    fs::create_dir_all(partial.join("rootfs/half")).unwrap();
    let roots = fixture.roots();
    fs::create_dir_all(partial.join("rootfs/half")).unwrap();
    let root = roots.get(&fixture.store, &image).unwrap();
    assert_eq!(list(root.path()), ["etc", "etc/file"]);
}

#[test]
fn what_another_process_unpacks_is_left_alone() {
    let fixture = Fixture::new();
    let name = fixture.image("one").digest.hex().to_owned();
    let partial = fixture.path("roots").join(format!("{name}.partial"));
    fs::create_dir_all(&partial).unwrap();
    let lock = fixture.path("roots").join(format!("{name}.lock"));
    // util-linux has a lock of the same kind, in a process of its own.
    let mut command = Command::new("flock");
    command.arg(&lock).args(["sh", "-c", "echo locked; cat"]);
    let mut other = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(other.stdout.take().unwrap()), &mut said)
        .unwrap();
    fixture.roots();
    assert!(partial.exists());
    drop(other.stdin.take());
    other.wait().unwrap();
    fixture.roots();
    assert!(!partial.exists());
}

#[test]
fn image_of_an_earlier_boot_is_unpacked_again() {
    let fixture = Fixture::new();
    let (image, roots) = (fixture.image("one"), fixture.roots());
    let root = roots.get(&fixture.store, &image).unwrap().path().to_owned();
    fs::write(root.join("etc/file"), "").unwrap();
    let marker = root.parent().unwrap().join("unpacked.json");
    let text = fs::read_to_string(&marker).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::write(&marker, text.replace(boot.trim(), "another-boot")).unwrap();
    roots.get(&fixture.store, &image).unwrap();
    assert_eq!(fs::read_to_string(root.join("etc/file")).unwrap(), "one");
}

#[test]
fn image_that_is_refused_leaves_nothing() {
    let fixture = Fixture::new();
    let (mut image, other) = (fixture.image("one"), fixture.image("two"));
    // Its configuration describes the layer of another image.
    image.config = other.config;
    let error = fixture.roots().get(&fixture.store, &image).unwrap_err();
    assert!(chain(&error).contains("cannot trust the layer"), "{}", chain(&error));
    image.manifest.layers[0].media_type = "application/x-other".to_owned();
    let error = fixture.roots().get(&fixture.store, &image).unwrap_err();
    assert!(chain(&error).contains("it is not a layer of a file system"), "{}", chain(&error));
    assert_eq!(names(&fixture.path("roots")), [format!("{}.lock", image.digest.hex())]);
}

#[test]
fn unused_images_are_removed_and_used_ones_stay() {
    let fixture = Fixture::new();
    let (one, two, roots) = (fixture.image("one"), fixture.image("three"), fixture.roots());
    let used = roots.get(&fixture.store, &one).unwrap();
    drop(roots.get(&fixture.store, &two).unwrap());
    assert_eq!(roots.collect(100).unwrap(), 0, "there is room");
    assert_eq!(roots.collect(4).unwrap(), 1);
    assert_eq!(list(used.path()), ["etc", "etc/file"]);
    drop(used);
    assert_eq!(roots.collect(0).unwrap(), 1);
    assert!(names(&fixture.path("roots")).is_empty());
    drop(roots.get(&fixture.store, &two).unwrap());
}

#[test]
fn manifest_is_written_as_oci_has_it() {
    let fixture = Fixture::new();
    let image = fixture.image("one");
    let Manifest { media_type, layers, .. } = image.manifest;
    assert_eq!(media_type.as_deref(), Some(media_type::OCI_MANIFEST));
    assert_eq!(layers[0].media_type, media_type::OCI_LAYER_GZIP);
}
