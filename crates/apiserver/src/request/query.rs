//! What stands behind the question mark.

/// The parameters of a request, in their order. Unknown ones are tolerated.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: Option<&str>) -> Self {
        // What is not encoded properly is passed over, as Go does.
        let pairs = text.unwrap_or_default().split('&').filter(|pair| is_encoded(pair));
        let pairs = pairs.flat_map(|pair| form_urlencoded::parse(pair.as_bytes()));
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .filter(|(name, _)| !name.is_empty())
                .collect(),
        )
    }

    /// A query by itself, for tests of what reads it.
    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self::parse(Some(text))
    }

    /// The first value of a parameter, or nothing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }

    /// All values of a parameter that may be there several times.
    pub(crate) fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter says yes, as Go reads it: a parameter without a value does.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.has(name) && !matches!(self.get(name).to_lowercase().as_str(), "false" | "0")
    }
}

fn is_encoded(pair: &str) -> bool {
    let is_escape =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit));
    !pair.contains(';') && pair.split('%').skip(1).all(is_escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stray_separators_mean_nothing() {
        let query = Query::parse(Some("&limit=500&watch=true&labelSelector=a%3Db"));
        assert_eq!(query.get("limit"), "500");
        assert_eq!(query.get("labelSelector"), "a=b");
        assert!(query.flag("watch"));
        assert!(!Query::parse(Some("watch=false")).flag("watch"));
        assert!(!Query::parse(None).flag("watch"));
    }
}
