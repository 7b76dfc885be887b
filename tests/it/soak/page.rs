//! Proves that the page shows ten thousand applications, and each change of them, to many callers within seconds and
//! with little memory.

use crate::apiserver::{
    calls::token,
    fleet,
    page::{Page, account},
    prelude::*,
};
use futures::future::join_all;
use procfs::process::Process;

const MANY: usize = 10_000;
/// The callers, each with a namespace of the same name: the service accounts of one namespace count as one party, which
/// gets at most half of the page's capacity.
const CALLERS: [&str; 20] = [
    "soak-a", "soak-b", "soak-c", "soak-d", "soak-e", "soak-f", "soak-g", "soak-h", "soak-i", "soak-j",
    "soak-k", "soak-l", "soak-m", "soak-n", "soak-o", "soak-p", "soak-q", "soak-r", "soak-s", "soak-t",
];
/// The goal for the first list and for a change is a second each. It is printed rather than asserted: the machine is shared.
const SOON: Duration = Duration::from_secs(3);
/// Maximum memory of the process, in MiB: half of the chart's limit.
const MOST: u64 = 128;
/// The pause in milliseconds after which `page.js` requests an open list again.
const REST: u64 = 700;
/// The number of measured changes, of which the slowest counts.
const CHANGES: usize = 10;

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn ten_thousand_applications_are_shown_to_twenty_callers_with_little_memory() {
    let script = fs::read_to_string("crates/page/assets/page.js").unwrap();
    assert!(script.contains(&format!("? {REST} : ")), "page.js has another pause");
    let namespace = Namespace::new("soak-page").await;
    fleet::make(&namespace, MANY).await;
    let tokens = CALLERS.map(|name| {
        calls::apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}), None);
        account(name, name, "soak-page", &["get", "list", "watch"]);
        token(name, name)
    });
    let page = Page::start(&namespace).await;
    let begun = Instant::now();
    sees(&page, &tokens[0], MANY).await;
    let first = begun.elapsed();
    let begun = Instant::now();
    sees(&page, &tokens[0], MANY).await;
    let again = begun.elapsed();
    join_all(tokens.iter().map(|token| sees(&page, token, MANY))).await;

    let mut change = Duration::ZERO;
    for number in 1..=CHANGES {
        namespace.create::<SparkApplication>(&application(&format!("new-{number}"))).await;
        // The list was refreshed just before, so that this is the longest time that a user waits.
        let begun = Instant::now();
        sleep(Duration::from_millis(REST)).await;
        sees(&page, &tokens[0], MANY + number).await;
        change = change.max(begun.elapsed());
    }
    let status = Process::new(i32::try_from(page.id()).unwrap()).unwrap().status().unwrap();
    let peak = status.vmhwm.unwrap().div_ceil(1024);
    let [first_list, change_seen] = [first, change].map(|time| time.as_secs_f64());
    println!(
        "soak: page: first list {first_list:.2} s (goal 1), change {change_seen:.2} s (goal 1), {peak} MiB (goal {MOST}); {MANY} \
         applications, {} callers, the list again {again:?}",
        CALLERS.len()
    );
    namespace.clear::<SparkApplication>().await;
    assert!(first < SOON && change < SOON, "{first:?} {change:?}");
    assert!(peak <= MOST, "{peak} MiB");
}

/// Waits until the caller sees this number of applications.
async fn sees(page: &Page, token: &str, count: usize) {
    eventually("the list is shown", async || {
        let shown = page.get(token, "/applications?namespace=soak-page").await;
        seen(shown.contains(&format!("{count} applications")), shown)
    })
    .await;
}
