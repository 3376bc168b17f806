//! The address to bind where every interface is wanted: on a machine without IPv6, `[::]` is `0.0.0.0`.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, socket_with};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// A socket for an address, with the address to bind.
pub(crate) fn socket(address: SocketAddr, kind: Type) -> io::Result<(Socket, SocketAddr)> {
    let address = here(address);
    let socket = Socket::new(Domain::for_address(address), kind.nonblocking().cloexec(), None)?;
    if address.is_ipv6() {
        // `[::]` receives IPv4 also where `net.ipv6.bindv6only` is set.
        socket.set_only_v6(false)?;
    }
    Ok((socket, address))
}

/// The address of a client: `[::]` receives IPv4 as IPv6 addresses, which logs and CGI programs would show.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(_) => (address.ip().to_canonical(), address.port()).into(),
        SocketAddr::V4(_) => address,
    }
}

/// The address of the peer of an accepted connection; `None` for a Unix socket.
pub(super) fn of_peer(peer: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(peer).ok().map(plain)
}

/// The address of this machine that a configured one stands for.
pub(super) fn here(address: SocketAddr) -> SocketAddr {
    if !(address.is_ipv6() && address.ip().is_unspecified()) {
        return address;
    }
    let ipv6 = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    without_ipv6(address, ipv6.map(drop))
}

/// The IPv4 form, where the kernel has no sockets of IPv6 (`ipv6.disable=1`) or the service may not open them. Other errors,
/// such as a lack of descriptors, say nothing about the family. A machine whose interfaces have no IPv6
/// addresses (`disable_ipv6 = 1`) binds `[::]`, and accepts IPv4 there.
fn without_ipv6(address: SocketAddr, ipv6: Result<(), Errno>) -> SocketAddr {
    match ipv6 {
        Err(Errno::AFNOSUPPORT) => (Ipv4Addr::UNSPECIFIED, address.port()).into(),
        Ok(()) | Err(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_every_interface_has_a_form_without_ipv6() {
        let none = Err(Errno::AFNOSUPPORT);
        for (ipv6, expect) in [(Ok(()), "[::]:80"), (none, "0.0.0.0:80"), (Err(Errno::MFILE), "[::]:80")] {
            assert_eq!(expect, without_ipv6("[::]:80".parse().unwrap(), ipv6).to_string());
        }
        for other in ["[::1]:80", "127.0.0.1:80", "0.0.0.0:80"] {
            assert_eq!(other, here(other.parse().unwrap()).to_string());
        }
    }
}
