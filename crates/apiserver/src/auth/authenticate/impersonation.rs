//! Impersonation: to act as someone else, if one may.

use std::collections::BTreeMap;

use ferroplane_golang::strconv::quote;
use ferroplane_schema::status::Status;
use http::HeaderMap;

use crate::auth::identity::{
    ANONYMOUS, Identity, UNAUTHENTICATED, service_account_groups, split_service_account,
};
use crate::auth::rbac::{Attributes, Policy};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The wish to be someone else.
#[derive(Debug, PartialEq, Eq)]
pub struct Impersonation {
    parts: Vec<Part>,
    identity: Identity,
}

/// One thing that the caller must be allowed to impersonate.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    User(String),
    ServiceAccount { namespace: String, name: String },
    Group(String),
    Extra { key: String, value: String },
    Uid(String),
}

impl Impersonation {
    /// What the headers ask for, if anything.
    pub fn read(headers: &HeaderMap) -> Result<Option<Self>, Status> {
        let user = first(headers, USER)?;
        let uid = first(headers, UID)?;
        let groups = texts(headers, GROUP)?;
        let extra = extras(headers)?;
        let mut parts = Vec::new();
        if !user.is_empty() {
            parts.push(user_part(&user));
        }
        parts.extend(groups.iter().cloned().map(Part::Group));
        for (key, values) in &extra {
            parts.extend(values.iter().map(|value| Part::Extra { key: key.clone(), value: value.clone() }));
        }
        if !uid.is_empty() {
            parts.push(Part::Uid(uid.clone()));
        }
        if parts.is_empty() {
            return Ok(None);
        }
        if user.is_empty() {
            return Err(nameless(&uid, &groups, &extra));
        }
        let identity = become_identity(user, uid, groups, extra);
        Ok(Some(Self { parts, identity }))
    }

    /// Who the caller becomes, if they may become all of it.
    pub fn authorize(self, caller: &Identity, policy: &Policy) -> Result<Identity, Status> {
        // Each part by itself: the right to act as a user is not the right to join its groups.
        for part in &self.parts {
            policy.check(caller, &part.attributes())?;
        }
        Ok(self.identity)
    }
}

fn user_part(user: &str) -> Part {
    match split_service_account(user) {
        Some((namespace, name)) => {
            Part::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
        }
        None => Part::User(user.to_owned()),
    }
}

fn become_identity(
    name: String,
    uid: String,
    mut groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
) -> Identity {
    // The groups of a service account are known, unless others are asked for.
    if groups.is_empty()
        && let Some((namespace, _)) = split_service_account(&name)
    {
        groups = service_account_groups(namespace).into();
    }
    let mut identity = Identity { name, uid, groups, extra };
    // A user who acts as the anonymous user is treated as that one, not as an authenticated user.
    if identity.name == ANONYMOUS && !identity.is_in(UNAUTHENTICATED) {
        identity.groups.push(UNAUTHENTICATED.to_owned());
    }
    identity.join_authenticated();
    identity
}

impl Part {
    fn attributes(&self) -> Attributes<'_> {
        let of = |resource| Attributes { verb: "impersonate", resource, ..Attributes::default() };
        let group = "authentication.k8s.io";
        match self {
            Self::User(name) => Attributes { name, ..of("users") },
            Self::ServiceAccount { namespace, name } => {
                Attributes { name, namespace, ..of("serviceaccounts") }
            }
            Self::Group(name) => Attributes { name, ..of("groups") },
            Self::Extra { key, value } => {
                Attributes { group, subresource: key, name: value, ..of("userextras") }
            }
            Self::Uid(uid) => Attributes { group, name: uid, ..of("uids") },
        }
    }
}

/// The impersonated user has no name. Kubernetes shows the rest as a program in Go prints it.
fn nameless(uid: &str, groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> Status {
    let list = |texts: &[String]| {
        let quoted: Vec<_> = texts.iter().map(|text| quote(text)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if groups.is_empty() { "[]string(nil)".to_owned() } else { list(groups) };
    let entries: Vec<_> =
        extra.iter().map(|(key, values)| format!("{}:{}", quote(key), list(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", entries.join(", ")) };
    Status::bad_request(&format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, Extra:map[string][]string{extra}}} \
         without impersonating a user name",
        quote(uid)
    ))
}

fn texts(headers: &HeaderMap, name: &str) -> Result<Vec<String>, Status> {
    headers.get_all(name).iter().map(|value| text(value, name)).collect()
}

fn first(headers: &HeaderMap, name: &str) -> Result<String, Status> {
    headers.get(name).map_or(Ok(String::new()), |value| text(value, name))
}

fn text(value: &http::HeaderValue, name: &str) -> Result<String, Status> {
    let text = str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|_| Status::bad_request(&format!("the header {name} is not UTF-8")))
}

fn extras(headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, Status> {
    let mut extras = BTreeMap::<_, Vec<_>>::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extras.entry(unescape(key)).or_default().extend(texts(headers, name.as_str())?);
        }
    }
    Ok(extras)
}

/// Decodes what is written as `%2f`. A key that is not written so is meant as it is.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => bytes.push(byte),
            None => return key.to_owned(),
        }
        rest = &tail[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::rbac::RbacKind;

    fn read(headers: &[(&'static str, &str)]) -> Result<Option<Impersonation>, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        Impersonation::read(&map).map_err(|status| status.message)
    }

    fn identity(headers: &[(&'static str, &str)]) -> Identity {
        read(headers).unwrap().unwrap().identity
    }

    #[test]
    fn request_without_such_headers_stays_what_it_is() {
        assert_eq!(read(&[("accept", "*/*")]), Ok(None));
    }

    #[test]
    fn impersonated_user_is_authenticated() {
        let bob = identity(&[(USER, "bob"), (UID, "u1"), ("impersonate-extra-acme%2fscope", "a")]);
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "u1"));
        assert_eq!(bob.groups, ["system:authenticated"]);
        assert_eq!(bob.extra, BTreeMap::from([("acme/scope".to_owned(), vec!["a".to_owned()])]));
        let guest = identity(&[(USER, "bob"), (GROUP, UNAUTHENTICATED)]);
        assert_eq!(guest.groups, [UNAUTHENTICATED]);
    }

    #[test]
    fn impersonated_service_account_has_its_groups() {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
        assert_eq!(identity(&[(USER, "system:serviceaccount:default:builder")]).groups, groups);
        let asked = identity(&[(USER, "system:serviceaccount:default:builder"), (GROUP, "devs")]);
        assert_eq!(asked.groups, ["devs", "system:authenticated"]);
    }

    #[test]
    fn impersonated_anonymous_is_not_authenticated() {
        assert_eq!(identity(&[(USER, ANONYMOUS)]), Identity::anonymous());
    }

    #[test]
    fn groups_without_a_user_are_refused() {
        let message =
            |who: &str| format!("requested &user.DefaultInfo{{{who}}} without impersonating a user name");
        let group =
            r#"Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string{"k":[]string{"v"}}"#;
        assert_eq!(read(&[(GROUP, "devs"), ("impersonate-extra-k", "v")]), Err(message(group)));
        let uid = r#"Name:"", UID:"devs", Groups:[]string(nil), Extra:map[string][]string(nil)"#;
        assert_eq!(read(&[(UID, "devs")]), Err(message(uid)));
    }

    #[test]
    fn every_part_must_be_allowed() {
        let rules = serde_json::json!([
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]},
            {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scope"]},
        ]);
        let role = serde_json::json!({"metadata": {"name": "r"}, "rules": rules});
        let binding = serde_json::json!({
            "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "eve"}],
        });
        let mut policy = Policy::default();
        policy.put(RbacKind::ClusterRole, role.as_object().unwrap()).unwrap();
        policy.put(RbacKind::ClusterRoleBinding, binding.as_object().unwrap()).unwrap();
        let eve = Identity::authenticated("eve", []);
        let as_bob = |more: &[(&'static str, &str)]| {
            let headers: Vec<_> = [(USER, "bob")].iter().chain(more).copied().collect();
            read(&headers).unwrap().unwrap().authorize(&eve, &policy).map_err(|status| status.message)
        };
        assert_eq!(as_bob(&[("impersonate-extra-scope", "a")]).unwrap().name, "bob");
        assert_eq!(
            as_bob(&[(GROUP, "system:masters")]).unwrap_err(),
            "groups \"system:masters\" is forbidden: User \"eve\" cannot impersonate resource \"groups\" in API \
             group \"\" at the cluster scope"
        );
        as_bob(&[("impersonate-extra-other", "a")]).unwrap_err();
        as_bob(&[(UID, "u")]).unwrap_err();
    }

    #[test]
    fn keys_are_unescaped_if_they_are_escaped() {
        for (key, expected) in
            [("a%2Fb", "a/b"), ("a%2", "a%2"), ("a%zz", "a%zz"), ("%ff", "%ff"), ("%", "%")]
        {
            assert_eq!(unescape(key), expected);
        }
    }
}
