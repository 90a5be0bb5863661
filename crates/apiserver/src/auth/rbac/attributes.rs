//! What is asked for, in the words that rules use.

use ferroplane_golang::strconv::quote;
use ferroplane_schema::status::{Resource, Status};

use crate::auth::identity::Identity;

/// A request as rules see it. With a `path`, it is about no resource, and the fields of resources are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    pub namespace: &'a str,
    pub path: Option<&'a str>,
}

impl Attributes<'_> {
    /// The refusal. The reason is what [`Decision`](super::Decision) gave, and may be empty.
    pub fn forbidden(&self, identity: &Identity, reason: &str) -> Status {
        let mut why = sanitize(&self.cannot(identity));
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        Status::forbidden(&Resource::new(self.group, self.resource), self.name, &why)
    }

    fn cannot(&self, identity: &Identity) -> String {
        let (user, verb) = (quote(&identity.name), self.verb);
        if let Some(path) = self.path {
            return format!("User {user} cannot {verb} path {}", quote(path));
        }
        let resource = match self.subresource {
            "" => quote(self.resource),
            subresource => quote(&format!("{}/{subresource}", self.resource)),
        };
        let scope = match self.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        format!("User {user} cannot {verb} resource {resource} in API group {} {scope}", quote(self.group))
    }
}

/// An answer must not look like a page to a browser.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(attributes: Attributes<'_>, reason: &str) -> String {
        attributes.forbidden(&Identity::authenticated("bob", []), reason).message
    }

    const DELETE: Attributes<'_> = Attributes {
        verb: "delete",
        group: "example.org",
        resource: "widgets",
        subresource: "",
        name: "x",
        namespace: "default",
        path: None,
    };

    #[test]
    fn refusal_names_the_resource_and_its_namespace() {
        assert_eq!(
            refusal(DELETE, ""),
            "widgets.example.org \"x\" is forbidden: User \"bob\" cannot delete resource \"widgets\" \
             in API group \"example.org\" in the namespace \"default\""
        );
    }

    #[test]
    fn refusal_names_the_subresource_and_the_cluster_scope() {
        let attributes = Attributes { namespace: "", name: "", subresource: "scale", ..DELETE };
        assert_eq!(
            refusal(attributes, "RBAC: no"),
            "widgets.example.org is forbidden: User \"bob\" cannot delete resource \"widgets/scale\" \
             in API group \"example.org\" at the cluster scope: RBAC: no"
        );
    }

    #[test]
    fn refusal_names_the_path() {
        let attributes = Attributes { verb: "get", path: Some("/metrics<b>"), ..Attributes::default() };
        assert_eq!(refusal(attributes, ""), "forbidden: User \"bob\" cannot get path \"/metrics&lt;b&gt;\"");
    }
}
