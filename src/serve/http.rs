//! HTTP/1.1 as far as a read-only page needs it: GET and HEAD without bodies, read
//! strictly. What is not understood is refused with a sentence, never guessed at.

use std::fmt;

/// Most bytes of a request: its line, its headers and the empty line after them.
pub const HEAD_LIMIT: usize = 16 * 1024;

/// Most headers of a request.
const HEADER_LIMIT: usize = 64;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The content.
    Get,
    /// The headers that it would have.
    Head,
}

/// Whether the connection stays open after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The next request may follow.
    KeepOpen,
    /// It is closed.
    Close,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// GET or HEAD.
    pub method: Method,
    /// As sent, up to the question mark. It begins with a slash.
    pub path: String,
    /// What follows the question mark.
    pub query: String,
    /// What the client wishes.
    pub after: After,
    headers: Vec<(String, String)>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is not HTTP as it should be.
    Malformed(&'static str),
    /// It asks for more than reading.
    Method,
    /// It has a body.
    Body,
    /// It is longer than [`HEAD_LIMIT`] or has too many headers.
    TooLarge,
    /// It is of another version of HTTP.
    Version,
    /// It did not arrive in time.
    Slow,
}

impl Refusal {
    /// The status of the answer.
    pub fn status(self) -> Status {
        match self {
            Self::Malformed(_) => Status::BadRequest,
            Self::Method => Status::MethodNotAllowed,
            Self::Body => Status::ContentTooLarge,
            Self::TooLarge => Status::HeadTooLarge,
            Self::Version => Status::VersionNotSupported,
            Self::Slow => Status::RequestTimeout,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed(what) => what,
            Self::Method => "this page can only be read: GET and HEAD",
            Self::Body => "a request to read has no body",
            Self::TooLarge => "the request is too long",
            Self::Version => "HTTP/1.1 or HTTP/1.0, please",
            Self::Slow => "the request did not arrive in time",
        })
    }
}

impl Request {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a query's field, as sent.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        fields
            .into_iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// The request that stands before the first empty line, and how many bytes it
    /// took; `None` while that line has not arrived.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Refusal> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return match bytes.len() >= HEAD_LIMIT {
                true => Err(Refusal::TooLarge),
                false => Ok(None),
            };
        };
        if end + 4 > HEAD_LIMIT {
            return Err(Refusal::TooLarge);
        }
        let head = std::str::from_utf8(&bytes[..end])
            .map_err(|_| Refusal::Malformed("the request is not text"))?;
        Ok(Some((Self::of_head(head)?, end + 4)))
    }

    fn of_head(head: &str) -> Result<Self, Refusal> {
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap_or("");
        let (method, target, version) = request_line(first)?;
        let headers = lines.map(header_line).collect::<Result<Vec<_>, _>>()?;
        if headers.len() > HEADER_LIMIT {
            return Err(Refusal::TooLarge);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method,
            path: path.into(),
            query: query.into(),
            after: After::Close,
            headers,
        };
        let hosts = request.headers.iter().filter(|(name, _)| name == "host");
        if hosts.count() != 1 {
            return Err(Refusal::Malformed("a request names its host once"));
        }
        let body = request
            .header("content-length")
            .is_some_and(|length| length != "0");
        if body || request.header("transfer-encoding").is_some() {
            return Err(Refusal::Body);
        }
        let closes = |text: &str| {
            text.split(',')
                .any(|one| one.trim().eq_ignore_ascii_case("close"))
        };
        if version == "HTTP/1.1" && !request.header("connection").is_some_and(closes) {
            request.after = After::KeepOpen;
        }
        Ok(request)
    }
}

fn request_line(line: &str) -> Result<(Method, &str, &str), Refusal> {
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::Malformed("the first line is METHOD PATH VERSION"));
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err(Refusal::Malformed("the method is not a word"));
    }
    match version {
        "HTTP/1.1" | "HTTP/1.0" => {}
        other if other.starts_with("HTTP/") => return Err(Refusal::Version),
        _ => return Err(Refusal::Malformed("the version is not HTTP/1.1")),
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => return Err(Refusal::Method),
    };
    if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::Malformed(
            "the path does not begin with a slash, or is not ASCII",
        ));
    }
    Ok((method, target, version))
}

fn header_line(line: &str) -> Result<(String, String), Refusal> {
    let malformed = Refusal::Malformed("a header is NAME: VALUE");
    let (name, value) = line.split_once(':').ok_or(malformed)?;
    let control = |byte: u8| byte.is_ascii_control() && byte != b'\t';
    if name.is_empty() || !name.bytes().all(is_token) || value.bytes().any(control) {
        return Err(malformed);
    }
    Ok((name.to_ascii_lowercase(), value.trim().into()))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Here it is.
    Ok,
    /// It lies elsewhere.
    SeeOther,
    /// What the client has still holds.
    NotModified,
    /// Not HTTP as it should be.
    BadRequest,
    /// Not without a token, or not under this name.
    Forbidden,
    /// There is no such page.
    NotFound,
    /// Neither GET nor HEAD.
    MethodNotAllowed,
    /// It did not arrive in time.
    RequestTimeout,
    /// It has a body.
    ContentTooLarge,
    /// Its head is too long.
    HeadTooLarge,
    /// Something failed here.
    Failed,
    /// Too many at once, or not ready.
    Busy,
    /// Another version of HTTP.
    VersionNotSupported,
}

impl Status {
    /// Number and words.
    pub fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::SeeOther => "303 See Other",
            Self::NotModified => "304 Not Modified",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Failed => "500 Internal Server Error",
            Self::Busy => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

#[cfg(test)]
mod tests;
