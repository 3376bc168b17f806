//! Cookies of a request that neither the cache nor the origin sees: the sticky cookie of the route, and every cookie of a request for a
//! public file (`cache.public_files`).

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
    /// Whether every cookie was removed. The application then takes the visitor for a new one: a cookie of its response would end the
    /// session of this visitor.
    pub is_public: bool,
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
    let is_public = public.is_some();
    Some(PreparedFields { fields: public.or(rest)?, origin, is_public })
}

/// Takes these cookies from a request; returns the origin that the sticky cookie names, and whether every cookie was removed.
pub(crate) fn take(route: &GatewayRoute, request: &mut Rc<Request>) -> (Option<u64>, bool) {
    let found = prepared(route, &request.method, &request.target, &request.fields.view());
    let Some(PreparedFields { fields, origin, is_public }) = found else { return (None, false) };
    Rc::make_mut(request).fields = fields;
    (origin, is_public)
}
