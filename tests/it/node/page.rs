//! Proves that the page leads a user from a failure to its cause and its cure, and shows the log and the UI of a driver.

use super::{browser::Browser, install_alone, log, native::python_job, sparkctl::spawn, state_is, until};
use crate::{
    apiserver::kubectl::{kubectl, kubectl_with},
    golden::{data, yaml},
};
use serde_json::{Value, json};

const DRIVER: &str = "page-runs-driver";
/// A script that returns what a reader who does not see the page would miss.
const LACKS: &str = r#"[
    ...[...document.querySelectorAll('input:not([type=hidden]), select')].filter(field => field.labels.length === 0),
    ...[...document.querySelectorAll('table')].filter(table => !table.caption),
    ...[...document.querySelectorAll('svg, iframe')].filter(image => !image.ariaLabel && !image.title),
    ...[...document.querySelectorAll('a, button, summary')].filter(stop => !stop.textContent.trim()),
].map(element => element.outerHTML).concat(document.querySelectorAll('h1').length === 1 && document.documentElement.lang === 'en' ? [] : ['h1, lang'])"#;

#[test]
#[ignore = "needs a node: make test"]
fn the_page_leads_from_a_failure_to_its_cure_and_shows_the_log_and_the_ui_of_a_driver_alone() {
    let _alone = install_alone();
    let mut fails: Value = yaml(&data("node/exit-3.yaml"));
    fails["metadata"]["name"] = json!("page-fails");
    kubectl_with(&fails, &["apply", "-f", "-"]);
    let runs = python_job("page-runs", "page-job", "tests/data/node/page/job.py");
    kubectl_with(&runs, &["apply", "-f", "-"]);
    state_is("page-fails", "FAILED");
    state_is("page-runs", "RUNNING");
    until("the job waits", || log(DRIVER).contains("waits to be killed"));

    let (_serves, entrance) = spawn(&["page"]);
    let (address, _) = entrance.split_once("/enter/").expect(&entrance);
    let mut browser = Browser::start("127.0.0.1");
    browser.open(&entrance).unwrap();
    shows(&mut browser, "FAILED");
    browser.keeps_picture("page-overview.png");
    clicks(&mut browser, "a[href='/applications?state=FAILED']", "page-fails");
    clicks(&mut browser, "a[href='/applications/default/page-fails']", "ExitCode: 3");
    shows(&mut browser, "exiting with 3");
    browser.keeps_picture("page-application.png");
    clicks(&mut browser, "button[value=rerun]", "RerunRequested");

    log_follows(&mut browser, address);
    ui_is_confined(&mut browser, address);
    kubectl(&["delete", "sparkapp", "page-fails", "page-runs"]);
}

fn log_follows(browser: &mut Browser, address: &str) {
    browser.open(&format!("{address}/logs/default/{DRIVER}")).unwrap();
    shows(browser, "waits to be killed");
    let container = ["-c", "spark-kubernetes-driver", "--"];
    let says = ["sh", "-c", "echo followed > /proc/1/fd/1"];
    kubectl(&[&["exec", DRIVER][..], &container, &says].concat());
    shows(browser, "\nfollowed");
    browser.open(&format!("{address}/logs/default/{DRIVER}?q=followed")).unwrap();
    shows(browser, "followed");
    let text = browser.evaluate("document.getElementById('log').textContent");
    assert_eq!(text, "followed\n");
}

/// Asserts that the tabs of Spark's UI work in a frame without an origin, from which nothing of the page can be read, and
/// that a job is killed only after a question.
fn ui_is_confined(browser: &mut Browser, address: &str) {
    browser.open(&format!("{address}/ui/default/page-runs/")).unwrap();
    browser.until("document.querySelector('iframe') !== null");
    let frame = browser.evaluate("document.querySelector('iframe').src");
    let frame = frame.as_str().unwrap();
    assert!(frame.starts_with(&format!("{address}/spark/")), "{frame}");
    assert_eq!(browser.evaluate(LACKS), json!([]));
    browser.keeps_picture("page-ui.png");

    // The frame's own page, alone: a script cannot look into the frame.
    let window = frame.strip_suffix("/jobs/").unwrap();
    for (tab, words) in [
        ("stages/", "Active Stages (1)"),
        ("storage/", "Storage"),
        ("environment/", "Runtime Information"),
        ("jobs/", "Active Jobs (1)"),
    ] {
        browser.open(&format!("{window}/{tab}")).unwrap();
        browser.until(&format!("document.body.innerText.includes({})", json!(words)));
    }
    let kills =
        "[...document.querySelectorAll('a')].map(link => link.href).find(url => url.includes('/kill/'))";
    let kill = browser.evaluate(kills);
    browser.open(&format!("{window}/executors/")).unwrap();
    // The rows are fetched by a script.
    let cells = "[...document.querySelectorAll('#active-executors-table td')]";
    browser.until(&format!("{cells}.some(cell => cell.textContent.trim() === 'driver')"));
    assert_eq!(browser.evaluate("self.origin"), "null");
    let reads = "fetch('/applications').then(() => 'read', () => 'refused')";
    assert_eq!(browser.evaluate(reads), "refused");
    let cookie = "(() => { try { return document.cookie; } catch { return 'refused'; } })()";
    assert_eq!(browser.evaluate(cookie), "refused");

    browser.open(kill.as_str().expect("a job that runs can be killed")).unwrap();
    browser.until("document.body.innerText.includes('Kill it?')");
    assert!(!log(DRIVER).contains("killed:"), "nobody has answered");
    browser.evaluate("document.querySelector('button').click()");
    until("the job is killed", || log(DRIVER).contains("killed: True"));
}

/// Waits until the page shows these words.
fn shows(browser: &mut Browser, words: &str) {
    browser.until(&format!("document.body.innerText.includes({})", json!(words)));
    assert_eq!(browser.evaluate(LACKS), json!([]), "{words}");
}

/// Clicks, and waits until the page to which that leads shows these words.
fn clicks(browser: &mut Browser, what: &str, words: &str) {
    browser.until(&format!("document.querySelector({}) !== null", json!(what)));
    browser.evaluate(&format!("document.querySelector({}).click()", json!(what)));
    shows(browser, words);
}
