//! Builds the URL of a port of a driver from a format with variables, for example `{{$appName}}.example.com`.

use api::{LONGEST_LABEL, LONGEST_NAME, is_segment};

/// The format of a URL, such as `{{$appName}}.example.com` or
/// `https://example.com:8443/{{$appNamespace}}/{{$appName}}`. The format is parsed before a URL is needed, so that a
/// format that can never give a valid URL is reported early. Its host and its path may contain variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlFormat(Url);

/// The values of the variables for one application.
#[derive(Clone, Copy, Debug)]
pub struct Variables<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    /// Spark's application id (`spark-…`), if it is known.
    pub id: Option<&'a str>,
}

/// A URL, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// `http` or `https`, if the format names one.
    pub scheme: Option<&'static str>,
    pub host: String,
    pub port: Option<u16>,
    /// Without a slash at its end; empty if the format has no path.
    pub path: String,
}

/// The variables of a format.
const NAME: &str = "{{$appName}}";
const NAMESPACE: &str = "{{$appNamespace}}";
const ID: &str = "{{$appId}}";
const NO_IP_ADDRESS: &str =
    "the host of an Ingress cannot be an IP address: write a name such as `spark.example.com`";
/// The shortest values that the variables can have, made of characters that are valid everywhere. A format that fails
/// with these values fails with all values.
const SHORTEST: Variables = Variables { name: "a", namespace: "a", id: Some("spark-0") };

impl UrlFormat {
    /// Parses `text` and checks that it can give a valid URL.
    ///
    /// # Errors
    ///
    /// Why the text can never give a valid URL, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("is empty: write an address such as `{{$appName}}.example.com`".to_owned());
        }
        let format = without_blanks(text)?;
        let (scheme, rest) = match format.split_once("://") {
            Some((scheme, rest)) if !scheme.contains("{{") => {
                let known = ["http", "https"].into_iter().find(|known| known.eq_ignore_ascii_case(scheme));
                let unknown = || format!("`{scheme}` is not a scheme for an Ingress: write http or https");
                (Some(known.ok_or_else(unknown)?), rest)
            }
            _ => (None, format.as_str()),
        };
        if rest.starts_with('[') {
            return Err(format!("`{text}`: {NO_IP_ADDRESS}"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.split_once(':') {
            None => (authority, None),
            Some((_, port)) if port.contains("{{") => {
                return Err("a port cannot have variables: write a number".to_owned());
            }
            Some((host, port)) => match port.parse::<u16>() {
                Ok(number @ 1..) => (host, Some(number)),
                _ => return Err(format!("`{port}` is not a port: write 1 to 65535")),
            },
        };
        let (host, path) = (host.to_owned(), path.trim_end_matches('/').to_owned());
        let format = Self(Url { scheme, host, port, path });
        format.url(SHORTEST)?;
        Ok(format)
    }

    /// Returns the URL for an application; `None` if the format contains Spark's application id, and the id is not
    /// known.
    ///
    /// # Errors
    ///
    /// Why the format gives no valid URL with these variables.
    pub fn url(&self, variables: Variables) -> Result<Option<Url>, String> {
        let Url { scheme, port, .. } = self.0;
        let Some(host) = filled_in(&self.0.host, variables) else { return Ok(None) };
        let Some(path) = filled_in(&self.0.path, variables) else { return Ok(None) };
        check_host(&host)?;
        let is_strange = |c: &char| !c.is_ascii_alphanumeric() && !"-._~%/:@".contains(*c);
        if let Some(strange) = path.chars().find(is_strange) {
            let like = "letters, digits and any of -._~%/:@";
            return Err(format!("`{strange}` is not allowed in a path: write {like}"));
        }
        Ok(Some(Url { scheme, host, port, path }))
    }

    /// Whether applications in different namespaces never have the same URL: a part of the host between dots, or of the
    /// path between slashes, contains the namespace and no other variable. With `{{$appName}}-{{$appNamespace}}`, `a-b`
    /// in `c` has the URL of `a` in `b-c`.
    pub fn has_namespace(&self) -> bool {
        let is_alone = |part: &str| part.contains(NAMESPACE) && !part.contains(NAME) && !part.contains(ID);
        self.0.host.split('.').chain(self.0.path.split('/')).any(is_alone)
    }

    /// Returns the path for an application, as [`Self::url`] returns it; `None` if the format has no path, or if the
    /// path contains Spark's application id and the id is not known.
    pub fn path(&self, variables: Variables) -> Option<String> {
        filled_in(&self.0.path, variables).filter(|path| !path.is_empty())
    }
}

impl Url {
    /// Returns the URL as text; `scheme` is used if the URL has no scheme of its own.
    pub fn address(&self, scheme: &str) -> String {
        let Self { host, path, .. } = self;
        let port = self.port.map_or_else(String::new, |port| format!(":{port}"));
        format!("{}://{host}{port}{path}", self.scheme.unwrap_or(scheme))
    }
}

/// Returns `text` without the blanks inside the braces of its variables, which Kubeflow's operator allows. In the
/// result, each `{{` begins a variable.
fn without_blanks(text: &str) -> Result<String, String> {
    let (mut format, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let unclosed = "`{{` is not closed: write a variable such as `{{$appName}}`";
        let (inside, behind) = after.split_once("}}").ok_or(unclosed)?;
        let variable = format!("{{{{{}}}}}", inside.trim());
        if ![NAME, NAMESPACE, ID].contains(&variable.as_str()) {
            return Err(format!("`{{{{{inside}}}}}` is no variable: write {NAME}, {NAMESPACE} or {ID}"));
        }
        format.extend([before, &variable]);
        rest = behind;
    }
    Ok(format + rest)
}

/// Returns `part` of a format with the values of its variables; `None` if it contains Spark's application id, and the
/// id is not known.
fn filled_in(part: &str, variables: Variables) -> Option<String> {
    let Variables { name, namespace, id } = variables;
    if id.is_none() && part.contains(ID) {
        return None;
    }
    Some(part.replace(NAME, name).replace(NAMESPACE, namespace).replace(ID, id.unwrap_or_default()))
}

/// Checks that Kubernetes accepts the host for an Ingress: a name in lower case.
fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("has no host: write one such as `spark.example.com` before the path".to_owned());
    }
    // An Ingress accepts no IP address as host, and a host whose last part is a number is an IP address.
    let last = host.rsplit('.').next().unwrap_or_default();
    if !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{host}`: {NO_IP_ADDRESS}"));
    }
    let no_name = |why: &str| Err(format!("`{host}` is not the name of a host{why}"));
    if let Some(wrong) = host.split('.').find(|part| !is_segment(part)) {
        let like = "write lower-case letters, digits and `-` with dots between them";
        return no_name(&format!(", for `{wrong}`: {like}"));
    }
    let parts = host.split('.').map(|part| (format!("`{part}`"), part.len(), LONGEST_LABEL));
    let mut all = parts.chain([("it".to_owned(), host.len(), LONGEST_NAME)]);
    all.find(|(_, length, most)| length > most).map_or(Ok(()), |(what, length, most)| {
        no_name(&format!(": {what} has {length} characters, at most {most} are possible"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PI: Variables = Variables { name: "pi", namespace: "data", id: Some("spark-1") };

    fn cases<T: serde::de::DeserializeOwned>(what: &str) -> Vec<(String, T)> {
        let cases = include_str!("../../../../tests/data/exposure-formats.json");
        let mut cases: serde_json::Value = serde_json::from_str(cases).unwrap();
        serde_json::from_value(cases[what].take()).unwrap()
    }

    #[test]
    fn a_format_gives_a_url_or_is_refused_with_the_reason() {
        for (format, address) in cases::<String>("addresses") {
            let url = UrlFormat::parse(&format).unwrap().url(PI).unwrap().unwrap();
            assert_eq!(url.address("http"), address, "{format}");
        }
        for (format, complaint) in cases::<String>("refused") {
            let refused = UrlFormat::parse(&format).unwrap_err();
            assert!(refused.contains(&complaint), "{format}: {refused}");
        }
    }

    #[test]
    fn a_valid_format_gives_no_url_for_some_applications() {
        let joined = UrlFormat::parse("{{$appName}}-{{$appNamespace}}.example.com").unwrap();
        let long = Variables { name: &"a".repeat(60), ..PI };
        assert!(joined.url(long).unwrap_err().contains("has 65 characters"));
        let unknown = Variables { id: None, ..PI };
        let by_id = UrlFormat::parse("example.com/{{$appId}}").unwrap();
        assert_eq!((by_id.url(unknown), by_id.path(unknown)), (Ok(None), None));
    }

    /// Without this check, the web UI of a SparkConnect could have the URL of an application in another namespace.
    #[test]
    fn a_format_separates_namespaces_by_a_part_with_only_the_namespace() {
        for (format, expected) in cases::<bool>("ofOneNamespace") {
            assert_eq!(UrlFormat::parse(&format).unwrap().has_namespace(), expected, "{format}");
        }
    }
}
