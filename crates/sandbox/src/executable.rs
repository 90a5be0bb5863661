//! Opens the program of an image, if it needs nothing of the image but itself: a static executable for this machine.
//!
//! Never leaves the image: links are resolved as the program would see them. What was checked is what is returned, so that it cannot be
//! exchanged in between.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

use crate::container::Container;
use crate::error::{Error, NotStatic};

/// The first bytes of an executable, and of a script.
const MAGIC: &[u8] = b"\x7fELF";
const SCRIPT: &[u8] = b"#!";
/// Sizes in the 64-bit form: the header, and an entry of the table of segments.
const HEADER: usize = 64;
const SEGMENT: u16 = 56;
/// How many segments are read. Linkers write about a dozen.
const MOST_SEGMENTS: u16 = 1024;
/// Values in the header: 64-bit, and the two kinds of executables.
const CLASS_64: u8 = 2;
const TYPE_EXECUTABLE: u16 = 2;
const TYPE_SHARED: u16 = 3;
/// Kinds of segments: one that is loaded, and the name of the program that has to load libraries first.
const LOAD: u32 = 1;
const INTERPRETER: u32 = 3;

/// The program of a container, ready to be executed without its image.
pub(crate) fn open(container: &Container) -> Result<OwnedFd, Error> {
    let command = container.command()?;
    let program = command.first().cloned().unwrap_or_default();
    let refuse = |why| Error::NotStatic { program: program.clone(), why };
    let candidates = candidates(&program, container)?;
    let found = candidates.iter().find_map(|path| open_in(&container.rootfs, path));
    let file = File::from(found.ok_or_else(|| refuse(NotStatic::Missing))?);
    check(&file).map_err(refuse)?;
    Ok(file.into())
}

/// Where a program may be in its image: where its name says, or in a directory of `PATH`.
fn candidates(program: &str, container: &Container) -> Result<Vec<String>, Error> {
    if program.starts_with('/') {
        return Ok(vec![program.to_owned()]);
    }
    if program.contains('/') {
        return Ok(vec![format!("{}/{program}", container.working_directory()?)]);
    }
    let variables = container.variables()?;
    let path = variables.iter().find_map(|variable| variable.strip_prefix("PATH=")).unwrap_or_default();
    let directories = path.split(':').filter(|directory| directory.starts_with('/'));
    Ok(directories.map(|directory| format!("{directory}/{program}")).collect())
}

fn open_in(rootfs: &Path, path: &str) -> Option<OwnedFd> {
    let root = openat(CWD, rootfs, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // A fifo in its place must not keep us waiting.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(&root, path, flags, Mode::empty(), resolve).ok()?;
    let is_file = FileType::from_raw_mode(fstat(&file).ok()?.st_mode) == FileType::RegularFile;
    is_file.then_some(file)
}

/// Refuse what is no static executable for this machine.
fn check(file: &File) -> Result<(), NotStatic> {
    let mut start = [0; 4];
    // What is shorter is no executable either.
    let _ = file.read_at(&mut start, 0);
    if start.starts_with(SCRIPT) {
        return Err(NotStatic::Script);
    }
    if start != MAGIC {
        return Err(NotStatic::Unknown);
    }
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).map_err(|_| NotStatic::Unknown)?;
    let (offset, count) = segments(&header)?;
    check_segments(file, offset, count).map_err(|_| NotStatic::Unknown)?
}

/// Where the table of segments is, and how many it has.
fn segments(header: &[u8; HEADER]) -> Result<(u64, u16), NotStatic> {
    let half = |at: usize| read::<2>(header, at).map(u16::from_ne_bytes);
    let (class, order) = (header.get(4).copied(), header.get(5).copied());
    // Numbers are those of this machine, or the program is for another one.
    let own_order = if cfg!(target_endian = "little") { 1 } else { 2 };
    if class != Some(CLASS_64) || order != Some(own_order) {
        return Err(NotStatic::OtherMachine);
    }
    if own_machine().is_some_and(|own| half(18) != Some(own)) {
        return Err(NotStatic::OtherMachine);
    }
    let is_executable = half(16).is_some_and(|kind| [TYPE_EXECUTABLE, TYPE_SHARED].contains(&kind));
    let count = half(56).filter(|count| (1..=MOST_SEGMENTS).contains(count));
    match (read::<8>(header, 32).map(u64::from_ne_bytes), count) {
        (Some(offset), Some(count)) if is_executable && half(54) == Some(SEGMENT) => Ok((offset, count)),
        _ => Err(NotStatic::Unknown),
    }
}

/// Read the kinds of all segments. What cannot be read is no executable.
fn check_segments(file: &File, offset: u64, count: u16) -> io::Result<Result<(), NotStatic>> {
    let mut is_loaded = false;
    for number in 0..u64::from(count) {
        let place = offset.checked_add(number * u64::from(SEGMENT)).ok_or(io::ErrorKind::InvalidData)?;
        let mut kind = [0; 4];
        file.read_exact_at(&mut kind, place)?;
        match u32::from_ne_bytes(kind) {
            INTERPRETER => return Ok(Err(NotStatic::Dynamic)),
            LOAD => is_loaded = true,
            _ => {}
        }
    }
    Ok(if is_loaded { Ok(()) } else { Err(NotStatic::Unknown) })
}

fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The number of this machine's processor in headers. None for those that we do not build for: the kernel decides then.
fn own_machine() -> Option<u16> {
    match std::env::consts::ARCH {
        "x86_64" => Some(62),
        "aarch64" => Some(183),
        "riscv64" => Some(243),
        "powerpc64" => Some(21),
        "s390x" => Some(22),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use crate::container::ImageConfig;

    use super::*;

    /// A header and a table with segments of these kinds.
    fn executable(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = CLASS_64;
        bytes[5] = if cfg!(target_endian = "little") { 1 } else { 2 };
        bytes[16..18].copy_from_slice(&TYPE_EXECUTABLE.to_ne_bytes());
        bytes[18..20].copy_from_slice(&own_machine().unwrap_or_default().to_ne_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        bytes[54..56].copy_from_slice(&SEGMENT.to_ne_bytes());
        bytes[56..58].copy_from_slice(&u16::try_from(kinds.len()).expect("few").to_ne_bytes());
        for kind in kinds {
            let mut segment = [0; 56];
            segment[..4].copy_from_slice(&kind.to_ne_bytes());
            bytes.extend(segment);
        }
        bytes
    }

    fn image(name: &str, content: &[u8]) -> tempfile::TempDir {
        let image = tempfile::tempdir().expect("directory");
        std::fs::create_dir(image.path().join("bin")).expect("bin");
        std::fs::write(image.path().join("bin").join(name), content).expect("program");
        image
    }

    fn open_program(image: &Path, program: &str) -> Result<(), String> {
        let entrypoint = vec![program.to_owned()];
        let container = Container::new(image, ImageConfig { entrypoint, ..ImageConfig::default() });
        open(&container).map(drop).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refused(content: &[u8], why: &str) {
        let said = open_program(image("f", content).path(), "/bin/f").expect_err("it is refused");
        assert!(said.contains(why), "{said}");
    }

    #[test]
    fn static_executable_is_found_by_its_path_and_by_its_name() {
        let image = image("f", &executable(&[LOAD, LOAD]));
        for program in ["/bin/f", "f", "./bin/f", "/bin/../bin/f"] {
            assert_eq!(open_program(image.path(), program), Ok(()), "{program}");
        }
        symlink("/bin/f", image.path().join("function")).expect("link");
        assert_eq!(open_program(image.path(), "/function"), Ok(()));
        let said = open_program(image.path(), "g").expect_err("it is missing");
        assert!(
            said.starts_with("cannot run `g` of the image as a process: it is not in the image"),
            "{said}"
        );
    }

    #[test]
    fn what_needs_more_than_itself_is_refused_with_the_reason() {
        refused(b"#!/bin/sh\n", "it is a script");
        refused(&executable(&[LOAD, INTERPRETER]), "it needs libraries of its image");
        refused(b"", "it is no executable of Linux");
        refused(b"MZ garbage", "it is no executable of Linux");
        refused(&executable(&[]), "it is no executable of Linux");
        refused(&executable(&[6]), "it is no executable of Linux");
        let whole = executable(&[LOAD]);
        refused(&whole[..whole.len() - 54], "it is no executable of Linux");
        for (at, value) in [(4, 1), (5, 7), (18, 0xfe)] {
            let mut other = whole.clone();
            other[at] = value;
            refused(&other, "it is for another processor");
        }
        let mut far = whole.clone();
        far[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
        refused(&far, "it is no executable of Linux");
    }

    #[test]
    fn links_and_other_files_do_not_lead_out_of_the_image() {
        let image = image("f", b"#!");
        let outside = self::image("f", &executable(&[LOAD]));
        symlink(outside.path().join("bin/f"), image.path().join("out")).expect("link");
        for program in ["/out", "/bin", "/../../bin"] {
            let said = open_program(image.path(), program).expect_err("it is refused");
            assert!(said.contains("it is not in the image"), "{program}: {said}");
        }
    }
}
