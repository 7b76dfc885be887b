//! Proves that the page leads a user from a failure to its cause and its fix, and shows the log and the UI of a driver.

use super::{
    apply, browser::Browser, install_alone, log, native::python_job, sparkctl::spawn, state_is, until,
};
use crate::apiserver::prelude::*;
use std::{
    io::{Read, Write},
    net::TcpStream,
};

const DRIVER: &str = "page-runs-driver";
/// A script that returns what a screen reader would miss: elements without labels, captions, titles or texts.
const LACKS: &str = r#"[
    ...[...document.querySelectorAll('input:not([type=hidden]), select')].filter(field => field.labels.length === 0),
    ...[...document.querySelectorAll('table')].filter(table => !table.caption),
    ...[...document.querySelectorAll('svg, iframe')].filter(image => !image.ariaLabel && !image.title),
    ...[...document.querySelectorAll('a, button, summary')].filter(stop => !stop.textContent.trim()),
].map(element => element.outerHTML).concat(document.querySelectorAll('h1').length === 1 && document.documentElement.lang === 'en' ? [] : ['h1, lang'])"#;

#[test]
#[ignore = "needs a node: make test"]
fn the_page_leads_from_a_failure_to_its_fix_and_shows_log_and_ui_alone() {
    let _alone = install_alone();
    let mut fails: Value = yaml(&data("node/exit-3.yaml"));
    fails["metadata"]["name"] = json!("page-fails");
    kubectl_with(&fails, &["apply", "-f", "-"]);
    state_is("page-fails", "FAILED");
    waits_to_be_killed();

    let (_serves, entrance) = spawn(&["page"]);
    let (address, _) = entrance.split_once("/enter/").expect(&entrance);
    let mut browser = Browser::start("127.0.0.1");
    browser.open(&entrance).unwrap();
    shows(&mut browser, "FAILED");
    is_for_everybody(&mut browser, "page-overview.png");
    browser.reaches_by_keyboard("a[href='/applications?state=FAILED']");
    shows(&mut browser, "page-fails");
    is_there_without_scripts(&mut browser, "page-fails");
    clicks(&mut browser, "a[href='/applications/default/page-fails']", "ExitCode: 3");
    is_there_without_scripts(&mut browser, "ExitCode: 3");
    shows(&mut browser, "exiting with 3");
    is_for_everybody(&mut browser, "page-application.png");
    edit_is_told(&mut browser, address);
    browser.open(&format!("{address}/applications/default/page-fails")).unwrap();
    clicks(&mut browser, "button[value=rerun]", "RerunRequested");

    for (place, words) in
        [("applications?type=Python", "page-runs"), ("schedules", "Next"), ("connects", "Last connection")]
    {
        browser.open(&format!("{address}/{place}")).unwrap();
        shows(&mut browser, words);
        let name = place.split('?').next().unwrap();
        is_for_everybody(&mut browser, &format!("page-{name}.png"));
    }
    // It is created after the pictures, so that it is on none of them.
    let mut hostile = python_job("page-hostile", "page-hostile-job", "tests/data/node/page/hostile.py");
    hostile["spec"]["sparkConf"] = json!({"spark.ui.port": "4050"});
    hostile["spec"]["mainApplicationFile"] = json!("local:///opt/job/hostile.py");
    kubectl_with(&hostile, &["apply", "-f", "-"]);
    log_follows(&mut browser, address);
    is_for_everybody(&mut browser, "page-log.png");
    logout_is_told(&mut browser);
    browser.open(&entrance).unwrap();
    shows(&mut browser, "RUNNING");
    ui_is_confined(&mut browser, address);
    hostile_driver_reaches_nothing(&mut browser, address);
    kubectl(&["delete", "sparkapp", "page-fails", "page-runs", "page-hostile"]);
}

/// Starts the application `page-runs`, which has a job that runs until somebody kills it.
pub(crate) fn waits_to_be_killed() {
    apply(&python_job("page-runs", "page-job", "tests/data/node/page/job.py"));
    state_is("page-runs", "RUNNING");
    until("the job waits", || log(DRIVER).contains("waits to be killed"));
}

/// Asserts that the HTML from the server already has these words, so that a browser without JavaScript shows them.
fn is_there_without_scripts(browser: &mut Browser, words: &str) {
    let sent = browser.evaluate("fetch(location.href).then(answer => answer.text())");
    assert!(sent.as_str().unwrap().contains(words), "{words}: {sent}");
}

/// Asserts that axe-core finds no violation, in a wide window and in one of 400 pixels, with dark colours and with
/// light ones, and keeps a picture of the wide one.
fn is_for_everybody(browser: &mut Browser, picture: &str) {
    browser.keeps_picture(picture);
    let axe = fs::read_to_string(env::var("AXE").expect("the Makefile sets AXE")).unwrap();
    // The page in a frame is Spark's.
    let found = "axe.run(document, {iframes: false}).then(found => found.violations.map(
        rule => `${rule.id}: ${rule.nodes.map(node => node.html).join(' ')}`))";
    for (width, scheme) in [(400, "dark"), (1280, "dark"), (400, "light"), (1280, "light")] {
        browser.is_wide(width);
        browser.prefers(scheme);
        assert_eq!(browser.evaluate(&format!("{axe}\n;{found}")), json!([]), "{picture}, {scheme}");
        let overflows = "document.documentElement.scrollWidth > innerWidth";
        assert_eq!(browser.evaluate(overflows), false, "{picture} at {width} pixels");
    }
}

/// Asserts that the page previews what an edit would do, and does not apply it.
fn edit_is_told(browser: &mut Browser, address: &str) {
    browser.open(&format!("{address}/applications/default/page-fails/edit")).unwrap();
    shows(browser, "It means the same as the present spec.");
    browser.evaluate("document.getElementById('spec').value += '\\ntimeToLiveSeconds: 3600\\n'");
    clicks(browser, "main form button", "takes effect now");
    shows(browser, "Objects of the next run");
    is_for_everybody(browser, "page-edit.png");
    let spec = kubectl(&["get", "sparkapp", "page-fails", "-o", "jsonpath={.spec.timeToLiveSeconds}"]);
    assert_eq!(spec, "");
}

fn log_follows(browser: &mut Browser, address: &str) {
    browser.open(&format!("{address}/logs/default/{DRIVER}")).unwrap();
    shows(browser, "waits to be killed");
    is_there_without_scripts(browser, "waits to be killed");
    let container = ["-c", "spark-kubernetes-driver", "--"];
    let says = ["sh", "-c", "echo followed > /proc/1/fd/1"];
    kubectl(&[&["exec", DRIVER][..], &container, &says].concat());
    shows(browser, "\nfollowed");
    browser.open(&format!("{address}/logs/default/{DRIVER}?q=followed")).unwrap();
    shows(browser, "followed");
    let text = browser.evaluate("document.getElementById('log').textContent");
    assert_eq!(text, "followed\n");
}

/// Asserts that a log which is open says that it cannot be followed any more once its reader has logged out elsewhere.
fn logout_is_told(browser: &mut Browser) {
    let logs_out = "fetch('/logout', {method: 'POST', body: new URLSearchParams(
        {form: document.querySelector('form[action=\"/logout\"] input').value})}).then(answer => answer.status)";
    assert_eq!(browser.evaluate(logs_out), 401, "the page after the logout needs a login");
    browser.until("document.getElementById('news').textContent === 'This log is not up to date (401).'");
    let text = browser.evaluate("document.getElementById('log').textContent");
    assert!(!text.as_str().unwrap().contains("html"), "{text}");
}

/// Opens the page with the UI of the application's driver. Returns the prefix of all URLs in its frame.
pub(crate) fn window(browser: &mut Browser, address: &str, name: &str) -> String {
    browser.open(&format!("{address}/ui/default/{name}/")).unwrap();
    browser.until("document.querySelector('iframe') !== null");
    let frame = browser.evaluate("document.querySelector('iframe').src");
    let frame = frame.as_str().unwrap();
    assert!(frame.starts_with(&format!("{address}/spark/")), "{frame}");
    frame.strip_suffix("/jobs/").expect(frame).to_owned()
}

/// Asserts that the tabs of Spark's UI work in a frame without an origin, from which nothing of the page can be read,
/// and that a job is killed only after a confirmation. The application runs `job.py`.
pub(crate) fn ui_is_confined(browser: &mut Browser, address: &str) {
    let window = window(browser, address, "page-runs");
    assert_eq!(browser.evaluate(LACKS), json!([]));
    browser.keeps_picture("page-ui.png");

    // The page around the frame cannot have a script of the driver's. Those of the frame run: see the executors below.
    let loads = format!(
        "new Promise(done => document.head.append(Object.assign(document.createElement('script'), {{
            src: '{window}/static/utils.js', onload: () => done('runs'), onerror: () => done('refused')}})))"
    );
    assert_eq!(browser.evaluate(&loads), "refused");

    // The frame's pages are opened outside of the frame, into which a script of this test cannot look.
    for (tab, words) in [
        ("stages/", "Active Stages (1)"),
        ("storage/", "Storage"),
        ("environment/", "Runtime Information"),
        ("SQL/", "Completed Queries"),
        ("jobs/", "Active Jobs (1)"),
    ] {
        browser.open(&format!("{window}/{tab}")).unwrap();
        browser.until(&format!("document.body.innerText.includes({})", json!(words)));
    }
    // Spark has a form since 4.1, and a link before.
    let kills =
        "[...document.querySelectorAll('a')].map(link => link.href).concat([...document.forms].map(form =>
        `${form.action}?${new URLSearchParams(new FormData(form))}`)).find(url => url.includes('/kill/'))";
    // The words may appear before the link.
    browser.until(&format!("{kills} !== undefined"));
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

    let kill = kill.as_str().expect("a job that runs can be killed");
    // Jetty 9.4, which Spark 3.5 has, decodes `%u006b` too.
    for kill in [&*kill.replace("/kill/", "/%u006bill/"), kill] {
        browser.open(kill).unwrap();
        browser.until("document.body.innerText.includes('Kill it?')");
        assert!(!log(DRIVER).contains("killed:"), "nobody has confirmed");
    }
    browser.open(&format!("{window}/jobs/")).unwrap();
    browser.until(&format!("{kills} !== undefined"));
    let is_form = browser.evaluate("[...document.forms].some(form => form.action.includes('/kill/'))");
    if is_form == true {
        browser.evaluate("[...document.forms].find(form => form.action.includes('/kill/')).submit()");
    } else {
        browser.open(kill).unwrap();
    }
    browser.until("document.body.innerText.includes('Kill it?')");
    assert!(!log(DRIVER).contains("killed:"), "nobody has confirmed");
    browser.evaluate("document.querySelector('button').click()");
    until("the job is killed", || log(DRIVER).contains("killed: True"));
}

/// Asserts that the responses of a hostile driver are confined to its frame: of their headers only the type is kept,
/// redirections lose their target, bodies beyond the limit are refused, and scripts have no rights.
fn hostile_driver_reaches_nothing(browser: &mut Browser, address: &str) {
    state_is("page-hostile", "RUNNING");
    until("the driver serves", || log("page-hostile-driver").contains("serves"));
    let window = window(browser, address, "page-hostile");
    let path = window.strip_prefix(address).unwrap();

    let answer = raw(address, &format!("{path}/jobs/"));
    assert!(answer.starts_with("http/1.1 200") && answer.contains("hostile"), "{answer}");
    for header in ["set-cookie:", "refresh:", "service-worker-allowed:", "default-src *", "origin: *"] {
        assert!(!answer.contains(header), "{header} {answer}");
    }
    assert!(answer.contains("content-security-policy: sandbox ") && answer.contains("nosniff"), "{answer}");
    let answer = raw(address, &format!("{path}/up"));
    assert!(answer.starts_with("http/1.1 302") && !answer.contains("location:"), "{answer}");
    let answer = raw(address, &format!("{path}/large"));
    assert!(answer.starts_with("http/1.1 502") && answer.contains("more than 8 mib"), "{answer}");

    browser.open(&format!("{window}/jobs/")).unwrap();
    browser.until("document.body.innerText.includes('hostile script')");
    let tries = "(async () => {
        const tried = what => Promise.resolve().then(what).then(() => 'done', () => 'refused');
        return [self.origin, await tried(() => document.cookie), await tried(() => fetch('/applications')),
            await tried(() => navigator.serviceWorker.register('worker.js')), await tried(() => indexedDB.open('x')),
            await tried(() => fetch('https://example.com/'))];
    })()";
    let refused = json!(["null", "refused", "refused", "refused", "refused", "refused"]);
    assert_eq!(browser.evaluate(tries), refused);
    // The session is still valid.
    browser.open(&format!("{address}/applications")).unwrap();
    shows(browser, "page-hostile");
}

/// Returns the answer to a request without any cookie, in lower case.
fn raw(address: &str, path: &str) -> String {
    let host = address.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).to_lowercase()
}

/// Waits until the page shows these words.
fn shows(browser: &mut Browser, words: &str) {
    // Both are checked at once: even a page with these words may be replaced by the next one, and is empty meanwhile.
    browser.until(&format!("document.body.innerText.includes({}) && ({LACKS}).length === 0", json!(words)));
}

/// Clicks an element, and waits until the page that it leads to shows these words.
fn clicks(browser: &mut Browser, what: &str, words: &str) {
    browser.until(&format!("document.querySelector({}) !== null", json!(what)));
    browser.evaluate(&format!("document.querySelector({}).click()", json!(what)));
    shows(browser, words);
}
