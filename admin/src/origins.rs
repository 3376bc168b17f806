//! The endpoints of origins: the state of each, draining one at run time, and restoring it. Load balancing is in
//! `larder_origin`.

use super::server_state::is_down;
use super::stats::origin_json;
use super::{Admin, AdminRequest, AdminResponse, problem_at};
use larder_config::OriginMember;
use larder_server::input_error::InputError;
use larder_server::route_stats::{ConfigScopes, Drained, OriginScopes};
use larder_stdx::clock;
use serde_json::{Value, json};

impl Admin {
    /// `GET /api/v1/origins`.
    pub(super) fn origins(&self) -> AdminResponse {
        let live = self.live.borrow();
        let all: Vec<Value> = live.scopes.origins.iter().map(origin_json).collect();
        AdminResponse::Json(200, json!({ "origins": all }))
    }

    /// `PUT /api/v1/origins/drain?origin=…`: requests in progress end, and no new ones are sent.
    pub(super) fn drain_origin(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let live = self.live.borrow();
        match named(&live.scopes, asked) {
            Ok(origin) => {
                origin.standing.drain();
                to_json(&live.scopes, origin)
            }
            Err(wrong) => wrong,
        }
    }

    /// `DELETE /api/v1/origins/drain?origin=…`.
    pub(super) fn restore_origin(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let live = self.live.borrow();
        match named(&live.scopes, asked) {
            Ok(origin) if origin.drained_by() == Some(Drained::ByConfiguration) => {
                let detail = format!(
                    "{} is drained by the configuration: remove \"drain\" after it in proxy.to, and reload.",
                    origin.name
                );
                problem_at(409, detail, "origin")
            }
            Ok(origin) => {
                origin.standing.restore(clock::monotonic());
                to_json(&live.scopes, origin)
            }
            Err(wrong) => wrong,
        }
    }
}

/// The requested origin, in the notation of the configuration.
fn named<'a>(scopes: &'a ConfigScopes, asked: &AdminRequest<'_>) -> Result<&'a OriginScopes, AdminResponse> {
    let spelt = asked.query_value("origin").unwrap_or_default();
    let member = OriginMember::parse(&spelt).map_err(|_| {
        let allowed = "its address as in proxy.to, such as http://10.0.0.2:8000";
        InputError::at("origin", format!("origin: found {spelt:?}; allowed: {allowed}."))
    })?;
    let name = member.name();
    let found = scopes.origins.iter().find(|it| it.name == name);
    found.ok_or_else(|| {
        problem_at(
            404,
            format!(
                "No route has the origin {name}; `larder origin list` or GET /api/v1/origins lists them."
            ),
            "origin",
        )
    })
}

/// Its current state, and its routes without an origin that is up.
fn to_json(scopes: &ConfigScopes, origin: &OriginScopes) -> AdminResponse {
    let is_unused = |it: &usize| {
        let it = &scopes.origins[*it];
        it.drained_by().is_some() || is_down(it)
    };
    let routes = origin.routes.iter().map(|it| &scopes.routes[*it]);
    let without: Vec<&str> =
        routes.filter(|it| it.origins.iter().all(is_unused)).map(|it| it.name.as_str()).collect();
    let mut details = origin_json(origin);
    details["routes_without"] = json!(without);
    AdminResponse::Json(200, details)
}
