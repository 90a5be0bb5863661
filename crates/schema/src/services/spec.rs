//! The part of a service that says how it is reached.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry/core/service/strategy.go`.

use std::collections::{HashMap, HashSet};

use ferroplane_golang::json::JsonObject;
use serde_json::{Value, json};

/// A `spec`.
#[derive(Debug, Clone, Default)]
pub(super) struct Spec {
    fields: JsonObject,
}

impl Spec {
    pub(super) fn of(fields: &JsonObject) -> Self {
        Self { fields: fields.clone() }
    }

    /// Takes it out of a service, to be put back.
    pub(super) fn take(service: &mut JsonObject) -> Self {
        let fields = service.get_mut("spec").and_then(Value::as_object_mut).map(std::mem::take);
        Self { fields: fields.unwrap_or_default() }
    }

    pub(super) fn put_back(self, service: &mut JsonObject) {
        service.insert("spec".to_owned(), Value::Object(self.fields));
    }

    fn text(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn set(&mut self, name: &str, value: Value) {
        let is_empty = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Number(number) => number.as_i64() == Some(0),
            _ => false,
        };
        if is_empty {
            self.fields.remove(name);
        } else {
            self.fields.insert(name.to_owned(), value);
        }
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let items = self.fields.get(name).and_then(Value::as_array).into_iter().flatten();
        items.map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
    }

    pub(super) fn kind(&self) -> &str {
        self.text("type")
    }

    pub(super) fn address(&self) -> &str {
        self.text("clusterIP")
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.texts("clusterIPs")
    }

    pub(super) fn set_addresses(&mut self, addresses: &[String]) {
        self.set("clusterIP", addresses.first().cloned().unwrap_or_default().into());
        self.set("clusterIPs", addresses.into());
    }

    pub(super) fn families(&self) -> Vec<String> {
        self.texts("ipFamilies")
    }

    pub(super) fn set_families(&mut self, families: &[String]) {
        self.set("ipFamilies", families.into());
    }

    pub(super) fn policy(&self) -> Option<&str> {
        self.fields.get("ipFamilyPolicy").and_then(Value::as_str)
    }

    pub(super) fn set_policy(&mut self, policy: &str) {
        self.set("ipFamilyPolicy", policy.into());
    }

    pub(super) fn has_selector(&self) -> bool {
        self.fields.get("selector").and_then(Value::as_object).is_some_and(|selector| !selector.is_empty())
    }

    pub(super) fn fields(&self) -> &JsonObject {
        &self.fields
    }

    pub(super) fn ports(&self) -> Vec<JsonObject> {
        let ports = self.fields.get("ports").and_then(Value::as_array).into_iter().flatten();
        ports.map(|port| port.as_object().cloned().unwrap_or_default()).collect()
    }

    pub(super) fn set_node_port(&mut self, index: usize, port: i64) {
        let ports = self.fields.get_mut("ports").and_then(Value::as_array_mut);
        if let Some(Value::Object(fields)) = ports.and_then(|ports| ports.get_mut(index)) {
            if port == 0 {
                fields.remove("nodePort");
            } else {
                fields.insert("nodePort".to_owned(), json!(port));
            }
        }
    }

    pub(super) fn node_ports(&self) -> Vec<i64> {
        self.ports().iter().map(node_port).filter(|port| *port != 0).collect()
    }

    pub(super) fn health_port(&self) -> i64 {
        self.fields.get("healthCheckNodePort").and_then(Value::as_i64).unwrap_or_default()
    }

    pub(super) fn set_health_port(&mut self, port: i64) {
        self.set("healthCheckNodePort", json!(port));
    }

    fn needs_address(&self) -> bool {
        self.kind() != "ExternalName"
    }

    pub(super) fn is_on_nodes(&self) -> bool {
        matches!(self.kind(), "NodePort" | "LoadBalancer")
    }

    /// Whether ports are given without being asked for.
    pub(super) fn gets_node_ports(&self) -> bool {
        match self.kind() {
            "NodePort" => true,
            "LoadBalancer" => self.fields.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
            _ => false,
        }
    }

    /// Whether a client asks nodes if they are well.
    pub(super) fn needs_health_port(&self) -> bool {
        self.kind() == "LoadBalancer" && self.text("externalTrafficPolicy") == "Local"
    }

    /// Keeps what was given before, and is not said again.
    pub(super) fn keep(&mut self, before: &Self) {
        if self.needs_address() && before.needs_address() {
            if self.address().is_empty() {
                self.set("clusterIP", before.address().into());
            }
            if self.addresses().is_empty() {
                self.set("clusterIPs", before.addresses().into());
            }
        }
        if self.gets_node_ports() && before.gets_node_ports() {
            self.keep_node_ports(before);
        }
        if self.needs_health_port() && before.needs_health_port() && self.health_port() == 0 {
            self.set_health_port(before.health_port());
        }
    }

    fn keep_node_ports(&mut self, before: &Self) {
        let name =
            |port: &JsonObject| port.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let used: HashSet<_> = self.node_ports().into_iter().collect();
        let known: HashMap<_, _> = before.ports().iter().map(|port| (name(port), node_port(port))).collect();
        for (index, port) in self.ports().iter().enumerate() {
            let known = known.get(&name(port)).copied().unwrap_or_default();
            // By name, because anything else about a port may have changed, its place as well. A number that
            // the update gives to another port is not given twice.
            if node_port(port) == 0 && !used.contains(&known) {
                self.set_node_port(index, known);
            }
        }
    }

    /// One address and a list of them say the same: who knows but one of the fields means both.
    pub(super) fn follow_address(&mut self, before: Option<&Self>) {
        let Some(before) = before else {
            if !self.address().is_empty() && self.addresses().is_empty() {
                self.set("clusterIPs", json!([self.address()]));
            }
            return;
        };
        // Older clients know only `clusterIP` and send back the list that they do not know as it was.
        let is_same = self.addresses() == before.addresses();
        if self.address() == before.address() {
            if self.addresses().is_empty() {
                self.set("clusterIPs", before.addresses().into());
            }
        } else if is_same && self.address().is_empty() {
            self.set("clusterIPs", Value::Null);
        } else if is_same {
            self.set("clusterIPs", json!([self.address()]));
        }
    }

    /// Takes away what another type needs.
    pub(super) fn drop_for_type(&mut self, before: &Self) {
        // What the user changed as well is left, for validation to refuse.
        let is_same = |new: &Self, name: &str| new.fields.get(name) == before.fields.get(name);
        if before.needs_address() && !self.needs_address() {
            if is_same(self, "clusterIP") && is_same(self, "clusterIPs") {
                self.set_addresses(&[]);
            }
            for name in ["ipFamilies", "ipFamilyPolicy"] {
                if is_same(self, name) {
                    self.fields.remove(name);
                }
            }
        }
        let old: HashSet<_> = before.node_ports().into_iter().collect();
        if before.is_on_nodes() && !self.is_on_nodes() && self.node_ports().iter().all(|it| old.contains(it))
        {
            (0..self.ports().len()).for_each(|index| self.set_node_port(index, 0));
        }
        if before.needs_health_port() && !self.needs_health_port() && is_same(self, "healthCheckNodePort") {
            self.set_health_port(0);
        }
        if before.kind() == "LoadBalancer" && self.kind() != "LoadBalancer" {
            for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
                if is_same(self, name) {
                    self.fields.remove(name);
                }
            }
        }
        if before.is_outside() && !self.is_outside() && is_same(self, "externalTrafficPolicy") {
            self.fields.remove("externalTrafficPolicy");
        }
    }

    /// Whether it can be reached from outside of a cluster.
    pub(super) fn is_outside(&self) -> bool {
        self.is_on_nodes() || self.kind() == "ClusterIP" && !self.texts("externalIPs").is_empty()
    }
}

pub(super) fn node_port(port: &JsonObject) -> i64 {
    port.get("nodePort").and_then(Value::as_i64).unwrap_or_default()
}
