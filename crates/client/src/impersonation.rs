//! Impersonation: requests that count as those of another user.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const EXTRA: &str = "impersonate-extra-";

/// What is encoded in the name of a header. Follows client-go 0.36, `transport/round_trippers.go` (`headerKeyEscape`).
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The user whose rights requests have, instead of those of the user who sends them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonation {
    pub user: String,
    pub uid: Option<String>,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// Adds the headers that the API server looks for.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) -> Result<(), http::Error> {
        headers.insert(USER, value(&self.user)?);
        if let Some(uid) = &self.uid {
            headers.insert(UID, value(uid)?);
        }
        for group in &self.groups {
            headers.append(GROUP, value(group)?);
        }
        for (key, values) in &self.extra {
            let name = HeaderName::try_from(format!("{EXTRA}{}", utf8_percent_encode(key, UNSAFE)))?;
            for text in values {
                headers.append(&name, value(text)?);
            }
        }
        Ok(())
    }
}

/// Names of users may have letters beyond ASCII, which `HeaderValue::from_str` refuses.
fn value(text: &str) -> Result<HeaderValue, http::Error> {
    Ok(HeaderValue::from_bytes(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_client_go() {
        let impersonation = Impersonation {
            user: "zoë".to_owned(),
            uid: Some("u-1".to_owned()),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: BTreeMap::from([("acme.org/Team%".to_owned(), vec!["x".to_owned(), "y".to_owned()])]),
        };
        let mut headers = HeaderMap::new();
        impersonation.add_to(&mut headers).unwrap();
        let of = |name: &str| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>();
        assert_eq!(of("impersonate-user"), ["zoë".as_bytes()]);
        assert_eq!(of("impersonate-uid"), [b"u-1"]);
        assert_eq!(of("impersonate-group"), [b"a", b"b"]);
        assert_eq!(of("impersonate-extra-acme.org%2fteam%25"), [b"x", b"y"]);
        let hostile = Impersonation { user: "a\r\nx: y".to_owned(), ..Impersonation::default() };
        assert!(hostile.add_to(&mut HeaderMap::new()).is_err());
    }
}
