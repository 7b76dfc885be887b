//! Drives a headless Chromium by its DevTools protocol over a pair of pipes, so that tests see what a user sees.

use super::kept;
use crate::prelude::*;
use std::{
    io::{BufRead, BufReader, Write},
    process::ChildStdin,
    sync::mpsc::{Receiver, channel},
};

/// Maximum time to wait for an answer of the browser.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one tab. The browser ends when this value is dropped.
pub(crate) struct Browser {
    _process: EndedOnDrop,
    commands: ChildStdin,
    messages: Receiver<Value>,
    sent: u64,
    tab: String,
}

impl Browser {
    /// Starts a browser that resolves every host `*.example.com` to `address` and accepts every certificate.
    pub(crate) fn start(address: &str) -> Self {
        let profile = kept("browser");
        // A browser that was killed may have left its profile.
        fs::remove_dir_all(&profile).ok();
        // Chromium reads commands from file descriptor 3 and writes answers to 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 >&2", "sh"])
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args([
                "--no-proxy-server", "--ignore-certificate-errors", "--window-size=1280,1000",
                "--hide-scrollbars",
            ])
            .arg(format!("--host-resolver-rules=MAP *.example.com {address}"))
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(["--remote-debugging-pipe", "about:blank"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh is there");
        let commands = process.stdin.take().unwrap();
        let messages = BufReader::new(process.stdout.take().unwrap()).split(0);
        let (heard, hears) = channel();
        thread::spawn(move || {
            for message in messages.map_while(Result::ok) {
                // The receiver is gone once the test is over.
                heard.send(serde_json::from_slice(&message).unwrap()).ok();
            }
        });
        let tab = String::new();
        let mut browser = Self { _process: EndedOnDrop(process), commands, messages: hears, sent: 0, tab };
        let target = browser.asks("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.tab =
            browser.asks("Target.attachToTarget", &attach)["sessionId"].as_str().unwrap().to_owned();
        browser.asks("Page.enable", &json!({}));
        browser
    }

    /// Opens a page and waits until the page and its resources are loaded, or returns why the page cannot be loaded.
    pub(crate) fn open(&mut self, url: &str) -> Result<(), String> {
        let opened = self.asks("Page.navigate", &json!({"url": url}));
        if let Some(error) = opened["errorText"].as_str() {
            return Err(error.to_owned());
        }
        while self.hears()["method"] != "Page.loadEventFired" {}
        Ok(())
    }

    /// Returns the value of a JavaScript expression, which may be a promise, on the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let question = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.asks("Runtime.evaluate", &question);
        assert!(answer["exceptionDetails"].is_null(), "{answer:#}");
        answer["result"]["value"].clone()
    }

    /// Waits until a JavaScript expression is true on the page, or on a page that replaces it in the meantime.
    pub(crate) fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        let question = json!({"expression": expression, "returnByValue": true});
        // Between two pages, no page evaluates the expression, and the command fails.
        while self.tries("Runtime.evaluate", &question).map(|answer| answer["result"]["value"] == true)
            != Ok(true)
        {
            assert!(Instant::now() < deadline, "{expression}: {}", self.evaluate("document.body.innerText"));
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Saves a picture of the page under this name, for people to look at.
    pub(crate) fn keeps_picture(&mut self, name: &str) {
        let picture = self.asks("Page.captureScreenshot", &json!({"format": "png"}));
        let ByteString(png) = serde_json::from_value(picture["data"].clone()).unwrap();
        fs::write(kept(name), png).unwrap();
    }

    /// Sets the width of the window in pixels.
    pub(crate) fn is_wide(&mut self, width: u32) {
        let metrics = json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
        self.asks("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Shows pages as users see them who prefer this colour scheme: `light` or `dark`.
    pub(crate) fn prefers(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.asks("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Presses the Tab key until the focus is on what this selector finds, and then Enter.
    pub(crate) fn reaches_by_keyboard(&mut self, what: &str) {
        self.asks("Emulation.setFocusEmulationEnabled", &json!({"enabled": true}));
        let is_there = format!("document.activeElement.matches({})", json!(what));
        for _ in 0..100 {
            self.presses("Tab", 9, "");
            if self.evaluate(&is_there) == true {
                self.presses("Enter", 13, "\r");
                return;
            }
        }
        panic!("no key leads to {what}");
    }

    fn presses(&mut self, key: &str, code: u32, text: &str) {
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            // A key that opens another page may be released where no page receives it.
            self.tries("Input.dispatchKeyEvent", &event).ok();
        }
    }

    fn asks(&mut self, method: &str, parameters: &Value) -> Value {
        self.tries(method, parameters).unwrap_or_else(|message| panic!("{method}: {message:#}"))
    }

    /// Sends a command. Returns its result, or the message with its error.
    fn tries(&mut self, method: &str, parameters: &Value) -> Result<Value, Value> {
        self.sent += 1;
        let mut command = json!({"id": self.sent, "method": method, "params": parameters});
        if !self.tab.is_empty() {
            command["sessionId"] = json!(self.tab);
        }
        write!(self.commands, "{command}\0").and_then(|()| self.commands.flush()).expect("chromium runs");
        loop {
            let message = self.hears();
            if message["id"] == self.sent {
                return if message["error"].is_null() { Ok(message["result"].clone()) } else { Err(message) };
            }
        }
    }

    fn hears(&mut self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("chromium answers (is it installed?)")
    }
}
