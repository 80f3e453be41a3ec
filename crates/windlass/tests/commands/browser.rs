//! A real browser, driven through the pipe that it has for that.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

/// How long the browser may take for anything: it may be the first thing that it does on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one tab.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// Addresses that the tab has asked for.
    pub(crate) requests: Vec<String>,
    /// What scripts complained about.
    pub(crate) errors: Vec<String>,
}

impl Browser {
    pub(crate) fn start(directory: &Path) -> Self {
        let profile = format!("--user-data-dir={}", directory.join("profile").display());
        let mut child = Command::new("sh")
            // It reads commands from descriptor 3 and answers on 4.
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null", "sh"])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
            .arg(profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                message.pop();
                let read = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if tell.send(read).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let (requests, errors) = (Vec::new(), Vec::new());
        let mut browser = Self { child, commands, answers, session: None, last: 0, requests, errors };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Network.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser
    }

    /// Sends a command and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let answer = self.answers.recv_timeout(PATIENCE);
            let answer = answer.unwrap_or_else(|error| {
                panic!("chromium is needed, cargo xtask test installs it: {method}: {error}")
            });
            if answer["id"] == self.last {
                // A page that gives way to another has no value any more, and the other has none yet.
                let is_leaving = answer["error"]["message"] == "Inspected target navigated or closed";
                assert!(answer["error"].is_null() || is_leaving, "{method}: {answer}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                self.requests.push(parameters["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            "Runtime.exceptionThrown" => self.errors.push(parameters["exceptionDetails"].to_string()),
            "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                self.errors.push(parameters["entry"]["text"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }

    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    pub(crate) fn scheme(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    /// The value of an expression.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, limit: Duration, expression: &str) {
        let begun = Instant::now();
        while self.eval(&format!("Boolean({expression})")) != json!(true) {
            let shown = self.eval("document.body.innerText");
            assert!(
                begun.elapsed() < limit,
                "{expression} is not so:\n{}",
                shown.as_str().unwrap_or_default()
            );
            // The browser is asked again when it has had time to do something.
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key});
            if key.chars().count() == 1 && kind == "keyDown" {
                event["text"] = json!(key);
            } else if key == "Enter" && kind == "keyDown" {
                event["text"] = json!("\r");
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the whole page; kept where `WINDLASS_KEEP_PICTURES` says.
    pub(crate) fn picture(&mut self, name: &str) -> Vec<u8> {
        let answer =
            self.call("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true}));
        let picture =
            base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        if let Some(kept) = std::env::var_os("WINDLASS_KEEP_PICTURES") {
            std::fs::write(Path::new(&kept).join(name), &picture).unwrap();
        }
        picture
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
