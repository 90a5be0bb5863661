//! What a pod as a whole asks for, counted from its containers where it says only what it may use.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/core/v1/defaults.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use ferroplane_cel::quantity::Quantity;

type Amounts = BTreeMap<String, Quantity>;

/// Completes the resources of a pod that has some. Those of its containers are complete.
pub(super) fn complete(spec: &mut Map<String, Value>) {
    let Some(Value::Object(mut resources)) = spec.remove("resources") else { return };
    limit_huge_pages(spec, &mut resources);
    request(spec, &mut resources);
    spec.insert("resources".to_owned(), Value::Object(resources));
}

fn limit_huge_pages(spec: &Map<String, Value>, resources: &mut Map<String, Value>) {
    let requests = amounts(resources.get("requests"));
    if requests.is_empty() && amounts(resources.get("limits")).is_empty() {
        return;
    }
    for (name, amount) in of_containers(spec, "limits") {
        if is_huge_pages(&name) && !requests.contains_key(&name) {
            add(resources, "limits", name, amount);
        }
    }
}

fn request(spec: &Map<String, Value>, resources: &mut Map<String, Value>) {
    let limits = amounts(resources.get("limits"));
    if limits.is_empty() {
        return;
    }
    for (name, amount) in of_containers(spec, "requests") {
        if matches!(name.as_str(), "cpu" | "memory") {
            add(resources, "requests", name, amount);
        }
    }
    for (name, amount) in limits {
        // The only resources that a pod as a whole may ask for.
        if matches!(name.as_str(), "cpu" | "memory") || is_huge_pages(&name) {
            add(resources, "requests", name, amount);
        }
    }
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn add(resources: &mut Map<String, Value>, list: &str, name: String, amount: Quantity) {
    let list = resources.entry(list).or_insert_with(|| json!({}));
    if let Some(list) = list.as_object_mut() {
        // The first one counts, so that what containers ask for goes before the pod's limits.
        list.entry(name).or_insert_with(|| Value::from(amount.to_string()));
    }
}

/// What the containers need at the same time: all of them, or what the most demanding step before them needs.
fn of_containers(spec: &Map<String, Value>, list: &str) -> Amounts {
    let containers = |name: &str| spec.get(name).and_then(Value::as_array).into_iter().flatten();
    let own = |container: &Value| amounts(container.pointer(&format!("/resources/{list}")));
    let mut total = Amounts::new();
    containers("containers").for_each(|container| increase(&mut total, own(container)));
    let (mut beside, mut most) = (Amounts::new(), Amounts::new());
    for container in containers("initContainers") {
        let mut needed = own(container);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            increase(&mut total, needed.clone());
            increase(&mut beside, needed);
            // A sidecar starts while those before it run on, and without any ordinary step beside it.
            needed = beside.clone();
        } else {
            increase(&mut needed, beside.clone());
        }
        raise(&mut most, needed);
    }
    raise(&mut total, most);
    total
}

fn amounts(list: Option<&Value>) -> Amounts {
    let list = list.and_then(Value::as_object).into_iter().flatten();
    list.filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()?).ok()?))).collect()
}

fn increase(total: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        total.entry(name).and_modify(|sum| *sum = sum.plus(amount)).or_insert(amount);
    }
}

fn raise(most: &mut Amounts, other: Amounts) {
    for (name, amount) in other {
        most.entry(name).and_modify(|old| *old = (*old).max(amount)).or_insert(amount);
    }
}
