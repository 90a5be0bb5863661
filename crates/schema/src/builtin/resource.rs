//! The resources of a Kubernetes API server, as it lists them when it is asked what it has.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/installer.go`.

use std::sync::OnceLock;

static TABLE: &str = include_str!("tables/resources.txt");

const ALL: &str = "create,delete,deletecollection,get,list,patch,update,watch";

/// A resource: a kind, and what can be done with its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub scope: Scope,
    /// Sorted.
    pub verbs: Vec<&'static str>,
    pub short_names: Vec<&'static str>,
    pub categories: Vec<&'static str>,
    /// The group and version that objects are stored as.
    pub storage: (&'static str, &'static str),
    /// Sorted by name.
    pub subresources: Vec<Subresource>,
}

/// Whether objects are in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// A part of a resource that is used on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    pub name: &'static str,
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    /// Sorted.
    pub verbs: Vec<&'static str>,
}

/// All resources, by group, version and plural name.
pub fn resources() -> &'static [Resource] {
    static RESOURCES: OnceLock<Vec<Resource>> = OnceLock::new();
    RESOURCES.get_or_init(|| parse(TABLE).expect("the table is generated, and a test reads it"))
}

fn parse(table: &'static str) -> Option<Vec<Resource>> {
    let mut resources: Vec<Resource> = Vec::new();
    let mut place = ("", "");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        match *words.as_slice() {
            ["group", group, version] => place = (if group == "-" { "" } else { group }, version),
            [name, kind, verbs_of, ref facts @ ..] if name.starts_with('/') => {
                let (group, version) =
                    fact(facts, "g").and_then(|text| text.split_once('/')).unwrap_or(place);
                let name = &name[1..];
                let verbs = verbs(verbs_of);
                resources.last_mut()?.subresources.push(Subresource { name, group, version, kind, verbs });
            }
            [plural, singular, kind, scope, verbs_of, ref facts @ ..] => resources.push(Resource {
                group: place.0,
                version: place.1,
                kind,
                plural,
                singular,
                scope: if scope == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
                verbs: verbs(verbs_of),
                short_names: names(fact(facts, "s")),
                categories: names(fact(facts, "c")),
                storage: fact(facts, "v").and_then(|text| text.split_once('/')).unwrap_or(place),
                subresources: Vec::new(),
            }),
            _ => return None,
        }
    }
    Some(resources)
}

fn fact(facts: &[&'static str], name: &str) -> Option<&'static str> {
    facts.iter().find_map(|fact| fact.strip_prefix(name)?.strip_prefix('='))
}

fn names(text: Option<&'static str>) -> Vec<&'static str> {
    text.map(|text| text.split(',').collect()).unwrap_or_default()
}

fn verbs(text: &'static str) -> Vec<&'static str> {
    match text {
        "all" => ALL.split(',').collect(),
        "-" => Vec::new(),
        _ => text.split(',').collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(group: &str, plural: &str) -> &'static Resource {
        resources().iter().find(|resource| resource.group == group && resource.plural == plural).unwrap()
    }

    #[test]
    fn resources_have_what_clients_ask_for() {
        let deployments = find("apps", "deployments");
        assert_eq!(deployments.kind, "Deployment");
        assert_eq!(deployments.short_names, ["deploy"]);
        assert_eq!(deployments.categories, ["all"]);
        assert_eq!(deployments.scope, Scope::Namespaced);
        let names: Vec<_> = deployments.subresources.iter().map(|subresource| subresource.name).collect();
        assert_eq!(names, ["scale", "status"]);
        assert_eq!(deployments.subresources[0].group, "autoscaling");
        assert_eq!(
            find("", "namespaces").verbs,
            ["create", "delete", "get", "list", "patch", "update", "watch"]
        );
    }

    #[test]
    fn some_resources_are_stored_as_another_version() {
        assert_eq!(find("events.k8s.io", "events").storage, ("", "v1"));
        assert_eq!(find("", "pods").storage, ("", "v1"));
    }

    #[test]
    fn every_resource_has_a_kind_in_the_tables() {
        for resource in resources() {
            let kind = super::super::kind(resource.group, resource.version, resource.kind);
            assert!(kind.is_some(), "{}", resource.kind);
        }
    }
}
