//! Lets all lists of a process be read one page at a time: until it is decoded, a page is in memory as text, and users
//! who may create objects determine its size.

use futures::{Stream, StreamExt, stream};
use kube::runtime::watcher::{self, Event};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Yields the events of `watch`. While `watch` lists, it requests its next page only with the permit of `page`, which
/// all lists of the process share, and returns the permit as soon as the page is decoded. So the memory for the text of
/// pages does not grow with the number of kinds and namespaces.
pub fn page_by_page<O>(
    watch: impl Stream<Item = watcher::Result<Event<O>>> + Send,
    page: Arc<Semaphore>,
) -> impl Stream<Item = watcher::Result<Event<O>>> + Send
where
    O: Send,
{
    stream::unfold((Box::pin(watch), false), move |(mut watch, is_listing)| {
        let page = Arc::clone(&page);
        async move {
            // Only a closed semaphore has no permit, and nobody closes this one.
            let permit = if is_listing { page.acquire().await.ok() } else { None };
            let event = watch.next().await?;
            drop(permit);
            let is_listing = matches!(event, Ok(Event::Init | Event::InitApply(_)));
            Some((event, (watch, is_listing)))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, channel::mpsc};
    use k8s_openapi::api::core::v1::Pod;

    #[test]
    fn no_list_requests_a_page_while_another_waits_for_its_page() {
        let page = Arc::new(Semaphore::new(1));
        let [(of_a, mut a), (of_b, mut b)] = [(); 2].map(|()| {
            let (sender, receiver) = mpsc::unbounded::<watcher::Result<Event<Pod>>>();
            (sender, page_by_page(receiver, Arc::clone(&page)).boxed())
        });
        let send = |to: &mpsc::UnboundedSender<_>, event| to.unbounded_send(Ok(event)).unwrap();
        for (sender, watch) in [(&of_a, &mut a), (&of_b, &mut b)] {
            send(sender, Event::Init);
            assert!(watch.next().now_or_never().is_some(), "no page is requested yet");
        }
        let mut waiting = a.next();
        assert!((&mut waiting).now_or_never().is_none(), "the API server has not answered");
        send(&of_b, Event::InitApply(Pod::default()));
        assert!(b.next().now_or_never().is_none(), "`a` has the permit");
        send(&of_a, Event::InitApply(Pod::default()));
        assert!(waiting.now_or_never().is_some());
        assert!(b.next().now_or_never().is_some());

        // After its list, a watch waits for events without the permit.
        send(&of_a, Event::InitDone);
        assert!(a.next().now_or_never().is_some());
        assert!(a.next().now_or_never().is_none());
        send(&of_b, Event::InitDone);
        assert!(b.next().now_or_never().is_some());
    }
}
