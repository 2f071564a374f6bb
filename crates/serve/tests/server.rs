//! Tests of the server over a real socket: accepted and rejected requests.
#![allow(clippy::expect_used, reason = "tests")]

use serde_json::Value;
use stackline_query::OpenRun;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A small trace on disk; `file` is the file of its Python frame.
fn trace(folder: &std::path::Path, file: &str) -> PathBuf {
    let path = folder.join("trace.json");
    let text = stackline_testkit::mini::trace(&format!(
        "1/1  user_annotation  ProfilerStep#1   0..100
         1/1  python_function  {file}(1): step  1..91
         1/1  cpu_op           aten::mm         5..55"
    ));
    std::fs::write(&path, text).expect("written");
    path
}

/// Serve a trace in the background; returns host and path of the page.
fn served(trace: PathBuf) -> (String, String) {
    served_with(trace, &[])
}

/// Variant of [`served`] with directories from which source text may be read.
fn served_with(trace: PathBuf, roots: &[PathBuf]) -> (String, String) {
    let opened = OpenRun::open(&[trace], &Default::default()).expect("opens").with_source_roots(roots);
    let server = stackline_serve::serve(Arc::new(opened), 0, Vec::new()).expect("listens");
    let url = server.url.strip_prefix("http://").expect("an address").to_owned();
    std::thread::spawn(move || server.run(std::future::pending()));
    let (host, path) = url.split_once('/').expect("a path");
    (host.to_owned(), format!("/{path}"))
}

/// Status, head and body of a response.
fn get(host: &str, path: &str, named: &str) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(host).expect("connects");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {named}\r\nConnection: close\r\n\r\n").expect("asked");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("answered");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, head, bytes[end..].to_vec())
}

#[test]
fn requests_need_the_token_and_a_local_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let (host, path) = served(trace(folder.path(), "train.py"));
    let (status, head, body) = get(&host, &path, &host);
    assert_eq!(status, 200);
    assert!(head.contains("content-security-policy: default-src 'none'") && head.contains("nosniff"), "{head}");
    assert!(!head.contains("unsafe-inline") && head.contains("connect-src 'self'"), "{head}");
    assert!(!head.contains("access-control"), "no other site may read: {head}");
    assert!(body.starts_with(b"<!doctype html>"));
    assert_eq!(get(&host, &path, "evil.example").0, 403, "DNS rebinding");
    for wrong in ["/", "/0123/", "/favicon.ico", "/../etc/passwd", "//", "/%2e%2e/%2e%2e/etc/passwd"] {
        assert_eq!(get(&host, wrong, &host).0, 403, "{wrong}");
    }
    for missing in ["query/", "query/nothing", "x", "query/../../etc/passwd", "query/meta/more"] {
        let (status, _, body) = get(&host, &format!("{path}{missing}"), &host);
        assert_eq!(status, 404, "{missing}: {}", String::from_utf8_lossy(&body));
    }
}

#[test]
fn only_files_named_by_the_run_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("train.py");
    std::fs::write(&source, "secret = 1\n").expect("written");
    std::fs::write(folder.path().join("other.py"), "hidden = 1\n").expect("written");
    let trace = trace(folder.path(), &source.display().to_string());
    let (host, path) = served(trace.clone());
    let (status, _, body) = get(&host, &format!("{path}query/source?file={}", source.display()), &host);
    assert!(status == 200 && !String::from_utf8_lossy(&body).contains("secret = 1"), "no directory was opened");
    let (host, path) = served_with(trace, &[folder.path().to_owned()]);
    let get_source = |file: &str| get(&host, &format!("{path}query/source?file={file}"), &host);
    let (status, _, body) = get_source(&source.display().to_string());
    assert_eq!(status, 200);
    assert!(String::from_utf8_lossy(&body).contains("secret = 1"));
    let folder = folder.path().display();
    for file in [
        format!("{folder}/other.py"),
        format!("{folder}/./train.py"),
        format!("{folder}/../{folder}/other.py"),
        "/etc/passwd".to_owned(),
        "..%2F..%2Fetc%2Fpasswd".to_owned(),
        "train.py".to_owned(),
    ] {
        let (status, _, body) = get_source(&file);
        assert_eq!(status, 404, "{file}: {}", String::from_utf8_lossy(&body));
    }
}

#[test]
fn unanswerable_requests_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let (host, path) = served(trace(folder.path(), "train.py"));
    let refused = |query: &str| {
        let (status, _, body) = get(&host, &format!("{path}query/{query}"), &host);
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        (status, body["error"].as_str().expect("an error").to_owned())
    };
    assert_eq!(refused("event?event=x").0, 400);
    assert_eq!(refused("event?event=99").0, 404);
    assert_eq!(refused("calls?metric=nothing").0, 400);
    let (status, why) = refused("calls?focus=(");
    assert!(status == 400 && why.starts_with("argument focus: the value is not a regular expression"), "{why}");
    let unknown = (400, "path has no argument \"step\"; possible arguments are rank, steps".to_owned());
    assert_eq!(refused("path?step=3"), unknown);
    assert_eq!(
        refused("meta?steps=3"),
        (400, "meta has no argument \"steps\"; this query takes no arguments".to_owned())
    );
    assert_eq!(refused("lanes?rank=7"), (404, "the run has no rank 7".to_owned()));
}

/// Status of the response to any bytes.
fn status_of(host: &str, request: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(host).expect("connects");
    // It may refuse before all is written, or wait for more.
    stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).split(' ').nth(1)?.parse().ok()
}

#[test]
fn requests_cannot_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let (host, path) = served(trace(folder.path(), "train.py"));
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for rest in ["", "query/meta", "query/source?file=train.py"] {
            let request = format!(
                "{method} {path}{rest} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
            );
            assert_eq!(status_of(&host, request.as_bytes()), Some(405), "{method} {rest}");
        }
    }
    let preflight = format!(
        "OPTIONS {path}query/meta HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(status_of(&host, preflight.as_bytes()), Some(405));
}

#[test]
fn any_request_is_answered_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (host, path) = served(trace(folder.path(), "train.py"));
    // Each query by what it heeds, and by what none does.
    let strange: &[&str] = &["%00", "a%20b", "run"];
    let of_each = stackline_query::ALL.iter().map(|query| (query.name, query.arguments));
    let queries = of_each.chain(["", "..", "nothing"].map(|name| (name, strange)));
    let values = [
        "",
        "0",
        "-1",
        "99999999999999999999",
        "nan",
        "..%2F..%2Fetc%2Fpasswd",
        "%F0%9F%92%A5",
        "%FF%FE",
        "(",
        "a%00b",
        "1..2",
    ];
    for (at, (query, arguments)) in queries.enumerate() {
        let names = arguments.iter().chain(strange);
        let pairs: Vec<String> =
            names.flat_map(|name| values.iter().map(move |value| format!("{name}={value}"))).collect();
        // Each query with other pairs, several at once, and one of them twice.
        for iteration in 0..12 {
            let from = (at * 31 + iteration * 47) % (pairs.len() - 12);
            let query_text = [&pairs[from..from + 1 + iteration], &pairs[from..=from]].concat().join("&");
            let (status, ..) = get(&host, &format!("{path}query/{query}?{query_text}"), &host);
            assert!([200, 400, 404, 422].contains(&status), "{status} for {query}?{query_text}");
        }
    }
    for strange in ["query/meta%2F..%2F..", "query/%2e%2e/", "query//meta", "?", "//", "query/meta;x", "%"] {
        let (status, ..) = get(&host, &format!("{path}{strange}"), &host);
        assert!([200, 400, 403, 404].contains(&status), "{status} for {strange}");
    }
    for rubbish in [&b"\x00\x01\x02\r\n\r\n"[..], b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n\r\n"] {
        assert!(status_of(&host, rubbish).is_none_or(|status| (400..500).contains(&status)), "{rubbish:?}");
    }
    assert_eq!(get(&host, &format!("{path}query/meta"), &host).0, 200, "it still answers");
}
