//! Addresses in a configuration: of listeners and of origins.

use larder_origin::OriginAddress;
use larder_semantics::scheme::Scheme;
use larder_transport::listener::{Listen, ListenerAddress, Preamble};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The allowed forms of an origin address, as the end of a sentence.
pub const ORIGIN: &str = "\"http://HOST:PORT\", \"HOST:PORT\" or \"unix:/PATH\"";

/// Parses a client listener: an address, and whether it requires the PROXY protocol.
#[must_use]
pub fn entrance(text: &str) -> Option<ListenerAddress> {
    let plain = |at: Listen| ListenerAddress { at, preamble: Preamble::None };
    let socket_address = listen_address;
    let proxied = |at: Listen| ListenerAddress { at, preamble: Preamble::Proxy };
    let Some((scheme, rest)) = text.split_once("+proxy:") else { return listen(text).map(plain) };
    match (scheme, rest.strip_prefix("//")) {
        ("http", Some(address)) => socket_address(address).map(Listen::Tcp).map(proxied),
        ("https", Some(address)) => socket_address(address).map(Listen::Tls).map(proxied),
        ("unix", _) if !rest.is_empty() => Some(proxied(Listen::Unix(PathBuf::from(rest)))),
        _ => listen(text).map(plain),
    }
}

/// Parses a listening address; a host is `localhost` or an IP address, never looked up.
#[must_use]
pub fn listen(text: &str) -> Option<Listen> {
    match text.strip_prefix("unix:") {
        Some("") => None,
        Some(path) => Some(Listen::Unix(PathBuf::from(path))),
        None => match Scheme::split(text) {
            Some((Scheme::Https, address)) => listen_address(address).map(Listen::Tls),
            Some((Scheme::Http, address)) => listen_address(address).map(Listen::Tcp),
            None => listen_address(text).map(Listen::Tcp),
        },
    }
}

/// Parses the address of a client listener; `:PORT` is every IPv4 interface, as in other servers.
fn listen_address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix(':') {
        Some(digits) => port(digits).map(|it| SocketAddr::from(([0, 0, 0, 0], it))),
        None => socket_address(text),
    }
}

/// Parses `ADDR:PORT`; `:PORT` and `localhost:PORT` mean 127.0.0.1, `*:PORT` every address.
#[must_use]
pub fn socket_address(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (host, port) = text.rsplit_once(':')?;
    let port = self::port(port)?;
    match host {
        "" | "localhost" => Some(SocketAddr::from(([127, 0, 0, 1], port))),
        "*" => Some(SocketAddr::from(([0, 0, 0, 0], port))),
        _ => None,
    }
}

/// Parses `HOST` or `HOST:PORT`, as in a `Host` field: the host, an IPv6 address without its brackets, and the port.
#[must_use]
pub fn authority(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, digits)) if !digits.contains(']') => (host, Some(port(digits).filter(|it| *it != 0)?)),
        _ => (text, None),
    };
    let literal = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match literal {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().ok().map(|_| (inner.to_owned(), port)),
        None => is_host(host).then(|| (host.to_ascii_lowercase(), port)),
    }
}

/// Digits only: the standard parser would accept a sign.
pub(crate) fn port(digits: &str) -> Option<u16> {
    digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Parses the address of an origin.
///
/// # Errors
/// The allowed forms, or the part that this form lacks.
pub fn origin(text: &str) -> Result<OriginAddress, String> {
    let bad = || ORIGIN.to_owned();
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return if path.is_empty() { Err(bad()) } else { Ok(OriginAddress::Unix(PathBuf::from(path))) };
    }
    let (rest, default_port) = match text.strip_prefix("http://") {
        Some(rest) => (rest, Some(80)),
        None => (text, None),
    };
    authority_of(text, rest, default_port)
}

/// Parses `HOST[:PORT]`: the part of `text` after its scheme, or all of it.
pub(crate) fn authority_of(
    text: &str,
    rest: &str,
    default_port: Option<u16>,
) -> Result<OriginAddress, String> {
    let bad = || ORIGIN.to_owned();
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains('/') {
        return Err(format!("{}, without a path", bad()));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, digits)) if !digits.contains(']') => (host, port(digits)),
        _ => (authority, default_port),
    };
    let port = port.filter(|it| *it != 0).ok_or_else(bad)?;
    if host.is_empty() && authority.len() == text.len() {
        return Ok(OriginAddress::Tcp("127.0.0.1".to_owned(), port));
    }
    let literal = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match literal {
        Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => {
            Ok(OriginAddress::Tcp(inner.to_owned(), port))
        }
        None if is_host(host) => Ok(OriginAddress::Tcp(host.to_ascii_lowercase(), port)),
        _ => Err(bad()),
    }
}

/// Whether the text is a host name.
pub(crate) fn is_host(text: &str) -> bool {
    let label = |it: &str| {
        !it.is_empty()
            && it.len() <= 63
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_')
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            let found = match origin(text) {
                Ok(OriginAddress::Tcp(host, port)) => format!("{host} {port}"),
                Ok(OriginAddress::Unix(path)) => format!("unix {}", path.display()),
                Ok(OriginAddress::Programs(_)) | Err(_) => "wrong".to_owned(),
            };
            assert_eq!(expect, found, "{text}");
        }
        check("http://127.0.0.1:8000", "127.0.0.1 8000");
        check("http://App.Example", "app.example 80");
        check("http://app/", "app 80");
        check("localhost:3000", "localhost 3000");
        check(":3000", "127.0.0.1 3000");
        check("http://[::1]:80", "::1 80");
        check("[::1]:80", "::1 80");
        check("unix:/run/app.sock", "unix /run/app.sock");
        check("unix:///run/app.sock", "unix /run/app.sock");
        for text in ["", "app", "http://", "http://a:0", "http://a:65536", "http://a/b", "unix:", "ftp://a:1"]
        {
            check(text, "wrong");
        }
        for text in ["https://a", "http://a b:1", "http://[::1", "http://::1:80", "a:+5", "http://u@h:1"] {
            check(text, "wrong");
        }
    }

    #[test]
    fn authorities() {
        let check = |text: &str, expect: Option<(&str, Option<u16>)>| {
            assert_eq!(expect.map(|it| (it.0.to_owned(), it.1)), authority(text), "{text}");
        };
        check("App.internal", Some(("app.internal", None)));
        check("a:8080", Some(("a", Some(8080))));
        check("[::1]:81", Some(("::1", Some(81))));
        check("[::1]", Some(("::1", None)));
        for wrong in ["", "a:", "a:0", ":80", "a b", "a/", "::1", "[x]", "http://a"] {
            check(wrong, None);
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(Some(SocketAddr::from(([127, 0, 0, 1], 80))), socket_address(":80"));
        assert_eq!(Some(SocketAddr::from(([0, 0, 0, 0], 80))), socket_address("*:80"));
        assert_eq!(None, socket_address("example.com:80"));
        assert_eq!(None, listen("unix:"));
        assert_eq!(None, listen("8080"));
    }

    #[test]
    fn entrances() {
        #[track_caller]
        fn check(text: &str, expect: Option<&str>) {
            assert_eq!(expect.map(str::to_owned), entrance(text).map(|it| it.to_string()), "{text}");
        }
        check(":80", Some("http://0.0.0.0:80"));
        check("https://:443", Some("https://0.0.0.0:443"));
        check("http+proxy://:80", Some("http+proxy://0.0.0.0:80"));
        check("localhost:80", Some("http://127.0.0.1:80"));
        check(":", None);
        check("unix:/run/l", Some("unix:/run/l"));
        check("unix:a+proxy:b", Some("unix:a+proxy:b"));
        check("http+proxy://*:80", Some("http+proxy://0.0.0.0:80"));
        check("https+proxy://[::1]:443", Some("https+proxy://[::1]:443"));
        check("unix+proxy:/run/l", Some("unix+proxy:/run/l"));
        for text in
            ["unix+proxy:", "http+proxy:127.0.0.1:80", "+proxy://:80", "ftp+proxy://:80", "proxy://:80"]
        {
            check(text, None);
        }
    }
}
