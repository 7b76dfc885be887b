//! Identifies callers, and keeps a client and lists for each. Two tokens share nothing.

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

/// The maximum number of callers in memory. A party may have at most as many as are free. If there are more, the caller
/// whose last check with the API server is the oldest is forgotten, and has to wait for its lists again.
const MOST: usize = 64;
/// The maximum number of lists of a caller: for each kind, one of all namespaces or several of one namespace. If there
/// are more, the least recently used list ends.
const MOST_LISTS: usize = 8;

/// A caller whose credentials the API server accepts.
pub(crate) struct Caller {
    pub id: CallerId,
    /// The user name that the API server reports for the caller.
    pub name: String,
    pub reader: Reader,
    lists: Mutex<Lists>,
    /// The time of the last check with the API server.
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
    /// A [`List`] of the path's kind, which its task keeps alive.
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
    /// Returns the list of the objects of a kind in a namespace, if it exists.
    pub(crate) fn known<R: Row>(&self, namespace: &str) -> Option<Arc<List<R>>> {
        kept(&mut self.lists.lock(), &R::Kind::url_path(&(), Some(namespace)))
    }

    /// Returns the list of the objects of a kind in all namespaces (`None`), or in one. Starts it if it does not exist.
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
    /// Returns the caller `id`, whose client `client` builds. A new caller is checked with the API server, by a
    /// SelfSubjectReview, and a known one again after a minute.
    ///
    /// # Errors
    ///
    /// If the API server does not accept the credentials, or does not answer.
    pub(crate) async fn caller(&self, id: CallerId, client: impl FnOnce() -> Client) -> Result<Arc<Caller>> {
        let known = self.known.lock().get(&id).map(Arc::clone);
        if let Some(caller) = &known
            && caller.asked.lock().elapsed() < UNUSED
        {
            return Ok(Arc::clone(caller));
        }
        let client = known.map_or_else(client, |caller| caller.reader.client.clone());
        // Only a 401 makes the page forget the caller: after an outage of the API server, the lists still exist.
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
        // Two concurrent requests may have checked a new caller; both use the one that was inserted first.
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

/// Returns the party to which a user of this name belongs. Limits apply to parties. All service accounts of a namespace
/// are one party, because a tenant may create any number of them, and of tokens.
fn party(name: &str) -> &str {
    let account = name.rsplit_once(':').filter(|(of, _)| of.starts_with("system:serviceaccount:"));
    account.map_or(name, |(of, _)| of)
}

/// Returns the key of the value that has to be removed before another one is added: the least recently used one of the
/// same owner, or of all if the owner has none. `None` if the owner may have one more. `most` is the maximum number of
/// values; `is_own` tells whether a value has the owner of the new one.
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

/// Returns the user name that the API server reports for the credentials of `client`. Empty if the caller may not ask.
async fn name(client: &Client) -> Result<String> {
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let asked = SelfSubjectReview::default();
    match in_time(GRACE, reviews.create(&PostParams::default(), &asked)).await.flatten() {
        Ok(review) => {
            let user = review.status.and_then(|status| status.user_info);
            Ok(user.and_then(|user| user.username).unwrap_or_default())
        }
        // An admin may forbid SelfSubjectReviews. An invalid token is answered by 401 in any case.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the header with `token`. `None` if it contains characters that no header may have.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    // Debug output does not contain a sensitive value.
    value.set_sensitive(true);
    Some(value)
}

/// Returns a client that sends its requests by `bare`, which has no credentials, with this Authorization header.
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
    use serde_json::json;
    use std::time::Duration;

    /// Returns a client whose server reports this user name.
    fn client(name: &str) -> Client {
        let answer = json!({"metadata": {}, "status": {"userInfo": {"username": name}}}).to_string();
        crate::tests::client(move |_| (200, answer.clone()))
    }

    fn id(number: usize) -> CallerId {
        [u8::try_from(number).unwrap(); 32]
    }

    /// An earlier version displaced another caller at each check. With the maximum number of callers, each lost its
    /// lists once a minute.
    #[tokio::test(start_paused = true)]
    async fn the_check_of_a_known_caller_displaces_no_other_caller() {
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

    /// Without parties, a tenant with 64 tokens would make the page forget the lists of all others.
    #[tokio::test(start_paused = true)]
    async fn tokens_of_one_tenant_displace_no_other_tenant() {
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
