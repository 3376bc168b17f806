//! The facts for an application behind FastCGI, SCGI or uWSGI that no field has: the ends of the client's connection, the
//! authority and the script. Their form as variables is not here (`semantics::cgi`).

use crate::cache_key;
use crate::route::GatewayRoute;
use larder_origin::{ApplicationRequest, OutgoingRequest};
use larder_transport::Client;
use larder_wire::message::Request;

/// The facts of a request that is sent as `outgoing`. As with fields about the client, a request of a strict key names none.
pub(crate) fn facts(
    request: &Request,
    route: &GatewayRoute,
    client: &Client,
    outgoing: &OutgoingRequest,
) -> Box<ApplicationRequest> {
    let is_strict = route.policy.key.strict && route.policy.enabled;
    let told = |it| if is_strict { None } else { it };
    let authority = outgoing.fields.get("host").map(|it| String::from_utf8_lossy(it).into_owned());
    let authority =
        authority.unwrap_or_else(|| cache_key::normal(request.scheme, &request.authority).into_owned());
    Box::new(ApplicationRequest {
        scheme: request.scheme,
        authority,
        client: told(client.peer),
        local: told(client.local),
        script: request.script.as_deref().cloned(),
    })
}
