//! The facts for an application behind FastCGI, SCGI or uWSGI that no field has: the ends of the client's connection, the
//! authority and the script; and the response to a request without a script. Their form as variables is not here (`semantics::cgi`).

use crate::cache_key;
use crate::route::GatewayRoute;
use crate::source::{MadeBody, MadePiece, MadeResponse};
use larder_files::{FoundScript, NotServed, path};
use larder_origin::{ApplicationRequest, OutgoingRequest};
use larder_semantics::cgi::Script;
use larder_semantics::policy::{IDENTITY, USER};
use larder_transport::body::BodyPiece;
use larder_transport::{Client, Synthetic};
use larder_wire::message::{Framing, HeadKind, Request, ResponseHead, Version};
use std::sync::Arc;

/// The facts of a request that is sent as `outgoing`. As with fields about the client, a request of a strict key names none.
pub(crate) fn facts(
    request: &Request,
    route: &GatewayRoute,
    client: &Client,
    outgoing: &OutgoingRequest,
    script: Option<&Arc<Script>>,
    passed: bool,
) -> Box<ApplicationRequest> {
    let is_strict = route.policy.key.strict && route.policy.enabled;
    let unless_strict = |it| if is_strict { None } else { it };
    let authority = outgoing.fields.get("host").map(|it| String::from_utf8_lossy(it).into_owned());
    let authority =
        authority.unwrap_or_else(|| cache_key::normal(request.scheme, &request.authority).into_owned());
    Box::new(ApplicationRequest {
        scheme: request.scheme,
        authority,
        client: unless_strict(client.peer),
        local: unless_strict(client.local),
        user: user(request, route, passed),
        script: script.cloned(),
    })
}

/// The script, or the response of larder's own to a request for `target` that has none. It is never stored: it changes with the
/// directory.
pub(crate) fn script_or_response(
    found: FoundScript,
    method: &str,
    target: &str,
) -> Result<Arc<Script>, MadeResponse> {
    let page = match found {
        FoundScript::Script(script, _) => return Ok(script),
        FoundScript::Redirect(to) => {
            let mut location = String::new();
            path::encode(&to, &mut location);
            location.push_str(path::split(target).1);
            // With 301 clients repeat a POST as GET.
            let status = if matches!(method, "GET" | "HEAD") { 301 } else { 308 };
            Synthetic::page(status, "This resource has another URL.").with("Location", location)
        }
        FoundScript::OfOtherRoute(..) => NotServed::NotFound.answer(),
        FoundScript::None(why) => why.answer(),
    };
    Err(made(page.with("Cache-Control", "no-store"), method))
}

fn made(page: Synthetic, method: &str) -> MadeResponse {
    let has_body = method != "HEAD";
    let length = page.length();
    let (sender, body) = MadeBody::new(page.body.len() + 1);
    let pieces = page.body.into_iter().filter(|_| has_body).filter_map(|it| match it {
        BodyPiece::Bytes(bytes) => Some(MadePiece::Bytes(bytes)),
        _ => None,
    });
    // There is room for each.
    pieces.chain([MadePiece::End]).for_each(|it| drop(sender.try_send(it)));
    let mut fields = page.fields;
    fields.push("Content-Length", length.to_string());
    let head = ResponseHead {
        status: page.status,
        version: Version::Http11,
        fields,
        framing: if has_body { Framing::Length(length) } else { Framing::Empty },
        keep_alive: true,
        kind: if page.is_error_page { HeadKind::OwnPage } else { HeadKind::Response },
    };
    MadeResponse { head, body }
}

/// The authenticated user. A request whose response may be shared names it only if the key has the identity.
fn user(request: &Request, route: &GatewayRoute, passed: bool) -> Vec<u8> {
    let is_determined = passed || route.policy.key.headers.iter().any(|it| it == IDENTITY);
    let user = request.fields.get(USER).filter(|_| is_determined);
    user.map(<[u8]>::to_vec).unwrap_or_default()
}
