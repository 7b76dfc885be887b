//! Computes the key of the object that a file becomes, the URI by which Spark reads the object, and the URL of the
//! bucket.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::{fmt, net::IpAddr, str::FromStr};

/// The characters that are escaped in the URI of an object: Spark reads the text as a URI, and splits lists at commas.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// S3, or a store with the same API.
    S3,
    /// Google Cloud Storage.
    Gcs,
}

/// A bucket, and a folder in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub kind: Kind,
    pub bucket: String,
    /// Empty for the bucket itself.
    pub folder: String,
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "write s3://BUCKET or gs://BUCKET, with a folder behind it if you like";
        let (kind, rest) = match text.split_once("://") {
            Some(("s3" | "s3a", rest)) => (Kind::S3, rest),
            Some(("gs", rest)) => (Kind::Gcs, rest),
            _ => return Err(format!("files are uploaded to S3 or Google Cloud Storage: {expected}")),
        };
        let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_name) {
            return Err(format!("`{bucket}` is no name of a bucket: {expected}"));
        }
        Ok(Self { kind, bucket: bucket.to_owned(), folder: folder.trim_matches('/').to_owned() })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.bucket)
    }
}

impl Destination {
    /// Returns the scheme of the URIs by which Spark reads objects.
    fn scheme(&self) -> &'static str {
        match self.kind {
            Kind::S3 => "s3a",
            Kind::Gcs => "gs",
        }
    }

    /// Returns the key of an application's file. Kubeflow's sparkctl uses the same key, so that each program finds the
    /// files that the other has uploaded.
    pub(super) fn key(&self, prefix: &str, namespace: &str, application: &str, file: &str) -> String {
        let parts = [&self.folder, prefix.trim_matches('/'), namespace, application, file];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    /// Returns the URI by which Spark reads the object.
    pub(super) fn uri(&self, key: &str) -> String {
        format!("{self}/{}", utf8_percent_encode(key, ESCAPED))
    }
}

/// Returns the URL of an S3 bucket. The bucket's name is put before the host name if that is possible, as AWS wants it;
/// for stores that only accept the name in the path there is the flag --s3-force-path-style.
pub(super) fn s3_url(endpoint: Option<&str>, region: &str, bucket: &str, is_path_style: bool) -> String {
    let aws = format!("https://s3.{region}.amazonaws.com");
    let endpoint = endpoint.unwrap_or(&aws).trim_end_matches('/');
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("https", endpoint));
    let host = rest.split('/').next().unwrap_or(rest);
    // A certificate for `*.host` is not valid for `a.b.host`.
    let can_be_in_host = host == rest && !is_bare(host) && !(scheme == "https" && bucket.contains('.'));
    if can_be_in_host && !is_path_style {
        format!("{scheme}://{bucket}.{rest}")
    } else {
        format!("{scheme}://{rest}/{bucket}")
    }
}

/// Whether no bucket name can be put before the host name: it is an IP address or localhost.
fn is_bare(host: &str) -> bool {
    if host.starts_with('[') {
        return true;
    }
    let name = host.split(':').next().unwrap_or(host);
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

/// Returns the URL by which everybody can read a public object.
pub(super) fn public_url(bucket_url: &str, key: &str) -> String {
    format!("{bucket_url}/{}", utf8_percent_encode(key, ESCAPED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_kubeflows_sparkctl() {
        let bucket: Destination = "gs://bucket".parse().unwrap();
        assert_eq!(bucket.key("", "team", "pi", "a.jar"), "team/pi/a.jar");
        assert_eq!(bucket.key("/some/where/", "team", "pi", "a.jar"), "some/where/team/pi/a.jar");
        let folder: Destination = "s3://bucket/a/b/".parse().unwrap();
        assert_eq!(folder.key("c", "team", "pi", "d"), "a/b/c/team/pi/d");
        assert_eq!(folder.uri("team/pi/a b,c#ü.jar"), "s3a://bucket/team/pi/a%20b%2Cc%23%C3%BC.jar");
        assert_eq!(bucket.uri("x/y-1.2_3~.jar"), "gs://bucket/x/y-1.2_3~.jar");
        for wrong in ["bucket", "hdfs://bucket", "s3://", "s3://a:b", "s3:/a"] {
            assert!(wrong.parse::<Destination>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_bucket_is_in_the_host_name_where_that_is_possible() {
        type Case = (Option<&'static str>, &'static str, bool, &'static str);
        let cases = include_str!("../../../../tests/data/ctl/buckets.json");
        for (endpoint, bucket, is_path_style, url) in serde_json::from_str::<Vec<Case>>(cases).unwrap() {
            assert_eq!(s3_url(endpoint, "eu-west-1", bucket, is_path_style), url);
        }
        assert_eq!(public_url("https://b.example.com", "team/a b"), "https://b.example.com/team/a%20b");
    }
}
