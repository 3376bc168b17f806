//! Cookies of a request that neither the cache nor the origin sees: the sticky cookie of the route, and every cookie of a request for a
//! public file (`cache.public_files`), whose response changes none.

use crate::route::GatewayRoute;
use larder_semantics::cookies;
use larder_semantics::field::{Field, FieldList};
use larder_wire::message::Request;
use std::rc::Rc;

/// Fields without these cookies.
pub(crate) struct PreparedFields {
    pub fields: FieldList,
    /// The origin that the sticky cookie names.
    pub origin: Option<u64>,
}

/// The fields of a request without these cookies; `None` if it has none of them.
pub(crate) fn prepared(
    route: &GatewayRoute,
    method: &str,
    target: &str,
    fields: &[Field<'_>],
) -> Option<PreparedFields> {
    let bound = route.sticky.as_ref().and_then(|it| it.take(fields));
    let (rest, origin) = bound.map_or((None, None), |(rest, origin)| (Some(rest), origin));
    let public = match &rest {
        Some(rest) => cookies::without(&route.policy, method, target, &rest.view()),
        None => cookies::without(&route.policy, method, target, fields),
    };
    Some(PreparedFields { fields: public.or(rest)?, origin })
}

/// Takes these cookies from a request; returns the origin that the sticky cookie names.
pub(crate) fn take(route: &GatewayRoute, request: &mut Rc<Request>) -> Option<u64> {
    if !request.fields.contains("cookie") {
        return None;
    }
    let found = prepared(route, &request.method, &request.target, &request.fields.view());
    let PreparedFields { fields, origin } = found?;
    Rc::make_mut(request).fields = fields;
    origin
}

/// Takes the fields that change cookies from the response of an origin, before it is decided whether that is stored: by the path of the request alone, so
/// that the response is the same for visitors with and without cookies.
pub(crate) fn take_from_response(route: &GatewayRoute, request: &Request, fields: &mut FieldList) {
    if cookies::is_public_file(&route.policy, &request.method, &request.target) {
        fields.retain(|it| !cookies::changes_cookies(&it));
    }
}
