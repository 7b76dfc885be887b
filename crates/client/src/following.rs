//! Follows one application despite broken connections: gets the application, watches from its resourceVersion on, and
//! gets it again whenever the watch cannot continue.
//!
//! kube-runtime's watcher does the same for lists of objects, but needs 27 more crates. Following a single object is
//! simpler.

use super::{
    Error,
    patience::{GRACE, Patience, can_pass, in_time},
};
use api::{Identity, Lenient, SparkApplication};
use futures::{Stream, StreamExt, stream, stream::BoxStream};
use kube::{
    Api, ResourceExt,
    api::{WatchEvent, WatchParams},
};
use std::time::Duration;

/// Identifies an application.
///
/// A name alone means the application that has this name at the first request. An application with a uid, as the
/// cluster returns it, means that object only: another application that is created under the same name after the
/// deletion is not taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// The application's name.
    pub name: String,
    /// Its uid, if it is known.
    pub uid: Option<String>,
    /// Its namespace, if it is known: looking for it in another namespace is [`Error::NotFound`].
    pub namespace: Option<String>,
}

impl From<&str> for Which {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), uid: None, namespace: None }
    }
}

impl From<&String> for Which {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<String> for Which {
    fn from(name: String) -> Self {
        Self { name, uid: None, namespace: None }
    }
}

impl From<&SparkApplication> for Which {
    fn from(application: &SparkApplication) -> Self {
        Self { name: application.name_any(), uid: application.uid(), namespace: application.namespace() }
    }
}

/// The application, or the object of its name that cannot be parsed as an application.
type Found = Lenient<SparkApplication>;
type Watch = BoxStream<'static, Result<WatchEvent<Found>, kube::Error>>;

/// The timeout of a watch, after which the API server ends the watch. A connection whose other end has vanished without
/// closing it is noticed after this time plus [`GRACE`]; each watch costs the API server one request in this time.
const WATCH: Duration = Duration::from_secs(60);

/// Returns a stream of the application as it is now, then as it is after each change. The stream ends when the
/// application is deleted.
pub(super) fn changes(
    api: Api<Found>,
    namespace: &str,
    which: Which,
) -> impl Stream<Item = Result<SparkApplication, Error>> + Send + use<> {
    let following = Following {
        api,
        namespace: namespace.to_owned(),
        which,
        returned: None,
        version: None,
        watch: None,
        patience: Patience::default(),
        was_found: false,
        is_over: false,
    };
    stream::try_unfold(following, Following::change)
}

struct Following {
    api: Api<Found>,
    namespace: String,
    which: Which,
    /// `metadata.resourceVersion` of the application that was returned last.
    returned: Option<String>,
    /// The resourceVersion from which the watch continues; `None` if the application has to be read with a GET first.
    version: Option<String>,
    watch: Option<Watch>,
    patience: Patience,
    was_found: bool,
    is_over: bool,
}

/// The result of a get, or an event of the watch.
enum Seen {
    Present(Found),
    /// The application as it was when it was deleted.
    Last(Found),
    Absent,
    /// A bookmark: the watch has returned all changes up to this resourceVersion.
    Bookmark(String),
    /// The watch has ended, as every watch does after its timeout.
    End,
}

impl Following {
    /// Returns the next change, and the state from which the stream continues.
    async fn change(mut self) -> Result<Option<(SparkApplication, Self)>, Error> {
        if self.which.namespace.as_ref().is_some_and(|namespace| *namespace != self.namespace) {
            return Err(Error::NotFound { namespace: self.namespace, name: self.which.name });
        }
        while !self.is_over {
            match self.see().await {
                Ok(Seen::Present(found)) => {
                    self.was_found = true;
                    if let Some(application) = self.news(found)? {
                        return Ok(Some((application, self)));
                    }
                }
                Ok(Seen::Last(found)) => {
                    self.is_over = true;
                    if let Some(application) = self.news(found)? {
                        return Ok(Some((application, self)));
                    }
                }
                // A caller that knows the uid has seen the application before: its absence means its deletion.
                Ok(Seen::Absent) if self.was_found || self.which.uid.is_some() => self.is_over = true,
                Ok(Seen::Absent) => {
                    return Err(Error::NotFound { namespace: self.namespace, name: self.which.name });
                }
                Ok(Seen::Bookmark(version)) => self.version = Some(version),
                Ok(Seen::End) => {
                    self.watch = None;
                    self.patience.pause().await;
                }
                Err(error) => {
                    if !(self.was_found && can_pass(&error)) {
                        return Err(Error::of_call(error));
                    }
                    (self.watch, self.version) = (None, None);
                    self.patience.pause().await;
                }
            }
        }
        Ok(None)
    }

    /// Gets the application, or begins a watch if necessary and waits for its next event.
    async fn see(&mut self) -> Result<Seen, kube::Error> {
        let Some(version) = &self.version else {
            let found = in_time(GRACE, self.api.get_opt(&self.which.name)).await??;
            return Ok(found.map_or(Seen::Absent, Seen::Present));
        };
        let watch = match &mut self.watch {
            Some(watch) => watch,
            none => {
                let parameters = WatchParams::default()
                    .fields(&format!("metadata.name={}", self.which.name))
                    .timeout(WATCH.as_secs().try_into().unwrap_or(u32::MAX));
                none.insert(in_time(GRACE, self.api.watch(&parameters, version)).await??.boxed())
            }
        };
        let Some(event) = in_time(WATCH + GRACE, watch.next()).await? else {
            return Ok(Seen::End);
        };
        let seen = match event? {
            WatchEvent::Added(found) | WatchEvent::Modified(found) => Seen::Present(found),
            WatchEvent::Deleted(found) => Seen::Last(found),
            WatchEvent::Bookmark(bookmark) => Seen::Bookmark(bookmark.metadata.resource_version),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        };
        self.patience.restore();
        Ok(seen)
    }

    /// Returns the application if it has the wanted uid and is not the version that was returned last. The uid of the
    /// first application found becomes the wanted uid, if none was given.
    fn news(&mut self, found: Found) -> Result<Option<SparkApplication>, Error> {
        if *self.which.uid.get_or_insert_with(|| found.own_uid().to_owned()) != found.own_uid() {
            self.is_over = true;
            return Ok(None);
        }
        self.version = found.resource_version();
        if self.returned == self.version {
            return Ok(None);
        }
        self.returned.clone_from(&self.version);
        let application = found
            .0
            .map_err(|invalid| Error::Unreadable { name: self.which.name.clone(), reason: invalid.error })?;
        Ok(Some(application))
    }
}
