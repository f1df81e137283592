//! Answers: what is sent back, with headers that let a browser do as little as possible.

use super::http::{After, Method, Refusal, Request, Status};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

/// Nothing from elsewhere, no inline code, no frames, no forms.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A page or a part of one.
    Html,
    /// Words.
    Text,
    /// A style sheet.
    Css,
    /// A script.
    Script,
    /// JSON.
    Json,
    /// Rows.
    Csv,
    /// A figure.
    Svg,
    /// A picture.
    Png,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
            Self::Css => "text/css; charset=utf-8",
            Self::Script => "text/javascript; charset=utf-8",
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Svg => "image/svg+xml",
            Self::Png => "image/png",
        }
    }
}

/// The bytes of an answer, shared where they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Part of the program, or made for this answer.
    Own(Cow<'static, [u8]>),
    /// Kept for further answers.
    Shared(Arc<[u8]>),
}

impl Content {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Own(Cow::Owned(text.into_bytes()))
    }
}

impl From<&'static str> for Content {
    fn from(text: &'static str) -> Self {
        Self::Own(Cow::Borrowed(text.as_bytes()))
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How it went.
    pub status: Status,
    kind: Kind,
    content: Content,
    /// Differs where the content does.
    stamp: Option<String>,
    /// Headers of its own.
    more: Vec<(&'static str, String)>,
}

impl Answer {
    /// Content that a client may keep as long as its stamp is the same.
    pub fn stamped(kind: Kind, content: impl Into<Content>, stamp: impl Into<String>) -> Self {
        Self {
            status: Status::Ok,
            kind,
            content: content.into(),
            stamp: Some(stamp.into()),
            more: Vec::new(),
        }
    }

    /// Text that a client may keep as long as it is the same.
    pub fn of(kind: Kind, text: String) -> Self {
        let stamp = ::report::stamp(&text);
        Self::stamped(kind, text, stamp)
    }

    /// A sentence on what went wrong.
    pub fn sentence(status: Status, text: impl Into<String>) -> Self {
        Self {
            status,
            kind: Kind::Text,
            content: Content::from(text.into() + "\n"),
            stamp: None,
            more: Vec::new(),
        }
    }

    /// The way to another page.
    pub fn elsewhere(path: &str) -> Self {
        let mut answer = Self::sentence(Status::SeeOther, format!("See {path}"));
        answer.more.push(("Location", path.into()));
        answer
    }

    /// The answer to a request that was refused.
    pub fn refused(refusal: Refusal) -> Self {
        let mut answer = Self::sentence(refusal.status(), refusal.to_string());
        if refusal == Refusal::Method {
            answer.more.push(("Allow", "GET, HEAD".into()));
        }
        answer
    }

    /// The same answer with one more header.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.more.push((name, value.into()));
        self
    }

    /// The same answer, or that nothing has changed if the client has it already.
    pub fn unless_known(mut self, request: &Request) -> Self {
        let known = request.header("if-none-match").unwrap_or("");
        let given = known
            .split(',')
            .map(|one| one.trim().trim_start_matches("W/"));
        let known = (self.stamp.as_ref())
            .is_some_and(|stamp| given.into_iter().any(|one| one.trim_matches('"') == stamp));
        if self.status == Status::Ok && known {
            self.status = Status::NotModified;
        }
        self
    }

    /// The head, then the bytes that follow it.
    pub fn written(&self, method: Method, after: After) -> (String, &[u8]) {
        let body: &[u8] = match (self.status, method) {
            (Status::NotModified, _) | (_, Method::Head) => &[],
            _ => self.content.bytes(),
        };
        let mut head = format!(
            "HTTP/1.1 {}\r\nContent-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\nCache-Control: private, no-cache\r\n",
            self.status.line()
        );
        // Writing to a string cannot fail.
        if self.status != Status::NotModified {
            let (kind, length) = (self.kind.name(), self.content.bytes().len());
            let _ = write!(head, "Content-Type: {kind}\r\nContent-Length: {length}\r\n");
        }
        if let Some(stamp) = &self.stamp {
            let _ = write!(head, "ETag: \"{stamp}\"\r\n");
        }
        for (name, value) in &self.more {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str(match after {
            After::KeepOpen => "Connection: keep-alive\r\n\r\n",
            After::Close => "Connection: close\r\n\r\n",
        });
        (head, body)
    }
}
