//! Reports and the pages of `serve` in a real browser: headless Chromium, driven by ChromeDriver. Where they are not installed, the tests say
//! that they were skipped. `PPGNN_SCREENSHOTS=DIR` keeps pictures of what was tested.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::serve::Server;
use crate::support::Project;

const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
];

/// A browser with one page; closed when dropped.
struct Browser {
    driver: Child,
    session: String,
    /// Where the profile is, gone with it.
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts it, if it is installed.
    fn start() -> Option<Self> {
        let installed =
            |name: &str| Command::new(name).arg("--version").output().is_ok_and(|said| said.status.success());
        if !installed("chromedriver") || !installed("chromium") {
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            let line = format!("skipped: {test}: chromium and chromedriver are not installed\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        let mut driver =
            Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port: u16 = said
            .by_ref()
            .find_map(|line| line.unwrap().split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok())
            .expect("a port");
        std::thread::spawn(move || said.for_each(drop));
        let args: Vec<String> = FLAGS
            .iter()
            .map(|flag| (*flag).to_owned())
            .chain([format!("--user-data-dir={}", profile.path().display())])
            .collect();
        let wanted = json!({"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {"args": args}});
        let mut browser = Self { driver, session: format!("http://127.0.0.1:{port}/session"), _profile: profile };
        let begun = browser.post("", &json!({"capabilities": {"alwaysMatch": wanted}}));
        browser.session = format!("{}/{}", browser.session, begun["sessionId"].as_str().unwrap());
        Some(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let mut answer = agent
            .post(format!("{}{path}", self.session))
            .header("content-type", "application/json")
            .send(body.to_string())
            .unwrap();
        let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].clone()
    }

    fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    fn click(&self, selector: &str) {
        let found = self.post("/element", &json!({"using": "css selector", "value": selector}));
        let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        self.post(&format!("/element/{id}/click"), &json!({}));
    }

    fn press(&self, key: &str) {
        let keys = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": keys}]}));
    }

    fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Looks at the page in a width, light or dark: nothing may stand out to the right. Keeps a picture if they are asked for.
    fn look(&self, name: &str, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size);
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", media);
        if let Some(folder) = std::env::var_os("PPGNN_SCREENSHOTS") {
            let picture = self.devtools("Page.captureScreenshot", json!({"format": "png"}));
            let bytes = base64::engine::general_purpose::STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
            let path = std::path::Path::new(&folder).join(format!("{name}-{width}-{scheme}.png"));
            std::fs::write(path, bytes).unwrap();
        }
        let wide = self.run("return [document.documentElement.scrollWidth, innerWidth]");
        assert!(wide[0].as_u64() <= wide[1].as_u64(), "{name} at {width}: {wide}");
    }

    /// What the page said to the console, and every address that it asked for. Each is told once.
    fn said_and_asked(&self) -> (Vec<String>, Vec<String>) {
        let log = |kind: &str| self.post("/se/log", &json!({"type": kind})).as_array().unwrap().clone();
        let said = log("browser").iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect();
        let events = log("performance");
        let events =
            events.iter().map(|entry| serde_json::from_str::<Value>(entry["message"].as_str().unwrap()).unwrap());
        let asked = events.filter(|event| event["message"]["method"] == "Network.requestWillBeSent");
        let url = |event: Value| event["message"]["params"]["request"]["url"].as_str().unwrap().to_owned();
        (said, asked.map(url).collect())
    }

    /// The page has said nothing, and has asked for nothing but what starts so.
    fn is_quiet(&self, from: &str) {
        let (said, asked) = self.said_and_asked();
        assert_eq!(said, Vec::<String>::new());
        // A new page of Chromium has parts of its own, which are in it.
        let inside = |url: &&String| [from, "data:", "chrome:"].iter().any(|start| url.starts_with(start));
        let elsewhere: Vec<_> = asked.iter().filter(|url| !inside(url)).collect();
        assert!(!asked.is_empty() && elsewhere.is_empty(), "{elsewhere:?}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = ureq::delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The texts of the first column of the first table.
const ROWS: &str = "return [...document.querySelectorAll('.sortable tbody tr')].map(row => row.cells[0].textContent)";
const TARGET: &str = "return document.querySelector(':target')?.id ?? null";
const FOCUS: &str = "return document.activeElement.id";

#[test]
fn a_report_opens_evidence_sorts_and_asks_nobody() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let Some(browser) = Browser::start() else { return };
    let page = project.path("artifacts/results/tiny/report.html");
    browser.open(&format!("file://{}", page.display()));
    for scheme in ["light", "dark"] {
        for width in [400, 1600] {
            browser.look("report", width, scheme);
        }
    }
    // By mouse: open, close with Escape, and the focus is where it was.
    browser.click("#from-t0r1c0");
    assert_eq!(browser.run(TARGET), "t0r1c0");
    assert_eq!(browser.run(FOCUS), "t0r1c0");
    let shown = browser.run("return document.querySelector(':target').innerText");
    assert!(shown.as_str().unwrap().contains("PP-GNN, one of accuracy"), "{shown}");
    browser.look("evidence", 1600, "light");
    browser.look("evidence", 400, "dark");
    browser.press("\u{e00c}");
    assert_eq!((browser.run(TARGET), browser.run(FOCUS)), (json!("from-t0r1c0"), json!("from-t0r1c0")));
    // By keyboard: Enter opens a cell that has the focus.
    browser.run("document.getElementById('from-t0r0c1').focus()");
    browser.press("\u{e007}");
    assert_eq!(browser.run(TARGET), "t0r0c1");
    browser.click("#t0r0c1 .close");
    assert_eq!(browser.run(TARGET), "from-t0r0c1");
    browser.look("report", 1600, "light");
    // Sorting: largest first, smallest first, as it was; by mouse and by keyboard.
    let values =
        "return [...document.querySelectorAll('.sortable tbody tr')].map(row => Number(row.cells[2].dataset.v))";
    let before = browser.run(ROWS);
    browser.click(".sortable th:nth-child(3) button");
    let sorted = browser.run(values);
    assert!(sorted[0].as_f64() > sorted[1].as_f64(), "{sorted}");
    let said = "return document.querySelector('.sortable th:nth-child(3)').getAttribute('aria-sort')";
    assert_eq!(browser.run(said), "descending");
    browser.press("\u{e007}");
    let sorted = browser.run(values);
    assert!(sorted[0].as_f64() < sorted[1].as_f64() && browser.run(said) == "ascending", "{sorted}");
    browser.click(".sortable th:nth-child(3) button");
    assert_eq!((browser.run(ROWS), browser.run(said)), (before, Value::Null));
    browser.click(".sortable th:nth-child(1) button");
    assert_eq!(browser.run(ROWS), json!(["MLP", "PP-GNN"]));
    browser.is_quiet("file://");
}

#[test]
fn the_page_of_a_folder_leads_to_runs_and_reports_and_asks_nobody_else() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let server = Server::start(&project, &[]);
    let Some(browser) = Browser::start() else { return };
    browser.open(&server.url("/"));
    for (width, scheme) in [(400, "light"), (1600, "dark")] {
        browser.look("folder", width, scheme);
    }
    browser.click("a[href^='/run/']");
    assert!(browser.run("return document.body.innerText").as_str().unwrap().contains("Tables"));
    // What was opened stays open when the page is renewed.
    browser.click("#last-lines summary");
    browser.run("document.getElementById('main').dataset.old = 'yes'");
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(browser.run("return document.getElementById('last-lines').open"), true);
    for (width, scheme) in [(400, "dark"), (1600, "light")] {
        browser.look("run", width, scheme);
    }
    browser.click("a[href^='/report/']");
    browser.click("#from-t0r0c0");
    assert_eq!(browser.run(TARGET), "t0r0c0");
    browser.is_quiet(&server.url("/"));
}
