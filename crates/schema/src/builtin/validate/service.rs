//! Services.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/core/validation/validation.go`.

use std::collections::HashSet;
use std::net::IpAddr;

use ferroplane_golang::json;
use ferroplane_golang::json::JsonObject;
use serde_json::{Value, json};

use super::read;
use crate::field::{BadValue, Error, Path};
use crate::{meta, names};

pub(super) fn check(object: &JsonObject) -> Vec<Error> {
    let Some(spec) = read::object(object, "spec") else { return Vec::new() };
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let kind = read::text(spec, "type");
    let ports = read::list(spec, "ports");
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.push(Error::required(&path.child("ports"), ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let words = format!("may not be set to 'None' for {kind} services");
            errors.push(Error::invalid(&path.child("clusterIPs").index(0), "None", words));
        }
        "ExternalName" => {
            let fields = ["clusterIPs", "ipFamilies", "ipFamilyPolicy"];
            for name in fields.into_iter().filter(|name| read::has(spec, name)) {
                errors.push(Error::forbidden(&path.child(name), "may not be set for ExternalName services"));
            }
            check_external_name(spec, &path, &mut errors);
        }
        _ => {}
    }
    check_ports(spec, ports.len() > 1, &path, &mut errors);
    if read::has(spec, "selector") {
        meta::validate_labels(read::pairs(spec, "selector"), &path.child("selector"), &mut errors);
    }
    errors.extend(read::one_of(spec, "sessionAffinity", &["ClientIP", "None"], &path));
    errors.extend(check_cluster_addresses(spec));
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors.extend(read::one_of(spec, "type", &kinds, &path));
    check_node_ports(spec, &path, &mut errors);
    check_duplicate_ports(spec, &path, &mut errors);
    check_balancer(spec, &path, &mut errors);
    check_traffic(spec, &path, &mut errors);
    errors
}

fn is_headless(spec: &JsonObject) -> bool {
    matches!(read::list(spec, "clusterIPs"), [only] if only == "None")
}

/// What is wrong with the addresses of a service, and with what they are to be.
pub(crate) fn check_cluster_addresses(spec: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    if read::text(spec, "type") == "ExternalName" {
        return errors;
    }
    let root = Path::new("spec");
    let path = root.child("clusterIPs");
    let addresses = read::list(spec, "clusterIPs");
    let shown = || Value::from(addresses);
    match (read::text(spec, "clusterIP"), addresses.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            errors.push(Error::invalid(&path, shown(), "must be empty when `clusterIP` is not specified"));
        }
        (_, None) => errors.push(Error::required(&path, "")),
        (address, Some(first)) if first != address => {
            errors.push(Error::invalid(&path, shown(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    check_families(spec, &root, &mut errors);
    let is_alone = addresses.len() == 1;
    let mut is_wrong = false;
    for (index, address) in addresses.iter().map(|it| it.as_str().unwrap_or_default()).enumerate() {
        if index == 0 && address == "None" {
            if !is_alone {
                is_wrong = true;
                errors.push(Error::invalid(&path, shown(), "'None' must be the first and only value"));
            }
        } else if address.parse::<IpAddr>().is_err() {
            is_wrong = true;
            let words = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(Error::invalid(&path.index(index), address, words));
        }
    }
    if addresses.len() > 2 {
        errors.push(Error::invalid(&path, shown(), "may only hold up to 2 values"));
    }
    if !is_wrong {
        check_address_families(spec, &path, &mut errors);
    }
    errors
}

fn check_families(spec: &JsonObject, root: &Path<'_>, errors: &mut Vec<Error>) {
    let path = root.child("ipFamilies");
    let mut seen = HashSet::new();
    for (index, family) in read::list(spec, "ipFamilies").iter().enumerate() {
        let family = family.as_str().unwrap_or_default();
        let shown = || BadValue::Text(json::marshal(&json!(family)));
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(Error::not_supported(&path.index(index), shown(), ["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            errors.push(Error::duplicate(&path.index(index), shown()));
        }
    }
    if let Some(policy) = spec.get("ipFamilyPolicy").and_then(Value::as_str)
        && !matches!(policy, "PreferDualStack" | "RequireDualStack" | "SingleStack")
    {
        let shown = BadValue::Text(json::marshal(&json!(policy)));
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        errors.push(Error::not_supported(&root.child("ipFamilyPolicy"), shown, known));
    }
}

/// One address of each family, and each of the family that is said.
fn check_address_families(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let addresses = read::list(spec, "clusterIPs");
    let families = read::list(spec, "ipFamilies");
    let parsed: Vec<Option<IpAddr>> =
        addresses.iter().map(|it| it.as_str().and_then(|text| text.parse().ok())).collect();
    if parsed.len() > 1 {
        let of_six = parsed.iter().flatten().filter(|address| address.is_ipv6()).count();
        if of_six == 0 || of_six == parsed.len() {
            let words = "may specify no more than one IP for each IP family";
            errors.push(Error::invalid(path, Value::from(addresses), words));
        }
    }
    for (index, (address, family)) in parsed.iter().zip(families).enumerate() {
        let Some(address) = address else { continue };
        let expected = if address.is_ipv6() { "IPv4" } else { "IPv6" };
        if family == expected {
            let words = format!("expected an {expected} value as indicated by `ipFamilies[{index}]`");
            errors.push(Error::invalid(&path.index(index), &addresses[index], words));
        }
    }
}

fn check_node_ports(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let path = path.child("ports");
    let node_port = |port: &JsonObject| read::integer(port, "nodePort").filter(|port| *port != 0);
    if read::text(spec, "type") == "ClusterIP" {
        for (index, _) in read::objects(spec, "ports").filter(|(_, port)| node_port(port).is_some()) {
            let words = "may not be used when `type` is 'ClusterIP'";
            errors.push(Error::forbidden(&path.index(index).child("nodePort"), words));
        }
    }
    let mut seen = HashSet::new();
    for (index, port) in read::objects(spec, "ports") {
        let Some(number) = node_port(port) else { continue };
        if !seen.insert((read::text(port, "protocol"), number)) {
            errors.push(Error::duplicate(&path.index(index).child("nodePort"), number));
        }
    }
}

fn check_balancer(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let is_balanced = read::text(spec, "type") == "LoadBalancer";
    let words = "may only be used when `type` is 'LoadBalancer'";
    if !read::list(spec, "loadBalancerSourceRanges").is_empty() && !is_balanced {
        // With a capital letter, as in `ValidateService`.
        errors.push(Error::forbidden(&path.child("LoadBalancerSourceRanges"), words));
    }
    if read::has(spec, "allocateLoadBalancerNodePorts") && !is_balanced {
        errors.push(Error::forbidden(&path.child("allocateLoadBalancerNodePorts"), words));
    }
    if let Some(class) = spec.get("loadBalancerClass").and_then(Value::as_str) {
        let path = path.child("loadBalancerClass");
        if is_balanced {
            errors.extend(read::by_rule(class, names::qualified, &path));
        } else {
            errors.push(Error::forbidden(&path, words));
        }
    }
}

fn check_traffic(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let kind = read::text(spec, "type");
    let is_outside = matches!(kind, "NodePort" | "LoadBalancer")
        || kind == "ClusterIP" && !read::list(spec, "externalIPs").is_empty();
    let policy = read::text(spec, "externalTrafficPolicy");
    let typed = |text: &str| BadValue::Text(json::marshal(&json!(text)));
    let at = path.child("externalTrafficPolicy");
    match policy {
        "" if is_outside => errors.push(Error::required(&at, "")),
        "" | "Cluster" | "Local" if is_outside || policy.is_empty() => {}
        _ if !is_outside => {
            let words = "may only be set for externally-accessible services";
            errors.push(Error::invalid(&at, typed(policy), words));
        }
        other => errors.push(Error::not_supported(&at, typed(other), ["Cluster", "Local"])),
    }
    let at = path.child("healthCheckNodePort");
    match read::integer(spec, "healthCheckNodePort").filter(|port| *port != 0) {
        None => {}
        Some(port) if kind == "LoadBalancer" && policy == "Local" => {
            errors.extend(read::port_number(port, &at));
        }
        Some(port) => {
            let words =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(Error::invalid(&at, port, words));
        }
    }
    if let Some(policy) = spec.get("internalTrafficPolicy").and_then(Value::as_str)
        && !matches!(policy, "Cluster" | "Local")
    {
        let at = path.child("internalTrafficPolicy");
        errors.push(Error::not_supported(&at, typed(policy), ["Cluster", "Local"]));
    }
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(distribution) = spec.get("trafficDistribution").and_then(Value::as_str)
        && !distributions.contains(&distribution)
    {
        errors.push(Error::not_supported(&path.child("trafficDistribution"), distribution, distributions));
    }
}

/// What may not change about a service.
pub(super) fn update(object: &JsonObject, old: &JsonObject) -> Vec<Error> {
    let (Some(new), Some(old)) = (read::object(object, "spec"), read::object(old, "spec")) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    let root = Path::new("spec");
    let is_named = |spec: &JsonObject| read::text(spec, "type") == "ExternalName";
    // Only what was given out is frozen, and neither of these has an address of a pool.
    let is_free = is_named(new) || is_named(old) || is_headless(new) && is_headless(old);
    if !is_free {
        let path = root.child("clusterIPs");
        // There is only one family to be had, so that nothing is ever released or added, which Kubernetes has
        // other words for.
        let (now, then) = (read::list(new, "clusterIPs"), read::list(old, "clusterIPs"));
        for (index, _) in then.iter().enumerate().filter(|(index, it)| now.get(*index) != Some(*it)) {
            errors.push(Error::invalid(&path.index(index), Value::from(now), "may not change once set"));
        }
        let (now, then) = (read::list(new, "ipFamilies"), read::list(old, "ipFamilies"));
        if is_headless(new) == is_headless(old) && now.len() == then.len() {
            let changed = now.iter().zip(then).filter(|(now, then)| now != then);
            let path = root.child("ipFamilies");
            let words = "may not change once set";
            // At the first place whichever changed, as in `validateUpgradeDowngradeIPFamilies`.
            errors.extend(changed.map(|_| Error::invalid(&path.index(0), Value::from(now), words)));
        }
    }
    let is_balanced = |spec: &JsonObject| read::text(spec, "type") == "LoadBalancer";
    if is_balanced(new) && is_balanced(old) {
        let class = |spec: &JsonObject| spec.get("loadBalancerClass").cloned().unwrap_or_default();
        if class(new) != class(old) {
            let path = root.child("loadBalancerClass");
            errors.push(Error::invalid(&path, class(new), "may not change once set"));
        }
        let is_local = |spec: &JsonObject| read::text(spec, "externalTrafficPolicy") == "Local";
        let port = |spec: &JsonObject| read::integer(spec, "healthCheckNodePort");
        if is_local(new) && is_local(old) && port(new) != port(old) {
            errors.push(Error::forbidden(&root.child("healthCheckNodePort"), "field is immutable"));
        }
    }
    errors
}

fn check_external_name(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    // A name that is complete may end in a dot, which no rule for names of objects allows.
    let name = read::text(spec, "externalName").trim_end_matches('.');
    let path = path.child("externalName");
    if name.is_empty() {
        errors.push(Error::required(&path, ""));
    } else {
        errors.extend(read::by_rule(name, names::subdomain, &path));
    }
}

fn check_ports(spec: &JsonObject, must_have_names: bool, path: &Path<'_>, errors: &mut Vec<Error>) {
    let path = path.child("ports");
    let mut seen = HashSet::new();
    for (index, port) in read::objects(spec, "ports") {
        let path = path.index(index);
        let name = read::text(port, "name");
        let name_path = path.child("name");
        if name.is_empty() && must_have_names {
            errors.push(Error::required(&name_path, ""));
        } else if !name.is_empty() {
            errors.extend(read::by_rule(name, names::label, &name_path));
            if !seen.insert(name) {
                errors.push(Error::duplicate(&name_path, name));
            }
        }
        let number = read::integer(port, "port").unwrap_or_default();
        errors.extend(read::port_number(number, &path.child("port")));
        errors.extend(read::one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path));
        if let Some(target) = port.get("targetPort") {
            read::port(target, &path.child("targetPort"), errors);
        }
    }
}

/// The same port twice with one protocol.
fn check_duplicate_ports(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let path = path.child("ports");
    let mut seen = HashSet::new();
    for (index, port) in read::objects(spec, "ports") {
        let protocol = read::text(port, "protocol");
        let number = read::integer(port, "port").unwrap_or_default();
        if !seen.insert((protocol, number)) {
            // Fields in the order of Go, whose names these are.
            let text = |text: &str| json::marshal(&json!(text));
            let shown = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#,
                text(protocol)
            );
            errors.push(Error::duplicate(&path.index(index), BadValue::Text(shown)));
        }
    }
}
