//! TLS rules of a site: a request is answered only on a connection whose handshake had the rules of its site. The name in the
//! handshake and the host of a request are two claims of the client, which need not agree.

use larder_transport::tls::{ClientAuth, HandshakeRules};
use larder_transport::{Client, Synthetic};

/// The sentence of 421 (RFC 9110 section 15.5.20).
pub const MISDIRECTED: &str =
    "The TLS settings of this host differ from those of this connection; use a new connection.";
/// The sentence of 403.
pub const CLEAR: &str = "This host requires TLS with a client certificate.";

/// The rules of a site.
pub struct SiteTls {
    /// Those of the handshake.
    pub rules: HandshakeRules,
    /// Whether they are of sites, not of all of larder: an address without TLS then serves no site that requires a certificate.
    pub are_of_sites: bool,
}

impl SiteTls {
    /// The refusal of a request whose connection was made under other rules.
    #[must_use]
    pub fn misdirected(&self, client: &Client) -> Option<Synthetic> {
        let secured = client.tls.as_ref()?;
        (!secured.satisfies(&self.rules)).then(|| Synthetic::page(421, MISDIRECTED))
    }

    /// Whether it requires TLS with a client certificate.
    #[must_use]
    pub fn requires(&self) -> bool {
        self.are_of_sites && matches!(self.rules.client, ClientAuth::Required(_))
    }

    /// The refusal of a request without TLS to a site that requires a client certificate.
    #[must_use]
    pub fn clear(&self, client: &Client) -> Option<Synthetic> {
        (self.requires() && client.tls.is_none()).then(|| Synthetic::page(403, CLEAR))
    }
}
