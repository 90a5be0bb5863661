//! Everything else: namespaces, nodes, events, rights, settings.
//!
//! Follows Kubernetes 1.36.4, `pkg/printers/internalversion/printers.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::seen::Seen;
use super::{AGE, BuiltinColumn, NAME, ONLY_AGE, boolean, integer, text, wide};
use crate::table::age::age;

const NAMESPACES: &[BuiltinColumn] = &[NAME, text("Status", |it| it.text("/status/phase").into()), AGE];
const CONFIG_MAPS: &[BuiltinColumn] =
    &[NAME, text("Data", |it| (it.count("/data") + it.count("/binaryData")).into()), AGE];
const SECRETS: &[BuiltinColumn] =
    &[NAME, text("Type", |it| it.text("/type").into()), text("Data", |it| it.count("/data").into()), AGE];
const QUOTAS: &[BuiltinColumn] =
    &[NAME, text("Request", |it| used(it, false)), text("Limit", |it| used(it, true)), AGE];
const NODES: &[BuiltinColumn] = &[
    NAME,
    text("Status", node_status),
    text("Roles", roles),
    AGE,
    text("Version", |it| it.text("/status/nodeInfo/kubeletVersion").into()),
    wide("Internal-IP", |it| node_address(it, "InternalIP")),
    wide("External-IP", |it| node_address(it, "ExternalIP")),
    wide("OS-Image", |it| it.filled_or("/status/nodeInfo/osImage", "<unknown>").into()),
    wide("Kernel-Version", |it| {
        let version = it.filled_or("/status/nodeInfo/kernelVersion", "<unknown>");
        match it.text("/status/nodeInfo/architecture") {
            "" => version.into(),
            architecture => format!("{version} ({architecture})").into(),
        }
    }),
    wide("Container-Runtime", |it| {
        it.filled_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>").into()
    }),
];
const EVENTS: &[BuiltinColumn] = &[
    text("Last Seen", |it| last_seen(it).into()),
    text("Type", |it| it.text("/type").into()),
    text("Reason", |it| it.text("/reason").into()),
    text("Object", |it| {
        let about = it.part(either(it, "/involvedObject", "/regarding"));
        let kind = about.text("/kind").to_lowercase();
        match about.text("/name") {
            "" => kind.into(),
            name => format!("{kind}/{name}").into(),
        }
    }),
    wide("Subobject", |it| it.part(either(it, "/involvedObject", "/regarding")).text("/fieldPath").into()),
    wide("Source", source),
    text("Message", |it| first_text(it, &["/message", "/note"]).trim().into()),
    wide("First Seen", |it| first_seen(it).into()),
    wide("Count", |it| match (it.has("/series"), it.number("/count") + it.number("/deprecatedCount")) {
        (true, _) => it.number("/series/count").into(),
        (false, 0) => 1.into(),
        (false, count) => count.into(),
    }),
    wide("Name", |it| it.text("/metadata/name").into()),
];
const LEASES: &[BuiltinColumn] = &[NAME, text("Holder", |it| it.text("/spec/holderIdentity").into()), AGE];
const BINDINGS: &[BuiltinColumn] = &[
    NAME,
    text("Role", |it| format!("{}/{}", it.text("/roleRef/kind"), it.text("/roleRef/name")).into()),
    AGE,
    wide("Users", |it| subjects(it, "User")),
    wide("Groups", |it| subjects(it, "Group")),
    wide("ServiceAccounts", |it| subjects(it, "ServiceAccount")),
];
const WEBHOOKS: &[BuiltinColumn] = &[NAME, integer("Webhooks", |it| it.count("/webhooks").into()), AGE];
const PARAMETER_KIND: BuiltinColumn = text("ParamKind", |it| {
    if it.has("/spec/paramKind") {
        format!("{}/{}", it.text("/spec/paramKind/apiVersion"), it.text("/spec/paramKind/kind")).into()
    } else {
        "<unset>".into()
    }
});
const VALIDATING_POLICIES: &[BuiltinColumn] =
    &[NAME, integer("Validations", |it| it.count("/spec/validations").into()), PARAMETER_KIND, AGE];
const MUTATING_POLICIES: &[BuiltinColumn] =
    &[NAME, integer("Mutations", |it| it.count("/spec/mutations").into()), PARAMETER_KIND, AGE];
const POLICY_BINDINGS: &[BuiltinColumn] = &[
    NAME,
    text("PolicyName", |it| it.text("/spec/policyName").into()),
    text("ParamRef", |it| match (it.text("/spec/paramRef/namespace"), it.text("/spec/paramRef/name")) {
        (_, "") if it.has("/spec/paramRef/selector") => it.selector("/spec/paramRef/selector").into(),
        (_, "") => "<unset>".into(),
        ("", name) => format!("*/{name}").into(),
        (namespace, name) => format!("{namespace}/{name}").into(),
    }),
    AGE,
];
const PRIORITY_CLASSES: &[BuiltinColumn] = &[
    NAME,
    integer("Value", |it| it.number("/value").into()),
    boolean("Global-Default", |it| it.is("/globalDefault").into()),
    AGE,
    text("PreemptionPolicy", |it| it.text("/preemptionPolicy").into()),
];
const RUNTIME_CLASSES: &[BuiltinColumn] = &[NAME, text("Handler", |it| it.text("/handler").into()), AGE];
const FLOW_SCHEMAS: &[BuiltinColumn] = &[
    NAME,
    text("PriorityLevel", |it| it.text("/spec/priorityLevelConfiguration/name").into()),
    text("MatchingPrecedence", |it| it.number("/spec/matchingPrecedence").into()),
    text("DistinguisherMethod", |it| it.text_or("/spec/distinguisherMethod/type", "<none>").into()),
    AGE,
    text("MissingPL", |it| match it.condition("Dangling") {
        "" => "?".into(),
        status => status.into(),
    }),
];
const PRIORITY_LEVELS: &[BuiltinColumn] = &[
    NAME,
    text("Type", |it| it.text("/spec/type").into()),
    text("NominalConcurrencyShares", |it| number_or_none(it, "/spec/limited/nominalConcurrencyShares")),
    text("Queues", |it| number_or_none(it, "/spec/limited/limitResponse/queuing/queues")),
    text("HandSize", |it| number_or_none(it, "/spec/limited/limitResponse/queuing/handSize")),
    text("QueueLengthLimit", |it| number_or_none(it, "/spec/limited/limitResponse/queuing/queueLengthLimit")),
    AGE,
];
const DEVICE_CLAIMS: &[BuiltinColumn] = &[NAME, text("State", claim_state), AGE];
const DEVICE_SLICES: &[BuiltinColumn] = &[
    NAME,
    text("Node", |it| it.text("/spec/nodeName").into()),
    text("Driver", |it| it.text("/spec/driver").into()),
    text("Pool", |it| it.text("/spec/pool/name").into()),
    AGE,
];

pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("", "namespaces") => NAMESPACES,
        ("", "configmaps") => CONFIG_MAPS,
        ("", "secrets") => SECRETS,
        ("", "serviceaccounts") | ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => ONLY_AGE,
        ("", "resourcequotas") => QUOTAS,
        ("", "nodes") => NODES,
        ("" | "events.k8s.io", "events") => EVENTS,
        ("coordination.k8s.io", "leases") => LEASES,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => BINDINGS,
        ("admissionregistration.k8s.io", plural) => match plural {
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => WEBHOOKS,
            "validatingadmissionpolicies" => VALIDATING_POLICIES,
            "mutatingadmissionpolicies" => MUTATING_POLICIES,
            // The group has no other resources.
            _ => POLICY_BINDINGS,
        },
        ("scheduling.k8s.io", "priorityclasses") => PRIORITY_CLASSES,
        ("node.k8s.io", "runtimeclasses") => RUNTIME_CLASSES,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => FLOW_SCHEMAS,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => PRIORITY_LEVELS,
        ("resource.k8s.io", "resourceclaims") => DEVICE_CLAIMS,
        ("resource.k8s.io", "resourceslices") => DEVICE_SLICES,
        _ => return None,
    })
}

/// What is used of a quota, of limits or of everything else.
fn used(it: &Seen<'_>, of_limits: bool) -> Value {
    let hard = it.map("/status/hard").into_iter().flatten();
    let hard = hard.filter(|(name, _)| name.starts_with("limits.") == of_limits);
    let texts: Vec<_> = hard
        .map(|(name, hard)| {
            let used = it.map("/status/used").and_then(|used| used.get(name)).and_then(Value::as_str);
            format!("{name}: {}/{}", used.unwrap_or("0"), hard.as_str().unwrap_or("0"))
        })
        .collect();
    texts.join(", ").into()
}

fn node_status(it: &Seen<'_>) -> Value {
    let status = match it.condition("Ready") {
        "" => "Unknown",
        "True" => "Ready",
        _ => "NotReady",
    };
    let rest = if it.is("/spec/unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{status}{rest}").into()
}

fn roles(it: &Seen<'_>) -> Value {
    let labels = it.map("/metadata/labels").into_iter().flatten();
    let roles = labels.filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role),
        None if key == "kubernetes.io/role" => value.as_str(),
        None => None,
    });
    let roles: BTreeSet<_> = roles.filter(|role| !role.is_empty()).collect();
    super::seen::or_none(roles.into_iter().collect::<Vec<_>>().join(",")).into()
}

fn node_address(it: &Seen<'_>, kind: &str) -> Value {
    let address = it.items("/status/addresses").find(|address| address.text("/type") == kind);
    address.map_or("<none>", |address| address.text("/address")).into()
}

/// Events have two forms, in which the same things have different names.
fn either<'o>(it: &Seen<'o>, one: &str, other: &str) -> &'o Value {
    it.value(one).or_else(|| it.value(other)).unwrap_or(&Value::Null)
}

fn first_text<'o>(it: &Seen<'o>, pointers: &[&str]) -> &'o str {
    let mut texts = pointers.iter().map(|pointer| it.text(pointer));
    texts.find(|text| !text.is_empty()).unwrap_or_default()
}

fn first_seen(it: &Seen<'_>) -> String {
    age(first_text(it, &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]), it.now)
}

fn last_seen(it: &Seen<'_>) -> String {
    if it.has("/series") {
        return it.age("/series/lastObservedTime");
    }
    match first_text(it, &["/lastTimestamp", "/deprecatedLastTimestamp"]) {
        "" => first_seen(it),
        last => age(last, it.now),
    }
}

fn source(it: &Seen<'_>) -> Value {
    let component =
        ["/source/component", "/deprecatedSource/component", "/reportingComponent", "/reportingController"];
    let component = first_text(it, &component);
    match first_text(it, &["/source/host", "/deprecatedSource/host", "/reportingInstance"]) {
        "" => component.into(),
        instance => format!("{component}, {instance}").into(),
    }
}

fn subjects(it: &Seen<'_>, kind: &str) -> Value {
    let subjects = it.items("/subjects").filter(|subject| subject.text("/kind") == kind);
    let names: Vec<_> = subjects
        .map(|subject| match (kind, subject.text("/namespace")) {
            ("ServiceAccount", namespace) if !namespace.is_empty() => {
                format!("{namespace}/{}", subject.text("/name"))
            }
            _ => subject.text("/name").to_owned(),
        })
        .collect();
    names.join(", ").into()
}

fn number_or_none(it: &Seen<'_>, pointer: &str) -> Value {
    it.value(pointer).cloned().unwrap_or_else(|| "<none>".into())
}

fn claim_state(it: &Seen<'_>) -> Value {
    let is_allocated = it.has("/status/allocation");
    let states = [
        ("deleted", it.is_going()),
        ("pending", !is_allocated && !it.is_going()),
        ("allocated", is_allocated),
        ("reserved", is_allocated && !it.list("/status/reservedFor").is_empty()),
    ];
    let states: Vec<_> = states.into_iter().filter(|(_, holds)| *holds).map(|(state, _)| state).collect();
    states.join(",").into()
}
