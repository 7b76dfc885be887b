//! Proves that the page shows ten thousand applications to many callers soon and with little memory.

use crate::apiserver::{
    calls::token,
    fleet,
    page::{Page, account},
    prelude::*,
};
use futures::future::join_all;
use procfs::process::Process;

const MANY: usize = 10_000;
/// The callers, each with a namespace of the same name: service accounts of one namespace would share half of the room.
const CALLERS: [&str; 20] = [
    "soak-a", "soak-b", "soak-c", "soak-d", "soak-e", "soak-f", "soak-g", "soak-h", "soak-i", "soak-j",
    "soak-k", "soak-l", "soak-m", "soak-n", "soak-o", "soak-p", "soak-q", "soak-r", "soak-s", "soak-t",
];
/// The longest time until a first caller sees the list. The page itself gives up after 10 s, and asks again.
const FIRST: Duration = Duration::from_secs(10);
/// The most memory of the process, in KiB: the chart's limit is 256 MiB.
const MOST: u64 = 200 << 10;

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn ten_thousand_applications_are_shown_soon_and_to_twenty_callers_with_little_memory() {
    let namespace = Namespace::new("soak-page").await;
    fleet::make(&namespace, MANY).await;
    let tokens = CALLERS.map(|name| {
        calls::apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}), None);
        account(name, name, "soak-page", &["get", "list", "watch"]);
        token(name, name)
    });
    let page = Page::start(&namespace).await;
    let begun = Instant::now();
    sees_all(&page, &tokens[0]).await;
    let first = begun.elapsed();
    let begun = Instant::now();
    sees_all(&page, &tokens[0]).await;
    let again = begun.elapsed();
    join_all(tokens.iter().map(|token| sees_all(&page, token))).await;
    let status = Process::new(i32::try_from(page.id()).unwrap()).unwrap().status().unwrap();
    let peak = status.vmhwm.unwrap();
    println!(
        "soak: {MANY} applications on the page: the first list after {first:?}, another after {again:?}, {} MiB at most for {} callers",
        peak / 1024,
        CALLERS.len()
    );
    namespace.clear::<SparkApplication>().await;
    assert!(first < FIRST, "{first:?}");
    assert!(peak < MOST, "{peak} KiB");
}

/// Waits until the caller sees the list.
async fn sees_all(page: &Page, token: &str) {
    eventually("the list is shown", async || {
        let shown = page.get(token, "/applications?namespace=soak-page").await;
        seen(shown.contains(&format!("{MANY} applications")), shown)
    })
    .await;
}
