//! Pods: the parts of them that people write most. Volumes are identified but not checked, nor are security contexts,
//! affinities, tolerations, topologies, resource claims and lifecycles.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/core/validation/validation.go`.

use std::collections::HashSet;

use ferroplane_cel::quantity::Quantity;
use ferroplane_golang::json::JsonObject;

use super::read;
use crate::field::{Error, Path};
use crate::{meta, names};

/// What is wrong with a template of pods.
pub(super) fn template(template: &JsonObject, path: &Path<'_>) -> Vec<Error> {
    let mut errors = template_metadata(template, path);
    if let Some(spec) = read::object(template, "spec") {
        errors.extend(check(spec, &[], &path.child("spec")));
        errors.extend(names_of_host(spec, &path.child("spec")));
    }
    errors.extend(no_ephemeral_containers(template, path));
    errors
}

/// The same for pods that get names of their own, and volumes that are added later.
pub(super) fn numbered_template(template: &JsonObject, added: &[&str], path: &Path<'_>) -> Vec<Error> {
    let mut errors = template_metadata(template, path);
    // Kubernetes looks twice.
    errors.extend(errors.clone());
    if let Some(spec) = read::object(template, "spec") {
        errors.extend(check(spec, added, &path.child("spec")));
    }
    errors.extend(no_ephemeral_containers(template, path));
    errors
}

fn template_metadata(template: &JsonObject, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    let Some(metadata) = read::object(template, "metadata") else { return errors };
    meta::validate_labels(read::pairs(metadata, "labels"), &path.child("labels"), &mut errors);
    for (key, _) in read::pairs(metadata, "annotations") {
        // The case of annotations does not matter to Kubernetes, only that of labels does.
        let problems = names::qualified(&key.to_lowercase()).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(&path.child("annotations"), key, problem)));
    }
    errors
}

fn no_ephemeral_containers(template: &JsonObject, path: &Path<'_>) -> Option<Error> {
    let spec = read::object(template, "spec")?;
    if read::list(spec, "ephemeralContainers").is_empty() {
        return None;
    }
    let words = "ephemeral containers not allowed in pod template";
    Some(Error::forbidden(&path.child("spec").child("ephemeralContainers"), words))
}

/// What is wrong with the specification of a pod.
pub(super) fn spec(spec: &JsonObject, path: &Path<'_>) -> Vec<Error> {
    let mut errors = check(spec, &[], path);
    errors.extend(names_of_host(spec, path));
    errors
}

fn check(spec: &JsonObject, added: &[&str], path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut volumes = check_volumes(spec, path, &mut errors);
    volumes.extend(added);
    check_containers(spec, &volumes, path, &mut errors);
    let policies = ["Always", "OnFailure", "Never"];
    errors.extend(read::one_of(spec, "restartPolicy", &policies, path));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.extend(read::one_of(spec, "dnsPolicy", &policies, path));
    meta::validate_labels(read::pairs(spec, "nodeSelector"), &path.child("nodeSelector"), &mut errors);
    for (name, rule) in
        [("serviceAccountName", names::subdomain as fn(&str) -> Vec<String>), ("nodeName", names::subdomain)]
    {
        let value = read::text(spec, name);
        if !value.is_empty() {
            errors.extend(read::by_rule(value, rule, &path.child(name)));
        }
    }
    if let Some(deadline) = read::integer(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let words = "must be between 1 and 2147483647, inclusive";
        errors.push(Error::invalid(&path.child("activeDeadlineSeconds"), deadline, words));
    }
    errors
}

fn names_of_host(spec: &JsonObject, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    for name in ["hostname", "subdomain"] {
        let value = read::text(spec, name);
        if !value.is_empty() {
            errors.extend(read::by_rule(value, names::label, &path.child(name)));
        }
    }
    errors
}

/// The names of the volumes that are as they should be.
fn check_volumes<'f>(spec: &'f JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) -> HashSet<&'f str> {
    let mut volumes = HashSet::new();
    let path = path.child("volumes");
    for (index, volume) in read::objects(spec, "volumes") {
        let path = path.index(index);
        let before = errors.len();
        let sources = volume.iter().filter(|(name, value)| *name != "name" && !value.is_null()).count();
        if sources == 0 {
            errors.push(Error::required(&path, "must specify a volume type"));
        }
        read::required_label(volume, "name", &path, errors);
        let name = read::text(volume, "name");
        if volumes.contains(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        // A volume that is wrong is not known to mounts, which then are reported as well: `ValidateVolumes`
        // collects only sound ones.
        if errors.len() == before {
            volumes.insert(name);
        }
    }
    volumes
}

fn check_containers(spec: &JsonObject, volumes: &HashSet<&str>, path: &Path<'_>, errors: &mut Vec<Error>) {
    let below = path.child("containers");
    if read::list(spec, "containers").is_empty() {
        errors.push(Error::required(&below, ""));
    }
    let mut seen = HashSet::new();
    for (index, container) in read::objects(spec, "containers") {
        let path = below.index(index);
        check_container(container, volumes, &path, errors);
        let name = read::text(container, "name");
        if !seen.insert(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        check_probes(container, &path, errors);
    }
    let below = path.child("initContainers");
    for (index, container) in read::objects(spec, "initContainers") {
        let path = below.index(index);
        check_container(container, volumes, &path, errors);
        let name = read::text(container, "name");
        if seen.contains(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        } else if !name.is_empty() {
            seen.insert(name);
        }
        if read::text(container, "restartPolicy") == "Always" {
            check_probes(container, &path, errors);
            continue;
        }
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if read::has(container, name) {
                let words = "may not be set for init containers without restartPolicy=Always";
                errors.push(Error::forbidden(&path.child(name), words));
            }
        }
    }
}

fn check_container(
    container: &JsonObject,
    volumes: &HashSet<&str>,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    read::required_label(container, "name", path, errors);
    if read::text(container, "image").is_empty() {
        errors.push(Error::required(&path.child("image"), ""));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    errors.extend(read::one_of(container, "terminationMessagePolicy", &policies, path));
    check_ports(container, path, errors);
    check_environment(container, path, errors);
    check_mounts(container, volumes, path, errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    errors.extend(read::one_of(container, "imagePullPolicy", &policies, path));
    if let Some(resources) = read::object(container, "resources") {
        check_resources(resources, &path.child("resources"), errors);
    }
}

fn check_ports(container: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let path = path.child("ports");
    let mut seen = HashSet::new();
    for (index, port) in read::objects(container, "ports") {
        let path = path.index(index);
        let name = read::text(port, "name");
        if !name.is_empty() {
            let problems = read::port_name(name);
            if problems.is_empty() && !seen.insert(name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
            errors.extend(
                problems.into_iter().map(|problem| Error::invalid(&path.child("name"), name, problem)),
            );
        }
        match read::integer(port, "containerPort").unwrap_or_default() {
            0 => errors.push(Error::required(&path.child("containerPort"), "")),
            number => errors.extend(read::port_number(number, &path.child("containerPort"))),
        }
        if let Some(number) = read::integer(port, "hostPort").filter(|number| *number != 0) {
            errors.extend(read::port_number(number, &path.child("hostPort")));
        }
        errors.extend(read::one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path));
    }
}

fn check_environment(container: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let path = path.child("env");
    for (index, variable) in read::objects(container, "env") {
        let path = path.index(index);
        let name = read::text(variable, "name");
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else if !name.bytes().all(|byte| (0x20..=0x7e).contains(&byte) && byte != b'=') {
            let words = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            errors.push(Error::invalid(&path.child("name"), name, words));
        }
        if let Some(source) = read::object(variable, "valueFrom") {
            check_source(variable, source, &path.child("valueFrom"), errors);
        }
    }
}

fn check_source(variable: &JsonObject, source: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = read::object(source, name) {
            let path = path.child(name);
            for part in ["name", "key"] {
                if read::text(reference, part).is_empty() {
                    errors.push(Error::required(&path.child(part), ""));
                }
            }
        }
    }
    let count = source.values().filter(|value| !value.is_null()).count();
    let words = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !read::text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(Error::invalid(path, "", words));
}

fn check_mounts(container: &JsonObject, volumes: &HashSet<&str>, path: &Path<'_>, errors: &mut Vec<Error>) {
    let path = path.child("volumeMounts");
    let mut seen = HashSet::new();
    for (index, mount) in read::objects(container, "volumeMounts") {
        let path = path.index(index);
        let name = read::text(mount, "name");
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(Error::new(crate::field::ErrorKind::NotFound, &path.child("name"), name, ""));
        }
        let place = read::text(mount, "mountPath");
        if place.is_empty() {
            errors.push(Error::required(&path.child("mountPath"), ""));
        }
        if !seen.insert(place) {
            errors.push(Error::invalid(&path.child("mountPath"), place, "must be unique"));
        }
    }
}

/// Amounts are not negative, and no request exceeds its limit.
fn check_resources(resources: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let amount =
        |list: &str, name: &str| Quantity::parse(read::text(read::object(resources, list)?, name)).ok();
    for list in ["limits", "requests"] {
        let below = path.child(list);
        for (name, text) in read::pairs(resources, list) {
            let Ok(quantity) = Quantity::parse(text) else { continue };
            if quantity.sign() < 0 {
                let words = "must be greater than or equal to 0";
                errors.push(Error::invalid(&below.key(name), text, words));
            }
            if list == "requests"
                && let Some(limit) = amount("limits", name).filter(|limit| quantity > *limit)
            {
                let words = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(Error::invalid(&below, text, words));
            }
        }
    }
}

fn check_probes(container: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = read::object(container, name) else { continue };
        let path = path.child(name);
        check_handler(probe, &path, errors);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            errors.extend(read::non_negative(probe, field, &path));
        }
        let period = read::integer(probe, "terminationGracePeriodSeconds");
        if let Some(period) = period.filter(|period| *period <= 0) {
            let path = path.child("terminationGracePeriodSeconds");
            errors.push(Error::invalid(&path, period, "must be greater than 0"));
        }
        if name == "readinessProbe" {
            if let Some(period) = period {
                let path = path.child("terminationGracePeriodSeconds");
                errors.push(Error::invalid(&path, period, "must not be set for readinessProbes"));
            }
        } else if let Some(threshold) = read::integer(probe, "successThreshold").filter(|number| *number != 1)
        {
            errors.push(Error::invalid(&path.child("successThreshold"), threshold, "must be 1"));
        }
    }
}

fn check_handler(probe: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let mut has_one = false;
    for name in ["exec", "httpGet", "tcpSocket", "grpc"] {
        let Some(handler) = read::object(probe, name) else { continue };
        let path = path.child(name);
        if has_one {
            errors.push(Error::forbidden(&path, "may not specify more than 1 handler type"));
            continue;
        }
        has_one = true;
        match name {
            "exec" if read::list(handler, "command").is_empty() => {
                errors.push(Error::required(&path.child("command"), ""));
            }
            "exec" => {}
            _ => {
                if let Some(port) = handler.get("port") {
                    read::port(port, &path.child("port"), errors);
                }
                if name == "httpGet" {
                    errors.extend(read::one_of(handler, "scheme", &["HTTP", "HTTPS"], &path));
                }
            }
        }
    }
    if !has_one {
        errors.push(Error::required(path, "must specify a handler type"));
    }
}
