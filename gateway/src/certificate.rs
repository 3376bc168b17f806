//! What an application is told of the certificate that a client showed: `Client-Cert` (RFC 9440), where the route wants that. Whether
//! certificates are asked for, and who signs them, is in `transport::tls`.

use crate::route::GatewayRoute;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_semantics::field::{Field, FieldList};
use larder_transport::Client;

/// The names of RFC 9440 and whatever begins so.
const FAMILY: &str = "client-cert";

fn is_of_family(name: &str) -> bool {
    name.get(..FAMILY.len()).is_some_and(|it| it.eq_ignore_ascii_case(FAMILY))
}

/// Whether a request waits for [`tell`] to have changed its fields, as the key may be made of them.
pub(crate) fn is_told(route: &GatewayRoute, client: &Client, fields: &[Field<'_>]) -> bool {
    route.tells_certificate && (shown(client).is_some() || fields.iter().any(|it| is_of_family(it.name)))
}

/// Has a request say which certificate its client showed, and nothing where it showed none: whatever stood there is no client's to say
/// (RFC 9440 §2.4). From here on it is a field as others are, for the cache, logs and `explain`: it keeps the request from the cache unless
/// it is in the key. What a proxy sends that is believed stays: the certificate of that connection is the proxy's own.
pub fn tell(fields: &mut FieldList, client: &Client) {
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
