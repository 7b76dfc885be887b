//! Records the watches of the API server and how long each has had no response, and lets their lists be read one page
//! at a time.
//!
//! A record exists as long as the stream of its watch: the stream owns a client of its own, and the record ends when
//! that client is dropped. So a watch that was ended on purpose is not mistaken for one whose connection is dead.

mod pages;

use kube::Client;
pub use pages::page_by_page;
use parking_lot::Mutex;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::Instant;

/// The watches of a process. All clones share their data.
#[derive(Clone, Debug, Default)]
pub struct Watches(Arc<Mutex<Vec<Weak<Watch>>>>);

#[derive(Debug)]
struct Watch {
    /// The URL path of the watch.
    path: String,
    /// The time of the last response to a list or watch request, also one with an error; before the first response, the
    /// time at which the watch began.
    answered: Mutex<Instant>,
}

impl Watches {
    /// Begins the record of a watch of `path`. Returns the client for the requests of this watch; the record ends with
    /// the client and its clones.
    pub fn begin(&self, client: &Client, path: String) -> Client {
        let watch = Arc::new(Watch { path, answered: Mutex::new(Instant::now()) });
        let mut watches = self.0.lock();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(&watch));
        let inner = client.clone();
        let noted = tower::service_fn(move |request| {
            let (client, watch) = (inner.clone(), Arc::clone(&watch));
            async move {
                let answer = client.send(request).await;
                *watch.answered.lock() = Instant::now();
                answer
            }
        });
        Client::new(noted, client.default_namespace())
    }

    /// Returns the watches that have had no response for longer than `limit`: the path of each, and the time since its
    /// last response.
    pub fn silent(&self, limit: Duration) -> Vec<(String, Duration)> {
        let watches = self.0.lock();
        let silences = watches.iter().filter_map(Weak::upgrade);
        let silences = silences.map(|watch| (watch.path.clone(), watch.answered.lock().elapsed()));
        silences.filter(|(_, silence)| *silence > limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Api, api::ListParams, client::Body};
    use tokio::{task::yield_now, time::advance};

    const MINUTE: Duration = Duration::from_secs(60);

    /// Returns a client whose server answers, or does not answer, at once.
    fn client(answers: bool) -> Client {
        let server = tower::service_fn(move |_| async move {
            if answers {
                Ok::<_, kube::Error>(Response::builder().status(404).body(Body::empty()).unwrap())
            } else {
                std::future::pending().await
            }
        });
        Client::new(server, "default")
    }

    async fn silent(watches: &Watches) -> Vec<(String, Duration)> {
        // The worker task of a dropped client holds it until the task has run.
        for _ in 0..10 {
            yield_now().await;
        }
        watches.silent(5 * MINUTE)
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_without_responses_is_silent_until_it_ends() {
        let watches = Watches::default();
        let pods = Api::<Pod>::all(watches.begin(&client(false), "/api/v1/pods".to_owned()));
        let asks = tokio::spawn(async move { pods.list_metadata(&ListParams::default()).await });
        assert_eq!(silent(&watches).await, []);
        advance(10 * MINUTE).await;
        assert_eq!(silent(&watches).await, [("/api/v1/pods".to_owned(), 10 * MINUTE)]);
        asks.abort();
        assert_eq!(silent(&watches).await, []);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_response_shows_that_a_watch_is_alive() {
        let watches = Watches::default();
        let pods = Api::<Pod>::all(watches.begin(&client(true), "/api/v1/pods".to_owned()));
        advance(10 * MINUTE).await;
        pods.list_metadata(&ListParams::default()).await.unwrap_err();
        assert_eq!(silent(&watches).await, []);
        advance(6 * MINUTE).await;
        assert_eq!(silent(&watches).await.len(), 1);
    }

    /// Watches end on purpose, for example those of namespaces when their merged list begins anew. Without the end of
    /// the record, a quarter of an hour later each would count as one with a dead connection.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_has_ended_is_never_silent() {
        let watches = Watches::default();
        let pods = Api::<Pod>::all(watches.begin(&client(true), "/api/v1/pods".to_owned()));
        pods.list_metadata(&ListParams::default()).await.unwrap_err();
        drop(pods);
        advance(15 * MINUTE).await;
        assert_eq!(silent(&watches).await, []);
        let next = watches.begin(&client(true), "/api/v1/events".to_owned());
        assert_eq!(watches.0.lock().len(), 1, "the record of the ended watch is removed");
        drop(next);
    }
}
