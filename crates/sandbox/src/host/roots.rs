//! Root file systems: the files of an image, with the directories that a container needs laid over them.
//!
//! An overlay of two read-only layers: it cannot be written to, so that all containers of an image share one. Directories of ours hide what the
//! image has in their place, links included. Where the kernel allows no overlay in a user namespace (before 5.11), or none over the file
//! system of the image, the image is copied into memory.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::mounts::{SCRATCH, SCRATCH_MIB};

/// How many images are kept ready.
const MOST_ROOTS: usize = 64;
/// What every program may know about names.
const HOSTS: &str = "127.0.0.1 localhost function\n::1 localhost\n";

#[derive(Debug, Default)]
pub(super) struct Roots {
    ready: HashMap<Key, Root>,
    /// Numbers are never used twice: the root of a container that still runs may have been forgotten.
    next: u64,
}

/// The same path can be another image later.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    rootfs: String,
    inode: (u64, u64),
    working_directory: String,
    mounted_on: Vec<String>,
}

#[derive(Debug)]
struct Root {
    number: u64,
    used: u64,
}

impl Roots {
    /// The root file system of an image, made ready if need be.
    pub(super) fn of(
        &mut self,
        rootfs: &str,
        working_directory: &str,
        mounted_on: &[String],
    ) -> io::Result<PathBuf> {
        let data = fs::metadata(rootfs)?;
        if !data.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        let key = Key {
            rootfs: rootfs.to_owned(),
            inode: (data.dev(), data.ino()),
            working_directory: working_directory.to_owned(),
            mounted_on: mounted_on.to_vec(),
        };
        self.next += 1;
        let now = self.next;
        if let Some(root) = self.ready.get_mut(&key) {
            root.used = now;
            return Ok(path_of(root.number));
        }
        self.make_room();
        // Half of an image must not stay: it would fill the memory that all containers share.
        make(now, &key).inspect_err(|_| remove(now))?;
        self.ready.insert(key, Root { number: now, used: now });
        Ok(path_of(now))
    }

    /// The files of an image are about to be deleted.
    pub(super) fn forget(&mut self, rootfs: &str) {
        let gone: Vec<Key> = self.ready.keys().filter(|key| key.rootfs == rootfs).cloned().collect();
        for key in &gone {
            self.drop_root(key);
        }
    }

    fn make_room(&mut self) {
        while self.ready.len() >= MOST_ROOTS {
            let oldest = self.ready.iter().min_by_key(|(_, root)| root.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.drop_root(&oldest);
        }
    }

    fn drop_root(&mut self, key: &Key) {
        if let Some(root) = self.ready.remove(key) {
            remove(root.number);
        }
    }
}

/// Remove a root, or the part of it that was made.
fn remove(number: u64) {
    let path = path_of(number);
    // Containers that still run keep theirs: they have mounts of their own.
    let is_overlay = unmount(&path, UnmountFlags::DETACH).is_ok();
    let _ = if is_overlay { fs::remove_dir(&path) } else { fs::remove_dir_all(&path) };
    let _ = fs::remove_file(layer_of(number));
    let _ = fs::remove_dir_all(skeleton_of(number));
}

fn path_of(number: u64) -> PathBuf {
    Path::new(SCRATCH).join(format!("roots/{number}"))
}

fn layer_of(number: u64) -> PathBuf {
    Path::new(SCRATCH).join(format!("layers/{number}"))
}

fn skeleton_of(number: u64) -> PathBuf {
    Path::new(SCRATCH).join(format!("skeletons/{number}"))
}

fn make(number: u64, key: &Key) -> io::Result<()> {
    let (root, skeleton, layer) = (path_of(number), skeleton_of(number), layer_of(number));
    let rootfs = &*key.rootfs;
    make_skeleton(&skeleton, rootfs, &key.working_directory)?;
    for directory in &key.mounted_on {
        fs::create_dir_all(skeleton.join(directory.trim_start_matches('/')))?;
    }
    fs::create_dir(&root)?;
    // Programs can read the options of a mount: a link keeps our paths to ourselves, and commas and colons out of the options.
    symlink(rootfs, &layer)?;
    let options = format!("lowerdir={}:{}", skeleton.display(), layer.display());
    let options = std::ffi::CString::new(options)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    match mount("overlay", &root, "overlay", flags, options.as_c_str()) {
        Ok(()) => Ok(()),
        Err(refusal) => copy(Path::new(rootfs), &root)
            .and_then(|()| copy(&skeleton, &root))
            .map_err(|error| explain_copy(refusal, &error)),
    }
}

/// Why an image was copied, and why that failed. It is the user who can move the image or get a newer kernel.
fn explain_copy(refusal: Errno, error: &io::Error) -> io::Error {
    let limit = match error.kind() {
        io::ErrorKind::StorageFull => {
            format!("; copies of all images together can have {SCRATCH_MIB} MiB")
        }
        _ => String::new(),
    };
    io::Error::other(format!(
        "the image cannot be laid under other directories ({refusal}), which needs Linux 5.11 and a file system that allows overlays, \
         and it cannot be copied into memory instead ({error}){limit}"
    ))
}

/// The directories that have to be there.
fn make_skeleton(skeleton: &Path, rootfs: &str, working_directory: &str) -> io::Result<()> {
    for directory in ["dev", "proc", "tmp"] {
        fs::create_dir_all(skeleton.join(directory))?;
    }
    // runc gives a tmpfs the mode of what it is mounted on.
    fs::set_permissions(skeleton.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    let image = openat(CWD, rootfs, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // A link in the place of `/etc` stays: its target has what the program needs.
    let etc = statat(&image, "etc", rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    if etc.is_err() || etc.is_ok_and(|etc| FileType::from_raw_mode(etc.st_mode) == FileType::Directory) {
        fs::create_dir(skeleton.join("etc"))?;
        fs::write(skeleton.join("etc/hosts"), HOSTS)?;
        fs::write(skeleton.join("etc/resolv.conf"), "")?;
    }
    let relative = working_directory.trim_matches('/');
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let is_there = relative.is_empty()
        || openat2(&image, relative, flags, Mode::empty(), ResolveFlags::IN_ROOT)
            .and_then(fstat)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory);
    if !is_there {
        fs::create_dir_all(skeleton.join(relative))?;
    }
    Ok(())
}

/// Copies directories, files and links over what is there. Anything else is left out.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        let is_in_the_way = target.symlink_metadata().is_ok_and(|there| !(there.is_dir() && kind.is_dir()));
        if is_in_the_way {
            fs::remove_file(&target).or_else(|_| fs::remove_dir_all(&target))?;
        }
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
            fs::set_permissions(&target, entry.metadata()?.permissions())?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skeleton(image: &Path, working_directory: &str) -> Vec<String> {
        let skeleton = tempfile::tempdir().expect("directory");
        make_skeleton(skeleton.path(), image.to_str().expect("path"), working_directory).expect("skeleton");
        let mut names: Vec<String> = fs::read_dir(skeleton.path())
            .expect("list")
            .map(|entry| entry.expect("entry").file_name().into_string().expect("name"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_working_directory_is_made_only_if_it_is_missing() {
        let image = tempfile::tempdir().expect("directory");
        assert_eq!(skeleton(image.path(), "/work/here"), ["dev", "etc", "proc", "tmp", "work"]);
        fs::create_dir(image.path().join("real")).expect("directory");
        symlink("/real", image.path().join("work")).expect("link");
        assert_eq!(skeleton(image.path(), "/work"), ["dev", "etc", "proc", "tmp"]);
    }

    #[test]
    fn a_link_in_the_place_of_etc_stays() {
        let image = tempfile::tempdir().expect("directory");
        symlink("/usr/etc", image.path().join("etc")).expect("link");
        assert_eq!(skeleton(image.path(), "/"), ["dev", "proc", "tmp"]);
    }

    #[test]
    fn a_copy_hides_links_of_the_image_below_our_directories() {
        let (image, root) = (tempfile::tempdir().expect("image"), tempfile::tempdir().expect("root"));
        symlink("/etc", image.path().join("proc")).expect("link");
        fs::write(image.path().join("program"), "x").expect("file");
        copy(image.path(), root.path()).expect("copy");
        let skeleton = tempfile::tempdir().expect("skeleton");
        fs::create_dir(skeleton.path().join("proc")).expect("directory");
        copy(skeleton.path(), root.path()).expect("copy");
        assert!(root.path().join("proc").symlink_metadata().expect("proc").is_dir());
        assert!(root.path().join("program").is_file());
    }
}
