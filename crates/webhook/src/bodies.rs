//! Receives the bodies of requests and sends those of answers, with a limit of time and size for each body of a request,
//! and a memory limit for all bodies together. An answer that its client does not read ends with the connection: see
//! [`Use`].

use super::connection_limit::Use;
use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use futures::{TryStreamExt, stream};
use hyper::body::Incoming;
use parking_lot::Mutex;
use std::{collections::BTreeMap, convert::Infallible, iter, sync::Arc, time::Duration};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The maximum size of a request's body, in bytes. An object has at most 1.5 MiB in etcd, and the review of an update
/// contains two objects.
const LARGEST: usize = 4 << 20;
/// The maximum size, in bytes, of all incomplete bodies and all answers that clients have not read, together. Only
/// requests that begin and then stall, and clients that do not read, reach this limit: usually both take milliseconds.
const LARGEST_TOGETHER: usize = 32 << 20;
/// The approximate memory, in bytes, of a request in addition to its head and body, and of a header in addition to its text.
const EACH: usize = 4 << 10;
const EACH_HEADER: usize = 128;
/// How long a body may take to arrive. By default an API server waits 10 s for an answer, with the operator's manifests
/// 5 s.
const DEADLINE: Duration = Duration::from_secs(10);
/// How many bytes of an answer are passed to the connection at once.
const PART: usize = 16 << 10;

/// The bodies that are still arriving, and the answers that clients have not read.
#[derive(Default)]
pub(super) struct Bodies(Mutex<UnderWay>);

#[derive(Default)]
struct UnderWay {
    /// The number of the latest body.
    last: u64,
    /// The size of all bodies together.
    bytes: usize,
    /// The size of each body, and its signal, in the order in which the bodies have begun. If the signal is cancelled, a
    /// request is refused, and the connection of an answer is closed.
    bodies: BTreeMap<u64, (usize, CancellationToken)>,
}

/// One body that is under way. Dropping the value removes the body from [`Bodies`].
struct Held {
    all: Arc<Bodies>,
    number: u64,
}

/// The bytes of an answer. Each part that is not sent yet keeps the whole answer in memory.
struct Unsent {
    bytes: Bytes,
    #[expect(dead_code, reason = "counts as long as it lives")]
    held: Held,
    used: Arc<Use>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.used.taken(1);
    }
}

/// Why a body is not received, so that its request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("the body has more than {LARGEST} bytes")]
    TooLarge,
    #[error("the body has not arrived within {} s", DEADLINE.as_secs())]
    TooSlow,
    #[error("too many bodies are arriving at once, and this one has been arriving for longest")]
    Evicted,
    #[error("the body has not arrived: {0}")]
    Broken(#[from] axum::Error),
}

impl Bodies {
    /// Receives the body of a request with these headers completely.
    pub(super) async fn whole(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Bytes, Refused> {
        if body.size_hint().lower() > LARGEST as u64 {
            return Err(Refused::TooLarge);
        }
        let evicted = CancellationToken::new();
        let head: usize =
            headers.iter().map(|(name, value)| EACH_HEADER + name.as_str().len() + value.len()).sum();
        let held = self.begun(evicted.clone(), EACH + head);
        tokio::select! {
            biased;
            () = evicted.cancelled() => Err(Refused::Evicted),
            whole = timeout(DEADLINE, held.whole(body)) => whole.unwrap_or(Err(Refused::TooSlow)),
        }
    }

    /// Returns the body of an answer, which is sent in parts over the connection `used`. It counts until its last part is
    /// sent.
    pub(super) fn answer(self: &Arc<Self>, bytes: Bytes, used: &Arc<Use>) -> Body {
        used.given(1);
        let (held, used) = (self.begun(used.evicted.clone(), bytes.len()), Arc::clone(used));
        let mut left = Bytes::from_owner(Unsent { bytes, held, used: Arc::clone(&used) });
        let parts = iter::from_fn(move || {
            let length = left.len().min(PART);
            used.taken(0);
            (length > 0).then(|| left.split_to(length))
        });
        Body::from_stream(stream::iter(parts.map(Ok::<_, Infallible>)))
    }

    fn begun(self: &Arc<Self>, evicted: CancellationToken, bytes: usize) -> Held {
        let mut under_way = self.0.lock();
        under_way.last += 1;
        let number = under_way.last;
        under_way.bodies.insert(number, (0, evicted));
        drop(under_way);
        let begun = Held { all: Arc::clone(self), number };
        begun.holds(bytes);
        begun
    }
}

impl Held {
    async fn whole(&self, body: Incoming) -> Result<Bytes, Refused> {
        // A stream of the body's parts without trailers.
        let mut body = Body::new(body).into_data_stream();
        let first = body.try_next().await?.unwrap_or_default();
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
            part = body.try_next().await?;
        }
        Ok(whole.into())
    }

    /// Records that there are `more` bytes of this body. As long as all bodies together are then too large, the one that has
    /// been under way for the longest time is evicted.
    fn holds(&self, more: usize) {
        let mut guard = self.all.0.lock();
        let UnderWay { bytes, bodies, .. } = &mut *guard;
        let Some((own, _)) = bodies.get_mut(&self.number) else { return };
        *own += more;
        *bytes += more;
        while *bytes > LARGEST_TOGETHER
            && bodies.len() > 1
            && let Some((_, (its, evicted))) = bodies.pop_first()
        {
            *bytes -= its;
            evicted.cancel();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut guard = self.all.0.lock();
        if let Some((bytes, _)) = guard.bodies.remove(&self.number) {
            guard.bytes -= bytes;
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
