//! Who is answered: nobody but whom the server was started for, and with nothing but GET.
//!
//! A page of another site can make a browser send requests here. It cannot read the answers, but for names that are made to lead to this machine
//! (DNS rebinding): so the name in `Host` must be one of ours, and an `Origin` must be this server.

use std::net::{IpAddr, SocketAddr};

use crate::report::html::live::live_policy;

/// What of a request counts.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    /// As it was sent, with `%` before what is encoded.
    pub path: String,
    pub query: String,
    pub host: Option<String>,
    pub origin: Option<String>,
    pub cookie: Option<String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    kind: &'static str,
    pub body: Vec<u8>,
    /// A further header.
    further: Option<(&'static str, String)>,
}

const COOKIE: &str = "ppgnn-token";

impl Answer {
    /// A page. What it may load, it says itself if it is a report.
    pub fn page(html: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, kind: "text/html; charset=utf-8", body: html.into(), further: None }
    }

    /// A page that asks for what changes.
    pub fn live(html: String) -> Self {
        Self { further: Some(("content-security-policy", live_policy())), ..Self::page(html) }
    }

    /// A text.
    pub fn text(status: u16, text: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: text.as_bytes().to_vec(), further: None }
    }

    /// Its headers.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let always = [
            ("content-type", self.kind),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ];
        always.map(|(name, value)| (name, value.to_owned())).into_iter().chain(self.further.clone())
    }
}

/// Whom to answer.
pub struct Guard {
    address: SocketAddr,
    token: Option<String>,
}

impl Guard {
    /// Answers those who ask for the address, and who have the token if there is one.
    pub fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { address, token }
    }

    /// Why a request is not answered, if it is not.
    pub fn refusal(&self, asked: &Asked) -> Option<Answer> {
        if asked.method != "GET" {
            let allow = Some(("allow", "GET".to_owned()));
            return Some(Answer {
                further: allow,
                ..Answer::text(405, "only GET is answered: nothing can be changed here")
            });
        }
        let Some(host) = asked.host.as_deref().filter(|host| self.is_ours(host)) else {
            return Some(Answer::text(403, "this server has another name"));
        };
        if asked.origin.as_deref().is_some_and(|origin| origin != format!("http://{host}")) {
            return Some(Answer::text(403, "pages of other sites are not answered"));
        }
        let token = self.token.as_deref()?;
        if value(&asked.query, '&', "token").is_some_and(|given| is_same(given, token)) {
            let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
            let body = "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=/\"><a href=\"/\">Go on</a>";
            return Some(Answer { further: Some(("set-cookie", cookie)), ..Answer::page(body) });
        }
        let cookie = asked.cookie.as_deref().and_then(|cookies| value(cookies, ';', COOKIE));
        (!cookie.is_some_and(|given| is_same(given, token)))
            .then(|| Answer::text(401, "open the address that `ppgnn serve` has printed: it ends in the token"))
    }

    /// Whether a `Host` is this server: by its port, and by a name that cannot be made to lead elsewhere.
    fn is_ours(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        let literal: Option<IpAddr> = name.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let is_named = match literal {
            Some(ip) => ip == self.address.ip() || ip.is_loopback() || self.address.ip().is_unspecified(),
            None => name.eq_ignore_ascii_case("localhost"),
        };
        is_named && port == Some(self.address.port())
    }
}

/// Compares secrets in a time that says nothing about where they differ.
fn is_same(given: &str, token: &str) -> bool {
    blake3::hash(given.as_bytes()) == blake3::hash(token.as_bytes())
}

/// The value of a name in a list of `name=value`.
fn value<'t>(text: &'t str, between: char, name: &str) -> Option<&'t str> {
    text.split(between).find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str) -> Asked {
        Asked { method: "GET".into(), path: "/".into(), host: Some(host.into()), ..Asked::default() }
    }

    fn status(guard: &Guard, asked: &Asked) -> u16 {
        guard.refusal(asked).map_or(200, |answer| answer.status)
    }

    #[test]
    fn only_our_names_are_answered_and_only_our_pages() {
        let guard = Guard::new("127.0.0.1:8020".parse().unwrap(), None);
        for host in ["127.0.0.1:8020", "localhost:8020", "LOCALHOST:8020", "[::1]:8020"] {
            assert_eq!(status(&guard, &asked(host)), 200, "{host}");
        }
        for host in [
            "evil.example:8020",
            "127.0.0.1",
            "127.0.0.1:80",
            "192.168.0.1:8020",
            "localhost.evil.example:8020",
            "",
            ":",
            "[::1]",
            "a:b:c",
        ] {
            assert_eq!(status(&guard, &asked(host)), 403, "{host}");
        }
        assert_eq!(status(&guard, &Asked { host: None, ..asked("") }), 403);
        for (origin, code) in [
            ("http://localhost:8020", 200),
            ("http://evil.example", 403),
            ("null", 403),
            ("https://localhost:8020", 403),
        ] {
            assert_eq!(
                status(&guard, &Asked { origin: Some(origin.into()), ..asked("localhost:8020") }),
                code,
                "{origin}"
            );
        }
        for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "get", ""] {
            assert_eq!(status(&guard, &Asked { method: method.into(), ..asked("localhost:8020") }), 405, "{method}");
        }
    }

    #[test]
    fn elsewhere_a_token_is_needed_and_becomes_a_cookie() {
        let guard = Guard::new("0.0.0.0:8020".parse().unwrap(), Some("secret".into()));
        let from = asked("192.168.0.7:8020");
        assert_eq!(status(&guard, &from), 401);
        assert_eq!(status(&guard, &asked("evil.example:8020")), 403);
        for query in ["token=", "token=Secret", "tokens=secret", "x=token=secret"] {
            assert_eq!(status(&guard, &Asked { query: query.into(), ..from.clone() }), 401, "{query}");
        }
        let answer = guard.refusal(&Asked { query: "a=b&token=secret".into(), ..from.clone() }).unwrap();
        let cookie = answer.headers().find(|(name, _)| *name == "set-cookie").unwrap().1;
        let cookie = cookie.split(';').next().unwrap();
        assert_eq!(status(&guard, &Asked { cookie: Some(format!("a=b; {cookie}")), ..from.clone() }), 200);
        assert_eq!(status(&guard, &Asked { cookie: Some("ppgnn-token=other".into()), ..from }), 401);
    }
}
