//! Receives the bodies of requests, with a limit of time and size for each body and a memory limit for all bodies
//! together.

use axum::{
    body::{Bytes, HttpBody},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures::future::poll_fn;
use hyper::body::Incoming;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::timeout};

/// The largest body, in bytes. An object has at most 1.5 MiB in etcd, and the review of an update contains two objects.
const LARGEST: usize = 4 << 20;
/// The most bytes that incomplete bodies may have in memory, all requests together. Only requests that begin and then
/// stall reach this limit: usually the rest of a body arrives within milliseconds.
const LARGEST_TOGETHER: usize = 32 << 20;
/// The approximate memory, in bytes, of a request of which only the head has arrived.
const EACH: usize = 4 << 10;
/// How long a body may take to arrive. By default an API server waits 10 s for an answer, with the operator's manifests
/// 5 s.
const DEADLINE: Duration = Duration::from_secs(10);

/// The bodies that are still arriving.
#[derive(Default)]
pub(super) struct Bodies {
    held: AtomicUsize,
    /// The number of the latest body, and a signal for each body that is still arriving, by the body's number. The
    /// numbers are in the order in which the bodies have begun. A body whose signal is notified is refused.
    arriving: Mutex<(u64, BTreeMap<u64, Arc<Notify>>)>,
}

/// One body that is still arriving. Dropping the value removes the body from [`Bodies`].
struct Arriving<'a> {
    all: &'a Bodies,
    number: u64,
    held: usize,
    evicted: Arc<Notify>,
}

/// Why a body is not received, so that its request is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the body has more than {LARGEST} bytes")]
    TooLarge,
    #[error("the body has not arrived within {} s", DEADLINE.as_secs())]
    TooSlow,
    #[error("too many bodies are arriving at once, and this one has been for longest")]
    Evicted,
    #[error("the body has not arrived: {0}")]
    Broken(String),
}

impl Bodies {
    /// Receives `body` completely.
    pub(super) async fn whole(&self, mut body: Incoming) -> Result<Bytes, Refused> {
        if body.size_hint().lower() > LARGEST as u64 {
            return Err(Refused::TooLarge);
        }
        let mut arriving = self.begun();
        let evicted = Arc::clone(&arriving.evicted);
        tokio::select! {
            biased;
            () = evicted.notified() => Err(Refused::Evicted),
            whole = timeout(DEADLINE, arriving.whole(&mut body)) => whole.unwrap_or(Err(Refused::TooSlow)),
        }
    }

    fn begun(&self) -> Arriving<'_> {
        let evicted = Arc::new(Notify::new());
        let mut guard = self.arriving.lock();
        let (last, arriving) = &mut *guard;
        *last += 1;
        let number = *last;
        arriving.insert(number, Arc::clone(&evicted));
        drop(guard);
        let mut begun = Arriving { all: self, number, held: 0, evicted };
        begun.holds(EACH);
        begun
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

    /// Records that `more` bytes have arrived. If all bodies together are then too large, the body that has been
    /// arriving for the longest time is refused.
    fn holds(&mut self, more: usize) {
        self.held += more;
        if self.all.held.fetch_add(more, Ordering::Relaxed) + more > LARGEST_TOGETHER
            && let Some((_, oldest)) = self.all.arriving.lock().1.pop_first()
        {
            oldest.notify_one();
        }
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.all.held.fetch_sub(self.held, Ordering::Relaxed);
        self.all.arriving.lock().1.remove(&self.number);
    }
}

/// Returns the next part of `body`, none at its end. Trailers are skipped.
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
            Self::Evicted => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        };
        (code, self.to_string()).into_response()
    }
}
