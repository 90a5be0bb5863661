//! Services, what is behind them, and what leads to them.
//!
//! Follows Kubernetes 1.36.4, `pkg/printers/internalversion/printers.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::seen::{Seen, first_three, or_none};
use super::{AGE, BuiltinColumn, NAME, text, wide};

const SERVICES: &[BuiltinColumn] = &[
    NAME,
    text("Type", |it| it.text("/spec/type").into()),
    text("Cluster-IP", |it| it.text_or("/spec/clusterIPs/0", "<none>").into()),
    text("External-IP", |it| external(it).into()),
    text("Port(s)", ports),
    AGE,
    wide("Selector", |it| it.labels("/spec/selector").into()),
];
const ENDPOINTS: &[BuiltinColumn] = &[NAME, text("Endpoints", endpoints), AGE];
const ENDPOINT_SLICES: &[BuiltinColumn] = &[
    NAME,
    text("AddressType", |it| it.text("/addressType").into()),
    text("Ports", |it| or_unset(&it.items("/ports").map(|port| slice_port(&port)).collect::<Vec<_>>())),
    text("Endpoints", |it| {
        let addresses = it.items("/endpoints").flat_map(|endpoint| endpoint.list("/addresses"));
        or_unset(&addresses.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
    }),
    AGE,
];
const INGRESSES: &[BuiltinColumn] = &[
    NAME,
    text("Class", |it| it.text_or("/spec/ingressClassName", "<none>").into()),
    text("Hosts", |it| hosts(it).into()),
    text("Address", |it| balancers(it).into()),
    text("Ports", |it| if it.list("/spec/tls").is_empty() { "80".into() } else { "80, 443".into() }),
    AGE,
];
const INGRESS_CLASSES: &[BuiltinColumn] = &[
    text("Name", |it| {
        let is_default = it.annotation("ingressclass.kubernetes.io/is-default-class") == "true";
        format!("{}{}", it.text("/metadata/name"), if is_default { " (default)" } else { "" }).into()
    }),
    text("Controller", |it| it.text("/spec/controller").into()),
    text("Parameters", parameters),
    AGE,
];
const POLICIES: &[BuiltinColumn] =
    &[NAME, text("Pod-Selector", |it| or_none(it.selector("/spec/podSelector")).into()), AGE];
const SERVICE_RANGES: &[BuiltinColumn] =
    &[NAME, text("CIDRs", |it| it.joined("/spec/cidrs", ",").into()), AGE];
const ADDRESSES: &[BuiltinColumn] = &[NAME, text("ParentRef", parent)];

pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("", "services") => SERVICES,
        ("", "endpoints") => ENDPOINTS,
        ("discovery.k8s.io", "endpointslices") => ENDPOINT_SLICES,
        ("networking.k8s.io", "ingresses") => INGRESSES,
        ("networking.k8s.io", "ingressclasses") => INGRESS_CLASSES,
        ("networking.k8s.io", "networkpolicies") => POLICIES,
        ("networking.k8s.io", "servicecidrs") => SERVICE_RANGES,
        ("networking.k8s.io", "ipaddresses") => ADDRESSES,
        _ => return None,
    })
}

/// Where a service is reached from outside.
fn external(it: &Seen<'_>) -> String {
    let given = it.joined("/spec/externalIPs", ",");
    match it.text("/spec/type") {
        "ClusterIP" | "NodePort" => or_none(given),
        "LoadBalancer" => match (balancers(it), given) {
            (balanced, given) if balanced.is_empty() && given.is_empty() => "<pending>".to_owned(),
            (balanced, given) if balanced.is_empty() || given.is_empty() => balanced + &given,
            (balanced, given) => format!("{balanced},{given}"),
        },
        "ExternalName" => it.text("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn balancers(it: &Seen<'_>) -> String {
    let addresses = it.items("/status/loadBalancer/ingress").map(|ingress| match ingress.text("/ip") {
        "" => ingress.text("/hostname"),
        ip => ip,
    });
    // Sorted and each once: Kubernetes collects them in a set, too.
    let addresses: BTreeSet<_> = addresses.filter(|address| !address.is_empty()).collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn ports(it: &Seen<'_>) -> Value {
    let ports = it.items("/spec/ports").map(|port| match (port.number("/port"), port.number("/nodePort")) {
        (number, ..=0) => format!("{number}/{}", port.text("/protocol")),
        (number, node) => format!("{number}:{node}/{}", port.text("/protocol")),
    });
    or_none(ports.collect::<Vec<_>>().join(",")).into()
}

fn endpoints(it: &Seen<'_>) -> Value {
    if it.list("/subsets").is_empty() {
        return "<none>".into();
    }
    let mut texts = Vec::new();
    for subset in it.items("/subsets") {
        let addresses = || subset.items("/addresses").map(|address| address.text("/ip"));
        if subset.list("/ports").is_empty() {
            texts.extend(addresses().map(str::to_owned));
        }
        for port in subset.items("/ports") {
            texts.extend(addresses().map(|address| with_port(address, port.number("/port"))));
        }
    }
    first_three(&texts).into()
}

fn with_port(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn slice_port(port: &Seen<'_>) -> String {
    if port.has("/port") { port.number("/port").to_string() } else { port.text_or("/name", "*").to_owned() }
}

fn or_unset(texts: &[String]) -> Value {
    match first_three(texts) {
        text if text.is_empty() => "<unset>".into(),
        text => text.into(),
    }
}

fn hosts(it: &Seen<'_>) -> String {
    let rules = it.list("/spec/rules").len();
    let mut shown = Vec::new();
    let mut is_more = false;
    for rule in it.items("/spec/rules") {
        is_more |= shown.len() == 3;
        let host = rule.text("/host");
        if !is_more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), is_more) {
        (true, _) => "*".to_owned(),
        (false, false) => shown.join(","),
        (false, true) => format!("{} + {} more...", shown.join(","), rules - 3),
    }
}

fn parameters(it: &Seen<'_>) -> Value {
    let Some(parameters) = it.value("/spec/parameters") else { return "<none>".into() };
    let parameters = it.part(parameters);
    let group = parameters.value("/apiGroup").and_then(Value::as_str);
    let group = group.map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", parameters.text("/kind"), parameters.text("/name")).into()
}

fn parent(it: &Seen<'_>) -> Value {
    let Some(parent) = it.value("/spec/parentRef") else { return "<none>".into() };
    let parent = it.part(parent);
    let mut text = parent.text("/resource").to_lowercase();
    for (before, field) in [(".", "/group"), ("/", "/namespace")] {
        if !parent.text(field).is_empty() {
            text += &format!("{before}{}", parent.text(field));
        }
    }
    format!("{text}/{}", parent.text("/name")).into()
}
