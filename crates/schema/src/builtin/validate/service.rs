//! Services.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::read;
use crate::field::{BadValue, Error, Path};
use crate::{go_text, meta, names};

type Fields = Map<String, Value>;

pub(super) fn check(object: &Fields) -> Vec<Error> {
    let Some(spec) = read::object(object, "spec") else { return Vec::new() };
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let kind = read::text(spec, "type");
    let is_headless = read::text(spec, "clusterIP") == "None";
    let ports = read::list(spec, "ports");
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        errors.push(Error::required(&path.child("ports"), ""));
    }
    if kind == "ExternalName" {
        check_external_name(spec, &path, &mut errors);
    }
    check_ports(spec, ports.len() > 1, &path, &mut errors);
    if read::has(spec, "selector") {
        meta::validate_labels(read::pairs(spec, "selector"), &path.child("selector"), &mut errors);
    }
    errors.extend(read::one_of(spec, "sessionAffinity", &["ClientIP", "None"], &path));
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors.extend(read::one_of(spec, "type", &kinds, &path));
    check_duplicate_ports(spec, &path, &mut errors);
    errors
}

fn check_external_name(spec: &Fields, path: &Path<'_>, errors: &mut Vec<Error>) {
    let name = read::text(spec, "externalName").trim_end_matches('.');
    let path = path.child("externalName");
    if name.is_empty() {
        errors.push(Error::required(&path, ""));
    } else {
        errors.extend(read::by_rule(name, names::subdomain, &path));
    }
}

fn check_ports(spec: &Fields, must_have_names: bool, path: &Path<'_>, errors: &mut Vec<Error>) {
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
fn check_duplicate_ports(spec: &Fields, path: &Path<'_>, errors: &mut Vec<Error>) {
    let path = path.child("ports");
    let mut seen = HashSet::new();
    for (index, port) in read::objects(spec, "ports") {
        let protocol = read::text(port, "protocol");
        let number = read::integer(port, "port").unwrap_or_default();
        if !seen.insert((protocol, number)) {
            // Fields in the order of Go, whose names these are.
            let text = |text: &str| go_text::json(&json!(text));
            let shown = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#,
                text(protocol)
            );
            errors.push(Error::duplicate(&path.index(index), BadValue::Text(shown)));
        }
    }
}
