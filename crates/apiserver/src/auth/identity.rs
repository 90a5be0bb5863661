//! Who asks.

use std::collections::BTreeMap;

use ferroplane_schema::names;
use serde_json::{Map, Value, json};

/// A client that shows nothing.
pub const ANONYMOUS: &str = "system:anonymous";
/// Members may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// All service accounts, of all namespaces.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A user, or a program that acts like one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Someone who showed who they are: they belong to the authenticated, too.
    pub fn authenticated(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let mut identity =
            Self { name: name.into(), groups: groups.into_iter().collect(), ..Self::default() };
        identity.join_authenticated();
        identity
    }

    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let identity =
            Self::authenticated(service_account_name(namespace, name), service_account_groups(namespace));
        Self { uid: uid.to_owned(), ..identity }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|candidate| candidate == group)
    }

    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// Whose share of places, memory and connections it uses: that of the user, or that of all service accounts of a namespace.
    ///
    /// A tenant who may create one service account may create a thousand, so each of them must not have a share of its own.
    pub(crate) fn flow(&self) -> &str {
        match split_service_account(&self.name) {
            Some((_, account)) => &self.name[..self.name.len() - account.len() - 1],
            None => &self.name,
        }
    }

    /// The `UserInfo` that reviews and the audit log show.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        for (key, text) in [("username", &self.name), ("uid", &self.uid)] {
            if !text.is_empty() {
                object.insert(key.to_owned(), json!(text));
            }
        }
        if !self.groups.is_empty() {
            object.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            object.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(object)
    }

    pub(crate) fn join_authenticated(&mut self) {
        let is_settled = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if !self.is_anonymous() && !self.groups.iter().any(is_settled) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
    }
}

/// The name that a service account has as a user.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

pub(crate) fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// The namespace and name of a service account, if the user is one.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let is_namespace = names::is_label(namespace);
    let is_name = names::is_subdomain(name);
    (is_namespace && is_name).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_belongs_to_the_groups_of_its_namespace() {
        let identity = Identity::service_account("default", "builder", "u1");
        assert_eq!(identity.name, "system:serviceaccount:default:builder");
        let groups = ["system:serviceaccounts", "system:serviceaccounts:default", AUTHENTICATED];
        assert_eq!(identity.groups, groups);
    }

    #[test]
    fn service_accounts_of_a_namespace_share_and_users_do_not() {
        let flow = |name: &str| Identity::authenticated(name, []).flow().to_owned();
        let [first, second] = ["builder", "system.second"].map(|name| service_account_name("red", name));
        assert_eq!(flow(&first), flow(&second));
        assert_ne!(flow(&first), flow(&service_account_name("redder", "builder")));
        assert_eq!(flow("bob"), "bob");
        assert_eq!(flow("system:serviceaccount:red"), "system:serviceaccount:red");
    }

    #[test]
    fn only_whole_names_are_service_accounts() {
        assert_eq!(split_service_account("system:serviceaccount:a:b"), Some(("a", "b")));
        for user in
            ["bob", "system:serviceaccount:a", "system:serviceaccount:a:b:c", "system:serviceaccount::b"]
        {
            assert_eq!(split_service_account(user), None, "{user}");
        }
    }

    #[test]
    fn anonymous_is_never_authenticated() {
        let mut identity = Identity::anonymous();
        identity.join_authenticated();
        assert_eq!(identity.groups, [UNAUTHENTICATED]);
    }

    #[test]
    fn empty_fields_are_not_shown() {
        let identity = Identity { name: "bob".to_owned(), ..Identity::default() };
        assert_eq!(identity.to_json(), json!({"username": "bob"}));
    }
}
