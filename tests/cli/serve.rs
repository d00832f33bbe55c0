//! `ppgnn serve`: pages that follow runs, for nobody but whom they are for.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::Project;

/// A server on a port of its own, ended when dropped.
pub struct Server {
    child: Child,
    address: String,
    query: String,
}

impl Server {
    pub fn start(project: &Project, arguments: &[&str]) -> Self {
        let command = [&["serve", "--port", "0"], arguments].concat();
        let mut child = project.command(&command).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let rest = line.trim_end().strip_prefix("http://").unwrap();
        let (address, query) = rest.split_once('/').unwrap();
        Self { child, address: address.to_owned(), query: query.to_owned() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    /// Sends bytes as they are. Returns what comes back.
    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // A server that has refused the first line reads no more.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn ask(&self, line: &str, headers: &str) -> (u16, String) {
        let request = format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        let answer = self.send(request.as_bytes());
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        (status, answer)
    }

    /// Asks as a browser on this machine does.
    fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path}"), &format!("Host: localhost:{}\r\n", self.port()))
    }

    #[track_caller]
    fn page(&self, path: &str) -> String {
        let (status, answer) = self.get(path);
        assert_eq!(status, 200, "{path}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first address in a page that starts so.
fn link(page: &str, start: &str) -> String {
    let at = page.find(&format!("href=\"{start}")).unwrap_or_else(|| panic!("no {start} in {page}"));
    page[at + 6..].split('"').next().unwrap().to_owned()
}

#[test]
fn a_folder_shows_its_pipelines_runs_and_reports() {
    let project = Project::tiny();
    project.write("pipelines/broken.yaml", "ppgnn: 1\nname: broken\nstages: [");
    let server = Server::start(&project, &[]);
    let empty = server.page("/");
    assert!(empty.contains("<h2>tiny</h2>") && empty.contains("No run has left a log"), "{empty}");
    assert!(!project.path("artifacts").exists(), "looking makes nothing");
    project.run(&["run", "tiny.yaml"]).exit(0);
    let page = server.page("/");
    assert!(page.contains("broken.yaml") && page.contains(">not valid YAML"), "{page}");
    let run = server.page(&link(&page, "/run/"));
    assert!(
        run.contains("ended after") && run.contains("<h3 id=\"t0\">accuracy</h3>") && run.contains("PP-GNN"),
        "{run}"
    );
    let report = std::fs::read_to_string(project.path("artifacts/results/tiny/report.html")).unwrap();
    assert_eq!(server.page(&link(&page, "/report/")), report);
    assert!(server.page(&link(&run, "/log/")).contains("\"event\":\"run-finished\""));
    // A part is what stands below `main`.
    let part = server.page("/?part");
    assert!(!part.contains("<html") && page.contains(&part), "{part}");
    project.run(&["run", "tiny.yaml", "--profile", "longer"]).exit(0);
    assert!(server.page("/").contains("/report/tiny/longer"));
}

#[test]
fn a_run_is_followed_while_it_goes_on_and_when_it_is_killed() {
    let project = Project::tiny();
    let slow = crate::support::TINY.replace("epochs: 5", "epochs: 1000000, window: 1000000");
    project.write("slow.yaml", slow.replace("name: tiny", "name: slow").replace("one", "\"o<b>\""));
    let mut run = project.command(&["run", "slow.yaml", "-j", "1", "-q"]).spawn().unwrap();
    let server = Server::start(&project, &[]);
    let begun = Instant::now();
    let page = loop {
        let page = server.page("/");
        let (line, there) = (page.contains("running"), page.contains("/run/"));
        if line && there {
            let run = server.page(&link(&page, "/run/"));
            if run.contains("Running now") && run.contains("training loss") {
                break run;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{page}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(page.contains("<polyline") && page.contains("train/o&lt;b&gt;") && page.contains("slow.yaml"), "{page}");
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(server.page("/").contains("ended without a word"));
}

#[test]
fn what_failed_is_shown_with_its_reason() {
    let project = Project::tiny();
    // BernNet needs an operator without self-loops.
    project
        .write("tiny.yaml", crate::support::TINY.replace("MLP: { train.model: mlp }", "MLP: { train.model: bernnet }"));
    project.run(&["run", "tiny.yaml"]).exit(5);
    let server = Server::start(&project, &[]);
    let page = server.page(&link(&server.page("/"), "/run/"));
    assert!(page.contains(">Failures<") && page.contains("self-loops"), "{page}");
    assert!(page.contains("train/one/MLP") && page.contains("2 failed"), "{page}");
}

#[test]
fn nothing_else_is_answered() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let server = Server::start(&project, &[]);
    let host = format!("Host: localhost:{}\r\n", server.port());
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"] {
        assert_eq!(server.ask(&format!("{method} /"), &host).0, 405, "{method}");
    }
    for headers in
        ["Host: evil.example\r\n".to_owned(), host.clone() + "Origin: http://evil.example\r\n", String::new()]
    {
        let status = server.ask("GET /", &headers).0;
        assert!(status == 403 || status == 400, "{headers}: {status}");
    }
    let outside = [
        "/log/../store.json",
        "/log/..%2fstore.json",
        "/log/%2e%2e%2fstore.json",
        "/report/..",
        "/report/%2e%2e/objects",
        "/report/tiny/..%2f..%2f..%2ftiny.yaml",
        "/run/../../tiny.yaml",
        "/run/%00",
        "/log/%ff",
        "/objects",
        "/tiny.yaml",
        "/report/tiny/a/b",
        "//",
        "/log/",
    ];
    for path in outside {
        assert_eq!(server.get(path).0, 404, "{path}");
    }
    let page = server.get("/").1.to_lowercase();
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "cache-control: no-store",
    ] {
        assert!(page.contains(header), "{header}");
    }
}

#[test]
fn requests_that_make_no_sense_are_survived() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let server = Server::start(&project, &[]);
    let log = link(&server.page("/"), "/run/");
    let mut bytes = blake3::Hasher::new().update(b"requests").finalize_xof();
    let mut random = || {
        let mut number = [0; 4];
        bytes.fill(&mut number);
        u32::from_le_bytes(number)
    };
    for round in 0..300 {
        let path = ["/", "/?part", &log, "/report/tiny", "/log/x"][round % 5];
        let mut request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n", server.port())
                .into_bytes();
        for _ in 0..1 + random() % 6 {
            let at = random() as usize % request.len();
            match random() % 3 {
                0 => request[at] = random().to_le_bytes()[0],
                1 => drop(request.remove(at)),
                _ => request.insert(at, b"/%.\0\r\n:?&=\xff"[random() as usize % 11]),
            }
        }
        // Half a request would be waited for.
        request.extend_from_slice(b"\r\n\r\n");
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", server.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let _ = stream.write_all(&request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.starts_with("HTTP/1.1 5"), "{}: {answer}", String::from_utf8_lossy(&request));
    }
    assert!(server.page("/").contains("tiny"));
}

#[test]
fn on_other_addresses_a_token_is_needed() {
    let project = Project::tiny();
    let server = Server::start(&project, &["--host", "0.0.0.0"]);
    let token = server.query.strip_prefix("?token=").unwrap();
    assert!(token.len() == 32, "{token}");
    assert_eq!(server.get("/").0, 401);
    let (status, answer) = server.get(&format!("/?token={token}"));
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().split(';').next().unwrap();
    assert_eq!(status, 200);
    let headers = format!("Host: 127.0.0.1:{}\r\nCookie: {cookie}\r\n", server.port());
    let (status, page) = server.ask("GET /", &headers);
    assert!(status == 200 && page.contains("tiny.yaml"), "{page}");
}

#[test]
fn a_folder_that_is_not_there_and_a_port_that_is_taken_are_told() {
    let project = Project::tiny();
    project.run(&["serve", "nowhere"]).exit(2).says("`nowhere` is not a folder");
    let server = Server::start(&project, &[]);
    project.run(&["serve", "--port", server.port()]).exit(2).says("cannot listen on").says("--port 0");
}
