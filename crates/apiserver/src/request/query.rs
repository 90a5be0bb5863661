//! What stands behind the question mark.

/// The parameters of a request, in their order. Unknown ones are tolerated.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().filter(|(name, _)| !name.is_empty()).collect())
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
