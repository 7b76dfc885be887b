//! Works around a bug of kube-runtime: a controller that is asked to stop before it has begun never ends.

use kube::runtime::reflector::{Lookup, Store};
use std::{future::pending, hash::Hash};
use tokio_util::sync::CancellationToken;

/// Runs kube's `controller` of the objects in `store`, which ends after `stop` is cancelled. If `stop` is cancelled
/// before all objects are listed, kube's controller would never end (kube-runtime 5.0.0, `Runner::poll_next`): it stops
/// reading the watch, and still waits for the list. In that case this function drops the controller, which has not
/// begun any reconcile by then.
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
