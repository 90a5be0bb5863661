//! The runtime configuration of a container (`config.json` of the OCI runtime specification, version 1.0.2).
//!
//! Decides only; the host writes it down. The path of the root file system is left open, because only the host knows it.

mod filesystem;
mod seccomp;

use serde::Serialize;
use serde_json::{Value, json};

use crate::container::Container;
use crate::engine::EngineKind;
use crate::error::SpecError;
use crate::limits::{Grants, Limits, Network};
use crate::users::{self, User};

/// Stands in the place of the path of the root file system. It is the first string that has this text and nothing else.
pub(crate) const ROOT: &str = "\"@root@\"";

/// If the machine has no memory left, the kernel ends foreign programs first, and not the process that runs them. A process needs no rights
/// to raise its own adjustment.
pub(crate) const OOM_SCORE_ADJUSTMENT: i32 = 1000;

/// Whom the host may give a container's users to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// We are no administrator: there is only our own user, number 0 in the host.
    Own,
    /// We are: numbers 1 and 2 in the host are users that no other process has.
    Unprivileged,
}

/// `config.json`. The root comes first: see [`ROOT`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    root: Value,
    oci_version: &'static str,
    hostname: &'static str,
    process: Value,
    mounts: Vec<Value>,
    linux: Value,
}

/// Derives the configuration of a container.
pub(crate) fn derive(
    container: &Container,
    limits: &Limits,
    grants: Grants,
    mapping: Mapping,
    engine: EngineKind,
    is_server: bool,
) -> Result<Spec, SpecError> {
    let user = users::resolve(&container.rootfs, &container.image.user)?;
    let (user, users) = map(user, mapping, engine);
    Ok(Spec {
        root: json!({ "path": "@root@", "readonly": true }),
        oci_version: "1.0.2",
        hostname: "function",
        process: json!({
            "terminal": false,
            "user": { "uid": user.uid, "gid": user.gid },
            "args": container.command()?,
            "env": container.variables()?,
            "cwd": container.working_directory()?,
            "noNewPrivileges": true,
            "oomScoreAdj": OOM_SCORE_ADJUSTMENT,
            "capabilities": {
                "bounding": [], "effective": [], "inheritable": [], "permitted": [], "ambient": [],
            },
            "rlimits": rlimits(limits, is_server),
        }),
        mounts: filesystem::mounts(limits, grants, &container.shared_directories()?),
        linux: json!({
            "namespaces": namespaces(grants),
            "uidMappings": users.iter().map(|user| user.entry(user.uid)).collect::<Vec<_>>(),
            "gidMappings": users.iter().map(|user| user.entry(user.gid)).collect::<Vec<_>>(),
            "maskedPaths": filesystem::MASKED,
            "readonlyPaths": filesystem::READ_ONLY,
            "seccomp": seccomp::profile(),
        }),
    })
}

/// A user of the container, and which of the host's users that is.
struct MappedUser {
    uid: u32,
    gid: u32,
    in_host: u32,
}

impl MappedUser {
    fn entry(&self, id: u32) -> Value {
        json!({ "containerID": id, "hostID": self.in_host, "size": 1 })
    }
}

/// Only the program's own user exists in the container, so that it cannot become another one. runc requires a root as well.
fn map(user: User, mapping: Mapping, engine: EngineKind) -> (User, Vec<MappedUser>) {
    let mapped = |user: User, in_host| MappedUser { uid: user.uid, gid: user.gid, in_host };
    let root = User { uid: 0, gid: 0 };
    match (engine, mapping) {
        (EngineKind::Crun, Mapping::Own) => (user, vec![mapped(user, 0)]),
        (EngineKind::Crun, Mapping::Unprivileged) => (user, vec![mapped(user, 1)]),
        // With one user and a root that has to be there, the program is that root, without its capabilities.
        (EngineKind::Runc, Mapping::Own) => (root, vec![mapped(root, 0)]),
        (EngineKind::Runc, Mapping::Unprivileged) if user.uid == 0 || user.gid == 0 => {
            (root, vec![mapped(root, 1)])
        }
        (EngineKind::Runc, Mapping::Unprivileged) => (user, vec![mapped(user, 1), mapped(root, 2)]),
    }
}

fn namespaces(grants: Grants) -> Vec<Value> {
    let mut kinds = vec!["user", "pid", "ipc", "uts", "mount", "cgroup"];
    if grants.network == Network::Isolated {
        kinds.push("network");
    }
    kinds.into_iter().map(|kind| json!({ "type": kind })).collect()
}

/// Limits that the kernel holds for each process, or for the user in the container's namespace.
fn rlimits(limits: &Limits, is_server: bool) -> Vec<Value> {
    // Programs reserve more than they use. This stops one process that outruns a caller that watches its memory.
    let data = limits.memory.saturating_mul(4).max(1 << 30);
    let cpu = limits.cpu_time.as_secs().saturating_add(2);
    let cpu = (!is_server).then_some(("RLIMIT_CPU", cpu));
    [
        ("RLIMIT_NPROC", u64::from(limits.processes)),
        ("RLIMIT_NOFILE", u64::from(limits.files)),
        ("RLIMIT_FSIZE", limits.scratch),
        ("RLIMIT_DATA", data),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_MEMLOCK", 64 << 10),
        ("RLIMIT_MSGQUEUE", 0),
        ("RLIMIT_SIGPENDING", 256),
        ("RLIMIT_STACK", 8 << 20),
    ]
    .into_iter()
    .chain(cpu)
    .map(|(kind, value)| json!({ "type": kind, "soft": value, "hard": value }))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::ImageConfig;

    fn spec(grants: Grants, mapping: Mapping, engine: EngineKind) -> Value {
        let image = ImageConfig {
            entrypoint: vec!["@root@".to_owned()],
            user: "7:8".to_owned(),
            ..Default::default()
        };
        let container = Container::new("/nowhere", image);
        let spec = derive(&container, &Limits::default(), grants, mapping, engine, false).expect("spec");
        let text = serde_json::to_string(&spec).expect("JSON");
        serde_json::from_str(&text.replacen(ROOT, "\"/rootfs\"", 1)).expect("JSON")
    }

    #[test]
    fn the_first_placeholder_is_the_root_and_no_other_is_touched() {
        let spec = spec(Grants::default(), Mapping::Own, EngineKind::Crun);
        assert_eq!(spec["root"]["path"], "/rootfs");
        assert_eq!(spec["process"]["args"][0], "@root@");
    }

    #[test]
    fn a_program_has_no_privileges_and_a_read_only_root() {
        let spec = spec(Grants::default(), Mapping::Own, EngineKind::Crun);
        assert_eq!(spec["root"]["readonly"], true);
        assert_eq!(spec["process"]["noNewPrivileges"], true);
        for set in ["bounding", "effective", "inheritable", "permitted", "ambient"] {
            assert_eq!(spec["process"]["capabilities"][set], json!([]), "{set}");
        }
    }

    #[test]
    fn the_kernel_ends_a_program_before_the_process_that_runs_it() {
        for engine in [EngineKind::Crun, EngineKind::Runc] {
            assert_eq!(spec(Grants::default(), Mapping::Own, engine)["process"]["oomScoreAdj"], 1000);
        }
    }

    #[test]
    fn the_network_is_shared_only_if_granted() {
        let has_network = |network| {
            let spec = spec(Grants { network }, Mapping::Own, EngineKind::Crun);
            spec["linux"]["namespaces"].as_array().expect("array").contains(&json!({ "type": "network" }))
        };
        assert!(has_network(Network::Isolated));
        assert!(!has_network(Network::Runner));
    }

    #[test]
    fn only_the_program_s_own_user_exists() {
        let users =
            |mapping, engine| spec(Grants::default(), mapping, engine)["linux"]["uidMappings"].to_string();
        assert_eq!(users(Mapping::Own, EngineKind::Crun), r#"[{"containerID":7,"hostID":0,"size":1}]"#);
        assert_eq!(
            users(Mapping::Unprivileged, EngineKind::Crun),
            r#"[{"containerID":7,"hostID":1,"size":1}]"#
        );
        assert_eq!(
            users(Mapping::Unprivileged, EngineKind::Runc),
            r#"[{"containerID":7,"hostID":1,"size":1},{"containerID":0,"hostID":2,"size":1}]"#
        );
        assert_eq!(users(Mapping::Own, EngineKind::Runc), r#"[{"containerID":0,"hostID":0,"size":1}]"#);
    }
}
