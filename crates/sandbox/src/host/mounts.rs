//! What the host mounts for itself and for the runtime, in its own mount namespace.
//!
//! All of it lies over `/sys/fs`, which every machine has, which everybody may pass through, and where nothing of ours or of an image is.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_remount};

use super::{Refusal, Step as _};

/// Where the tmpfs of the host is.
pub(super) const SCRATCH: &str = "/sys/fs/ferroplane";
/// What that tmpfs can hold, in MiB: what runtimes keep, and images where they have to be copied.
pub(super) const SCRATCH_MIB: u64 = 256;

/// Mounts everything. There is nothing to undo: it ends with the namespace.
pub(super) fn prepare() -> Result<(), Refusal> {
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", slave).step("detach its mounts from ours")?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", plain, None).step("mount `/proc` in a new pid namespace")?;
    let options = CString::new(format!("mode=0755,size={SCRATCH_MIB}m")).step("describe a tmpfs")?;
    mount("tmpfs", "/sys/fs", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        .step("mount a tmpfs in a user namespace")?;
    make_directories().step("write to a tmpfs in a user namespace")?;
    mount_cgroups(plain);
    Ok(())
}

fn make_directories() -> std::io::Result<()> {
    fs::create_dir("/sys/fs/cgroup")?;
    for name in ["bundles", "layers", "roots", "skeletons", "state"] {
        fs::create_dir_all(Path::new(SCRATCH).join(name))?;
    }
    Ok(())
}

/// Runtimes look for the kind of cgroups here, and crun refuses machines that have both kinds. They see the new kind alone, and cannot
/// write to it: limits are set by putting the runtime into a cgroup before. A machine without the new kind has an empty directory here.
fn mount_cgroups(plain: MountFlags) {
    let target = "/sys/fs/cgroup";
    if mount("cgroup2", target, "cgroup2", plain, None).is_ok() {
        let _ = mount_remount(target, MountFlags::BIND | MountFlags::RDONLY | plain, c"");
    }
}
