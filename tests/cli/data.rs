//! `data list|fetch|import|verify`, on made-up manifests and a server in the test itself.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{Finished, Project, files, real_data};

/// SHA-256 of `abc`, the first example of the standard that defines it.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// A project whose data set `small` has the files given, as lines of YAML.
fn project(files: &str) -> Project {
    Project::new().file("pipelines/datasets/small.yaml", &manifest(files))
}

fn manifest(files: &str) -> String {
    format!(
        "ppgnn: 1\ntitle: Small\nabout: A small one.\nlicence: none\nsource: https://example.org/small\nfolder: small_\n\
         files:\n{files}\nload: {{ format: csbm }}\nexpect: {{ nodes: 7 }}\n"
    )
}

/// What a server was asked, and what it answers.
type Answer = dyn Fn(&str, usize) -> Vec<u8> + Send + Sync;

/// A server that answers every request, and remembers them.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answer: Box<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let remembered = asked.clone();
        // The thread ends with the process that runs the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = Vec::new();
                let mut byte = [0];
                while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    request.push(byte[0]);
                }
                let request = String::from_utf8(request).unwrap().to_lowercase();
                let count = remembered.lock().unwrap().len();
                remembered.lock().unwrap().push(request.clone());
                let _ = stream.write_all(&answer(&request, count));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// A project whose data set has one file, `a.txt`, on this server, with fields beside the address.
    fn project(&self, fields: &str) -> Project {
        project(&format!("  a.txt: {{ url: \"{}/a.txt\"{fields} }}", self.address))
    }
}

fn reply(status: &str, headers: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

fn whole(body: &[u8]) -> Vec<u8> {
    reply("200 OK", "", body.len(), body)
}

fn fetch(project: &Project) -> Finished {
    project.run(&["data", "fetch", "small"])
}

fn left(project: &Project) -> Vec<PathBuf> {
    let mut found = files(&project.path("data/small_"));
    found.sort();
    found
}

#[test]
fn list_says_what_is_known_and_what_is_here() {
    let project = project(&format!("  a.txt: {{ bytes: 3, sha256: {ABC} }}\n  b.txt: {{ bytes: 5 }}"));
    let listed = project.run(&["data", "list"]).exit(0);
    let line = |name: &str, text: &str| text.lines().find(|l| l.starts_with(name)).unwrap().to_owned();
    assert!(line("small", &listed.stdout).ends_with("8 B  absent"), "{}", listed.stdout);
    let cora: Vec<_> = line("cora ", &listed.stdout).split_whitespace().map(str::to_owned).collect();
    assert_eq!(cora[1..5], ["2708", "5278", "1433", "7"]);
    project.write("elsewhere/small_/a.txt", "abc");
    let elsewhere = || project.run(&["data", "list", "--data-dir", "elsewhere"]).exit(0).stdout;
    assert!(line("small", &elsewhere()).ends_with("3 B  partly (1 of 2 files)"), "{}", elsewhere());
    project.write("elsewhere/small_/b.txt", "12345");
    assert!(line("small", &elsewhere()).ends_with("  here"));
    project.write("elsewhere/small_/b.txt", "123456");
    assert!(line("small", &elsewhere()).ends_with("  changed"));
    let json = project.run(&["data", "list", "--json"]).exit(0).json();
    assert_eq!(json["datasets"].as_array().unwrap().len(), 18);
    // A manifest that is wrong is one line of the list.
    project.write("pipelines/datasets/wrong.yaml", "ppgnn: 1\ntitel: x\n");
    let wrong = project.run(&["data", "list"]).exit(3).says("wrong.yaml:2:1: a manifest has no `titel`");
    assert!(wrong.stdout.contains("its manifest is invalid") && wrong.stdout.contains("texas"));
    assert_eq!(project.run(&["data", "list", "--json"]).exit(3).json()["exit-code"], 3);
}

#[test]
fn an_unknown_name_gets_the_nearest_one() {
    let project = Project::new();
    for command in ["fetch", "verify"] {
        project
            .run(&["data", command, "texa"])
            .exit(2)
            .says("there is no data set `texa`")
            .says("did you mean `texas`");
    }
    project.run(&["data", "import", ".", "cornel"]).exit(2).says("did you mean `cornell`");
    project.run(&["data", "fetch"]).exit(2);
    let json = project.run(&["data", "verify", "texa", "--json"]).exit(2).json();
    assert_eq!(json["exit-code"], 2);
}

#[test]
fn a_file_name_that_escapes_is_refused_where_it_stands() {
    let project = project("  ../../escaped.txt: { url: \"https://example.org/x\" }");
    fetch(&project).exit(3).says("cannot name a file of a data set").says("small.yaml:8:3");
    assert!(!project.path("data").exists());
}

#[test]
fn verify_compares_every_byte() {
    let project = project(&format!("  a.txt: {{ sha256: {ABC} }}\n  b.txt: {{}}\n  c.txt: {{}}"));
    project.run(&["data", "verify"]).exit(0).says("no data in data");
    project.write("data/small_/a.txt", "abc");
    project.write("data/small_/b.txt", "def");
    project.write("data/small_/c.txt", "ghi");
    let fine = project.run(&["data", "verify"]).exit(0).prints("ok               small (1 file)");
    // SHA-256 of `def`, as sha256sum prints it.
    let def = "cb8379ac2098aa165029e3938a51da0bcecfc008fd6795f401178647f96c5b34";
    fine.prints(&format!("no digest known  small/b.txt  it has SHA-256 {def}"));
    project.write("data/small_/a.txt", "def");
    std::fs::remove_file(project.path("data/small_/c.txt")).unwrap();
    let bad = project.run(&["data", "verify", "small"]).exit(4).says("2 files missing or wrong");
    bad.prints(&format!("wrong digest     small/a.txt  has SHA-256 {def}, expected {ABC}"))
        .prints("missing          small/c.txt\n");
    project.write("data/small_/a.txt", "<!DOCTYPE html>");
    let json = project.run(&["data", "verify", "--json"]).exit(4).json();
    assert_eq!(json["files"][0]["state"], "not the data");
    assert_eq!(json["files"][0]["detail"], "is a web page, expected the data");
}

#[test]
fn verify_warns_where_two_data_sets_share_a_file() {
    let project = project(&format!("  a.txt: {{ sha256: {ABC} }}"));
    project.write("data/small_/a.txt", "abc");
    assert!(!project.run(&["data", "verify"]).exit(0).stderr.contains("one file"));
    let other = manifest(&format!("  deep/b.txt: {{ sha256: {ABC} }}"));
    project.write("pipelines/datasets/other.yaml", other.replace("small_", "other_"));
    // The other data set is not here: what its manifest says is enough.
    project
        .run(&["data", "verify"])
        .exit(0)
        .says("warning: other/deep/b.txt and small/a.txt are one file, byte for byte");
    let json = project.run(&["data", "verify", "small", "--json"]).exit(0).json();
    assert_eq!(json["shared"], serde_json::json!([{"sha256": ABC, "files": ["other/deep/b.txt", "small/a.txt"]}]));
    // Two ways to load one folder.
    project.write("pipelines/datasets/other.yaml", other.replace("deep/b.txt", "a.txt"));
    assert!(!project.run(&["data", "verify"]).exit(0).stderr.contains("one file"));
}

#[test]
fn import_takes_what_is_right_and_nothing_else() {
    let project = project(&format!("  a.txt: {{ sha256: {ABC} }}\n  deep/b.txt: {{ sha256: {ABC} }}"));
    project.run(&["data", "import", "from"]).exit(2).says("is not a folder");
    project.write("from/small_/a.txt", "abc");
    project.write("from/small_/deep/b.txt", "wrong");
    let half = project.run(&["data", "import", "from"]).exit(4).prints("1 file copied, 1 missing or refused");
    half.prints("refused  small/deep/b.txt  `from/small_/deep/b.txt` has SHA-256").says("1 file missing or refused");
    assert_eq!(left(&project), [project.path("data/small_/a.txt")]);
    // By bare name, where one data set is named.
    project.write("flat/b.txt", "abc");
    project.run(&["data", "import", "flat"]).exit(4).says("no file of a known data set");
    let rest = project.run(&["data", "import", "flat", "small"]).exit(0);
    rest.prints("1 file copied, 1 here already");
    assert_eq!(std::fs::read(project.path("data/small_/deep/b.txt")).unwrap(), b"abc");
    // What is here and wrong is replaced.
    project.write("data/small_/a.txt", "damaged");
    project.run(&["data", "import", "from", "small"]).exit(0).prints("1 file copied");
    assert_eq!(std::fs::read(project.path("data/small_/a.txt")).unwrap(), b"abc");
    assert_eq!(left(&project).len(), 2);
}

#[test]
fn a_real_data_set_can_be_imported_and_verified() {
    let Some(root) = real_data() else { return };
    let project = Project::new();
    let root = root.display().to_string();
    project.run(&["data", "import", &root, "texas", "photo"]).exit(0).prints("texas                15 files copied");
    project.run(&["data", "verify"]).exit(0).prints("ok               texas (15 files)").prints("photo (1 file)");
    let json = project.run(&["data", "list", "--json"]).exit(0).json();
    let texas = json["datasets"].as_array().unwrap().iter().find(|d| d["name"] == "texas").unwrap();
    assert_eq!((&texas["state"], &texas["bytes"]), (&"here".into(), &texas["bytes-here"]));
    // What is here and right is not fetched again.
    project.run(&["data", "fetch", "texas"]).exit(0).prints("all here already");
}

#[test]
fn a_file_is_fetched_once() {
    let server = Server::new(Box::new(|_, _| whole(b"abc")));
    let project = server.project(&format!(", bytes: 3, sha256: {ABC}"));
    fetch(&project).exit(0).prints("1 file fetched, 3 B").says("Fetched");
    fetch(&project).exit(0).prints("all here already");
    assert_eq!(server.asked().len(), 1);
    assert_eq!(left(&project), [project.path("data/small_/a.txt")]);
    // A damaged one is fetched anew.
    project.write("data/small_/a.txt", "abd");
    let json = project.run(&["data", "fetch", "small", "--json"]).exit(0).json();
    assert_eq!(json["datasets"][0]["fetched"], 1);
    assert_eq!(std::fs::read(project.path("data/small_/a.txt")).unwrap(), b"abc");
}

#[test]
fn a_file_without_a_digest_says_which_it_has() {
    let server = Server::new(Box::new(|_, _| whole(b"abc")));
    let project = server.project("");
    fetch(&project).exit(0).says(&format!("no digest known; it has SHA-256 {ABC}"));
}

#[test]
fn a_download_that_broke_off_is_continued_by_itself() {
    let server = Server::new(Box::new(|request, count| match count {
        0 => reply("200 OK", "", 3, b"a"),
        _ if request.contains("range: bytes=1-") => {
            reply("206 Partial Content", "Content-Range: bytes 1-2/3\r\n", 2, b"bc")
        }
        _ => reply("400 Bad Request", "", 0, b""),
    }));
    let project = server.project(&format!(", sha256: {ABC}"));
    fetch(&project).exit(0).says("trying again");
    assert_eq!(std::fs::read(project.path("data/small_/a.txt")).unwrap(), b"abc");
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_part_is_continued_or_started_over_as_the_server_likes() {
    let ranges = Server::new(Box::new(|request, _| {
        assert!(request.contains("range: bytes=2-"), "{request}");
        reply("206 Partial Content", "Content-Range: bytes 2-2/3\r\n", 1, b"c")
    }));
    let project = ranges.project(&format!(", bytes: 3, sha256: {ABC}"));
    project.write("data/small_/a.txt.part", "ab");
    fetch(&project).exit(0);
    assert_eq!(left(&project), [project.path("data/small_/a.txt")]);
    let none = Server::new(Box::new(|_, _| whole(b"abc")));
    let project = none.project(&format!(", bytes: 3, sha256: {ABC}"));
    project.write("data/small_/a.txt.part", "ab");
    fetch(&project).exit(0);
    // The server has a shorter file than the part.
    let shorter = Server::new(Box::new(|request, _| {
        if request.contains("range:") {
            reply("416 Range Not Satisfiable", "Content-Range: bytes */3\r\n", 0, b"")
        } else {
            whole(b"abc")
        }
    }));
    let project = shorter.project(&format!(", sha256: {ABC}"));
    project.write("data/small_/a.txt.part", "abcdef");
    fetch(&project).exit(0);
    assert_eq!(std::fs::read(project.path("data/small_/a.txt")).unwrap(), b"abc");
}

#[test]
fn a_part_of_another_file_does_no_harm() {
    let server = Server::new(Box::new(|request, _| {
        if request.contains("range: bytes=2-") {
            reply("206 Partial Content", "Content-Range: bytes 2-2/3\r\n", 1, b"c")
        } else {
            whole(b"abc")
        }
    }));
    let project = server.project(&format!(", sha256: {ABC}"));
    project.write("data/small_/a.txt.part", "xy");
    fetch(&project).exit(0);
    assert_eq!(std::fs::read(project.path("data/small_/a.txt")).unwrap(), b"abc");
    // Nothing would tell a mixture from the file: the part is not used at all.
    let project = server.project("");
    project.write("data/small_/a.txt.part", "xy");
    fetch(&project).exit(0);
    assert!(!server.asked().last().unwrap().contains("range:"));
}

#[test]
fn a_version_with_a_name_is_continued_without_a_digest() {
    let server = Server::new(Box::new(|request, count| match count {
        0..4 => reply("200 OK", "ETag: \"one\"\r\n", 3, if count == 0 { b"ab" } else { b"" }),
        _ if request.contains("if-range: \"one\"") && request.contains("range: bytes=2-") => {
            reply("206 Partial Content", "Content-Range: bytes 2-2/3\r\n", 1, b"c")
        }
        _ => whole(b"abc"),
    }));
    let project = server.project("");
    fetch(&project).exit(4).says("broke off after").says("continue where it broke off");
    project.write("data/small_/a.txt.part", "ab");
    fetch(&project).exit(0);
    assert!(server.asked().last().unwrap().contains("if-range: \"one\""));
    assert_eq!(left(&project), [project.path("data/small_/a.txt")]);
}

#[test]
fn what_is_not_the_file_is_not_kept() {
    let page = |_: &str, _: usize| reply("200 OK", "Content-Type: text/html; charset=utf-8\r\n", 6, b"<html>");
    let big = |_: &str, _: usize| reply("200 OK", "", 1_000_000, b"abc");
    for (answer, fields, says) in [
        (Box::new(|_: &str, _: usize| whole(b"abd")) as Box<Answer>, format!(", sha256: {ABC}"), "expected ba7816bf"),
        (Box::new(|_: &str, _: usize| whole(b"abd")), format!(", sha256: {ABC}"), "write its digest into a manifest"),
        (Box::new(page), String::new(), "sends a web page, not the file"),
        (Box::new(|_: &str, _: usize| whole(b"  <!doctype html>")), String::new(), "is a web page"),
        (Box::new(|_: &str, _: usize| whole(b"")), String::new(), "is empty"),
        (Box::new(|_: &str, _: usize| reply("404 Not Found", "", 0, b"")), String::new(), "answers 404 Not Found"),
        (Box::new(big), ", bytes: 3".to_owned(), "has more than 3 bytes"),
        (Box::new(|_: &str, _: usize| whole(b"ab")), ", bytes: 3".to_owned(), "2 bytes"),
    ] {
        let server = Server::new(answer);
        let project = server.project(&fields);
        fetch(&project).exit(4).says("not everything could be fetched").says("small/a.txt").says(says);
        assert!(!project.path("data/small_/a.txt").exists(), "{says}");
        project.run(&["data", "verify", "small"]).exit(4).prints("missing");
    }
}

#[test]
fn a_server_cannot_lead_to_an_insecure_address() {
    let server = Server::new(Box::new(|_, _| reply("302 Found", "Location: http://127.0.0.2:9/stolen\r\n", 0, b"")));
    let project = server.project("");
    fetch(&project).exit(4);
    assert!(left(&project).is_empty());
    let target = Server::new(Box::new(|_, _| whole(b"abc")));
    let to = target.address.clone();
    let fine = Server::new(Box::new(move |_, _| reply("302 Found", &format!("Location: {to}/b\r\n"), 0, b"")));
    fetch(&fine.project(&format!(", sha256: {ABC}"))).exit(0);
    project_with_http().exit(3).says("is not an address to fetch from");
}

fn project_with_http() -> Finished {
    fetch(&project("  a.txt: { url: \"http://example.org/a.txt\" }"))
}

#[test]
fn a_second_address_is_tried() {
    let server = Server::new(Box::new(|request, _| {
        if request.starts_with("get /two") { whole(b"abc") } else { reply("404 Not Found", "", 0, b"") }
    }));
    let (one, two) = (format!("{}/one", server.address), format!("{}/two", server.address));
    let project = project(&format!("  a.txt: {{ url: [\"{one}\", \"{two}\"], sha256: {ABC} }}"));
    fetch(&project).exit(0);
}

#[test]
fn one_failure_does_not_stop_the_others() {
    let server = Server::new(Box::new(|request, _| {
        if request.starts_with("get /a.txt") { whole(b"abc") } else { reply("403 Forbidden", "", 0, b"") }
    }));
    let project = server.project("");
    project.write(
        "pipelines/datasets/other.yaml",
        manifest(&format!("  o.txt: {{ url: \"{}/o\" }}", server.address)).replace("small_", "other_"),
    );
    let both = project.run(&["data", "fetch", "other", "small"]).exit(4);
    both.prints("small                1 file fetched").says("other/o.txt").says("403 Forbidden");
}

#[test]
fn the_rest_of_a_data_set_is_not_waited_for_where_nobody_answers() {
    // No server listens on a port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = |name: &str| format!("  {name}: {{ url: \"http://127.0.0.1:{port}/{name}\" }}\n");
    let project = project(&(file("a.txt") + &file("b.txt")));
    let json = project.run(&["data", "fetch", "small", "--json"]).exit(4).says("`ppgnn data import` them").json();
    let states: Vec<_> = json["datasets"][0]["files"].as_array().unwrap().iter().map(|f| f["state"].clone()).collect();
    assert_eq!(states, ["failed", "not tried"]);
}

#[test]
fn a_data_set_without_addresses_says_what_to_do_by_hand() {
    let project = Project::new();
    let finished = project
        .run(&["data", "fetch", "flickr"])
        .exit(4)
        .says("no direct download address for adj_full.npz, feats.npy");
    finished.says("https://github.com/GraphSAINT/GraphSAINT").says("data/flickr").says("ppgnn data import DIR flickr");
}

#[test]
fn an_interrupted_download_leaves_a_part_to_continue() {
    let open = Arc::new(AtomicBool::new(false));
    let opened = open.clone();
    let server = Server::new(Box::new(move |request, count| match count {
        0 => reply("200 OK", "", 3, b"a"),
        _ if opened.load(Ordering::SeqCst) && request.contains("range: bytes=1-") => {
            reply("206 Partial Content", "Content-Range: bytes 1-2/3\r\n", 2, b"bc")
        }
        _ => reply("503 Service Unavailable", "", 0, b""),
    }));
    let project = server.project(&format!(", sha256: {ABC}"));
    let mut child = project.command(&["data", "fetch", "small"]).spawn().unwrap();
    let part = project.path("data/small_/a.txt.part");
    while std::fs::read(&part).unwrap_or_default() != b"a" {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(left(&project), [part]);
    open.store(true, Ordering::SeqCst);
    fetch(&project).exit(0);
    assert_eq!(left(&project), [project.path("data/small_/a.txt")]);
}
