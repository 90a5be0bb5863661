//! Finds the user that an image names, in the files of the image.
//!
//! Never leaves the image: links are resolved as the program would see them.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

use crate::error::SpecError;

/// Users that nothing else has; and, where so many do not exist, as in a container, the last but one of those that do.
const UNPRIVILEGED: [u32; 2] = [0x7000_0000, 65_532];

/// The user outside of containers whom their programs run as, if it is not our own: files that only their owner may read have to belong
/// to it, and to the group of the same number.
pub fn file_owner() -> Option<u32> {
    rustix::process::geteuid().is_root().then(unprivileged)
}

/// The first of the two users that programs run as if we are root.
pub(crate) fn unprivileged() -> u32 {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    first_mapped(&map)
}

/// The first candidate that exists, and the number after it, in the user namespace with this map.
fn first_mapped(map: &str) -> u32 {
    let rows = || {
        map.lines().filter_map(|line| {
            let mut numbers = line.split_whitespace().map(str::parse::<u64>);
            let (first, _, count) = (numbers.next()?.ok()?, numbers.next()?, numbers.next()?.ok()?);
            Some(first..first.saturating_add(count))
        })
    };
    let exists = |user: u64| rows().any(|row| row.contains(&user));
    let [usual, last] = UNPRIVILEGED;
    if exists(usual.into()) && exists(u64::from(usual) + 1) { usual } else { last }
}

/// The files of users are small. A user who writes a large one means no good.
const LARGEST_FILE: u64 = 1 << 20;

/// User and group as the program sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The user that `User` of an image configuration means: nothing, `user` or `user:group`, each a name or a number.
pub(crate) fn resolve(rootfs: &Path, text: &str) -> Result<User, SpecError> {
    let unknown = || SpecError::User { user: text.to_owned() };
    let (user, group) = match text.split_once(':') {
        None => (text, None),
        Some((user, group)) => (user, Some(group)),
    };
    let (uid, own_group) = match user {
        "" => (0, 0),
        user => find_user(rootfs, user).ok_or_else(unknown)?,
    };
    let gid = match group {
        None | Some("") => own_group,
        Some(group) => find_group(rootfs, group).ok_or_else(unknown)?,
    };
    // The last number means "no user" to the kernel.
    if uid == u32::MAX || gid == u32::MAX {
        return Err(unknown());
    }
    Ok(User { uid, gid })
}

fn find_user(rootfs: &Path, user: &str) -> Option<(u32, u32)> {
    let passwd = read(rootfs, "etc/passwd").unwrap_or_default();
    let rows = || passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let ids = |row: &[&str]| Some((row.get(2)?.parse().ok()?, row.get(3)?.parse().ok()?));
    if let Some(found) = rows().find(|row| row.first() == Some(&user)).and_then(|row| ids(&row)) {
        return Some(found);
    }
    let uid: u32 = user.parse().ok()?;
    rows().filter_map(|row| ids(&row)).find(|ids| ids.0 == uid).or(Some((uid, 0)))
}

fn find_group(rootfs: &Path, group: &str) -> Option<u32> {
    let groups = read(rootfs, "etc/group").unwrap_or_default();
    let mut rows = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let named = rows.find(|row| row.first() == Some(&group));
    match named {
        Some(row) => row.get(2)?.parse().ok(),
        None => group.parse().ok(),
    }
}

/// The text of a file in the image, if there is one.
fn read(rootfs: &Path, path: &str) -> Option<String> {
    let root = openat(CWD, rootfs, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // A fifo in its place must not keep us waiting.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(&root, path, flags, Mode::empty(), resolve).ok()?;
    if FileType::from_raw_mode(fstat(&file).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file).take(LARGEST_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn image() -> tempfile::TempDir {
        let image = tempfile::tempdir().expect("directory");
        std::fs::create_dir(image.path().join("etc")).expect("etc");
        let passwd = "root:x:0:0::/:/bin/sh\nfunction:x:2000:3000::/:/bin/sh\nbroken:x\n";
        std::fs::write(image.path().join("etc/passwd"), passwd).expect("passwd");
        std::fs::write(image.path().join("etc/group"), "wheel:x:10:\nfunction:x:3000:\n").expect("group");
        image
    }

    #[track_caller]
    fn check(text: &str, expected: Option<(u32, u32)>) {
        let found = resolve(image().path(), text).ok();
        assert_eq!(found, expected.map(|(uid, gid)| User { uid, gid }), "{text}");
    }

    #[test]
    fn a_user_that_does_not_exist_here_is_not_taken() {
        assert_eq!(first_mapped("         0          0 4294967295\n"), 0x7000_0000);
        assert_eq!(first_mapped("0 100000 65536\n"), 65_532);
        assert_eq!(first_mapped("0 0 1\n1 1879048192 1879048200\n"), 0x7000_0000);
        assert_eq!(first_mapped(""), 65_532);
    }

    #[test]
    fn users_and_groups_are_names_or_numbers() {
        check("", Some((0, 0)));
        check("function", Some((2000, 3000)));
        check("2000", Some((2000, 3000)));
        check("65532", Some((65532, 0)));
        check("function:wheel", Some((2000, 10)));
        check("1:1", Some((1, 1)));
        check(":wheel", Some((0, 10)));
    }

    #[test]
    fn unknown_users_are_refused() {
        for text in ["nobody", "function:nobody", "-1", "broken", "4294967295", "1:4294967295", "a:b:c"] {
            check(text, None);
        }
    }

    #[test]
    fn links_stay_in_the_image() {
        let image = image();
        let outside = tempfile::tempdir().expect("directory");
        let passwd = outside.path().join("passwd");
        std::fs::write(&passwd, "stranger:x:7:7::/:/bin/sh\n").expect("passwd");
        std::fs::remove_file(image.path().join("etc/passwd")).expect("remove");
        symlink(&passwd, image.path().join("etc/passwd")).expect("link");
        assert!(resolve(image.path(), "stranger").is_err());
    }
}
