//! Whether an origin is larder's own admin, by its address as it is written. What only a resolver knows is not asked.

use larder_origin::Address;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// What is wrong with a route whose origin that is.
pub const SENTENCE: &str = "is the admin of this larder, which no route may lead to; reach it by a proxy before it, whose name is \
                            in admin.hosts";

/// Whether `origin` is the admin, which listens at `admin` and, if that is given, at `socket`.
pub fn is_admin(origin: &Address, admin: Option<SocketAddr>, socket: Option<&Path>) -> bool {
    match origin {
        Address::Tcp(host, port) => admin.is_some_and(|admin| {
            let here = |ip: IpAddr| {
                let ip = ip.to_canonical();
                ip == admin.ip().to_canonical()
                    || admin.ip().is_unspecified() && ip.is_loopback()
                    || (admin.ip().is_unspecified() || admin.ip().is_loopback()) && ip.is_unspecified()
            };
            let host = host.strip_suffix('.').unwrap_or(host);
            let is_localhost = host.eq_ignore_ascii_case("localhost") || host.ends_with(".localhost");
            let localhost = is_localhost && (admin.ip().is_unspecified() || admin.ip().is_loopback());
            // As it is dialed.
            let ip = Address::Tcp(host.to_owned(), *port).ip();
            *port == admin.port() && (localhost || ip.is_some_and(here))
        }),
        Address::Unix(path) => socket.is_some_and(|it| admin.is_some() && real(path) == real(it)),
    }
}

/// A path without links and `..`. Of a socket that is not there yet the folder may be.
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
        let origin = crate::config::kind::origin(origin).unwrap();
        let admin = Some(admin.parse().unwrap());
        assert_eq!(expect, is_admin(&origin, admin, Some(Path::new("/run/a.sock"))), "{origin:?} {admin:?}");
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
