//! Addresses in the notation of the configuration. Parsing them is in `kind`.

use crate::{MemberProtocol, OriginMember};
use larder_transport::listener::{Entrance, Listen, Preamble};

/// A listening address in the notation of the configuration.
#[must_use]
pub fn spell_listen(it: &Listen) -> String {
    match it {
        Listen::Tcp(address) => address.to_string(),
        Listen::Tls(address) => format!("https://{address}"),
        Listen::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// A client listener in the notation of the configuration.
#[must_use]
pub fn spell_entrance(it: &Entrance) -> String {
    match it.preamble {
        Preamble::None => spell_listen(&it.at),
        Preamble::Proxy => it.to_string(),
    }
}

/// An origin in the notation of the configuration.
#[must_use]
pub fn spell_origin(it: &OriginMember) -> String {
    let scheme = match it.scheme {
        MemberProtocol::Http => "http",
        MemberProtocol::Https => "https",
        MemberProtocol::H2c => "h2c",
    };
    match &it.at {
        larder_origin::OriginAddress::Tcp(host, port) if host.contains(':') => {
            format!("{scheme}://[{host}]:{port}")
        }
        larder_origin::OriginAddress::Tcp(host, port) => format!("{scheme}://{host}:{port}"),
        larder_origin::OriginAddress::Unix(path) if it.scheme == MemberProtocol::H2c => {
            format!("h2c+unix:{}", path.display())
        }
        larder_origin::OriginAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}
