//! Knows who is asking, and keeps a client and lists for each caller. Nothing is shared between two tokens.

use super::{CallerId, List, Reader, Result, Row, lists::UNUSED};
use http::{HeaderValue, Request, StatusCode, header::AUTHORIZATION};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, Resource, api::PostParams, client::Body};
use parking_lot::Mutex;
use spark_operator_client::patience::{GRACE, in_time};
use std::{
    any::Any,
    collections::HashMap,
    sync::{Arc, Weak},
};
use tokio::{task::JoinSet, time::Instant};
use work::may_have;

/// The most callers that have lists at once, of which those of one party are at most as many as are free. Of more, the one about
/// whom the API server was asked first is forgotten, and only has to wait for its lists again.
const MOST: usize = 64;
/// The most lists that a caller has: of each kind that of all namespaces, or of some. Of more, the one that was asked for first
/// ends.
const MOST_LISTS: usize = 8;

/// A caller whom the API server knows.
pub(crate) struct Caller {
    pub id: CallerId,
    /// The API server's name for the caller.
    pub name: String,
    pub reader: Reader,
    lists: Mutex<Lists>,
    /// The time at which the API server was asked last whether it knows the caller.
    asked: Mutex<Instant>,
}

/// All callers of the last minutes.
#[derive(Default)]
pub(crate) struct Callers {
    known: Mutex<HashMap<CallerId, Arc<Caller>>>,
}

/// The lists of a caller by their paths.
type Lists = HashMap<String, Kept>;

struct Kept {
    /// A [`List`] of the path's kind, as long as its task keeps it.
    list: Weak<dyn Any + Send + Sync>,
    asked: Instant,
    _task: JoinSet<()>,
}

fn kept<R: Row>(lists: &mut Lists, path: &str) -> Option<Arc<List<R>>> {
    let kept = lists.get_mut(path)?;
    kept.asked = Instant::now();
    kept.list.upgrade()?.downcast().ok()
}

impl Caller {
    /// Returns the list of the objects of a kind in a namespace, if it is kept up to date already.
    pub(crate) fn known<R: Row>(&self, namespace: &str) -> Option<Arc<List<R>>> {
        kept(&mut self.lists.lock(), &R::Kind::url_path(&(), Some(namespace)))
    }

    /// Returns the list of the objects of a kind in all namespaces, or in one.
    pub(crate) fn list<R: Row>(&self, namespace: Option<&str>) -> Arc<List<R>> {
        let path = R::Kind::url_path(&(), namespace);
        let mut lists = self.lists.lock();
        if let Some(list) = kept(&mut lists, &path) {
            return list;
        }
        lists.retain(|_, kept| kept.list.strong_count() > 0);
        if lists.len() >= MOST_LISTS {
            let first = lists.iter().min_by_key(|(_, kept)| kept.asked).map(|(path, _)| path.clone());
            first.and_then(|path| lists.remove(&path));
        }
        let (list, _task) = List::<R>::begin(self.reader.clone(), path.clone());
        let weak: Weak<List<R>> = Arc::downgrade(&list);
        lists.insert(path, Kept { list: weak, asked: Instant::now(), _task });
        list
    }
}

impl Callers {
    /// Returns the caller `id`, whose requests `client` makes. The API server is asked who a new caller is, and once a
    /// minute whether it still knows the caller.
    ///
    /// # Errors
    ///
    /// If the API server does not know the caller, or does not answer.
    pub(crate) async fn caller(&self, id: CallerId, client: impl FnOnce() -> Client) -> Result<Arc<Caller>> {
        let known = self.known.lock().get(&id).map(Arc::clone);
        if let Some(caller) = &known
            && caller.asked.lock().elapsed() < UNUSED
        {
            return Ok(Arc::clone(caller));
        }
        let client = known.map_or_else(client, |caller| caller.reader.client.clone());
        // If the API server is away, the lists are there when it has come back.
        let name = name(&client).await.inspect_err(|refusal| {
            if refusal.status == StatusCode::UNAUTHORIZED {
                self.forget(&id);
            }
        })?;
        let reader = Reader { client, party: party(&name).into() };
        let mut known = self.known.lock();
        known.retain(|_, caller| caller.asked.lock().elapsed() < 2 * UNUSED);
        let is_beside = |caller: &Arc<Caller>| caller.reader.party == reader.party;
        if !known.contains_key(&id)
            && let Some(silent) = displaced(&known, MOST, is_beside, |caller| *caller.asked.lock())
        {
            known.remove(&silent);
        }
        // Two requests may have asked at once; both have the same caller from then on.
        let (lists, asked) = (Mutex::default(), Mutex::new(Instant::now()));
        let new = Arc::new(Caller { id, name, reader, lists, asked });
        let caller = known.entry(id).or_insert(new);
        *caller.asked.lock() = Instant::now();
        Ok(Arc::clone(caller))
    }

    /// Forgets a caller who has logged out.
    pub(crate) fn forget(&self, id: &CallerId) {
        self.known.lock().remove(id);
    }
}

/// Returns the party to which a caller of this name belongs, and which shares what is scarce with the others. Service accounts of
/// a namespace are one: a tenant makes any number of them, and of tokens.
fn party(name: &str) -> &str {
    let account = name.rsplit_once(':').filter(|(of, _)| of.starts_with("system:serviceaccount:"));
    account.map_or(name, |(of, _)| of)
}

/// Returns the key of the one that has to go before another one comes: of those that are `own` to its owner, if the owner may not
/// have more of so many as `most`, else of all, if there are so many; the one that was used first. None if there is room.
pub(crate) fn displaced<K: Clone, V>(
    all: &HashMap<K, V>,
    most: usize,
    is_own: impl Fn(&V) -> bool,
    used: impl Fn(&V) -> Instant,
) -> Option<K> {
    let own = all.values().filter(|one| is_own(one)).count();
    if may_have(own, most.saturating_sub(all.len())) {
        return None;
    }
    let candidates = all.iter().filter(|(_, one)| own == 0 || is_own(one));
    candidates.min_by_key(|(_, one)| used(one)).map(|(key, _)| key.clone())
}

/// Returns how the API server calls whoever the client's requests are from.
async fn name(client: &Client) -> Result<String> {
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let asked = SelfSubjectReview::default();
    match in_time(GRACE, reviews.create(&PostParams::default(), &asked)).await.flatten() {
        Ok(review) => {
            let user = review.status.and_then(|status| status.user_info);
            Ok(user.and_then(|user| user.username).unwrap_or_default())
        }
        // An admin may forbid to ask. A token that is wrong is 401 in any case.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the header that carries `token`; none if no token is like that.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    // Keeps the header out of requests that are printed.
    value.set_sensitive(true);
    Some(value)
}

/// Returns a client that makes the requests of `bare`, which has no credentials, with this header.
pub(crate) fn with_header(bare: &Client, value: HeaderValue) -> Client {
    let inner = bare.clone();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(AUTHORIZATION, value.clone());
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Client::new(service, bare.default_namespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use serde_json::json;
    use std::{convert::Infallible, time::Duration};

    /// Returns a client whose server knows the caller by this name.
    fn client(name: &str) -> Client {
        let answer = json!({"metadata": {}, "status": {"userInfo": {"username": name}}}).to_string();
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = answer.clone().into_bytes();
            async move { Ok::<_, Infallible>(Response::new(Body::from(answer))) }
        });
        Client::new(service, "default")
    }

    fn id(number: usize) -> CallerId {
        [u8::try_from(number).unwrap(); 32]
    }

    /// Once, with as many callers as are known at most, each of them lost its lists once a minute.
    #[tokio::test(start_paused = true)]
    async fn a_caller_who_is_known_takes_no_place_of_another() {
        let callers = Callers::default();
        let ask =
            async |number: usize| callers.caller(id(number), || client(&number.to_string())).await.unwrap();
        let mut first = Vec::new();
        for number in 0..MOST {
            first.push(ask(number).await);
        }
        tokio::time::advance(UNUSED).await;
        for (number, known) in first.iter().enumerate() {
            assert!(Arc::ptr_eq(known, &ask(number).await), "{number}");
        }
        ask(MOST).await;
        assert_eq!(callers.known.lock().len(), MOST);
    }

    /// Once, whoever had 64 tokens made the page forget everybody else's lists.
    #[tokio::test(start_paused = true)]
    async fn tokens_of_one_tenant_take_no_place_of_another() {
        let callers = Callers::default();
        let ask =
            async |number: usize, name: &str| callers.caller(id(number), || client(name)).await.unwrap();
        let ada = ask(255, "ada").await;
        tokio::time::advance(Duration::from_secs(1)).await;
        for number in 0..2 * MOST {
            let name = format!("system:serviceaccount:team-a:{}", number % 3);
            ask(number, name.as_str()).await;
        }
        assert!(Arc::ptr_eq(&ada, &ask(255, "ada").await));
        assert_eq!(callers.known.lock().len(), 1 + MOST / 2);
        assert_eq!(party("system:serviceaccount:team-a:x"), party("system:serviceaccount:team-a:y"));
        assert_eq!((party("oidc:ada"), party("")), ("oidc:ada", ""));
    }
}
