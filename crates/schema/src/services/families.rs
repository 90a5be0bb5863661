//! Which families of addresses a service has: the only one that there is, unless it says something else.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry/core/service/storage/alloc.go`.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::spec::Spec;
use crate::builtin::check_cluster_addresses;
use crate::field::{Error, Path};

const FAMILY: &str = "IPv4";

/// Fills in families and policy, and says what cannot be obtained.
pub(super) fn choose(new: &mut Spec, before: Option<&Spec>) -> Result<(), Vec<Error>> {
    if new.kind() == "ExternalName" || before.is_some_and(|before| prefers_as_before(new, before)) {
        return Ok(());
    }
    // Headless and without selector: another client writes its endpoints, of whichever families.
    let is_own_affair = new.address() == "None" && !new.has_selector();
    if new.policy().is_none() {
        let old = before.and_then(Spec::policy);
        // The policy from before, so that a service never changes its families because a client left the policy out.
        let policy = old.unwrap_or(if is_own_affair { "RequireDualStack" } else { "SingleStack" });
        new.set_policy(policy);
    }
    refuse(check_cluster_addresses(new.fields()))?;
    // What is wrong with the policy and with the addresses is said together, as Kubernetes does.
    let mut errors = reduced(new, before);
    errors.extend(infer_families(new));
    refuse(errors)?;
    // Before the check of what is available, which would refuse it.
    if is_own_affair {
        let mut families = new.families();
        if families.is_empty() {
            families.push(FAMILY.to_owned());
        }
        if families.len() < 2 && new.policy() != Some("SingleStack") {
            families.push(if families[0] == FAMILY { "IPv6" } else { FAMILY }.to_owned());
        }
        new.set_families(&families);
        return Ok(());
    }
    refuse(unavailable(new))?;
    if new.families().is_empty() {
        new.set_families(&[FAMILY.to_owned()]);
    }
    Ok(())
}

fn refuse(errors: Vec<Error>) -> Result<(), Vec<Error>> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A service that would like two families, and is content with what it has, is left alone.
fn prefers_as_before(new: &Spec, before: &Spec) -> bool {
    let prefers = |spec: &Spec| spec.policy() == Some("PreferDualStack");
    prefers(new)
        && (prefers(before) || before.policy().is_none())
        && new.kind() == before.kind()
        && new.addresses() == before.addresses()
        && new.families() == before.families()
}

/// The policy must allow for how many there are.
fn reduced(new: &mut Spec, before: Option<&Spec>) -> Vec<Error> {
    let root = Path::new("spec");
    let path = root.child("ipFamilyPolicy");
    let mut errors = Vec::new();
    let policy = new.policy().unwrap_or_default().to_owned();
    let mut refuse = |words: &str| errors.push(Error::invalid(&path, policy.as_str(), words));
    if let Some(before) = before {
        if policy == "SingleStack" {
            let (addresses, families) = (new.addresses(), new.families());
            if addresses.len() > 1 && addresses == before.addresses() {
                new.set_addresses(&addresses[..1]);
            }
            if families.len() > 1 && families == before.families() {
                new.set_families(&families[..1]);
            }
        } else {
            // None at all means that they were not said.
            let is_less = |now: usize, then: usize| now > 0 && now < then;
            if is_less(new.addresses().len(), before.addresses().len()) {
                refuse("must be 'SingleStack' to release the secondary cluster IP");
            }
            if is_less(new.families().len(), before.families().len()) {
                refuse("must be 'SingleStack' to release the secondary IP family");
            }
        }
    }
    if policy == "SingleStack" {
        let words = |what: &str| {
            format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified")
        };
        if new.addresses().len() == 2 {
            refuse(&words("cluster IPs"));
        }
        if new.families().len() == 2 {
            refuse(&words("IP families"));
        }
    }
    errors
}

/// Families that addresses tell.
fn infer_families(new: &mut Spec) -> Vec<Error> {
    let mut families = new.families();
    let addresses = new.addresses();
    let mut errors = Vec::new();
    for (index, address) in addresses.iter().enumerate().take_while(|(_, address)| *address != "None") {
        if index < families.len() {
            continue;
        }
        if address.parse::<Ipv4Addr>().is_ok() {
            families.push(FAMILY.to_owned());
        } else {
            let family = if address.parse::<Ipv6Addr>().is_ok() { "IPv6" } else { "unknown" };
            let root = Path::new("spec");
            let path = root.child("clusterIPs");
            let words = format!("{family} is not configured on this cluster");
            errors.push(Error::invalid(&path.index(index), Value::from(addresses.clone()), words));
        }
    }
    new.set_families(&families);
    errors
}

/// There is but one family to be had.
fn unavailable(new: &Spec) -> Vec<Error> {
    let root = Path::new("spec");
    let mut errors = Vec::new();
    if new.policy() == Some("RequireDualStack") {
        let words = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid(&root.child("ipFamilyPolicy"), "RequireDualStack", words));
    }
    let path = root.child("ipFamilies");
    for (index, family) in new.families().iter().enumerate().filter(|(_, family)| *family != FAMILY) {
        errors.push(Error::invalid(&path.index(index), family, "not configured on this cluster"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_policy_and_addresses_is_said_together() {
        let spec = |json: Value| Spec::of(json.as_object().unwrap());
        let mut new = spec(json!({
            "type": "ClusterIP", "ipFamilyPolicy": "SingleStack",
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
        }));
        let errors = choose(&mut new, None).unwrap_err();
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when \
             multiple cluster IPs are specified",
                "spec.clusterIPs[1]: Invalid value: [\"10.0.0.1\",\"fd00::1\"]: IPv6 is not configured on this cluster",
            ]
        );
    }
}
