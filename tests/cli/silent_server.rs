//! `data fetch` from servers that say nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::support::{Project, finish};

/// SHA-256 of `abc`, the first example of the standard that defines it.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// A server that hands every connection to `answer`, and keeps it open.
fn server(answer: fn(&mut TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    // The thread ends with the process that runs the tests.
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked);
            answer(&mut stream);
            open.push(stream);
        }
    });
    address
}

/// Fetches `abc` from the addresses with this many seconds of patience; what happened, and how long it took.
fn fetched(addresses: &[String], patience: &str) -> (Project, crate::support::Finished, Duration) {
    let urls: Vec<String> = addresses.iter().map(|address| format!("\"{address}/a.bin\"")).collect();
    let manifest = format!(
        "ppgnn: 1\ntitle: Small\nabout: A small one.\nlicence: none\nsource: https://example.org/small\nfolder: small_\n\
         files:\n  a.bin: {{ url: [{}], bytes: 3, sha256: {ABC} }}\nload: {{ format: csbm }}\nexpect: {{ nodes: 7 }}\n",
        urls.join(", ")
    );
    let project = Project::new().file("pipelines/datasets/small.yaml", &manifest);
    let begun = Instant::now();
    let run = finish(project.command(&["data", "fetch", "small"]).env("PPGNN_FETCH_TIMEOUT", patience));
    (project, run, begun.elapsed())
}

fn silent(_: &mut TcpStream) {}

fn stalls(stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na");
}

fn serves(stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc");
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

#[test]
fn a_silent_server_is_given_up_and_the_next_address_tried() {
    for answer in [silent, stalls] {
        let (project, run, took) = fetched(&[server(answer), server(serves)], "0.5");
        run.exit(0);
        assert_eq!(std::fs::read(project.path("data/small_/a.bin")).unwrap(), b"abc");
        // Asked once, and not again and again: 20 s stay 20 s.
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}

#[test]
fn a_file_that_no_server_sends_says_how_long_it_was_waited_for() {
    let (project, run, _) = fetched(&[server(silent)], "0.25");
    run.exit(4).says("the server sent nothing for 0.25 s").says("hint: run the same command again");
    assert!(!project.path("data/small_/a.bin").exists());
}
