//! The reader against what clients send, and what attackers do.

use super::*;

fn parse(text: &str) -> Result<Option<(Request, usize)>, Refusal> {
    Request::parse(text.as_bytes())
}

fn request(text: &str) -> Request {
    parse(text).unwrap().unwrap().0
}

#[test]
fn a_usual_request() {
    let text =
        "GET /s/a?token=x&b= HTTP/1.1\r\nHost: localhost:80\r\nIf-None-Match:\t\"e\" \r\n\r\nrest";
    let (request, taken) = parse(text).unwrap().unwrap();
    assert_eq!(taken, text.len() - 4);
    assert_eq!(
        (request.method, request.path.as_str()),
        (Method::Get, "/s/a")
    );
    assert_eq!(request.header("host"), Some("localhost:80"));
    assert_eq!(request.header("if-none-match"), Some("\"e\""));
    assert_eq!(
        (request.field("token"), request.field("b")),
        (Some("x"), Some(""))
    );
    assert_eq!(request.field("to"), None);
    assert_eq!(request.after, After::KeepOpen);
}

#[test]
fn the_connection_closes_when_asked() {
    for (line, after) in [
        ("HTTP/1.1\r\nConnection: Close", After::Close),
        ("HTTP/1.1\r\nConnection: keep-alive, close", After::Close),
        ("HTTP/1.1\r\nConnection: keep-alive", After::KeepOpen),
        ("HTTP/1.0\r\nConnection: keep-alive", After::Close),
    ] {
        let text = format!("HEAD / {line}\r\nHost: a\r\n\r\n");
        assert_eq!(request(&text).after, after, "{line}");
        assert_eq!(request(&text).method, Method::Head);
    }
}

#[test]
fn a_request_that_is_on_its_way() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(parse(&text[..end]), Ok(None), "{end}");
    }
}

#[test]
fn what_is_not_http_is_refused() {
    let malformed = |text: &str| matches!(parse(text), Err(Refusal::Malformed(_)));
    for line in [
        "",
        "GET",
        "GET /",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET / http/1.1",
        "GET http://a/ HTTP/1.1",
        "GET * HTTP/1.1",
        "GET /\u{e4} HTTP/1.1",
        "GET /\t HTTP/1.1",
        "GET /a\nb HTTP/1.1",
    ] {
        assert!(malformed(&format!("{line}\r\nHost: a\r\n\r\n")), "{line:?}");
    }
    for header in [
        "Host",
        ": a",
        "Ho st: a",
        "Host : a",
        "Host: a\nX: b",
        "Host: a\r\n folded",
        "Host: \0",
    ] {
        assert!(
            malformed(&format!("GET / HTTP/1.1\r\n{header}\r\n\r\n")),
            "{header:?}"
        );
    }
    // No host, two hosts.
    assert!(malformed("GET / HTTP/1.1\r\n\r\n"));
    assert!(malformed("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"));
    assert!(matches!(
        Request::parse(b"GET /\xff HTTP/1.1\r\n\r\n"),
        Err(Refusal::Malformed(_))
    ));
}

#[test]
fn methods_bodies_and_versions() {
    let of = |line: &str, more: &str| parse(&format!("{line}\r\nHost: a\r\n{more}\r\n"));
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get"] {
        assert_eq!(
            of(&format!("{method} / HTTP/1.1"), ""),
            Err(Refusal::Method)
        );
    }
    let get = "GET / HTTP/1.1";
    assert_eq!(of(get, "Content-Length: 3\r\n"), Err(Refusal::Body));
    assert_eq!(of(get, "Content-Length: x\r\n"), Err(Refusal::Body));
    assert_eq!(
        of(get, "Transfer-Encoding: chunked\r\n"),
        Err(Refusal::Body)
    );
    assert!(of(get, "Content-Length: 0\r\n").is_ok());
    assert_eq!(of("GET / HTTP/2.0", ""), Err(Refusal::Version));
}

#[test]
fn what_is_too_long_is_refused() {
    let path = "a".repeat(HEAD_LIMIT);
    assert_eq!(parse(&format!("GET /{path}")), Err(Refusal::TooLarge));
    assert_eq!(
        parse(&format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n")),
        Err(Refusal::TooLarge)
    );
    let many = "X: y\r\n".repeat(HEADER_LIMIT);
    assert_eq!(
        parse(&format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")),
        Err(Refusal::TooLarge)
    );
}

/// No bytes make it panic, and what it takes is never more than what there is.
#[test]
fn any_bytes_end_in_an_answer() {
    let mut state = 1_u64;
    let seed = b"GET /a?b HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
    for _ in 0..20_000 {
        let mut bytes = seed.to_vec();
        for _ in 0..3 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 17) as u8;
        }
        if let Ok(Some((request, taken))) = Request::parse(&bytes) {
            assert!(taken <= bytes.len() && request.path.starts_with('/'));
        }
    }
}
