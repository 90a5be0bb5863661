//! How a registry wants to be convinced: the `WWW-Authenticate` header (RFC 9110, 11.6.1). Performs no I/O.

/// How long a header may be. Others are ignored.
const MAX_LENGTH: usize = 8 << 10;

/// One way to authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

impl Challenge {
    /// The ways that a header offers and we know, in its order.
    pub(super) fn parse(header: &str) -> Vec<Self> {
        if header.len() > MAX_LENGTH {
            return Vec::new();
        }
        let mut challenges = Vec::new();
        let mut scanner = Scanner { rest: header };
        while let Some(scheme) = scanner.scheme() {
            let parameters = scanner.parameters();
            let parameter = |name: &str| {
                let found = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
            };
            if scheme.eq_ignore_ascii_case("basic") {
                challenges.push(Self::Basic);
            } else if scheme.eq_ignore_ascii_case("bearer")
                && let Some(realm) = parameter("realm")
            {
                let (service, scope) = (parameter("service"), parameter("scope"));
                challenges.push(Self::Bearer { realm, service, scope });
            }
        }
        challenges
    }
}

struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn scheme(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
        self.token()
    }

    /// Pairs of names and values, up to the next scheme.
    fn parameters(&mut self) -> Vec<(&'a str, String)> {
        let mut parameters = Vec::new();
        loop {
            let before = self.rest;
            self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
            let pair = self.token().and_then(|name| {
                self.rest = self.rest.trim_start().strip_prefix('=')?.trim_start();
                Some((name, self.value()?))
            });
            let Some(pair) = pair else {
                // What was no pair is the next scheme.
                self.rest = before;
                return parameters;
            };
            parameters.push(pair);
        }
    }

    fn token(&mut self) -> Option<&'a str> {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let end = self.rest.find(|c| !is_token(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    fn value(&mut self) -> Option<String> {
        let Some(quoted) = self.rest.strip_prefix('"') else {
            return self.token().map(str::to_owned);
        };
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &quoted[at + 1..];
                    return Some(value);
                }
                '\\' => value.push(characters.next()?.1),
                other => value.push(other),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }
    }

    #[test]
    fn challenges_are_read() {
        let token = "https://auth.example.org/token";
        for (header, expected) in [
            (r#"Basic realm="x""#, vec![Challenge::Basic]),
            ("basic", vec![Challenge::Basic]),
            (
                r#"Bearer realm="https://auth.example.org/token",service="s",scope="repository:a/b:pull,push""#,
                vec![bearer(token, Some("s"), Some("repository:a/b:pull,push"))],
            ),
            (
                r#"Negotiate, Bearer realm = "https://auth.example.org/token" , Basic realm="a, b""#,
                vec![bearer(token, None, None), Challenge::Basic],
            ),
            (r#"Bearer realm="a\"b""#, vec![bearer("a\"b", None, None)]),
            ("Bearer", vec![]),
            ("", vec![]),
            ("Bearer realm=\"open", vec![]),
        ] {
            assert_eq!(Challenge::parse(header), expected, "{header}");
        }
    }

    #[test]
    fn garbage_ends_the_reading() {
        for header in ["====", "\"\"\"", "Bearer realm==", ",,,", "Bearer \u{e9}=1", "a b c d e f"] {
            Challenge::parse(header);
        }
        assert_eq!(Challenge::parse(&format!("Basic realm=\"{}\"", "x".repeat(MAX_LENGTH))), []);
    }
}
