//! TLS rules of a site: a request is answered only on a connection whose handshake had the rules of its site. The name in the
//! handshake and the host of a request are two claims of the client, which need not agree.

use larder_transport::tls::{ClientAuth, HandshakeRules};
use larder_transport::{Client, Synthetic};

/// The sentence of 421 (RFC 9110 section 15.5.20).
pub const MISDIRECTED: &str =
    "The TLS settings of this host differ from those of this connection; use a new connection.";
/// The sentence of 403.
pub const CLEAR: &str = "This host requires TLS with a client certificate.";

/// The rules of a site, where some site has rules of its own.
pub struct SiteTls(pub HandshakeRules);

impl SiteTls {
    /// The refusal of a request whose connection was made under other rules.
    #[must_use]
    pub fn misdirected(&self, client: &Client) -> Option<Synthetic> {
        let secured = client.tls.as_ref()?;
        (!secured.satisfies(&self.0)).then(|| Synthetic::page(421, MISDIRECTED))
    }

    /// Whether it requires a client certificate.
    #[must_use]
    pub fn requires(&self) -> bool {
        matches!(self.0.client, ClientAuth::Required(_))
    }

    /// The refusal of a request without TLS to a site that requires a client certificate.
    #[must_use]
    pub fn clear(&self, client: &Client) -> Option<Synthetic> {
        (self.requires() && client.tls.is_none()).then(|| Synthetic::page(403, CLEAR))
    }
}
