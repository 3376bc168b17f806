//! `Client-Cert` (RFC 9440): the client's certificate for the application, where the route sends it. `transport::tls`
//! decides whether certificates are requested, and which signers are accepted.

use crate::route::GatewayRoute;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_semantics::field::{Field, FieldList};
use larder_transport::Client;

/// The prefix of the field names of RFC 9440.
const FAMILY: &str = "client-cert";

fn is_of_family(name: &str) -> bool {
    name.get(..FAMILY.len()).is_some_and(|it| it.eq_ignore_ascii_case(FAMILY))
}

/// Whether [`add_fields`] must change the request's fields before the key is made from them.
pub(crate) fn must_change_fields(route: &GatewayRoute, client: &Client, fields: &[Field<'_>]) -> bool {
    route.sends_certificate && (shown(client).is_some() || fields.iter().any(|it| is_of_family(it.name)))
}

/// Sets the request's field to the certificate that its client presented, and removes it where the client presented none.
/// A client may not send the field itself (RFC 9440 §2.4). From here on it is an ordinary field for the cache, logs and
/// `explain`: unless it is in the key, the request bypasses the cache. A trusted proxy's field stays: the certificate of
/// that connection is the proxy's own.
pub fn add_fields(fields: &mut FieldList, client: &Client) {
    if !client.hops.is_empty() {
        return;
    }
    fields.retain(|it| !is_of_family(it.name));
    if let Some(certificate) = shown(client) {
        fields.push("Client-Cert", format!(":{}:", STANDARD.encode(certificate)));
    }
}

fn shown(client: &Client) -> Option<&[u8]> {
    client.tls.as_ref()?.certificate.as_deref()
}
