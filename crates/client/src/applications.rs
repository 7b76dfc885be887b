//! Defines the methods for the applications of a namespace: submitting one, and following its state to its end.

use super::{
    End, Error,
    following::{self, Which},
};
use api::{SparkApplication, SparkApplicationStatus, State};
use futures::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use std::{fmt, future};

/// The SparkApplications of one namespace. This value is a handle that is cheap to clone.
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

/// A stream of values of one application, in order of time. The stream can be sent to another thread and awaited
/// anywhere, with the methods of `futures::TryStreamExt`. No request is sent to the cluster before the stream is
/// polled. A `try_next` future that is dropped before it has returned loses no value: the next `try_next` returns the
/// value.
pub type Changes<T> = BoxStream<'static, Result<T, Error>>;

impl Applications {
    /// Returns a handle for the applications of `namespace`. No request is sent to the cluster yet.
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        Self { client, namespace: namespace.into() }
    }

    /// Creates an application, and returns it as the cluster stores it: with its uid, and with the fields that
    /// admission has filled in.
    ///
    /// An existing application is never overwritten. If the future is dropped before its end, or returns
    /// [`Error::Call`], the application may have been created nevertheless: then submitting it again returns
    /// [`Error::NameTaken`]. The same error is returned if kube's client repeats the request by itself, which it does
    /// when the API server answers that it is too busy (429, 503, 504), and the first request had created the
    /// application. For an application with `generateName` instead of a name, such a repeated request can create two
    /// applications. `Config::default_retry = false` for the [`Client`] prevents that.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`] if an application of its name exists, [`Error::Refused`] if the cluster does not accept it,
    /// and [`Error::Call`] if the cluster did not answer.
    pub async fn submit(&self, application: &SparkApplication) -> Result<SparkApplication, Error> {
        let applications = Api::namespaced(self.client.clone(), &self.namespace);
        applications.create(&PostParams::default(), application).await.map_err(|error| match error {
            kube::Error::Api(status) if status.is_already_exists() => {
                Error::NameTaken { namespace: self.namespace.clone(), name: application.name_any() }
            }
            error => Error::of_call(error),
        })
    }

    /// Returns the application as it is now, and then again each time that anything in it changes. The stream ends when
    /// the application is deleted, after its last state.
    ///
    /// The stream uses a watch, [as Kubernetes has them][watch], which begins with a get of the application. The watch
    /// is resumed automatically when the API server ends it, restarts or cannot be reached for any length of time, with
    /// pauses of 10 s at most. Changes in quick succession during an interruption are returned as one, so not every
    /// state of the application is necessarily seen; the latest always is. A connection whose other end has vanished
    /// without closing it is given up after 75 s.
    ///
    /// [watch]: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
    ///
    /// # Errors
    ///
    /// After an error the stream ends. [`Error::NotFound`] if no application of this name exists at the beginning (if
    /// the uid is known, its absence counts as its deletion, which is no error), [`Error::Unreadable`] if the object
    /// cannot be parsed as the SparkApplication that this library knows, [`Error::Refused`] if the API server refuses
    /// the request, and [`Error::Call`] if the API server cannot be reached at the beginning.
    pub fn changes(&self, which: impl Into<Which>) -> Changes<SparkApplication> {
        let api = Api::namespaced(self.client.clone(), &self.namespace);
        following::changes(api, &self.namespace, which.into()).boxed()
    }

    /// Returns the application's status as it is now, and then each time that it changes. The stream ends with the
    /// status of the application's end, or when the application is deleted. The status is empty as long as nothing was
    /// recorded.
    ///
    /// For what counts as an end, see [`Self::end`]; everything else, including errors, is as in [`Self::changes`].
    pub fn statuses(&self, which: impl Into<Which>) -> Changes<SparkApplicationStatus> {
        distinct(to_its_end(self.changes(which)).map_ok(|application| application.status.unwrap_or_default()))
    }

    /// Returns the application's state as it is now, and then each time that it changes; otherwise like
    /// [`Self::statuses`].
    pub fn states(&self, which: impl Into<Which>) -> Changes<State> {
        distinct(to_its_end(self.changes(which)).map_ok(|application| application.state()))
    }

    /// Waits for the application's end, and returns it; at once if the application has ended already.
    ///
    /// An application has ended when the operator has observed the newest spec and the newest request for another run
    /// ([`SparkApplication::is_settled`]) and the state is COMPLETED or FAILED: a state that was recorded for a run
    /// before an edit is not the end. An application that is suspended, or that is always run again
    /// (`restartPolicy.type: Always`), does not end by itself: use `tokio::time::timeout` for such an application.
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

/// Returns the changes up to and including the first in which the application has ended.
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

/// Leaves out each value that is equal to the value before it.
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
