//! The page, in a real browser, while a cluster is upgraded.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::browser::Browser;

/// How long machines may take for a step, on a busy machine.
const STEP: Duration = Duration::from_secs(180);

/// `windlass up` with its page, ended when it goes out of scope.
struct Up {
    child: Child,
    kubeconfig: String,
    link: String,
}

impl Up {
    fn start(directory: &Path) -> Self {
        std::fs::write(directory.join("token"), "a token of some length\n").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["up", "--data-dir", "data", "--listen", "127.0.0.1:0", "--log-level", "error"])
            .args(["--web-token-file", "token"])
            .current_dir(directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = |prefix: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(prefix).unwrap_or_else(|| panic!("{prefix} in {line}")).to_owned()
        };
        next("Ready: ");
        let kubeconfig = directory.join(next("Kubeconfig: ")).display().to_string();
        let link = next("Page: ");
        Self { child, kubeconfig, link }
    }

    fn kubectl(&self, arguments: &[&str]) {
        let command =
            Command::new("kubectl").args(["--kubeconfig", &self.kubeconfig]).args(arguments).output();
        let output = command
            .unwrap_or_else(|error| panic!("kubectl is needed, cargo xtask test installs it: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn origin(&self) -> String {
        self.link.split("/login").next().unwrap().to_owned()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_shows_an_upgrade_live_and_asks_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(directory.path());
    let mut browser = Browser::start(directory.path());
    browser.size(1200, 1000);

    // Without the link there is nothing to see, and the link works once.
    browser.open(&format!("{}/", up.origin()));
    browser.until(STEP, "document.querySelector('form[action=\"/login\"]')");
    assert!(!browser.eval("document.body.innerText").as_str().unwrap().contains("Filter"));
    browser.open(&up.link);
    browser.until(STEP, "document.documentElement.dataset.live === 'yes' && location.pathname === '/'");
    browser.until(STEP, "document.body.innerText.includes('There are no Clusters.')");
    assert_eq!(browser.eval("document.cookie"), json!(""), "scripts cannot read the cookie");
    let again = "(() => { const r = new XMLHttpRequest(); r.open('GET', '/login?token=TOKEN', false); r.send(); return r.status; })()";
    let again = again.replace("TOKEN", up.link.split("token=").nth(1).unwrap());
    assert_eq!(browser.eval(&again), json!(401));

    up.kubectl(&["apply", "-f", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/quickstart.yaml")]);
    browser.until(STEP, "document.getElementById('default/quickstart')?.innerText.includes('5 of 5')");
    let at_rest = browser.picture("page-fleet.png");
    assert!(at_rest.starts_with(b"\x89PNG"));

    // With the keyboard to the cluster.
    browser.press("/");
    for letter in ["n", "o", "n", "e"] {
        browser.press(letter);
    }
    browser.until(STEP, "document.querySelectorAll('#rows tr:not([hidden])').length === 0");
    browser.press("Escape");
    browser.until(STEP, "document.querySelectorAll('#rows tr:not([hidden])').length === 1");
    browser.press("ArrowDown");
    assert_eq!(browser.eval("document.activeElement.id"), json!("open:default/quickstart"));
    browser.press("Enter");
    browser.until(STEP, "location.pathname === '/clusters/default/quickstart' && document.documentElement.dataset.live === 'yes'");
    browser.until(STEP, "document.querySelector('#lanes path.lane.cp')");

    // The upgrade is seen without a reload.
    browser.eval("window.notReloaded = true");
    let patch = r#"{"spec":{"topology":{"version":"v1.33.0"}}}"#;
    up.kubectl(&["patch", "cluster", "quickstart", "--type", "merge", "-p", patch]);
    browser.until(STEP, "document.querySelector('#verdict').innerText === 'progressing'");
    browser.until(STEP, "document.querySelectorAll('#steps li.running').length > 0");
    browser.until(STEP, "document.querySelectorAll('#lanes path.future').length >= 2");
    browser.until(
        STEP,
        "document.querySelectorAll('#lanes .band').length > 0 && document.querySelector('#machines rect')",
    );
    for (width, scheme) in [(1200, "light"), (1200, "dark"), (400, "light")] {
        browser.size(width, 1000);
        browser.scheme(scheme);
        let wider =
            browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wider, json!(0), "nothing sticks out at {width} px");
        browser.picture(&format!("page-cluster-{width}-{scheme}.png"));
    }
    browser.size(1200, 1000);
    browser.until(STEP, "document.querySelector('#verdict').innerText === 'up to date'");
    browser.until(STEP, "document.querySelector('#events').innerText.includes('with version change')");
    assert_eq!(browser.eval("window.notReloaded"), json!(true));
    let said = browser.eval("document.querySelector('#announce').textContent");
    assert!(said.as_str().unwrap().contains("up to date"), "screen readers are told: {said}");
    browser.picture("page-cluster-done.png");

    // All clusters on a narrow screen.
    browser.size(400, 900);
    browser.press("Escape");
    browser.until(STEP, "location.pathname === '/' && document.querySelectorAll('#rows tr').length === 1");
    let wider = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(wider, json!(0), "nothing sticks out at 400 px");
    browser.picture("page-fleet-400.png");

    let origin = up.origin();
    assert!(browser.requests.len() > 5);
    for request in &browser.requests {
        assert!(request.starts_with(&format!("{origin}/")) || request == "about:blank", "{request}");
    }
    // The two that were refused on purpose.
    browser.errors.retain(|error| !error.contains("401"));
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

#[test]
fn a_token_lets_in_and_nothing_else_does() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(directory.path());
    let mut browser = Browser::start(directory.path());
    let log_in = |browser: &mut Browser, token: &str| {
        browser.open(&format!("{}/login", up.origin()));
        browser.until(STEP, "document.querySelector('input[name=token]')");
        browser.eval(&format!(
            "document.querySelector('input[name=token]').value = {token:?}; document.querySelector('form').submit()"
        ));
    };
    log_in(&mut browser, "a guess of some length");
    browser.until(STEP, "document.querySelector('[role=alert]')?.innerText.includes('not the token')");
    log_in(&mut browser, "a token of some length");
    browser.until(STEP, "location.pathname === '/' && document.documentElement.dataset.live === 'yes'");
    // Nothing can be written, whoever one is.
    let post = "(() => { const r = new XMLHttpRequest(); r.open('POST', '/', false); r.send(); return r.status; })()";
    assert_eq!(browser.eval(post), json!(405));
    let header = "(() => { const r = new XMLHttpRequest(); r.open('GET', '/', false); r.send(); \
                  return r.getResponseHeader('content-security-policy'); })()";
    let policy = browser.eval(header);
    assert!(policy.as_str().unwrap().starts_with("default-src 'none'; script-src 'self';"), "{policy}");
}
