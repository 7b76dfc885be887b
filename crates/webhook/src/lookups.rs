//! Limits the requests that reviews send to the API server: about quotas and about the permissions of users. Any client that
//! reaches the port can cause such requests, about any namespace and any user; so they depend on the client.

use axum::extract::Extension;
use std::{net::IpAddr, time::Duration};
use tokio::time::{sleep, timeout};
use work::{Turn, Turns};

/// The maximum number of concurrent reviews with requests to the API server, for clients that are not known as API servers.
/// The turn of each lasts [`PAUSE`] longer than its requests, so that at most 400 begin in a second.
const AT_ONCE: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// The maximum number of reviews that wait for their turn, each with its object in memory, and how long they wait. An API
/// server sends at most 200 changes at once by default (`--max-mutating-requests-inflight`).
const WAITING: usize = 256;
const PATIENCE: Duration = Duration::from_secs(3);

/// The client that has sent a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller {
    /// The client's IP address; `None` without a connection.
    pub peer: Option<IpAddr>,
    /// Whether the client has presented a certificate of a CA of API servers (`--webhook-client-ca`).
    pub is_api_server: bool,
}

impl Caller {
    /// Returns the client of a request; an unknown client without a connection.
    pub fn of(extension: Option<Extension<Self>>) -> Self {
        extension.map(|Extension(caller)| caller).unwrap_or_default()
    }
}

/// Decides for which clients reviews may send requests to the API server, and when: the clients take turns.
#[derive(Debug)]
pub struct Lookups {
    is_for_api_servers: bool,
    turns: Turns,
}

impl Lookups {
    /// Returns lookups for all clients, or only for those that have presented an API server's certificate.
    pub fn new(is_for_api_servers: bool) -> Self {
        Self { is_for_api_servers, turns: Turns::with_room(AT_ONCE, WAITING) }
    }

    /// Waits for the permit to send requests about `namespace` for `caller`, which is valid until it is dropped. The error
    /// continues a sentence.
    pub(super) async fn permitted(&self, caller: Caller, namespace: &str) -> Result<Permit, &'static str> {
        if caller.is_api_server {
            return Ok(Permit(None));
        }
        if self.is_for_api_servers {
            return Err(
                "the webhook asks that only for clients that present a certificate of --webhook-client-ca: have an admin \
                        give the API server one in its AdmissionConfiguration",
            );
        }
        let turn = timeout(PATIENCE, self.turns.turn(caller.peer, namespace)).await.ok().flatten();
        turn.map(|turn| Permit(Some(turn)))
            .ok_or("too many reviews need requests to the API server at once: try again later")
    }
}

/// Permits a review to send requests to the API server.
#[derive(Debug)]
pub(super) struct Permit(Option<Turn>);

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(turn) = self.0.take() {
            tokio::spawn(async move {
                sleep(PAUSE).await;
                drop(turn);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn many_lookups_of_a_client_are_rate_limited_and_delay_others_by_a_turn() {
        let lookups = Lookups::new(false);
        let of = |last: u8| Caller { peer: Some([10, 0, 0, last].into()), is_api_server: false };
        let begun = Instant::now();
        let crowd = async {
            let names: Vec<_> = (0..2000).map(|i| i.to_string()).collect();
            let ask = async |name: &String| lookups.permitted(of(1), name).await.is_ok();
            let asked = join_all(names.iter().map(ask)).await;
            (asked.iter().filter(|asked| **asked).count(), begun.elapsed())
        };
        let other = async {
            lookups.permitted(of(2), "b").await.unwrap();
            begun.elapsed()
        };
        let ((asked, took), waited) = tokio::join!(crowd, other);
        assert!(waited <= PAUSE, "{waited:?}");
        assert!((WAITING..=WAITING + AT_ONCE).contains(&asked), "{asked}");
        assert!(took >= PAUSE * u32::try_from(WAITING / AT_ONCE - 1).unwrap(), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_lasts_until_the_answer() {
        let lookups = Lookups::new(false);
        let asking: Vec<_> = join_all((0..AT_ONCE).map(|_| lookups.permitted(Caller::default(), "a"))).await;
        assert!(lookups.permitted(Caller::default(), "b").await.is_err(), "nobody has an answer yet");
        drop(asking);
        lookups.permitted(Caller::default(), "b").await.unwrap();
    }

    #[tokio::test]
    async fn with_known_api_servers_other_clients_get_no_permit() {
        let lookups = Lookups::new(true);
        let refused = lookups.permitted(Caller::default(), "a").await.unwrap_err();
        assert!(refused.contains("--webhook-client-ca"), "{refused}");
        lookups.permitted(Caller { is_api_server: true, ..Caller::default() }, "a").await.unwrap();
    }
}
