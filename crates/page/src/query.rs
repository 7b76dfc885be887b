//! Parses queries and forms, and builds the URLs of links.

use form_urlencoded::{Serializer, parse};

/// The maximum size of a form, in bytes. A token of a login has up to 8 KiB.
pub(crate) const LONGEST: usize = 16 << 10;
/// The maximum size of a form with the spec of an application, in bytes. Percent-encoding may triple the spec's size.
pub(crate) const LONGEST_SPEC: usize = 1 << 20;
/// The maximum number of pairs of a query or form.
const MOST: usize = 32;

/// The pairs of a query or of a form.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(text: &[u8]) -> Self {
        let text = text.get(..text.len().min(LONGEST_SPEC)).unwrap_or_default();
        Self(parse(text).take(MOST).map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// Returns the value of `name`, or an empty string if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Returns the value of `name` if it is not empty.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }

    /// Returns this query with `name` set to `value`.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let others = self.0.iter().filter(|(known, _)| known != name).cloned();
        Self(others.chain([(name.to_owned(), value.to_owned())]).collect())
    }

    /// Returns the URL of `path` with this query.
    pub(crate) fn address(&self, path: &str) -> String {
        address(path, self.0.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }
}

/// Returns the URL of `path` with a query of these pairs. Pairs with empty values are left out.
pub(crate) fn address<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let query = Serializer::new(String::new()).extend_pairs(pairs).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_changes_one_value_and_keeps_the_others() {
        let query = Query::of(b"namespace=team-a&state=FAILED&q=a%26b&page=3&empty=");
        assert_eq!((query.get("q"), query.get("none"), query.given("empty")), ("a&b", "", None));
        assert_eq!(query.with("page", "4").address("/x"), "/x?namespace=team-a&state=FAILED&q=a%26b&page=4");
        assert_eq!(query.with("state", "").address("/x"), "/x?namespace=team-a&q=a%26b&page=3");
        assert_eq!(Query::default().with("q", "").address("/x"), "/x");
    }

    #[test]
    fn malformed_queries_are_read_and_long_ones_truncated() {
        assert_eq!(Query::of(b"q=%ff%zz&&=&q").get("q"), "\u{fffd}%zz");
        let long = "a=b&".repeat(LONGEST);
        assert_eq!(Query::of(long.as_bytes()).0.len(), MOST);
    }
}
