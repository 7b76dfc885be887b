//! The applications of a namespace: submits them and follows them.

use super::{End, Error, following};
use crate::api::{SparkApplication, SparkApplicationStatus, State};
use futures::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use std::{fmt, future};

/// The SparkApplications of one namespace. A handle: cloning it costs nothing.
#[derive(Clone)]
pub struct Applications {
    client: Client,
    namespace: String,
}

impl fmt::Debug for Applications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applications").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// What is told of an application, one after the other. It can be sent to another thread and waited for anywhere, with the methods of
/// `futures::TryStreamExt`; nothing is asked of the cluster before. A `try_next` that is dropped before it has told anything loses
/// nothing: the next one tells it.
pub type Changes<T> = BoxStream<'static, Result<T, Error>>;

/// Which application is meant.
///
/// A name means whichever application has it when it is first looked for. An application as the cluster has it, with a uid, means that
/// one alone: another that is made under its name after its deletion is not taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// The application's name.
    pub name: String,
    /// Its uid, if it is known.
    pub uid: Option<String>,
    /// Its namespace, if it is known: there is no such application in another.
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

impl Applications {
    /// Those of `namespace`. Nothing is asked of the cluster yet.
    #[must_use]
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        Self { client, namespace: namespace.into() }
    }

    /// Creates an application, and gives it as the cluster has it: with its uid, and with what admission has filled in.
    ///
    /// It never overwrites another. Dropped before its end, or after an [`Error::Call`], it may have been made nevertheless: submitting it
    /// again tells, by [`Error::NameTaken`]. So does a call that kube's client has sent again by itself, as it does where the API server
    /// has answered that it is too busy (429, 503, 504); one of an application without a name, for which the cluster makes one up, can
    /// make two then. `Config::default_retry = false` for the [`Client`] keeps it from that.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`] where there is an application of its name, [`Error::Refused`] where the cluster does not take it as it is, and
    /// [`Error::Call`] where the cluster did not answer.
    pub async fn submit(&self, application: &SparkApplication) -> Result<SparkApplication, Error> {
        let applications = Api::namespaced(self.client.clone(), &self.namespace);
        applications.create(&PostParams::default(), application).await.map_err(|error| match error {
            kube::Error::Api(status) if status.is_already_exists() => {
                Error::NameTaken { namespace: self.namespace.clone(), name: application.name_any() }
            }
            error => Error::of_call(error),
        })
    }

    /// The application as it is, and then again each time that anything in it changes. Ends when the application is deleted, with its last
    /// state before.
    ///
    /// Underneath is a watch, [as Kubernetes has them][watch], which begins with a look at the application. It is taken up again, by itself, when the
    /// API server ends it, goes away or cannot be reached for however long, with pauses of 10 s at most. Changes in quick succession while
    /// it is away are told as one, so that not every state that the application was in need be seen; the latest always is. A
    /// connection that dies without a word is given up after 75 s.
    ///
    /// [watch]: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
    ///
    /// # Errors
    ///
    /// After an error the stream ends. [`Error::NotFound`] where there is none of this name in the beginning (of one whose uid is known
    /// that is its deletion, and no error), [`Error::Unreadable`] where it is none as this library knows them, [`Error::Refused`] where
    /// the API server refuses to tell, and [`Error::Call`] if it cannot be reached in the beginning.
    pub fn changes(&self, which: impl Into<Which>) -> Changes<SparkApplication> {
        let api = Api::namespaced(self.client.clone(), &self.namespace);
        following::changes(api, &self.namespace, which.into()).boxed()
    }

    /// The application's status as it is, then each time that it is another, and at last that of its end, with which the stream ends; or
    /// with its deletion. The status of one for which nothing was recorded yet is empty.
    ///
    /// What an end is, [`Self::end`] says; the rest, errors too, is as in [`Self::changes`].
    pub fn statuses(&self, which: impl Into<Which>) -> Changes<SparkApplicationStatus> {
        distinct(to_its_end(self.changes(which)).map_ok(|application| application.status.unwrap_or_default()))
    }

    /// The application's state as it is, then each time that it is another, otherwise like [`Self::statuses`].
    pub fn states(&self, which: impl Into<Which>) -> Changes<State> {
        distinct(to_its_end(self.changes(which)).map_ok(|application| application.state()))
    }

    /// Waits for the application's end, and tells which it was. For one that has ended, that is at once.
    ///
    /// An application has ended when the operator has seen all that is asked of it
    /// ([`SparkApplication::is_settled`]) and its state is COMPLETED or FAILED: what stands there of a run before an edit is not its end.
    /// One that is suspended, or runs again whatever happens (`restartPolicy.type: Always`), does not end by itself: put
    /// `tokio::time::timeout` around it where that may be.
    ///
    /// # Errors
    ///
    /// As [`Self::changes`].
    pub async fn end(&self, which: impl Into<Which>) -> Result<End, Error> {
        let mut changes = self.changes(which);
        while let Some(application) = changes.try_next().await? {
            if let Some(end) = End::of(application) {
                return Ok(end);
            }
        }
        Ok(End::Deleted)
    }
}

/// Up to and with the one that has ended.
fn to_its_end(
    changes: Changes<SparkApplication>,
) -> impl Stream<Item = Result<SparkApplication, Error>> + Send {
    stream::try_unfold(Some(changes), async |changes| {
        let Some(mut changes) = changes else { return Ok(None) };
        let application = changes.try_next().await?;
        Ok(application.map(|application| {
            let rest = (!application.has_ended()).then_some(changes);
            (application, rest)
        }))
    })
}

/// Without those that are equal to the one before.
fn distinct<T: Clone + PartialEq + Send + 'static>(
    values: impl Stream<Item = Result<T, Error>> + Send + 'static,
) -> Changes<T> {
    let mut last = None;
    let news = values.try_filter_map(move |value| {
        let is_news = last.as_ref() != Some(&value);
        if is_news {
            last = Some(value.clone());
        }
        future::ready(Ok(is_news.then_some(value)))
    });
    news.boxed()
}
