//! Connections: a thread for each, so many at once, each with little time to ask and
//! enough to be answered.
//!
//! Our own over `std::net`, because what is served is small and fixed; the reasons are in
//! docs/ARCHITECTURE.md. A client that is slow, silent or malicious costs one thread
//! until its time is over.

use super::answer::Answer;
use super::http::{After, HEAD_LIMIT, Method, Refusal, Request, Status};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How patient the server is.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; further ones are told to come again.
    pub connections: usize,
    /// Time for a request to arrive, from its first byte or the previous answer on.
    pub request: Duration,
    /// Time without progress while an answer is sent.
    pub stalled: Duration,
    /// Time for a whole answer.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            request: Duration::from_secs(10),
            stalled: Duration::from_secs(10),
            answer: Duration::from_secs(120),
        }
    }
}

/// Answers a request.
pub trait Respond: Send + Sync + 'static {
    /// The answer.
    fn respond(&self, request: &Request) -> Answer;
}

/// Answers whoever connects, for ever.
pub fn serve(listener: &TcpListener, limits: Limits, responder: Arc<impl Respond>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of file descriptors, or a client that was gone at once.
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let Some(place) = Place::take(&open, limits.connections) else {
            turn_away(stream);
            continue;
        };
        let responder = Arc::clone(&responder);
        let connection = move || {
            let _place = place;
            // Errors of a connection, as of a client that has disconnected, are ignored.
            let _ = converse(stream, limits, &*responder);
        };
        // Without a thread the connection closes.
        let _ = std::thread::Builder::new()
            .name("connection".into())
            .spawn(connection);
    }
}

/// One of the connections that may be open at once.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let before = open.fetch_add(1, Ordering::Relaxed);
        let place = Self(Arc::clone(open));
        (before < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn turn_away(mut stream: TcpStream) {
    let answer = Answer::sentence(Status::Busy, "too many connections; come again in a moment");
    let (head, body) = answer.written(Method::Get, After::Close);
    let patience = Some(Duration::from_millis(50));
    let _ = stream.set_write_timeout(patience);
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let _ = stream.shutdown(Shutdown::Write);
}

/// Answers the requests of one connection, in their order.
fn converse(mut stream: TcpStream, limits: Limits, responder: &impl Respond) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    loop {
        let request = match next_request(&mut stream, &mut unread, limits.request)? {
            Some(Ok(request)) => request,
            Some(Err(refusal)) => {
                let answer = Answer::refused(refusal);
                send(&mut stream, &answer, Method::Get, After::Close, limits)?;
                return take_leave(&mut stream);
            }
            None => return Ok(()),
        };
        let answer = responder.respond(&request).unless_known(&request);
        send(&mut stream, &answer, request.method, request.after, limits)?;
        if request.after == After::Close {
            return take_leave(&mut stream);
        }
    }
}

/// The next request, or why there is none; `None` if the client said nothing more.
fn next_request(
    stream: &mut TcpStream,
    unread: &mut Vec<u8>,
    patience: Duration,
) -> io::Result<Option<Result<Request, Refusal>>> {
    let end = Instant::now() + patience;
    loop {
        match Request::parse(unread) {
            Err(refusal) => return Ok(Some(Err(refusal))),
            Ok(Some((request, taken))) => {
                unread.drain(..taken);
                return Ok(Some(Ok(request)));
            }
            Ok(None) => {}
        }
        let left = end.saturating_duration_since(Instant::now());
        let silent = || match unread.is_empty() {
            true => Ok(None),
            false => Ok(Some(Err(Refusal::Slow))),
        };
        if left.is_zero() {
            return silent();
        }
        stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; 4096];
        let room = chunk
            .len()
            .min(HEAD_LIMIT.saturating_sub(unread.len()).max(1));
        match stream.read(&mut chunk[..room]) {
            Ok(0) => return Ok(None),
            Ok(read) => unread.extend_from_slice(&chunk[..read]),
            Err(error) if is_timeout(&error) => return silent(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn send(
    stream: &mut TcpStream,
    answer: &Answer,
    method: Method,
    after: After,
    limits: Limits,
) -> io::Result<()> {
    let end = Instant::now() + limits.answer;
    let (head, body) = answer.written(method, after);
    // Head and a short body go out together.
    let (first, mut rest) = body.split_at(body.len().min(16 * 1024));
    let opening = [head.as_bytes(), first].concat();
    let mut unsent = opening.as_slice();
    while !unsent.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left.min(limits.stalled)))?;
        match stream.write(unsent) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => unsent = &unsent[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if unsent.is_empty() {
            unsent = std::mem::take(&mut rest);
        }
    }
    Ok(())
}

/// Closes so that the client gets to read the answer, whatever it still sends.
fn take_leave(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut rest = [0; 4096];
    for _ in 0..64 {
        if stream.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
