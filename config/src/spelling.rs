//! Addresses as a person writes them. Reading them is in `kind`.

use crate::{Member, Spoken};
use larder_transport::listener::{Entrance, Listen, Preamble};

/// A listening address as a person writes it.
#[must_use]
pub fn spell_listen(it: &Listen) -> String {
    match it {
        Listen::Tcp(address) => address.to_string(),
        Listen::Tls(address) => format!("https://{address}"),
        Listen::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// Where clients are served, as a person writes it.
#[must_use]
pub fn spell_entrance(it: &Entrance) -> String {
    match it.preamble {
        Preamble::None => spell_listen(&it.at),
        Preamble::Proxy => it.to_string(),
    }
}

/// An origin as a person writes it.
#[must_use]
pub fn spell_origin(it: &Member) -> String {
    let scheme = match it.scheme {
        Spoken::Http => "http",
        Spoken::Https => "https",
        Spoken::H2c => "h2c",
    };
    match &it.at {
        larder_origin::Address::Tcp(host, port) if host.contains(':') => {
            format!("{scheme}://[{host}]:{port}")
        }
        larder_origin::Address::Tcp(host, port) => format!("{scheme}://{host}:{port}"),
        larder_origin::Address::Unix(path) if it.scheme == Spoken::H2c => {
            format!("h2c+unix:{}", path.display())
        }
        larder_origin::Address::Unix(path) => format!("unix:{}", path.display()),
    }
}
