//! Volumes, and those who make them.
//!
//! Follows Kubernetes 1.36.4, `pkg/printers/internalversion/printers.go`.

use serde_json::Value;

use super::seen::{Seen, or_none};
use super::{AGE, BuiltinColumn, NAME, boolean, integer, text, wide};

/// Before there was a field for it, the class of a volume was an annotation.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

const CLASS: BuiltinColumn = text("StorageClass", |it| match it.annotation(OLD_CLASS) {
    "" => it.text("/spec/storageClassName").into(),
    class => class.into(),
});
const ATTRIBUTES: BuiltinColumn =
    text("VolumeAttributesClass", |it| it.text_or("/spec/volumeAttributesClassName", "<unset>").into());
const MODE: BuiltinColumn = wide("VolumeMode", |it| it.text_or("/spec/volumeMode", "<unset>").into());
const PHASE: BuiltinColumn =
    text("Status", |it| if it.is_going() { "Terminating".into() } else { it.text("/status/phase").into() });

const CLAIMS: &[BuiltinColumn] = &[
    NAME,
    PHASE,
    text("Volume", |it| it.text("/spec/volumeName").into()),
    text("Capacity", |it| match it.text("/spec/volumeName") {
        "" => "".into(),
        _ => it.either_or("/status/capacity/storage", "0").into(),
    }),
    text("Access Modes", |it| match it.text("/spec/volumeName") {
        "" => "".into(),
        _ => access_modes(it, "/status/accessModes"),
    }),
    CLASS,
    ATTRIBUTES,
    AGE,
    MODE,
];
const VOLUMES: &[BuiltinColumn] = &[
    NAME,
    text("Capacity", |it| it.either_or("/spec/capacity/storage", "0").into()),
    text("Access Modes", |it| access_modes(it, "/spec/accessModes")),
    text("Reclaim Policy", |it| it.text("/spec/persistentVolumeReclaimPolicy").into()),
    PHASE,
    text("Claim", |it| {
        if it.has("/spec/claimRef") {
            format!("{}/{}", it.text("/spec/claimRef/namespace"), it.text("/spec/claimRef/name")).into()
        } else {
            "".into()
        }
    }),
    CLASS,
    ATTRIBUTES,
    text("Reason", |it| it.text("/status/reason").into()),
    AGE,
    MODE,
];
const CLASSES: &[BuiltinColumn] = &[
    text("Name", |it| {
        let is_default = DEFAULT_CLASS.iter().any(|name| it.annotation(name) == "true");
        format!("{}{}", it.text("/metadata/name"), if is_default { " (default)" } else { "" }).into()
    }),
    text("Provisioner", |it| it.text("/provisioner").into()),
    text("ReclaimPolicy", |it| it.text_or("/reclaimPolicy", "Delete").into()),
    text("VolumeBindingMode", |it| it.text_or("/volumeBindingMode", "Immediate").into()),
    text("AllowVolumeExpansion", |it| it.is("/allowVolumeExpansion").into()),
    AGE,
];
const ATTACHMENTS: &[BuiltinColumn] = &[
    NAME,
    text("Attacher", |it| it.text("/spec/attacher").into()),
    text("PV", |it| it.text("/spec/source/persistentVolumeName").into()),
    text("Node", |it| it.text("/spec/nodeName").into()),
    boolean("Attached", |it| it.is("/status/attached").into()),
    AGE,
];
const DRIVERS: &[BuiltinColumn] = &[
    NAME,
    boolean("AttachRequired", |it| (!it.has("/spec/attachRequired") || it.is("/spec/attachRequired")).into()),
    boolean("PodInfoOnMount", |it| it.is("/spec/podInfoOnMount").into()),
    boolean("StorageCapacity", |it| it.is("/spec/storageCapacity").into()),
    text("TokenRequests", |it| {
        if it.has("/spec/tokenRequests") {
            it.each("/spec/tokenRequests", "/audience").into()
        } else {
            "<unset>".into()
        }
    }),
    boolean("RequiresRepublish", |it| it.is("/spec/requiresRepublish").into()),
    text("Modes", |it| or_none(it.joined("/spec/volumeLifecycleModes", ",")).into()),
    AGE,
];
const NODES: &[BuiltinColumn] = &[NAME, integer("Drivers", |it| it.count("/spec/drivers").into()), AGE];
const ATTRIBUTES_CLASSES: &[BuiltinColumn] =
    &[NAME, text("DriverName", |it| it.text("/driverName").into()), AGE];

pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("", "persistentvolumeclaims") => CLAIMS,
        ("", "persistentvolumes") => VOLUMES,
        ("storage.k8s.io", "storageclasses") => CLASSES,
        ("storage.k8s.io", "volumeattachments") => ATTACHMENTS,
        ("storage.k8s.io", "csidrivers") => DRIVERS,
        ("storage.k8s.io", "csinodes") => NODES,
        ("storage.k8s.io", "volumeattributesclasses") => ATTRIBUTES_CLASSES,
        _ => return None,
    })
}

/// The modes in their usual order and in short, each once.
fn access_modes(it: &Seen<'_>, pointer: &str) -> Value {
    let modes = it.list(pointer);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown = short.into_iter().filter(|(long, _)| modes.iter().any(|mode| mode == long));
    shown.map(|(_, short)| short).collect::<Vec<_>>().join(",").into()
}
