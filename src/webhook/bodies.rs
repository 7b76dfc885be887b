//! Receives the bodies of requests within a time, a size, and a memory limit for all of them together.

use axum::{
    body::{Bytes, HttpBody},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures::future::poll_fn;
use hyper::body::Incoming;
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::timeout};

/// An object is at most 1.5 MiB in etcd (3 MiB as JSON, by the API server's limit); an update carries two.
const LARGEST: usize = 8 << 20;
/// Of all requests together, what has arrived of them while more is to come. It is reached by those only that
/// begin and do not go on, since the rest arrives within milliseconds.
const LARGEST_TOGETHER: usize = 32 << 20;
/// What a request costs of which nothing has arrived but its head, about.
const EACH: usize = 4 << 10;
/// An API server waits 10 s for an answer unless it is told otherwise, and by our manifests 5 s.
const DEADLINE: Duration = Duration::from_secs(10);

/// The bodies of which more is to come.
#[derive(Default)]
pub(super) struct Bodies {
    held: AtomicUsize,
    /// By the order in which they have begun.
    arriving: Mutex<(u64, BTreeMap<u64, Arc<Notify>>)>,
}

/// One of them, as long as this lives.
struct Arriving<'a> {
    all: &'a Bodies,
    number: u64,
    held: usize,
    evicted: Arc<Notify>,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the body has more than {LARGEST} bytes")]
    TooLarge,
    #[error("the body has not arrived within {} s", DEADLINE.as_secs())]
    TooSlow,
    #[error("too many bodies are arriving at once, and this one has been for longest")]
    Ousted,
    #[error("the body has not arrived: {0}")]
    Broken(String),
}

impl Bodies {
    /// All of `body`.
    pub(super) async fn whole(&self, mut body: Incoming) -> Result<Bytes, Refused> {
        if body.size_hint().lower() > LARGEST as u64 {
            return Err(Refused::TooLarge);
        }
        let mut arriving = self.begun();
        let evicted = Arc::clone(&arriving.evicted);
        tokio::select! {
            biased;
            () = evicted.notified() => Err(Refused::Ousted),
            whole = timeout(DEADLINE, arriving.whole(&mut body)) => whole.unwrap_or(Err(Refused::TooSlow)),
        }
    }

    fn begun(&self) -> Arriving<'_> {
        let evicted = Arc::new(Notify::new());
        let mut guard = self.arriving();
        let (last, arriving) = &mut *guard;
        *last += 1;
        let number = *last;
        arriving.insert(number, Arc::clone(&evicted));
        drop(guard);
        let mut begun = Arriving { all: self, number, held: 0, evicted };
        begun.holds(EACH);
        begun
    }

    fn arriving(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<Notify>>)> {
        // Nothing can panic that holds it.
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arriving<'_> {
    async fn whole(&mut self, body: &mut Incoming) -> Result<Bytes, Refused> {
        let first = next(body).await?.unwrap_or_default();
        if body.is_end_stream() {
            return Ok(first);
        }
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or_default();
        let mut whole = Vec::with_capacity(first.len() + announced.min(LARGEST));
        let mut part = Some(first);
        while let Some(bytes) = part {
            if whole.len() + bytes.len() > LARGEST {
                return Err(Refused::TooLarge);
            }
            self.holds(bytes.len());
            whole.extend_from_slice(&bytes);
            part = next(body).await?;
        }
        Ok(whole.into())
    }

    /// So much more has arrived. Where that is too much in all, the one has to go that has been arriving for
    /// longest.
    fn holds(&mut self, more: usize) {
        self.held += more;
        if self.all.held.fetch_add(more, Ordering::Relaxed) + more > LARGEST_TOGETHER
            && let Some((_, oldest)) = self.all.arriving().1.pop_first()
        {
            oldest.notify_one();
        }
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.all.held.fetch_sub(self.held, Ordering::Relaxed);
        self.all.arriving().1.remove(&self.number);
    }
}

/// The next part of `body`; trailers are none.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Refused> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => return Err(Refused::Broken(error.to_string())),
            None => return Ok(None),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let code = match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Ousted => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        };
        (code, self.to_string()).into_response()
    }
}
