//! Proves that the Spark UI is reached at the URL in the status and through `sparkctl`, and that the operator,
//! `spark-submit`, drivers and executors run under a user id that is in no image.

use super::{
    DEPLOYMENT, Installed, application, apply,
    browser::Browser,
    delete, install_alone, left_of,
    native::python_job,
    pod,
    reverse_proxy::ReverseProxy,
    sparkctl::{ended, sparkctl, spawn},
    state_is, until,
};
use crate::{apiserver::prelude::*, program::answer, tmux::Terminal};
use certificates::Certificates;
use std::net::TcpStream;

/// A user id from a range as OpenShift assigns it: 10,000 ids to each namespace. The group is root's.
const USER: u32 = 1_000_710_000;
/// A script that returns a description of the page, of the resources that it needs and of its links.
const LOOK: &str = r#"(async () => {
    const needed = [...document.querySelectorAll('link[href], script[src], img[src]')].map(e => e.href || e.src);
    const links = [...document.querySelectorAll('a[href]')].map(e => e.href).filter(url => url.startsWith('http'));
    const urls = [...new Set([...needed, ...links].map(url => url.split('#')[0]))].filter(url => !url.includes('/kill/'));
    const seen = await Promise.all(urls.map(async url => {
        try {
            // Spark redirects to http URLs, which a page of https may not fetch.
            const answer = await fetch(url, {redirect: 'manual'});
            return answer.type === 'opaqueredirect' ? [url, 'elsewhere', 302] : [url, answer.url, answer.status];
        } catch (error) {
            return [url, '', String(error)];
        }
    }));
    return {
        address: location.href,
        title: document.title,
        text: document.body.innerText,
        styles: [...document.styleSheets].map(sheet => sheet.cssRules.length),
        navbar: getComputedStyle(document.querySelector('.navbar')).display,
        needed: needed.length,
        links: links.length,
        seen,
    };
})()"#;

#[test]
#[ignore = "needs a node: make test"]
fn the_ui_is_reached_by_service_and_forwarding_until_the_driver_ends_alone() {
    let _alone = install_alone();
    let status = runs(&job("led-to"), "webUIAddress");
    let driver = &status["driverInfo"];
    let address = driver["webUIAddress"].as_str().unwrap();
    assert_eq!(driver["webUIServiceName"], "led-to-ui-svc");
    assert!(driver["webUIIngressAddress"].is_null(), "{driver:#}");
    let mut browser = Browser::start("127.0.0.1");
    shows_jobs(&mut browser, &format!("http://{address}/"), &format!("http://{address}"));
    browser.keeps_picture("ui-by-service.png");

    let (mut forwards, said) = spawn(&["forward", "led-to", "--local-port", "0"]);
    let port =
        said.strip_prefix("forwarding from ").and_then(|said| said.strip_suffix(" -> 4040")).expect(&said);
    let (code, page) = answer(TcpStream::connect(format!("127.0.0.1:{port}")).unwrap(), "/jobs/").unwrap();
    assert!(code == 200 && page.contains("Completed Jobs"), "{page}");
    let (_forwards_too, taken) = spawn(&["forward", "led-to", "--local-port", "0", "--remote-port", "4041"]);
    assert!(taken.ends_with(" -> 4041"), "{taken}");
    let occupied = format!("--local-port={port}");
    sparkctl(&["forward", "led-to", &occupied], 1);
    let (mut shows, address) = spawn(&["ui", "led-to", "--local-port", "0"]);
    shows_jobs(&mut browser, &address, &address);
    browser.keeps_picture("sparkctl-ui.png");

    let terminal = Terminal::new(110, 12);
    terminal.types("sparkctl top");
    let row = |screen: &str, words: [&str; 2]| {
        screen.lines().any(|line| line.starts_with("led-to ") && words.iter().all(|word| line.contains(word)))
    };
    terminal.until(|screen| row(screen, ["RUNNING", "1 running"]));
    terminal.keeps("sparkctl-top-node.txt");

    sparkctl(&["suspend", "led-to"], 0);
    terminal.until(|screen| row(screen, ["SUSPENDED", ""]));
    for child in [&mut forwards, &mut shows] {
        let (code, complaint) = ended(child);
        assert_eq!(code, Some(0), "{complaint}");
        assert!(complaint.contains("the driver of led-to has ended"), "{complaint}");
    }
    delete("led-to");
}

#[test]
#[ignore = "needs a node: make test"]
fn the_ui_is_reached_through_an_ingress_under_any_user_id_alone() {
    let _alone = install_alone();
    let user = json!({"runAsUser": USER, "runAsGroup": 0});
    calls::merge(DEPLOYMENT, &json!({"spec": {"template": {"spec": {"securityContext": user}}}}));
    let _installed = Installed::with(&[
        "--ingress-url-format=https://{{$appNamespace}}.example.com/spark/{{ $appName }}",
        r#"--ingress-tls=[{"hosts":["default.example.com"],"secretName":"example-com"}]"#,
        r#"--ingress-annotations={"nginx.ingress.kubernetes.io/proxy-body-size":"1m"}"#,
        "--ingress-class-name=nginx",
    ]);
    let mut job = job("ui-by-ingress");
    for role in ["driver", "executor"] {
        job["spec"][role]["podSecurityContext"] = user.clone();
    }
    let status = runs(&job, "webUIIngressAddress");
    // Of this one, only `spark-submit` runs: no node has room for its driver.
    let mut submitted = job.clone();
    submitted["metadata"]["name"] = json!("submitted-by-ingress");
    submitted["metadata"]["annotations"] = json!({"sparkoperator.k8s.io/submitter": "spark-submit"});
    submitted["spec"]["driver"]["coreRequest"] = json!("100");
    apply(&submitted);
    state_is("submitted-by-ingress", "SUBMITTED");
    delete("submitted-by-ingress");
    for role in ["driver", "executor"] {
        assert_eq!(pod("ui-by-ingress", role)["spec"]["securityContext"]["runAsUser"], USER);
    }
    let driver = &status["driverInfo"];
    let address = "https://default.example.com/spark/ui-by-ingress";
    assert_eq!(driver["webUIIngressAddress"], address, "{driver:#}");
    assert_eq!(driver["webUIIngressName"], "ui-by-ingress-ui-ingress", "{driver:#}");

    // If the output is not a terminal, no browser is opened.
    assert_eq!(sparkctl(&["ui", "ui-by-ingress"], 0), format!("{address}\n"));

    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let ingress = calls::get(&format!("{ingresses}/ui-by-ingress-ui-ingress")).expect(address);
    let hosts = ["default.example.com".to_owned()];
    assert_eq!(ingress["spec"]["tls"], json!([{"hosts": hosts, "secretName": "example-com"}]));
    let certificates = Certificates::generate(&hosts, now()).unwrap();
    let proxy = ReverseProxy::start(&ingress, &certificates);
    let mut browser = Browser::start(&proxy.address.to_string());
    shows_jobs(&mut browser, address, address);
    browser.keeps_picture("ui-by-ingress.png");

    let (mut follows, _) = spawn(&["log", "ui-by-ingress", "--follow"]);
    delete("ui-by-ingress");
    let (code, complaint) = ended(&mut follows);
    assert_eq!(code, Some(3), "{complaint}");
    assert!(complaint.contains("\"ui-by-ingress\" not found"), "{complaint}");
    until("nothing is left", || left_of("ui-by-ingress").is_empty());
}

/// Returns an application whose executor runs some jobs, and whose driver then serves its UI.
fn job(name: &str) -> Value {
    python_job(name, "ui-job", "tests/data/node/ui/job.py")
}

/// Starts an application of [`job`]. Returns its status once `driverInfo` has the field `address`.
fn runs(job: &Value, address: &str) -> Value {
    apply(job);
    let name = job["metadata"]["name"].as_str().unwrap();
    state_is(name, "RUNNING");
    let mut status = Value::Null;
    until("the status has the URL of the UI", || {
        status = application(name)["status"].take();
        status["driverInfo"][address].is_string()
    });
    until("the jobs are done", || super::log(&format!("{name}-driver")).contains("jobs: done"));
    status
}

/// Opens the UI at `address`. Asserts that the page of jobs has its styles, and that all its links work and stay below
/// `within`.
fn shows_jobs(browser: &mut Browser, address: &str, within: &str) {
    until(&format!("{address} opens"), || browser.open(address).is_ok());
    let page = browser.evaluate(LOOK);
    assert_eq!(page["address"], format!("{within}/jobs/"));
    assert!(page["title"].as_str().is_some_and(|title| title.contains("Spark Jobs")), "{page:#}");
    assert!(page["text"].as_str().is_some_and(|text| text.contains("Completed Jobs (2)")), "{page:#}");
    let styles = page["styles"].as_array().unwrap();
    assert!(styles.len() >= 3 && styles.iter().all(|rules| *rules != 0), "{page:#}");
    assert_eq!(page["navbar"], "flex", "{page:#}");
    assert!(page["needed"].as_u64() > Some(10) && page["links"].as_u64() > Some(10), "{page:#}");
    let is_within = |url: &str| url.starts_with(&format!("{within}/"));
    for seen in page["seen"].as_array().unwrap() {
        let [asked, answered] = [0, 1].map(|index| seen[index].as_str().unwrap());
        assert!(is_within(asked), "{seen}");
        if seen[2] == 302 {
            browser.open(asked).unwrap();
            assert!(browser.evaluate("location.href").as_str().is_some_and(is_within), "{seen}");
        } else {
            assert!(seen[2] == 200 && is_within(answered), "{seen}");
        }
    }
}
