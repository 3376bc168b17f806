//! Whether an origin is larder's own admin, or larder itself, by its literal address. Names are not resolved.

use larder_origin::OriginAddress;
use larder_transport::listener::Listen;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The error for a route whose origin is the admin.
pub const SENTENCE: &str = "is the admin of this larder, which a route must not expose; use a separate proxy in \
                            front of it and add its name to admin.hosts";

/// The error for a route whose origin is one of larder's own listeners.
pub const LOOP: &str = "is an address of this larder's own listen, so every request would loop; set the address of \
                        the application, or change listen";

/// Whether requests to `origin` arrive at `listen`. `localhost` counts as an address of this machine of either family. A listener at `[::]` also accepts IPv4, as Linux is configured by default.
pub fn is_listener(origin: &OriginAddress, listen: &Listen) -> bool {
    match (origin, listen) {
        (OriginAddress::Tcp(host, port), Listen::Tcp(at) | Listen::Tls(at)) => {
            let own = at.ip().to_canonical();
            let is_first = own == IpAddr::V4(Ipv4Addr::LOCALHOST) || own == IpAddr::V6(Ipv6Addr::LOCALHOST);
            let here = |ip: IpAddr| {
                let is_own_family = ip.is_ipv4() == own.is_ipv4();
                let (is_any, is_local) = (own.is_unspecified(), ip.is_loopback() || ip.is_unspecified());
                ip == own
                    || is_any && is_local && (is_own_family || own.is_ipv6())
                    || is_first && is_own_family && ip.is_unspecified()
            };
            let local = is_localhost(host) && (is_first || own.is_unspecified());
            *port == at.port()
                && *port != 0
                && (local || origin.ip().is_some_and(|it| here(it.to_canonical())))
        }
        (OriginAddress::Unix(path), Listen::Unix(at)) => real(path) == real(at),
        _ => false,
    }
}

/// Whether `origin` is the admin, which listens at `admin` and, if given, at `socket`.
pub fn is_admin(origin: &OriginAddress, admin: Option<SocketAddr>, socket: Option<&Path>) -> bool {
    match origin {
        OriginAddress::Tcp(host, port) => admin.is_some_and(|admin| {
            let here = |ip: IpAddr| {
                let ip = ip.to_canonical();
                ip == admin.ip().to_canonical()
                    || admin.ip().is_unspecified() && ip.is_loopback()
                    || (admin.ip().is_unspecified() || admin.ip().is_loopback()) && ip.is_unspecified()
            };
            let localhost = is_localhost(host) && (admin.ip().is_unspecified() || admin.ip().is_loopback());
            // As for a connection.
            let ip = OriginAddress::Tcp(host.strip_suffix('.').unwrap_or(host).to_owned(), *port).ip();
            *port == admin.port() && (localhost || ip.is_some_and(here))
        }),
        OriginAddress::Programs(_) => false,
        OriginAddress::Unix(path) => socket.is_some_and(|it| admin.is_some() && real(path) == real(it)),
    }
}

/// Whether a name stands for this machine (RFC 6761 section 6.3).
fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// A path without links and `..`. For a missing socket the folder is resolved.
fn real(path: &Path) -> PathBuf {
    let beside = || {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(origin: &str, admin: &str, expect: bool) {
        let origin = crate::address::origin(origin).unwrap();
        let admin = Some(admin.parse().unwrap());
        assert_eq!(expect, is_admin(&origin, admin, Some(Path::new("/run/a.sock"))), "{origin:?} {admin:?}");
    }

    #[track_caller]
    fn check_listener(origin: &str, listen: Listen, expect: bool) {
        let origin = crate::address::origin(origin).unwrap();
        assert_eq!(expect, is_listener(&origin, &listen), "{origin:?} {listen:?}");
    }

    #[test]
    fn an_origin_that_is_an_own_listener_is_rejected() {
        let at = |it: &str| Listen::Tcp(it.parse().unwrap());
        check_listener("http://127.0.0.1:8080", at("127.0.0.1:8080"), true);
        check_listener("http://127.1:8080", at("0.0.0.0:8080"), true);
        check_listener("http://0.0.0.0:8080", at("127.0.0.1:8080"), true);
        check_listener("http://[::1]:8080", at("[::]:8080"), true);
        check_listener("http://127.0.0.1:8080", at("[::]:8080"), true);
        check_listener("http://0.0.0.0:8080", at("[::]:8080"), true);
        check_listener("http://10.0.0.7:8080", at("10.0.0.7:8080"), true);
        check_listener("http://127.0.0.1:8081", at("127.0.0.1:8080"), false);
        check_listener("http://127.0.0.2:8080", at("127.0.0.1:8080"), false);
        check_listener("http://[::1]:8080", at("0.0.0.0:8080"), false);
        check_listener("http://10.0.0.7:8080", at("0.0.0.0:8080"), false);
        for own in ["127.0.0.1:8080", "0.0.0.0:8080", "[::1]:8080", "[::]:8080"] {
            check_listener("http://localhost:8080", at(own), true);
            check_listener("http://app.localhost.:8080", at(own), true);
        }
        check_listener("http://localhost:8080", at("10.0.0.7:8080"), false);
        check_listener("http://localhost:8081", at("127.0.0.1:8080"), false);
        check_listener("http://localhost.test:8080", at("127.0.0.1:8080"), false);
        check_listener("unix:/run/../run/web.sock", Listen::Unix("/run/web.sock".into()), true);
        check_listener("unix:/run/app.sock", Listen::Unix("/run/web.sock".into()), false);
        check_listener("unix:/run/web.sock", at("127.0.0.1:8080"), false);
    }

    #[test]
    fn the_admin_is_no_origin() {
        check("http://127.0.0.1:9180", "127.0.0.1:9180", true);
        check("http://localhost:9180", "127.0.0.1:9180", true);
        check("http://localhost.:9180", "127.0.0.1:9180", true);
        check("http://localhost:9180", "10.0.0.7:9180", false);
        check("http://127.0.0.2:9180", "127.0.0.1:9180", false);
        check("http://0.0.0.0:9180", "127.0.0.1:9180", true);
        check("http://127.1:9180", "127.0.0.1:9180", true);
        check("http://2130706433:9180", "127.0.0.1:9180", true);
        check("http://0x7f.1:9180", "127.0.0.1:9180", true);
        check("http://127.2:9180", "127.0.0.1:9180", false);
        check("http://[::1]:9180", "[::1]:9180", true);
        check("http://[::ffff:127.0.0.1]:9180", "127.0.0.1:9180", true);
        check("http://127.0.0.1:9180", "0.0.0.0:9180", true);
        check("http://10.0.0.7:9180", "10.0.0.7:9180", true);
        check("http://127.0.0.1:9181", "127.0.0.1:9180", false);
        check("http://10.0.0.7:9180", "127.0.0.1:9180", false);
        check("http://127.0.0.1:9180", "10.0.0.7:9180", false);
        check("unix:/run/a.sock", "127.0.0.1:9180", true);
        check("unix:/run/b.sock", "127.0.0.1:9180", false);
        check("unix:/run/../run/./a.sock", "127.0.0.1:9180", true);
    }
}
