//! Who may read: anybody on this machine under one of its own names, or whoever has
//! the token.
//!
//! On loopback the name is checked, because a page elsewhere can let a name of its own
//! point to 127.0.0.1 (DNS rebinding) and would then read the answers. Beyond loopback
//! a token is asked for, once: it goes over into a cookie that scripts cannot read and
//! the scripts of other sites cannot send.

use super::http::Request;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Who may read.
#[derive(Debug)]
pub struct Access {
    names: Names,
    token: Option<Token>,
}

/// Under which names the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Those of this machine itself: localhost, and its loopback addresses.
    Local,
    /// Any: the network has names for it that it does not know.
    Any,
}

/// A secret of 128 random bits, in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    secret: String,
    /// Name of its cookie: cookies do not know ports, so the port is in the name.
    cookie: String,
}

/// What is to be done with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer it.
    Welcome,
    /// It brings the token in its address: set this cookie and ask again without.
    Remember {
        /// The value of `Set-Cookie`.
        cookie: String,
    },
    /// It came under another's name.
    ForeignName,
    /// It has no token, or a wrong one.
    NoToken,
}

impl Access {
    /// For an address; with a token where one is asked for.
    pub fn new(names: Names, token: Option<Token>) -> Self {
        Self { names, token }
    }

    /// What is to be done with a request.
    pub fn verdict(&self, request: &Request) -> Verdict {
        let host = request.header("host").unwrap_or("");
        if self.names == Names::Local && !is_local(host) {
            return Verdict::ForeignName;
        }
        let Some(token) = &self.token else {
            return Verdict::Welcome;
        };
        if request.field("token").is_some_and(|given| token.is(given)) {
            return Verdict::Remember {
                cookie: format!(
                    "{}={}; Path=/; HttpOnly; SameSite=Lax",
                    token.cookie, token.secret
                ),
            };
        }
        match token.given_by(request) {
            true => Verdict::Welcome,
            false => Verdict::NoToken,
        }
    }
}

/// Whether a host is this machine by a name that only it can mean, on any port: a
/// tunnel may have changed it. A loopback address is such a name, 127.0.0.2 as much as
/// 127.0.0.1.
fn is_local(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let is_loopback = match name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(inner) => inner.parse().is_ok_and(|ip: Ipv6Addr| ip.is_loopback()),
        None => name.parse().is_ok_and(|ip: Ipv4Addr| ip.is_loopback()),
    };
    (is_loopback || name.eq_ignore_ascii_case("localhost"))
        && port.bytes().all(|byte| byte.is_ascii_digit())
}

impl Token {
    /// A new token for the server on a port.
    pub fn random(port: u16) -> Result<Self, getrandom::Error> {
        let mut bytes = [0_u8; 16];
        getrandom::getrandom(&mut bytes)?;
        Ok(Self {
            secret: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            cookie: format!("noisescale-{port}"),
        })
    }

    /// The secret, for the address that the user opens.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Whether a text is the secret, in a time that does not tell how much of it is.
    fn is(&self, given: &str) -> bool {
        let (known, given) = (self.secret.as_bytes(), given.as_bytes());
        let differ = known
            .iter()
            .zip(given)
            .fold(0, |differ, (one, other)| differ | (one ^ other));
        known.len() == given.len() && std::hint::black_box(differ) == 0
    }

    fn given_by(&self, request: &Request) -> bool {
        let cookies = request.header("cookie").unwrap_or("").split(';');
        let mut ours = cookies.filter_map(|pair| pair.trim().split_once('='));
        let bearer = request.header("authorization");
        let bearer = bearer.and_then(|given| given.strip_prefix("Bearer "));
        ours.any(|(name, value)| name == self.cookie && self.is(value))
            || bearer.is_some_and(|given| self.is(given.trim()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, headers: &str) -> Request {
        let text = format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
        Request::parse(text.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn names_of_this_machine_alone() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:8420",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "127.0.0.1:80:evil",
            "evil.example:localhost",
            "[::2]",
            "::1",
            "localhost:a",
        ] {
            assert!(!is_local(host), "{host}");
        }
        let access = Access::new(Names::Local, None);
        let verdict = |host: &str| access.verdict(&request("/", &format!("Host: {host}\r\n")));
        assert_eq!(verdict("localhost:5"), Verdict::Welcome);
        assert_eq!(verdict("evil.example"), Verdict::ForeignName);
    }

    /// `--host 127.0.0.2` prints an address that must then be answered.
    #[test]
    fn every_loopback_address_is_this_machine() {
        let access = Access::new(Names::Local, None);
        let verdict = |host: &str| access.verdict(&request("/", &format!("Host: {host}\r\n")));
        for host in ["127.0.0.2:8420", "127.0.0.2", "127.255.255.254:1"] {
            assert_eq!(verdict(host), Verdict::Welcome, "{host}");
        }
        for host in [
            "128.0.0.1",
            "0.0.0.0",
            "127.0.0.2.evil.example:80",
            "127.0.0.256",
            "[127.0.0.2]",
            "[::ffff:10.0.0.1]:80",
            "::1:80",
        ] {
            assert_eq!(verdict(host), Verdict::ForeignName, "{host}");
        }
    }

    #[test]
    fn a_token_is_asked_for_and_remembered() {
        let token = Token::random(80).unwrap();
        let secret = token.secret().to_owned();
        assert_eq!(secret.len(), 32);
        assert_ne!(secret, Token::random(80).unwrap().secret());
        let access = Access::new(Names::Any, Some(token));
        let verdict =
            |path: &str, more: &str| access.verdict(&request(path, &format!("Host: a\r\n{more}")));
        assert_eq!(verdict("/", ""), Verdict::NoToken);
        assert_eq!(verdict("/?token=", ""), Verdict::NoToken);
        assert_eq!(
            verdict(&format!("/?token={}", &secret[1..]), ""),
            Verdict::NoToken
        );
        assert_eq!(verdict(&format!("/?token={secret}0"), ""), Verdict::NoToken);
        let Verdict::Remember { cookie } = verdict(&format!("/?token={secret}"), "") else {
            panic!("the token does not open");
        };
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"));
        let pair = cookie.split(';').next().unwrap();
        assert_eq!(
            verdict("/", &format!("Cookie: a=b; {pair}\r\n")),
            Verdict::Welcome
        );
        assert_eq!(
            verdict("/", &format!("Cookie: noisescale-81={secret}\r\n")),
            Verdict::NoToken
        );
        assert_eq!(
            verdict("/", &format!("Authorization: Bearer {secret}\r\n")),
            Verdict::Welcome
        );
        assert_eq!(
            verdict("/", "Authorization: Bearer x\r\n"),
            Verdict::NoToken
        );
    }
}
