//! Addresses in the notation of the configuration. Parsing them is in `kind`.

use crate::{MemberProtocol, OriginMember};

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
