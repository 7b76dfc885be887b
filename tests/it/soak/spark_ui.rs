//! Proves that every tab of the web UI of a Spark line works behind the page, those of streams included.

use crate::{
    apiserver::prelude::*,
    node::{
        apply,
        browser::Browser,
        delete, install_alone, log,
        native::{python_job, spark_version},
        page::{ui_is_confined, waits_to_be_killed, window},
        sparkctl::spawn,
        state_is, until,
    },
};

/// The tabs of a driver with streams, each with words that it shows.
const TABS: [(&str, &str); 8] = [
    ("Jobs", "Completed Jobs"),
    ("Stages", "Completed Stages"),
    ("Storage", "kept rows"),
    ("Environment", "Runtime Information"),
    ("Executors", "Thread Dump"),
    ("SQL / DataFrame", "Completed Queries"),
    ("Structured Streaming", "Active Streaming Queries"),
    ("Streaming", "Running batches of"),
];
/// Pages to which tabs link: their paths, and words on them.
const PAGES: [(&str, &str); 4] = [
    ("jobs/job/?id=0", "Details for Job 0"),
    ("SQL/execution/?id=0", "Details for Query 0"),
    ("executors/threadDump/?executorId=driver", "Thread dump for executor driver"),
    ("stages/stage/?id=0&attempt=0", "Details for Stage 0"),
];

#[test]
#[ignore = "takes minutes: make soak"]
fn every_tab_of_the_ui_works_behind_the_page_and_no_link_kills_a_job() {
    let _alone = install_alone();
    waits_to_be_killed();
    let (_serves, entrance) = spawn(&["page"]);
    let (address, _) = entrance.split_once("/enter/").expect(&entrance);
    let mut browser = Browser::start("127.0.0.1");
    browser.open(&entrance).unwrap();
    ui_is_confined(&mut browser, address);
    delete("page-runs");

    let mut streams = python_job("page-streams", "page-streams-job", "tests/data/node/page/streams.py");
    streams["spec"]["mainApplicationFile"] = json!("local:///opt/job/streams.py");
    apply(&streams);
    state_is("page-streams", "RUNNING");
    until("the streams flow", || log("page-streams-driver").contains("streams: flow"));
    let window = window(&mut browser, address, "page-streams");
    browser.open(&format!("{window}/jobs/")).unwrap();
    let links = "Object.fromEntries([...document.querySelectorAll('.navbar-nav a.nav-link')]
        .map(link => [link.textContent.trim(), link.href]))";
    let links = browser.evaluate(links);
    for (tab, words) in TABS {
        let link = links[tab].as_str().unwrap_or_else(|| panic!("there is no tab {tab}: {links:#}"));
        shows(&mut browser, &window, link, words);
    }
    for (path, words) in PAGES {
        shows(&mut browser, &window, &format!("{window}/{path}"), words);
    }
    // A script fetches the tasks of the stage.
    browser.until("document.querySelectorAll('#active-tasks-table tbody td').length > 1");

    let is_drawn = "document.querySelector('svg path') !== null";
    shows(&mut browser, &window, links["Streaming"].as_str().unwrap(), "Completed Batches");
    browser.until(is_drawn);
    browser.keeps_picture("page-ui-streaming.png");
    leads_to(&mut browser, "a[href*='batch'][href*='id=']", "Batch Duration");
    shows(&mut browser, &window, links["Structured Streaming"].as_str().unwrap(), "RUNNING");
    leads_to(&mut browser, "a[href*='statistics']", "Streaming Query Statistics");
    browser.until(is_drawn);
    delete("page-streams");
    println!("soak: Spark {}: {} tabs of the UI work behind the page", spark_version(), TABS.len());
}

/// Clicks a link of the page, and waits until the page to which it leads shows these words.
fn leads_to(browser: &mut Browser, link: &str, words: &str) {
    let link = format!("document.querySelector({})", json!(link));
    browser.until(&format!("{link} !== null"));
    browser.evaluate(&format!("{link}.click()"));
    browser.until(&format!("document.body.innerText.includes({})", json!(words)));
}

/// Opens a page of the UI; asserts that it shows these words, and that the URLs of Spark's UI in it begin with
/// `window`.
fn shows(browser: &mut Browser, window: &str, address: &str, words: &str) {
    browser.open(address).unwrap();
    browser.until(&format!("document.body.innerText.includes({})", json!(words)));
    let elsewhere = format!(
        "[...document.querySelectorAll('a[href], link[href], script[src], img[src]')].map(e => e.href || e.src)
            .filter(url => typeof url === 'string' && new URL(url, location).origin === new URL({0}).origin && !url.startsWith({0} + '/')
                && !url.endsWith('/assets/storage.js'))",
        json!(window)
    );
    assert_eq!(browser.evaluate(&elsewhere), json!([]), "{address}");
    assert!(!address.contains("proxy") && address.starts_with(window), "{address}");
}
