//! Bytes as an immutable file: the input of a program, and configurations.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// A file in memory with these bytes, sealed, open for reading at its start.
pub(crate) fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(bytes)?;
    // The program could otherwise open its input again to write, and use memory in it that no limit counts.
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into())
}
