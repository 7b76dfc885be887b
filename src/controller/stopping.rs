//! Ends a controller that was asked to stop before it has started.

use kube::runtime::reflector::{Lookup, Store};
use std::{future::pending, hash::Hash};
use tokio_util::sync::CancellationToken;

/// Runs kube's `controller` of the objects in `store`, which ends when `stop` comes. Asked to before everything is
/// listed, kube's own would never end (kube-runtime 5.0.0, `Runner::poll_next`): it then listens no more, and still
/// waits for the list. Nothing has begun by then.
pub(super) async fn until_stopped<K>(
    controller: impl Future<Output = ()>,
    store: Store<K>,
    stop: CancellationToken,
) where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let stopped_before = async {
        if stop.run_until_cancelled(store.wait_until_ready()).await.is_some() {
            pending().await
        }
    };
    tokio::select! {
        () = controller => {}
        () = stopped_before => {}
    }
}
