//! Receives the bodies of requests and sends those of answers, with a limit of time and size for each body of a request,
//! of time for answers that nobody takes, and a memory limit for all bodies together.

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use futures::TryStreamExt;
use hyper::body::{Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

/// The largest body, in bytes. An object has at most 1.5 MiB in etcd, and the review of an update contains two objects.
const LARGEST: usize = 4 << 20;
/// The most bytes that incomplete bodies and answers that nobody has taken may have in memory, all together. Only
/// requests that begin and then stall, and clients that do not read, reach this limit: usually both take milliseconds.
const LARGEST_TOGETHER: usize = 32 << 20;
/// The approximate memory, in bytes, of a request beside its head and body, and of a header beside its text.
const EACH: usize = 4 << 10;
const EACH_HEADER: usize = 128;
/// How long a body may take to arrive. By default an API server waits 10 s for an answer, with the operator's manifests
/// 5 s.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long a client may take nothing of an answer before its connection is closed.
const UNREAD: Duration = Duration::from_secs(10);
/// How much of an answer is handed over at once.
const PART: usize = 16 << 10;

/// The bodies that are still arriving, and the answers that nobody has taken.
#[derive(Default)]
pub(super) struct Bodies(Mutex<UnderWay>);

#[derive(Default)]
struct UnderWay {
    /// The number of the latest body.
    last: u64,
    /// What all bodies have together.
    bytes: usize,
    /// What each body has, and its signal, in the order in which the bodies have begun. A request whose signal is notified
    /// is refused, and the connection of an answer is closed.
    bodies: BTreeMap<u64, (usize, Arc<Notify>)>,
}

/// One body that is under way. Dropping the value removes the body from [`Bodies`].
struct Held {
    all: Arc<Bodies>,
    number: u64,
}

/// The answers of one connection.
pub(super) struct Answers {
    /// How many answers the client has not taken, and when it last took a part of one.
    unsent: Mutex<(usize, Instant)>,
    /// Notified if the connection is to be closed, because there are too many bytes for others.
    evicted: Arc<Notify>,
}

/// An answer. It counts until its last part is sent.
pub(super) struct Answer {
    left: Bytes,
    answers: Arc<Answers>,
}

/// The bytes of an answer, of which each part that is not sent keeps the whole in memory.
struct Unsent {
    bytes: Bytes,
    #[expect(dead_code, reason = "counts as long as it lives")]
    held: Held,
    answers: Arc<Answers>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        let mut unsent = self.answers.unsent.lock();
        *unsent = (unsent.0 - 1, Instant::now());
    }
}

/// Why a body is not received, so that its request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("the body has more than {LARGEST} bytes")]
    TooLarge,
    #[error("the body has not arrived within {} s", DEADLINE.as_secs())]
    TooSlow,
    #[error("too many bodies are arriving at once, and this one has been for longest")]
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
        let evicted = Arc::<Notify>::default();
        let head: usize =
            headers.iter().map(|(name, value)| EACH_HEADER + name.as_str().len() + value.len()).sum();
        let held = self.begun(Arc::clone(&evicted), EACH + head);
        tokio::select! {
            biased;
            () = evicted.notified() => Err(Refused::Evicted),
            whole = timeout(DEADLINE, held.whole(body)) => whole.unwrap_or(Err(Refused::TooSlow)),
        }
    }

    /// Returns the answer with this body, over the connection with these other answers.
    pub(super) fn answer(self: &Arc<Self>, bytes: Bytes, answers: &Arc<Answers>) -> Answer {
        {
            let mut unsent = answers.unsent.lock();
            let begun = if unsent.0 == 0 { Instant::now() } else { unsent.1 };
            *unsent = (unsent.0 + 1, begun);
        }
        let held = self.begun(Arc::clone(&answers.evicted), bytes.len());
        let unsent = Unsent { bytes, held, answers: Arc::clone(answers) };
        Answer { left: Bytes::from_owner(unsent), answers: Arc::clone(answers) }
    }

    fn begun(self: &Arc<Self>, evicted: Arc<Notify>, bytes: usize) -> Held {
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
        // A stream of its parts without trailers.
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

    /// Records that there are `more` bytes. As long as several bodies together are then too large, the one that has been
    /// under way for the longest time is given up.
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
            evicted.notify_one();
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

impl Answers {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { unsent: Mutex::new((0, Instant::now())), evicted: Arc::default() })
    }

    /// Waits until the connection is to be closed, because the client does not take its answers.
    pub(super) async fn are_left(&self) {
        loop {
            let is_evicted = timeout(UNREAD / 2, self.evicted.notified()).await.is_ok();
            let (unsent, taken) = *self.unsent.lock();
            if is_evicted || unsent > 0 && taken.elapsed() >= UNREAD {
                return;
            }
        }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.left.len().min(PART);
        self.answers.unsent.lock().1 = Instant::now();
        let part = self.left.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
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
