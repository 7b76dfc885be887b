//! Reads and writes objects in a bucket.

use super::{
    UploadFlags,
    credentials::Profile,
    destination::{Destination, Kind, s3_url},
    file_content::{Content, Parts, md5},
    store_error::explanation,
};
use anyhow::{Context, anyhow, bail};
use futures::{StreamExt, stream::FuturesOrdered};
use indicatif::ProgressBar;
use object_store::{
    Attribute, Attributes, ClientOptions, GetOptions, HeaderMap, HeaderValue, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, resolve_bucket_region},
    gcp::GoogleCloudStorageBuilder,
    multipart::MultipartStore,
    path::Path as Key,
};
use std::{env, path::Path, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// The key of the object's metadata for the SHA-256 of its content: `x-amz-meta-sha256`, `x-goog-meta-sha256`.
const SHA256: &str = "sha256";
/// A file up to this size is sent in one request, a larger file in parts of this size. Stores require parts of 5 MiB at
/// least.
const PART: u64 = 8 << 20;
/// The largest number of parts of an object in S3.
const MOST_PARTS: u64 = 10_000;
/// How many parts of one file are sent at the same time.
const PARTS_AT_ONCE: usize = 3;
/// The timeout of one request: as long as a part takes at 30 kB/s.
const TIMEOUT: Duration = Duration::from_secs(300);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a request is repeated after a temporary error. All attempts together take about [`RETRY_TIMEOUT`] at most.
const RETRIES: usize = 3;
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

const INTERRUPTED: &str = "not uploaded: it was interrupted";

/// A bucket, with the clients that read and write its objects.
pub(super) struct Store {
    pub destination: Destination,
    /// The URL below which everybody can read public objects.
    pub url: String,
    plain: Client,
    /// The client that creates objects; with --public, such that everybody may read them.
    making: Client,
    /// The client that sends requests without credentials; only with --public.
    anybody: Option<Client>,
}

/// What exists in the bucket under the key of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    Nothing,
    Same,
    /// An object with the same content that is not public, although --public is given.
    Hidden,
    Other,
}

#[derive(Clone)]
struct Client {
    objects: Arc<dyn ObjectStore>,
    parts: Arc<dyn MultipartStore>,
}

impl Client {
    fn new<S: ObjectStore + MultipartStore>(store: S) -> Self {
        let store = Arc::new(store);
        Self { objects: store.clone(), parts: store }
    }
}

impl Store {
    /// Returns the bucket that the flags name. Sends no request to the bucket; at most one request to AWS, for the
    /// region of the bucket.
    ///
    /// # Errors
    ///
    /// When the credentials or the URL cannot be used.
    pub(super) async fn open(destination: &Destination, flags: &UploadFlags) -> anyhow::Result<Self> {
        // An error means that a provider is installed already, which is just as good.
        rustls::crypto::ring::default_provider().install_default().ok();
        match destination.kind {
            Kind::S3 => Self::s3(destination, flags).await,
            Kind::Gcs => Self::gcs(destination, flags),
        }
    }

    async fn s3(destination: &Destination, flags: &UploadFlags) -> anyhow::Result<Self> {
        let bucket = &destination.bucket;
        let profile = Profile::chosen();
        let endpoint = given(flags.upload_to_endpoint.as_deref())
            .or_else(|| variable("AWS_ENDPOINT_URL_S3"))
            .or_else(|| variable("AWS_ENDPOINT_URL"))
            .or_else(|| given(profile.value("endpoint_url")));
        let region = given(flags.upload_to_region.as_deref())
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| given(profile.value("region")));
        let region = match region {
            Some(region) => region,
            // AWS reports the region of every bucket. Other stores do not, and few of them have regions: for them,
            // `us-east-1` is used.
            None if endpoint.is_none() => {
                let found = resolve_bucket_region(bucket, &options("", None)).await;
                found
                    .map_err(|error| anyhow!(explanation(&error, destination)))
                    .context("the region of the bucket is not known, give it by --upload-to-region")?
            }
            None => "us-east-1".to_owned(),
        };
        let url = s3_url(endpoint.as_deref(), &region, bucket, flags.s3_force_path_style);
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_region(region)
            // object_store calls a URL that contains the bucket virtual-hosted. This configuration key takes precedence
            // over the environment.
            .with_config(AmazonS3ConfigKey::S3Endpoint, &url)
            .with_virtual_hosted_style_request(true)
            .with_retry(retries());
        let are_in_environment = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"];
        if are_in_environment.into_iter().all(|name| variable(name).is_none()) {
            if let Some((id, key)) = profile.keys() {
                if variable("AWS_SESSION_TOKEN").is_some() {
                    bail!(
                        "AWS_SESSION_TOKEN is set, and AWS_ACCESS_KEY_ID is not: unset it to use the keys of the AWS profile `{}`, or set \
                         them all",
                        profile.name
                    );
                }
                builder = builder.with_access_key_id(id).with_secret_access_key(key);
                if let Some(token) = profile.value("aws_session_token") {
                    builder = builder.with_token(token);
                }
            } else if profile.has_detour() {
                bail!(
                    "the AWS profile `{0}` has no keys of its own: run eval \"$(aws configure export-credentials --profile {0} \
                     --format env)\" first",
                    profile.name
                );
            }
        }
        let acl = flags.public.then_some("x-amz-acl");
        let client = |builder: AmazonS3Builder, acl| {
            let store = builder.with_client_options(options(&url, acl)).build();
            store.map(Client::new).map_err(|error| anyhow!(explanation(&error, destination)))
        };
        Ok(Self {
            plain: client(builder.clone(), None)?,
            making: client(builder.clone(), acl)?,
            anybody: acl.map(|_| client(builder.with_skip_signature(true), None)).transpose()?,
            destination: destination.clone(),
            url,
        })
    }

    fn gcs(destination: &Destination, flags: &UploadFlags) -> anyhow::Result<Self> {
        // The variable by which Google's own clients find an emulator, which needs no credentials.
        let stand_in = variable("STORAGE_EMULATOR_HOST");
        let stand_in =
            stand_in.map(|host| if host.contains("://") { host } else { format!("http://{host}") });
        let is_stand_in = stand_in.is_some() && flags.upload_to_endpoint.is_none();
        let endpoint = given(flags.upload_to_endpoint.as_deref()).or(stand_in);
        let endpoint = endpoint.unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
        let endpoint = endpoint.trim_end_matches('/');
        let acl = flags.public.then_some("x-goog-acl");
        let client = |acl, is_anybody: bool| {
            let mut builder = GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(&destination.bucket)
                .with_base_url(endpoint)
                .with_client_options(options(endpoint, acl))
                .with_retry(retries());
            if is_anybody {
                builder = builder.with_skip_signature(true);
            } else if is_stand_in {
                // Without a token the builder would search for credentials, even with signatures switched off.
                builder = builder.with_bearer_token("anybody");
            }
            builder.build().map(Client::new).map_err(|error| anyhow!(explanation(&error, destination)))
        };
        Ok(Self {
            plain: client(None, false)?,
            making: client(acl, false)?,
            anybody: acl.map(|_| client(None, true)).transpose()?,
            destination: destination.clone(),
            url: format!("{endpoint}/{}", destination.bucket),
        })
    }

    /// Returns what exists under `key`, compared with the file at `path`.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached or refuses the request.
    pub(super) async fn there(&self, key: &Key, path: &Path, content: &Content) -> anyhow::Result<There> {
        let head = GetOptions { head: true, ..GetOptions::default() };
        let found = match self.plain.objects.get_opts(key, head).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(There::Nothing),
            // The response to a HEAD has no body, and so gives no reason for the error: a GET returns the reason.
            Err(error) => match self.plain.objects.get(key).await {
                Err(told) => return Err(self.refused(&told)),
                Ok(_) => return Err(self.refused(&error)),
            },
        };
        let is_same = found.meta.size == content.size
            && match found.attributes.get(&Attribute::Metadata(SHA256.into())) {
                Some(sha256) => **sha256 == content.sha256,
                // Another program has uploaded the object: its ETag may be the MD5 of its content.
                None => match found.meta.e_tag.as_deref().map(|tag| tag.trim_matches('"')) {
                    Some(tag) if tag.len() == 32 => md5(path.to_owned()).await? == tag,
                    _ => false,
                },
            };
        Ok(match &self.anybody {
            _ if !is_same => There::Other,
            Some(anybody) if anybody.objects.head(key).await.is_err() => There::Hidden,
            _ => There::Same,
        })
    }

    /// Creates the object `key` with the content of the file at `path`; if that fails, no object is created.
    ///
    /// # Errors
    ///
    /// When the store refuses the object, the content of the file is not `content` any more, or `interrupted` is
    /// cancelled.
    pub(super) async fn put(
        &self,
        key: &Key,
        path: &Path,
        content: &Content,
        bar: &ProgressBar,
        interrupted: &CancellationToken,
    ) -> anyhow::Result<()> {
        if interrupted.is_cancelled() {
            bail!(INTERRUPTED);
        }
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::Metadata(SHA256.into()), content.sha256.clone().into());
        let parts = Parts::of(path, content)?;
        if content.size <= PART {
            let (whole, _) = parts.next(PART).await?;
            let options = PutOptions { attributes, ..PutOptions::default() };
            let made = self.making.objects.put_opts(key, whole.into(), options).await;
            made.map_err(|error| self.refused(&error))?;
            bar.inc(content.size);
            return Ok(());
        }
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let id = self.making.parts.create_multipart_opts(key, options).await;
        let id = id.map_err(|error| self.refused(&error))?;
        let sent = tokio::select! {
            sent = self.put_parts(key, &id, parts, content.size, bar) => sent,
            () = interrupted.cancelled() => Err(anyhow!(INTERRUPTED)),
        };
        if sent.is_err() {
            // Uploaded parts are stored, and paid for, until the upload is aborted. If aborting fails, only the first
            // error is returned.
            self.plain.parts.abort_multipart(key, &id).await.ok();
        }
        sent
    }

    async fn put_parts(
        &self,
        key: &Key,
        id: &String,
        mut parts: Parts,
        size: u64,
        bar: &ProgressBar,
    ) -> anyhow::Result<()> {
        let length = PART.max(size.div_ceil(MOST_PARTS));
        let (mut sending, mut ids) = (FuturesOrdered::new(), Vec::new());
        loop {
            if parts.are_left() && sending.len() < PARTS_AT_ONCE {
                let (part, rest) = parts.next(length).await?;
                parts = rest;
                let number = ids.len() + sending.len();
                sending.push_back(async move {
                    let sent = part.len() as u64;
                    let id = self.plain.parts.put_part(key, id, number, PutPayload::from(part)).await;
                    bar.inc(sent);
                    id
                });
            } else if let Some(id) = sending.next().await {
                ids.push(id.map_err(|error| self.refused(&error))?);
            } else {
                break;
            }
        }
        let made = self.plain.parts.complete_multipart(key, id, ids).await;
        made.map(drop).map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &object_store::Error) -> anyhow::Error {
        anyhow!(explanation(error, &self.destination))
    }
}

/// Returns the options for requests to `url`; with the header `acl`, for objects that everybody may read.
fn options(url: &str, acl: Option<&'static str>) -> ClientOptions {
    let mut headers = HeaderMap::new();
    if let Some(acl) = acl {
        headers.insert(acl, HeaderValue::from_static("public-read"));
    }
    ClientOptions::new()
        .with_allow_http(url.starts_with("http://"))
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_timeout(TIMEOUT)
        .with_default_headers(headers)
}

fn retries() -> RetryConfig {
    RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() }
}

fn variable(name: &str) -> Option<String> {
    given(env::var(name).ok().as_deref())
}

fn given(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}
