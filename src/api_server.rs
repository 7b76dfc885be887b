//! Creates the client of the API server: each of its requests has a deadline and is counted.

use axum::http::{HeaderMap, Method, Request, Response, Uri, header};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use kube::{Client, Config, client::Body};
use parking_lot::Mutex;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use std::{error::Error, iter::successors, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};
use tower::service_fn;
use work::metric;

/// How long the API server may take to begin an answer. The API server itself ends a request that is not a watch after
/// 60 s. A healthy API server answers every request of the operator within a tenth of a second, and a caller that waits
/// holds up other work.
const ANSWER: Duration = Duration::from_secs(30);
/// How long an answer that has begun may be silent. This is longer than any watch lasts, so that a connection is given
/// up only if its other end is gone.
const SILENCE: Duration = Duration::from_secs(90);
/// How long it may take to open a connection. The next try may reach another API server.
const CONNECT: Duration = Duration::from_secs(10);

type BoxError = Box<dyn Error + Send + Sync>;

/// Returns a client that keeps the deadlines and records its requests in `requests`.
///
/// # Errors
///
/// When the configuration contradicts itself, or names credentials that cannot be read.
pub fn client(mut config: Config, requests: &Requests) -> kube::Result<Client> {
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let requests = Requests { host: host.into(), ..requests.clone() };
    Ok(requests.measured(Client::try_from(config)?, ANSWER))
}

/// The maximum duration of a watch, in seconds. Then the next watch continues where the last one ended, which shows
/// that both ends are alive.
pub const WATCH_SECONDS: u32 = 60;

/// The record of the requests of a client: counts, durations and the API server's clock.
#[derive(Clone, Debug)]
pub struct Requests {
    // The labels are those of client-go, which Kubeflow's operator shows.
    answers: Family<Labels<3>, Counter>,
    durations: Family<Labels<2>, Histogram>,
    /// The `Date` header of the API server's last answer, and the time at which that answer arrived.
    time: Arc<Mutex<Option<(Timestamp, Instant)>>>,
    /// The address of the API server, kept here because requests get their address only after they have been counted.
    host: Arc<str>,
}

/// Names and values.
type Labels<const N: usize> = [(&'static str, String); N];

impl Requests {
    /// Returns a record whose counts and durations are registered in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let buckets: fn() -> Histogram =
            || Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0]);
        let help =
            "Requests to the API server, by status code (<error> where there was no answer), method and host";
        let answers = metric(registry, "rest_client_requests", help, Family::default());
        let help = "How long the API server took to begin its answer, in seconds";
        let durations = Family::new_with_constructor(buckets);
        let durations = metric(registry, "rest_client_request_duration_seconds", help, durations);
        Self { answers, durations, time: Arc::default(), host: Arc::default() }
    }

    /// Returns the time by the API server's clock; `None` before the first answer. The time can be up to a second too
    /// early, because the `Date` header has whole seconds. HTTP servers that have a clock date their answers (RFC 9110,
    /// 6.6.1), and the API server does so.
    pub fn server_time(&self) -> Option<Timestamp> {
        let (time, arrived) = (*self.time.lock())?;
        let since = SignedDuration::try_from(arrived.elapsed()).ok()?;
        time.checked_add(since).ok()
    }

    fn note_time(&self, headers: &HeaderMap) {
        let date = headers.get(header::DATE).and_then(|date| date.to_str().ok());
        let time = date.and_then(|date| rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
        if let Some(time) = time {
            *self.time.lock() = Some((time, Instant::now()));
        }
    }

    fn answered(&self, method: &Method, uri: &Uri, code: String, duration: Duration) {
        let mut parameters = uri.query().into_iter().flat_map(|query| query.split('&'));
        let is_watch = parameters.any(|parameter| parameter.starts_with("watch="));
        let host = self.host.to_string();
        let verb = if is_watch { "WATCH".to_owned() } else { method.to_string() };
        let durations = self.durations.get_or_create_owned(&[("verb", verb), ("host", host.clone())]);
        durations.observe(duration.as_secs_f64());
        self.answers.get_or_create(&[("code", code), ("method", method.to_string()), ("host", host)]).inc();
    }

    /// Returns a client that sends its requests through `client` and records them. A request fails if its answer has
    /// not begun after `patience`.
    fn measured(self, client: Client, patience: Duration) -> Client {
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request| self.clone().sent(client.clone(), request, patience));
        Client::new(service, namespace)
    }

    async fn sent(
        self,
        client: Client,
        request: Request<Body>,
        patience: Duration,
    ) -> Result<Response<Body>, BoxError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let asked = Instant::now();
        let answer = match timeout(patience, client.send(request)).await {
            Ok(answer) => answer.map_err(in_words),
            Err(_) => Err(format!("the API server has not answered for {} s", patience.as_secs()).into()),
        };
        if let Ok(answer) = &answer {
            self.note_time(answer.headers());
        }
        let code = answer.as_ref().map_or("<error>".to_owned(), |answer| answer.status().as_str().to_owned());
        self.answered(&method, &uri, code, asked.elapsed());
        answer
    }
}

/// Returns a transport error together with all its causes, since only the innermost cause contains what went wrong.
fn in_words(error: kube::Error) -> BoxError {
    let error: BoxError = match error {
        kube::Error::Service(error) => error,
        kube::Error::HyperError(error) => error.into(),
        other => return other.into(),
    };
    let causes = successors(error.source(), |&cause| cause.source()).map(|cause| format!(": {cause}"));
    format!("the API server cannot be reached: {error}{}", causes.collect::<String>()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Api, api::ListParams};

    #[tokio::test]
    async fn a_request_without_an_answer_times_out_and_is_counted() {
        let mut registry = Registry::default();
        let requests = Requests::new(&mut registry);
        let silent = service_fn(|_| std::future::pending::<Result<Response<Body>, BoxError>>());
        let pods = Api::<Pod>::all(requests.measured(Client::new(silent, "x"), Duration::from_millis(1)));

        let error = pods.get_metadata("x").await.unwrap_err();
        assert!(format!("{error:?}").contains("the API server has not answered for 0 s"), "{error:?}");
        pods.list(&ListParams::default()).await.unwrap_err();
        let text = metrics::text(&registry);
        let counted = "rest_client_requests_total{code=\"<error>\",method=\"GET\",host=\"\"} 2\n";
        assert!(text.contains(counted), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_servers_time_continues_from_the_date_of_its_last_answer() {
        let requests = Requests::new(&mut Registry::default());
        assert_eq!(requests.server_time(), None);
        let dated = service_fn(|_| async {
            let answer = Response::builder().header("Date", "Sat, 21 Nov 2026 08:00:00 GMT").status(404);
            answer.body(Body::empty())
        });
        let pods = Api::<Pod>::all(requests.clone().measured(Client::new(dated, "x"), ANSWER));
        pods.get_metadata("x").await.unwrap_err();
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(requests.server_time(), Some("2026-11-21T08:01:30Z".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_transport_error_is_returned_with_its_causes_and_any_other_error_unchanged() {
        let measured = |client: Client| Requests::new(&mut Registry::default()).measured(client, ANSWER);
        let refused = service_fn(|_| async {
            let error = anyhow::anyhow!("connection refused").context("client error");
            Err::<Response<Body>, BoxError>(error.into())
        });
        let client = measured(Client::new(refused, "team-a"));
        assert_eq!(client.default_namespace(), "team-a");
        let error = Api::<Pod>::all(client).get_metadata("x").await.unwrap_err();
        let words = "ServiceError: the API server cannot be reached: client error: connection refused";
        assert_eq!(error.to_string(), words);

        let failing = service_fn(|_| async { Err::<Response<Body>, _>(kube::Error::TlsRequired) });
        let pods = Api::<Pod>::all(measured(Client::new(failing, "team-a")));
        let error = pods.get_metadata("x").await.unwrap_err();
        assert!(matches!(error, kube::Error::TlsRequired), "{error:?}");
    }
}
