//! `explain`: the origin to which the sticky cookie of a request binds its client (`proxy.sticky`). The value of the cookie is not shown.

use larder_config::Decided;
use larder_gateway::GatewayRoute;
use larder_wire::message::Request;
use serde_json::{Value, json};

/// The effect of the cookie; null for a route without one.
pub(super) fn to_json(route: &GatewayRoute, request: &Request, decided: &Decided) -> Value {
    let Some(cookie) = &route.sticky else { return Value::Null };
    let number = cookie.take(&request.fields.view()).map(|it| it.1);
    let bound = number.flatten().and_then(|it| route.origins.bound(it));
    let name = &cookie.name;
    let sentence = match (number, bound) {
        (None, _) => format!("the request has no cookie {name}: an origin is chosen by the balance"),
        (Some(_), None) => {
            format!("the cookie {name} names no origin of the route: one is chosen by the balance")
        }
        (Some(_), Some((origin, true))) => format!("the cookie {name} binds the client to {origin}"),
        (Some(_), Some((origin, false))) => {
            format!(
                "the cookie {name} names {origin}, which is ejected: another one is chosen by the balance"
            )
        }
    };
    let origin = bound.filter(|it| it.1).map(|it| it.0);
    let place = decided.by("site[].route[].proxy.sticky.cookie").to_string();
    json!({ "cookie": name, "origin": origin, "sentence": sentence, "where": place })
}
