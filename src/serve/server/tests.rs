//! The server against clients over real connections.

use super::*;
use crate::serve::answer::Kind;
use std::net::SocketAddr;

struct Echo;

impl Respond for Echo {
    fn respond(&self, request: &Request) -> Answer {
        match request.path.as_str() {
            "/large" => Answer::stamped(Kind::Text, "x".repeat(3_000_000), "large"),
            "/panic" => panic!("on purpose"),
            path => Answer::of(Kind::Text, format!("you asked for {path}")),
        }
    }
}

fn start(limits: Limits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || serve(&listener, limits, Arc::new(Echo)));
    address
}

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// So little that a client on a busy machine may be late against its will: for the tests that
/// are about being late.
fn impatient() -> Limits {
    Limits {
        request: Duration::from_millis(300),
        stalled: Duration::from_millis(300),
        ..Limits::default()
    }
}

/// Sends all at once and reads until the server closes, which it may do before all is sent.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8(answer).unwrap()
}

fn get(address: SocketAddr, path: &str) -> String {
    let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    exchange(address, text.as_bytes())
}

#[test]
fn requests_in_one_packet_are_answered_in_order() {
    let address = start(Limits::default());
    let one = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    let all = one("/1", "") + &one("/2", "") + &one("/3", "Connection: close\r\n");
    let text = exchange(address, all.as_bytes());
    let places: Vec<usize> = ["for /1", "for /2", "for /3"]
        .map(|words| text.find(words).unwrap())
        .to_vec();
    assert!(places.is_sorted(), "{text}");
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3);
}

#[test]
fn head_has_no_body_and_the_length_of_one() {
    let address = start(Limits::default());
    let text = exchange(
        address,
        b"HEAD /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert!(
        text.contains("Content-Length: 16\r\n") && text.ends_with("\r\n\r\n"),
        "{text}"
    );
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let address = start(Limits::default());
    let stamp = ::report::stamp("you asked for /1");
    let text = format!(
        "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIf-None-Match: W/\"{stamp}\"\r\n\r\n"
    );
    let answer = exchange(address, text.as_bytes());
    assert!(
        answer.starts_with("HTTP/1.1 304") && !answer.contains("you asked"),
        "{answer}"
    );
}

#[test]
fn bad_requests_get_a_sentence_and_others_are_still_answered() {
    let address = start(Limits::default());
    for (bytes, status) in [
        (&b"\r\n\r\n"[..], "400"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", "400"),
        (b"GET / HTTP/9.9\r\nHost: a\r\n\r\n", "505"),
        (b"DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", "405"),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "405",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "413",
        ),
    ] {
        let answer = exchange(address, bytes);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    let endless = [b'a'; 3 * HEAD_LIMIT];
    let answer = exchange(address, &endless);
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    // A panic ends its connection alone.
    assert_eq!(get(address, "/panic"), "");
    assert!(get(address, "/1").contains("for /1"));
}

#[test]
fn slow_and_silent_clients_are_let_go() {
    let address = start(impatient());
    let start = Instant::now();
    // One that is held up before its first byte passes for silent: it tries again.
    let slow = std::iter::repeat_with(|| exchange(address, b"GET / HT"));
    let answer = slow
        .take_while(|_| start.elapsed() < PATIENCE)
        .find(|answer| !answer.is_empty());
    let answer = answer.expect("the slow are told");
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(exchange(address, b""), "");
}

#[test]
fn a_byte_at_a_time_does_not_buy_time() {
    let address = start(impatient());
    let mut stream = TcpStream::connect(address).unwrap();
    let start = Instant::now();
    // At this pace the longest request that is read would take five minutes.
    let slowly = b"GET / HTTP/1.1\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for byte in slowly.iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "it may go on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_that_does_not_read_is_let_go() {
    let limits = Limits {
        connections: 1,
        ..impatient()
    };
    let address = start(limits);
    let mut deaf = TcpStream::connect(address).unwrap();
    for _ in 0..20 {
        // It may be let go already.
        let _ = deaf.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let start = Instant::now();
    while !get_or_nothing(address).contains("for /1") {
        assert!(start.elapsed() < PATIENCE, "the place is never free");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Like `get`, where the server may close at once.
fn get_or_nothing(address: SocketAddr) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return String::new();
    };
    let _ = stream.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn too_many_are_told_to_come_again() {
    let limits = Limits {
        connections: 2,
        request: PATIENCE,
        ..Limits::default()
    };
    let address = start(limits);
    let mut held: Vec<TcpStream> = (0..2)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    // Both have been accepted once they are answered.
    for stream in &mut held {
        stream
            .write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
    }
    let mut third = TcpStream::connect(address).unwrap();
    let mut answer = String::new();
    third.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[test]
fn many_at_once_are_answered() {
    // A place is free again a moment after its client has gone: one for every request.
    let limits = Limits {
        connections: 1000,
        ..Limits::default()
    };
    let address = start(limits);
    let clients: Vec<_> = (0..100)
        .map(|at| {
            std::thread::spawn(move || {
                for _ in 0..10 {
                    let path = format!("/{at}");
                    assert!(get(address, &path).contains(&format!("for {path}")));
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
}

#[test]
fn a_large_answer_is_whole() {
    let address = start(Limits::default());
    let answer = get(address, "/large");
    assert_eq!(
        answer.split("\r\n\r\n").nth(1).map(str::len),
        Some(3_000_000)
    );
}
